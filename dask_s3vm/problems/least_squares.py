"""Least squares over the rows: what RLSC and S2RLSC ask of them (Gieseke et al., 2.3 and 3).

    sum_i d_i^2 (y_i - w.z_i)^2 + lam |w|^2

Rows of weight d_i^2 = 0 are left out. Rows are taken with a 1 behind; what w does with it (a bias,
regularized like the rest, a mean to be taken off, or nothing) is up to the matrices that rows are
multiplied with. Rows are handled in dense tiles by BLAS, one
thread each, so that sums come out the same wherever they are made.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.shard import Shard
from dask_s3vm.features.blas import one_blas_thread
from dask_s3vm.kernels.flips import row_lengths
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.kernels.tiles import dense_tile
from dask_s3vm.problems.l2svm import row_costs

#: Rows are made dense in tiles of about so many numbers, which fit the cache, but not fewer than
#: some rows: each tile adds to a whole d x d matrix.
TILE = 1 << 15
LEAST_ROWS = 256


@operation(sets="squares")
def set_squares(shard: Shard, costs: np.ndarray) -> None:
    """d_i^2 of each row: sample weight times the cost of its class; unlabeled rows: the last."""
    shard.state["square"] = row_costs(shard, costs)


@operation(sets="squares")
def set_members(shard: Shard, numbers: list[np.ndarray] | None, square: float) -> None:
    """Give the same d_i^2 to some rows and 0 to all others; None: to all rows.

    numbers : rows of each shard that are members, one bit a row.
    """
    if numbers is None:
        members = np.ones(shard.n_rows, dtype=bool)
    else:
        members = np.unpackbits(numbers[shard.number], count=shard.n_rows).astype(bool)
    squares = np.where(members, square, 0.0)
    shard.state["square"] = squares if shard.weights is None else squares * shard.weights


def free_rows(shard: Shard) -> np.ndarray:
    """Numbers of the unlabeled rows that count for something."""
    free = shard.state["square"] > 0
    if shard.codes is not None:
        free &= shard.codes < 0
    return np.flatnonzero(free)


def known_rows(shard: Shard) -> np.ndarray:
    """Numbers of the labeled rows that count for something."""
    if shard.codes is None:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero((shard.state["square"] > 0) & (shard.codes >= 0))


def tiles(shard: Shard, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Chosen rows in dense pieces: (row numbers, (t, d + 1) of float64, a 1 behind each row)."""
    width = shard.n_features + 1
    size = max(LEAST_ROWS, TILE // width)
    for low in range(0, len(rows), size):
        part = rows[low : low + size]
        tile = np.empty((len(part), width))
        if isinstance(shard.rows, CSR):
            tile[:] = 0.0
            dense_tile(shard.rows, part, tile)
        else:
            tile[:, :-1] = shard.rows[part]
        tile[:, -1] = 1.0
        yield part, tile


def targets_of(shard: Shard, rows: np.ndarray, positives: Sequence[int]) -> np.ndarray:
    """+1 and -1 of labeled rows, (n, k), a column for each class that is +1."""
    assert shard.codes is not None, "labels are needed"
    return np.where(shard.codes[rows][:, None] == np.asarray(positives), 1.0, -1.0)


# Operations on one shard --------------------------------------------------------------------


@operation(reads=["squares"])
def row_sums(shard: Shard) -> tuple[np.ndarray, float]:
    """(sum of d_i^2 z_i, sum of d_i^2)."""
    square, total = shard.state["square"], np.zeros(shard.n_features)
    with one_blas_thread():
        for part, tile in tiles(shard, np.flatnonzero(square > 0)):
            total += square[part] @ tile[:, :-1]
    return total, float(np.add.reduce(square))


@operation(reads=["squares"])
def gram_block(shard: Shard, positives: Sequence[int], origin: np.ndarray) -> tuple[Any, ...]:
    """(H over all rows that count, moments b (d + 1, k) of the labeled rows, sum of d_i^2).

    H is that of the rows less `origin`, b that of the rows as they are.
    """
    width = shard.n_features + 1
    gram, moments = np.zeros((width, width)), np.zeros((width, len(positives)))
    square = shard.state["square"]
    with one_blas_thread():
        for part, tile in tiles(shard, np.flatnonzero(square > 0)):
            tile[:, :-1] -= origin
            scaled = tile * np.sqrt(square[part])[:, None]
            gram += scaled.T @ scaled
        for part, tile in tiles(shard, known_rows(shard)):
            moments += tile.T @ (square[part][:, None] * targets_of(shard, part, positives))
    return gram, moments, float(np.add.reduce(square))


@operation(reads=["squares"])
def leave_one_out(
    shard: Shard,
    vectors: np.ndarray,
    inverses: np.ndarray,
    weights: np.ndarray,
    positives: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """(loss, errors) of labeled rows, each left out of the fit that predicts it, for each lam.

    Without the term of row i the residual is (y_i - w.z_i) / (1 - h_i), where h_i is
    d_i^2 z_i^T (H + lam)^-1 z_i; loss is the sum of d_i^2 times its square, over classes, errors
    the sum of d_i^2 over rows that go to a wrong class.

    Parameters
    ----------
    vectors : (d + 1, q) U, acting on rows with a 1 behind.
    inverses : (p, q) 1 / (L + lam) for each lam.
    weights : (p, d + 1, k) models.
    """
    square = shard.state["square"]
    loss, errors = np.zeros(len(inverses)), np.zeros(len(inverses))
    assert shard.codes is not None, "labels are needed"
    with one_blas_thread():
        for part, tile in tiles(shard, known_rows(shard)):
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


@operation(reads=["squares"])
def project(shard: Shard, factor: np.ndarray, dtype: str) -> np.ndarray:
    """Rows of G of the unlabeled rows, G_j = d_j^2 z_j^T M."""
    rows, square = free_rows(shard), shard.state["square"]
    projected = np.empty((len(rows), factor.shape[1]), dtype=dtype)
    done = 0
    with one_blas_thread():
        for part, tile in tiles(shard, rows):
            projected[done : done + len(part)] = square[part][:, None] * (tile @ factor)
            done += len(part)
    return projected


@operation(sets="factor", reads=["squares"])
def keep_projected(shard: Shard, factor: np.ndarray, dtype: str) -> None:
    """Keep the rows of G in the shard, and their lengths, for searches that go to the rows."""
    shard.state["G"] = frozen(project(shard, factor, dtype))
    shard.state["lengths"] = frozen(row_lengths(shard.state["G"]))


@operation(reads=["squares"])
def label_moments(shard: Shard, bits: list[np.ndarray]) -> tuple[np.ndarray]:
    """(moments b of the unlabeled rows with given labels,); bits by row, 1 for positive."""
    rows, square = free_rows(shard), shard.state["square"]
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    moments = np.zeros(shard.n_features + 1)
    with one_blas_thread():
        for part, tile in tiles(shard, rows):
            moments += tile.T @ (square[part] * np.where(labels[part], 1.0, -1.0))
    return (moments,)


@operation(reads=["squares"])
def free_bits(shard: Shard) -> np.ndarray:
    """Which rows are unlabeled and count, one bit a row."""
    mask = np.zeros(shard.n_rows, dtype=bool)
    mask[free_rows(shard)] = True
    return np.packbits(mask)


@operation(reads=["squares"])
def complete_bits(shard: Shard, bits: list[np.ndarray], w: np.ndarray) -> np.ndarray:
    """Labels as bits, those of rows that do not count by the sign of their output w.(z, 1)."""
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    with one_blas_thread():
        for part, tile in tiles(shard, np.flatnonzero(shard.state["square"] == 0)):
            labels[part] = tile @ w > 0
    return np.packbits(labels)
