"""RLSC: regularized least-squares classification in closed form (Rifkin; Gieseke et al., eq. 1).

    1/l sum_i (y_i - w.z_i)^2 + lam |w|^2

One pass over the rows and one eigendecomposition serve every lam and every class; a second pass
gives the leave-one-out errors of all of them. S2RLSC begins with the same decomposition, over all
rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution
from dask_s3vm.methods.run import Method
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems import least_squares
from dask_s3vm.problems.least_squares import Spectrum, decompose

#: Values of lam to choose from, in units of the mean squared length of the labeled rows; small ones
#: are for tables in which one column outweighs all others.
LAM_PARTS = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, eq=False)
class Decomposed:
    """Rows in an engine, reduced to what least squares needs of them.

    spectrum : of H, over all rows that count; its vectors act on rows with a 1 behind.
    moments : (d + 1, k) b of the labeled rows, for each class that is +1.
    total : sum of d_i^2.
    """

    engine: Engine
    positives: Sequence[int]
    spectrum: Spectrum
    moments: np.ndarray
    total: float


def decompose_rows(
    engine: Engine, bias: bool, positives: Sequence[int], center: bool = False
) -> Decomposed:
    """Reduce the rows, whose d_i^2 have been set.

    The model is linear in (z - m, beta): m is the mean of the rows, weighted by d_i^2, with
    `center`, else 0; beta is 1 with a bias, else 0. With U of the Gram matrix of these, the vectors
    (U_z, beta U_1 - m.U_z) give the same products with rows as they are and a 1 behind.

    Costs: 1 round, 1 pass with d^2 operations a row; d^2 numbers from each group. With `center` one
    more round and pass.
    """
    origin = np.zeros(engine.layout.n_features)
    if center:  # first: to take it off the products would lose digits of rows far away
        sums, weight = engine.sum(least_squares.row_sums)
        origin = sums / weight
    gram, moments, total = engine.sum(least_squares.gram_block, list(positives), origin)
    gram[-1, :] *= float(bias)
    gram[:, -1] *= float(bias)
    with one_blas_thread():
        spectrum = decompose(gram)
        vectors = spectrum.vectors.copy()
        vectors[-1] = float(bias) * vectors[-1] - origin @ vectors[:-1]
    return Decomposed(engine, positives, Spectrum(spectrum.values, vectors), moments, float(total))


@dataclass(frozen=True)
class RLSCModel:
    """Solutions of all binary problems for one lam, with leave-one-out loss and error.

    loo_loss, loo_error : shares of the labeled rows.
    """

    lam: float
    solved: list[BinarySolution]
    loo_loss: float
    loo_error: float


@dataclass(frozen=True)
class RLSCModels:
    """One model for each lam: state and result of a training that is one step."""

    models: list[RLSCModel]
    done: bool = True


@dataclass(frozen=True)
class ChosenLam:
    """A weight of the regularizer that was chosen from the data."""

    lam: float


def choose_lam(
    engine: Engine, positives: Sequence[int], costs: np.ndarray, bias: bool, n_labeled: int
) -> ChosenLam:
    """Largest lam whose leave-one-out error is within a standard error of the least one.

    Few labels do not tell more. It is looked for in units of the mean squared length of the labeled
    rows. Costs: 4 rounds, 3 passes over these.
    """
    total, weight = engine.sum(least_squares.labeled_lengths)
    length = total / weight if total > 0.0 else 1.0
    training = RLSCTraining(engine, positives, costs, [length * part for part in LAM_PARTS], bias)
    found = training.start().models
    least = min(one.loo_error for one in found)
    most = least + math.sqrt(least * (1.0 - least) / n_labeled)
    return ChosenLam(max(one.lam for one in found if one.loo_error <= most))


class RLSCTraining(Method[RLSCModels, RLSCModels]):
    """All lams and all classes at once.

    Parameters
    ----------
    engine : rows with class numbers; unlabeled ones are left out.
    positives : class numbers that are +1 in turn.
    costs : d_i^2 of a row by its class, over its sample weight.
    lams : weights of the regularizer.
    bias : whether w has a bias.
    """

    State = RLSCModels
    Result = RLSCModels

    def __init__(
        self,
        engine: Engine,
        positives: Sequence[int],
        costs: np.ndarray,
        lams: Sequence[float],
        bias: bool,
    ) -> None:
        self._engine = engine
        self._positives = positives
        self._costs = costs
        self._lams = [float(lam) for lam in lams]
        one = len(self._lams) == 1
        self.starting = f"lam {self._lams[0]:g}" if one else f"{len(self._lams)} values of lam"
        self._bias = bias

    def start(self) -> RLSCModels:
        """Solve. Costs: 3 rounds, 2 passes, whatever the number of lams."""
        engine, lams = self._engine, self._lams
        engine.each(least_squares.set_squares, np.append(self._costs, 0.0))
        rows = decompose_rows(engine, self._bias, self._positives)
        spectrum = rows.spectrum
        with one_blas_thread():
            weights = np.stack([spectrum.weights(rows.moments, lam) for lam in lams])
            sides = [spectrum.coordinates(rows.moments, lam) for lam in lams]
        inverses = np.stack([1.0 / (spectrum.values + lam) for lam in lams])
        loss, errors = engine.sum(
            least_squares.leave_one_out, spectrum.vectors, inverses, weights, list(self._positives)
        )
        models = []
        for number, lam in enumerate(lams):
            values = rows.total - np.add.reduce(np.square(sides[number]), axis=0)
            solved = [
                BinarySolution(w, float(value), "converged", n_iter=1)
                for w, value in zip(weights[number].T, values, strict=True)
            ]
            loo = float(loss[number]) / rows.total, float(errors[number]) / rows.total
            models.append(RLSCModel(lam, solved, *loo))
            self.report(lam=lam, objective=float(values.sum()), loo_error=loo[1], loo_loss=loo[0])
        return RLSCModels(models)

    def finish(self, state: RLSCModels) -> RLSCModels:
        """Return all models."""
        return state
