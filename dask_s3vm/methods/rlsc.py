"""RLSC: regularized least-squares classification in closed form (Rifkin; Gieseke et al., eq. 1).

    1/l sum_i (y_i - w.z_i)^2 + lam |w|^2

One pass over the rows and one eigendecomposition serve every lam and every class; a second pass
gives the leave-one-out errors of all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.features.blas import one_blas_thread
from dask_s3vm.methods.base import BinarySolution, LinearSolution, collect
from dask_s3vm.problems import least_squares
from dask_s3vm.solvers.spectrum import Spectrum, decompose


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


@dataclass(frozen=True, eq=False)
class RLSCSolution:
    """A model for one lam, with its leave-one-out loss and error (shares of the labeled rows)."""

    linear: LinearSolution
    loo_loss: float
    loo_error: float


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


def train_rlsc(
    engine: Engine, costs: np.ndarray, lams: Sequence[float], bias: bool
) -> list[RLSCSolution]:
    """Train for every lam.

    Parameters
    ----------
    engine : rows with class numbers; unlabeled ones are left out.
    costs : d_i^2 of a row by its class, over its sample weight.
    lams : weights of the regularizer.
    bias : whether w has a bias.

    Costs: 3 rounds, 2 passes, whatever the number of lams.
    """
    positives = [1] if len(costs) == 2 else list(range(len(costs)))
    engine.each(least_squares.set_squares, np.append(costs, 0.0))
    rows = decompose_rows(engine, bias, positives)
    spectrum = rows.spectrum
    with one_blas_thread():
        weights = np.stack([spectrum.weights(rows.moments, lam) for lam in lams])
        sides = [spectrum.coordinates(rows.moments, lam) for lam in lams]
    inverses = np.stack([1.0 / (spectrum.values + lam) for lam in lams])

    loss, errors = engine.sum(
        least_squares.leave_one_out, spectrum.vectors, inverses, weights, list(positives)
    )
    solutions = []
    for number in range(len(lams)):
        fitness = rows.total - np.add.reduce(np.square(sides[number]), axis=0)
        solved = [
            BinarySolution(w, float(value), 1, "converged")
            for w, value in zip(weights[number].T, fitness, strict=True)
        ]
        loo = float(loss[number]) / rows.total, float(errors[number]) / rows.total
        solutions.append(RLSCSolution(collect(engine, solved), *loo))
    return solutions
