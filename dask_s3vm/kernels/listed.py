"""Loops over listed rows: products, sums and inner products, with one vector at a time."""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.rows import Rows


def dot_row(X: Any, i: Any, q: np.ndarray) -> float:
    """Product of row `i` and a vector (compiled code only)."""
    raise NotImplementedError("dot_row is resolved by numba")


def push_row(X: Any, i: Any, t: float, q: np.ndarray) -> None:
    """Add `t` times row `i` to a vector (compiled code only)."""
    raise NotImplementedError("push_row is resolved by numba")


def push_products(X: Any, i: Any, columns: np.ndarray, out: np.ndarray) -> None:
    """Add the products of row `i` with all columns of a matrix (d, g) (compiled code only)."""
    raise NotImplementedError("push_products is resolved by numba")


def _dot_csr(X: Any, i: Any, q: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    s = 0.0
    for k in range(columns.size):
        s += values[k] * q[columns[k]]
    return s


def _push_csr(X: Any, i: Any, t: Any, q: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        q[columns[k]] += t * values[k]


def _dot_dense(X: Any, i: Any, q: Any) -> Any:
    s = 0.0
    for k in range(X.shape[1]):
        s += X[i, k] * q[k]
    return s


def _push_dense(X: Any, i: Any, t: Any, q: Any) -> Any:
    for k in range(X.shape[1]):
        q[k] += t * X[i, k]


def _products_csr(X: Any, i: Any, columns: Any, out: Any) -> Any:
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
        value, column = X.values[k], X.indices[k]
        for g in range(out.size):
            out[g] += value * columns[column, g]


def _products_dense(X: Any, i: Any, columns: Any, out: Any) -> Any:
    for k in range(X.shape[1]):
        value = X[i, k]
        for g in range(out.size):
            out[g] += value * columns[k, g]


@overload(dot_row)
def _choose_dot(X: Any, i: Any, q: Any) -> Any:
    return _dot_csr if isinstance(X, types.BaseNamedTuple) else _dot_dense


@overload(push_row)
def _choose_push(X: Any, i: Any, t: Any, q: Any) -> Any:
    return _push_csr if isinstance(X, types.BaseNamedTuple) else _push_dense


@overload(push_products)
def _choose_products(X: Any, i: Any, columns: Any, out: Any) -> Any:
    return _products_csr if isinstance(X, types.BaseNamedTuple) else _products_dense


@kernel
def add_row(X: Rows, i: int, out: np.ndarray) -> None:
    """Out += row i."""
    push_row(X, i, 1.0, out)


@kernel
def add_rows(X: Rows, rows: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None:
    """Out += sum of weight[k] times row rows[k]; the sum of the weights goes to the last entry."""
    for k in range(rows.size):
        push_row(X, np.int64(rows[k]), weight[k], out)
        out[out.size - 1] += weight[k]


@kernel
def products(X: Rows, rows: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """out[k] = product of row rows[k] and v."""
    for k in range(rows.size):
        out[k] = dot_row(X, np.int64(rows[k]), v)


@kernel
def square_norms(X: Rows, rows: np.ndarray, width: int) -> np.ndarray:
    """Squared lengths of the listed rows; `width` is more than every column number."""
    out = np.empty(rows.size)
    work = np.zeros(width)
    for k in range(rows.size):
        i = np.int64(rows[k])
        push_row(X, i, 1.0, work)
        out[k] = dot_row(X, i, work)
        push_row(X, i, -1.0, work)
    return out


@kernel
def gram_matrix(X: Rows, rows: np.ndarray, width: int) -> np.ndarray:
    """Inner products of the listed rows with each other."""
    n = rows.size
    out = np.empty((n, n))
    work = np.zeros(width)
    for i in range(n):
        push_row(X, np.int64(rows[i]), 1.0, work)
        for j in range(i + 1):
            out[i, j] = out[j, i] = dot_row(X, np.int64(rows[j]), work)
        push_row(X, np.int64(rows[i]), -1.0, work)
    return out
