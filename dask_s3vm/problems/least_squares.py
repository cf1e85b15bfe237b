"""Regularized least squares over the rows, for RLSC and S2RLSC (Gieseke et al., 2.3 and 3).

    f(w) = sum_i d_i^2 (y_i - w.z_i)^2 + lam |w|^2,    H = sum_i d_i^2 z_i z_i^T = U L U^T
    w = (H + lam)^-1 b,                                b = sum_i d_i^2 y_i z_i
    min f = sum_i d_i^2 y_i^2 - |v|^2,                 v = (L + lam)^-1/2 U^T b

H is decomposed once; each lam then costs products with U alone (`spectrum.Spectrum`).

The sums over rows are operations on shards. A row is "in the fit" if d_i^2 > 0. Rows are extended
by a 1; the matrices that rows are multiplied with decide what it is for: a bias that is regularized
like the rest, the subtraction of a mean, or nothing. Where an operation has an `origin`, it is
subtracted from the rows first: large columns then lose no digits. Rows are processed in dense tiles
(`tiles`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.flips import row_lengths
from dask_s3vm.kernels.passes import square_norms
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems.hinge import row_costs
from dask_s3vm.problems.tiles import add_gram, tiles

# Weights d_i^2 --------------------------------------------------------------------------------


@operation(sets="squares")
def set_squares(shard: Shard, costs: np.ndarray) -> None:
    """Set d_i^2 = sample weight times the cost of the class, the last cost for unlabeled rows."""
    shard.state["square"] = row_costs(shard, costs)


@operation(sets="squares")
def set_members(shard: Shard, numbers: list[np.ndarray] | None, square: float) -> None:
    """Set d_i^2 = `square` times the sample weight for some rows, and 0 for all others.

    numbers : the rows, one bit a row, by shard; None: all rows.
    """
    if numbers is None:
        members = np.ones(shard.n_rows, dtype=bool)
    else:
        members = np.unpackbits(numbers[shard.number], count=shard.n_rows).astype(bool)
    squares = np.where(members, square, 0.0)
    shard.state["square"] = squares if shard.weights is None else squares * shard.weights


def unlabeled_in_fit(shard: Shard) -> np.ndarray:
    """Return the numbers of the unlabeled rows in the fit."""
    free = shard.state["square"] > 0
    if shard.codes is not None:
        free &= shard.codes < 0
    return np.flatnonzero(free)


def labeled_in_fit(shard: Shard) -> np.ndarray:
    """Return the numbers of the labeled rows in the fit."""
    if shard.codes is None:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero((shard.state["square"] > 0) & (shard.codes >= 0))


@operation(reads=["squares"])
def free_bits(shard: Shard) -> np.ndarray:
    """Return which rows are unlabeled and in the fit, one bit a row."""
    mask = np.zeros(shard.n_rows, dtype=bool)
    mask[unlabeled_in_fit(shard)] = True
    return np.packbits(mask)


# Sums over rows -------------------------------------------------------------------------------


@operation(reads=["squares"])
def row_sums(shard: Shard) -> tuple[np.ndarray, float]:
    """(sum of d_i^2 z_i, sum of d_i^2)."""
    square, total = shard.state["square"], np.zeros(shard.n_features)
    with one_blas_thread():
        for part, tile in tiles(shard, np.flatnonzero(square > 0)):
            total += square[part] @ tile[:, :-1]
    return total, float(np.add.reduce(square))


def labeled_lengths(shard: Shard) -> tuple[float, float]:
    """(sum of s_i |z_i|^2, sum of s_i) over the labeled rows, s_i the sample weights."""
    assert shard.codes is not None, "labels are needed"
    rows = np.flatnonzero(shard.codes >= 0).astype(np.uint32)
    weights = np.ones(len(rows)) if shard.weights is None else shard.weights[rows]
    lengths = square_norms(shard.rows, rows, shard.n_features)
    return float(np.add.reduce(weights * lengths)), float(np.add.reduce(weights))


@operation(reads=["squares"])
def gram_block(
    shard: Shard, positives: Sequence[int], origin: np.ndarray | None
) -> tuple[Any, ...]:
    """(H over all rows, moments b (d + 1, k) of the labeled rows, sum of d_i^2, rows in H)."""
    width = shard.n_features + 1
    gram, moments = np.zeros((width, width)), np.zeros((width, len(positives)))
    square = shard.state["square"]
    add_gram(gram, shard, np.flatnonzero(square > 0), square, origin)
    with one_blas_thread():
        for part, tile in tiles(shard, labeled_in_fit(shard), origin):
            moments += tile.T @ (square[part][:, None] * targets_of(shard, part, positives))
    return gram, moments, float(np.add.reduce(square)), int(np.count_nonzero(square > 0))


@operation(reads=["squares"])
def label_moments(
    shard: Shard, bits: list[np.ndarray], origin: np.ndarray | None
) -> tuple[np.ndarray]:
    """(moments b of the unlabeled rows for given labels,); labels as bits, 1 for positive."""
    rows, square = unlabeled_in_fit(shard), shard.state["square"]
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    moments = np.zeros(shard.n_features + 1)
    with one_blas_thread():
        for part, tile in tiles(shard, rows, origin):
            moments += tile.T @ (square[part] * np.where(labels[part], 1.0, -1.0))
    return (moments,)


@operation(reads=["squares"])
def leave_one_out(
    shard: Shard,
    vectors: np.ndarray,
    inverses: np.ndarray,
    weights: np.ndarray,
    positives: Sequence[int],
    origin: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(loss, errors) of leave-one-out over the labeled rows, for each lam.

    Without row i in the fit its residual is (y_i - w.z_i) / (1 - h_i), with the leverage
    h_i = d_i^2 z_i^T (H + lam)^-1 z_i. The loss is the sum of d_i^2 times the squared residual over
    rows and classes, errors are the sum of d_i^2 over misclassified rows.

    Parameters
    ----------
    vectors : (d + 1, q) U, for rows extended by a 1.
    inverses : (p, q) 1 / (L + lam) for each lam.
    weights : (p, d + 1, k) w for each lam and class.
    positives : the class numbers that are +1.
    """
    square = shard.state["square"]
    loss, errors = np.zeros(len(inverses)), np.zeros(len(inverses))
    assert shard.codes is not None, "labels are needed"
    with one_blas_thread():
        for part, tile in tiles(shard, labeled_in_fit(shard), origin):
            target, own = targets_of(shard, part, positives), square[part]
            place = np.searchsorted(np.asarray(positives), shard.codes[part])
            leverage = own[:, None] * (np.square(tile @ vectors) @ inverses.T)
            for number, w in enumerate(weights):
                left = np.maximum(1.0 - leverage[:, number], np.finfo(float).eps)[:, None]
                residual = (target - tile @ w) / left
                outputs = target - residual
                if len(positives) == 1:
                    wrong = (outputs[:, 0] > 0) != (target[:, 0] > 0)
                else:
                    wrong = outputs.argmax(axis=1) != place
                loss[number] += np.add.reduce(own[:, None] * np.square(residual), axis=None)
                errors[number] += np.add.reduce(own[wrong])
    return loss, errors


