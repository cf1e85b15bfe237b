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
from dask_s3vm.numerics.linalg import dot, one_blas_thread
from dask_s3vm.problems import least_squares
from dask_s3vm.problems.spectrum import Spectrum, decompose, decompose_graded, is_graded

#: A column that varies by less than this part of its mean is constant but for rounding.
ROUNDED = 8 * np.finfo(np.float64).eps

#: See `lams_to_scale`. Small ones are for tables in which one column outweighs all others.
LAM_PARTS = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, eq=False)
class Decomposed:
    """Rows in an engine, reduced to what least squares needs of them.

    spectrum : of H, over all rows that count; its vectors act on rows less `origin`, a 1 behind.
    moments : (d + 1, k) b of the labeled rows, so as well, for each class that is +1.
    total : sum of d_i^2.
    origin : (d,) what is subtracted from rows; None: nothing.
    fixed : whether the model has no bias at all.
    """

    engine: Engine
    positives: Sequence[int]
    spectrum: Spectrum
    moments: np.ndarray
    total: float
    origin: np.ndarray | None
    fixed: bool

    def of_rows(self, w: np.ndarray) -> np.ndarray:
        """Weights (d + 1,) for rows as they are, with a 1 behind."""
        w = w.copy()
        if self.fixed:
            w[-1] = 0.0
        elif self.origin is not None:
            w[-1] -= dot(self.origin, w[:-1])
        return w


def decompose_rows(
    engine: Engine, bias: bool, positives: Sequence[int], center: bool = False
) -> Decomposed:
    """Reduce the rows, whose d_i^2 have been set.

    The model is linear in (z - m, beta): m is the mean of the rows, weighted by d_i^2, with
    `center`, else 0; beta is 1 with a bias, else 0. Where columns differ very much in size, the
    rows are taken about their mean whatever the model: see `problems.spectrum`.

    Costs: 1 round, 1 pass with d^2 operations a row; d^2 numbers from each group. With `center` one
    more round and pass, with columns of very different sizes two more.
    """
    beta, fixed = float(bias), not (bias or center)
    origin = _mean_row(engine) if center else None
    gram, moments, total, n_rows = _gram(engine, positives, origin)
    squares = np.diagonal(gram)[:-1]
    if not is_graded(squares, squares - np.square(gram[-1, :-1]) / total, beta * total):
        gram[-1, :] *= beta
        gram[:, -1] *= beta
        with one_blas_thread():
            spectrum = decompose(gram, n_rows)
        spectrum.vectors[-1] *= beta
        return Decomposed(engine, positives, spectrum, moments, total, origin, fixed)
    if origin is None:
        origin = _mean_row(engine)
        gram, moments, total, _ = _gram(engine, positives, origin)
    rest = gram[-1, :-1] / total  # the mean, as rounding left it
    scatter = gram[:-1, :-1] - total * np.outer(rest, rest)
    mean = rest if center else origin + rest
    constant = np.sqrt(np.maximum(np.diagonal(scatter), 0.0) / total) < ROUNDED * np.abs(origin)
    scatter[constant] = scatter[:, constant] = 0.0
    with one_blas_thread():
        spectrum = decompose_graded(scatter, np.append(mean, beta), total)
        spectrum.vectors[-1] -= rest @ spectrum.vectors[:-1]
    return Decomposed(engine, positives, spectrum, moments, total, origin, fixed)


def _mean_row(engine: Engine) -> np.ndarray:
    sums, total = engine.sum(least_squares.row_sums)
    return sums / total


def _gram(
    engine: Engine, positives: Sequence[int], origin: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, float, int]:
    gram, moments, total, n_rows = engine.sum(least_squares.gram_block, list(positives), origin)
    return gram, moments, float(total), int(n_rows)


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


def lams_to_scale(engine: Engine) -> list[float]:
    """Values of lam to choose from, in units of the mean squared length of the labeled rows.

    Costs: 1 round, 1 pass over these.
    """
    total, weight = engine.sum(least_squares.labeled_lengths)
    length = total / weight if total > 0.0 else 1.0
    return [length * part for part in LAM_PARTS]


def fewest_errors(models: Sequence[RLSCModel]) -> RLSCModel:
    """The model of fewest leave-one-out errors; of several, the one of least loss."""
    return min(models, key=lambda one: (one.loo_error, one.loo_loss))


def choose_lam(
    engine: Engine, positives: Sequence[int], costs: np.ndarray, bias: bool, n_labeled: int
) -> ChosenLam:
    """Largest lam whose leave-one-out error is within a standard error of the least one.

    For a search of labels: with a small lam any labels fit. Costs: 4 rounds, 3 passes over the
    labeled rows.
    """
    training = RLSCTraining(engine, positives, costs, lams_to_scale(engine), bias)
    found = training.start().models
    least = min(one.loo_error for one in found)
    spread = max(least * (1.0 - least), 0.0)  # rounding can make the share more than 1
    most = least + math.sqrt(spread / n_labeled)
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
            least_squares.leave_one_out,
            spectrum.vectors,
            inverses,
            weights,
            list(self._positives),
            rows.origin,
        )
        models = []
        for number, lam in enumerate(lams):
            values = rows.total - np.add.reduce(np.square(sides[number]), axis=0)
            solved = [
                BinarySolution(rows.of_rows(w), float(value), "converged", n_iter=1)
                for w, value in zip(weights[number].T, values, strict=True)
            ]
            loo = float(loss[number]) / rows.total, float(errors[number]) / rows.total
            models.append(RLSCModel(lam, solved, *loo))
            self.report(lam=lam, objective=float(values.sum()), loo_error=loo[1], loo_loss=loo[0])
        return RLSCModels(models)

    def finish(self, state: RLSCModels) -> RLSCModels:
        """Return all models."""
        return state
