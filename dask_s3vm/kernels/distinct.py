"""Rows that are equal: hashes, and items of equal rows."""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.rows import CSR, Rows

_PRIME = np.uint64(0x100000001B3)
_START = np.uint64(0xCBF29CE484222325)
_FOLD = np.uint64(29)


def _mixed(h: Any, word: Any) -> Any:
    """One step of a multiplicative hash (compiled code only)."""
    h = (h ^ np.uint64(word)) * _PRIME
    return h ^ (h >> _FOLD)


_mix = kernel(inline="always")(_mixed)


def _hash(X: Any, i: Any) -> int:
    """Hash of row `i` (compiled code only)."""
    raise NotImplementedError("_hash is resolved by numba")


def _equal(X: Any, i: Any, j: Any) -> bool:
    """Whether rows `i` and `j` hold the same bits (compiled code only)."""
    raise NotImplementedError("_equal is resolved by numba")


def _hash_csr(X: Any, i: Any) -> Any:
    h = _START
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
        h = _mix(_mix(h, X.indices[k]), X.values[k])
    return h


def _hash_dense(X: Any, i: Any) -> Any:
    h = _START
    for k in range(X.shape[1]):
        h = _mix(h, X[i, k])
    return h


def _equal_csr(X: Any, i: Any, j: Any) -> Any:
    a, b = np.int64(X.indptr[i]), np.int64(X.indptr[j])
    n = np.int64(X.indptr[i + 1]) - a
    if np.int64(X.indptr[j + 1]) - b != n:
        return False
    for k in range(n):
        if X.indices[a + k] != X.indices[b + k] or X.values[a + k] != X.values[b + k]:
            return False
    return True


def _equal_dense(X: Any, i: Any, j: Any) -> Any:
    same = True
    for k in range(X.shape[1]):
        same &= X[i, k] == X[j, k]
    return same


@overload(_hash)
def _choose_hash(X: Any, i: Any) -> Any:
    return _hash_csr if isinstance(X, types.BaseNamedTuple) else _hash_dense


@overload(_equal)
def _choose_equal(X: Any, i: Any, j: Any) -> Any:
    return _equal_csr if isinstance(X, types.BaseNamedTuple) else _equal_dense


@kernel
def _hashes(X: Rows, rows: np.ndarray) -> np.ndarray:
    out = np.empty(rows.size, dtype=np.uint64)
    for k in range(rows.size):
        out[k] = _hash(X, np.int64(rows[k]))
    return out


@kernel
def _leaders(X: Rows, rows: np.ndarray, order: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """For each listed row the place in the list of the first row that is equal to it."""
    leader = np.empty(rows.size, dtype=np.int64)
    head = np.int64(-1)
    for k in range(order.size):
        place = order[k]
        if (
            head < 0
            or hashes[place] != hashes[head]
            or not _equal(X, np.int64(rows[place]), np.int64(rows[head]))
        ):
            head = place
        leader[place] = head
    return leader


def find_items(X: Rows, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group the listed rows, whose numbers ascend, into items of equal rows.

    Returns the place in `rows` of the first row of each item, ascending, and the item of each
    row. Rows are compared bit by bit; in the (never seen) case of unequal rows of one hash between
    equal ones, equal rows may be kept as two items, which costs time and changes no result.
    """
    bits = _as_bits(X)
    hashes = _hashes(bits, rows)
    order = np.argsort(hashes, kind="stable")
    leader = _leaders(bits, rows, order, hashes)
    first, item = np.unique(leader, return_inverse=True)
    return first, item


def _as_bits(X: Rows) -> Rows:
    """Rows with the bits of their values as whole numbers."""
    if isinstance(X, CSR):
        return CSR(X.indptr, X.indices, _bits(X.values))
    return _bits(np.ascontiguousarray(X))


def _bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint32 if values.dtype == np.float32 else np.uint64)