# The factor G of the label search -------------------------------------------------------------


@operation(reads=["squares"])
def project(shard: Shard, factor: np.ndarray, dtype: str, origin: np.ndarray | None) -> np.ndarray:
    """Return the rows G_j = d_j^2 z_j^T M of the unlabeled rows in the fit."""
    rows, square = unlabeled_in_fit(shard), shard.state["square"]
    projected = np.empty((len(rows), factor.shape[1]), dtype=dtype)
    done = 0
    with one_blas_thread():
        for part, tile in tiles(shard, rows, origin):
            projected[done : done + len(part)] = square[part][:, None] * (tile @ factor)
            done += len(part)
    return projected


@operation(sets="factor", reads=["squares"])
def keep_projected(shard: Shard, factor: np.ndarray, dtype: str, origin: np.ndarray | None) -> None:
    """Store the rows of G, and their lengths, in the shard, for searches that run there."""
    shard.state["G"] = frozen(project(shard, factor, dtype, origin))
    shard.state["lengths"] = frozen(row_lengths(shard.state["G"]))


@operation(reads=["squares"])
def complete_bits(shard: Shard, bits: list[np.ndarray], w: np.ndarray) -> np.ndarray:
    """Labels as bits; rows that are not in the fit get the sign of their output w.(z, 1)."""
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    with one_blas_thread():
        for part, tile in tiles(shard, np.flatnonzero(shard.state["square"] == 0)):
            labels[part] = tile @ w > 0
    return np.packbits(labels)


@operation(reads=["squares"])
def falling_outputs(shard: Shard, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(minus outputs w.(z, 1), row numbers) of the rows in the fit; ascending: largest first."""
    rows = np.flatnonzero(shard.state["square"] > 0)
    with one_blas_thread():
        values = [-(tile @ w) for _, tile in tiles(shard, rows)]
    return np.concatenate([np.empty(0), *values]), rows


@operation(reads=["squares"])
def count_positive(shard: Shard, w: np.ndarray) -> tuple[int]:
    """(number of rows in the fit with a positive output,)."""
    return (int(np.count_nonzero(falling_outputs(shard, w)[0] < 0.0)),)


def targets_of(shard: Shard, rows: np.ndarray, positives: Sequence[int]) -> np.ndarray:
    """Return +1 and -1 of labeled rows, (n, k), with a column for each class that is +1."""
    assert shard.codes is not None, "labels are needed"
    return np.where(shard.codes[rows][:, None] == np.asarray(positives), 1.0, -1.0)
