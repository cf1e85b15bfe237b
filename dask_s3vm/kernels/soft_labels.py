"""Passes over unlabeled rows whose labels are numbers from -1 to 1."""

import numpy as np

from dask_s3vm.kernels.rows import Rows, pair_add, pair_dot
from dask_s3vm.numerics.compiler import kernel


@kernel
def soft_step(
    X: Rows,
    rows: np.ndarray,
    square: np.ndarray,
    momentum: float,
    now: np.ndarray,
    before: np.ndarray,
    pair: np.ndarray,
    bias: float,
) -> None:
    """q <- clip(z - x.v) with z = q + momentum (q - q before); out += sum d^2 q x."""
    for k in range(rows.size):
        i = np.int64(rows[k])
        z = now[k] + momentum * (now[k] - before[k])
        label = min(max(z - pair_dot(X, i, pair, bias), -1.0), 1.0)
        before[k] = now[k]
        now[k] = label
        pair_add(X, i, square[i] * label, pair, bias)


@kernel
def soft_gap(
    X: Rows, rows: np.ndarray, square: np.ndarray, now: np.ndarray, pair: np.ndarray, bias: float
) -> float:
    """Sum over d^2 (g q + |g|), with g = x.v."""
    total = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        g = pair_dot(X, i, pair, bias)
        total += square[i] * (g * now[k] + abs(g))
    return total
