"""Folds of the labeled rows, by the content of these rows alone.

Draws by row number change when the same rows come in another order. Draws in the order of keys that
rows have by their content do not: rows with the same key are equal, and it does not matter which of
them comes first.

The features of a kernel have other axes where there are other landmarks, so that the numbers in a
row are not its content. Products of rows are: the key begins with that of a row and the mean row.
Rows of 0/1 columns often have it in common. Among these a hash of their entries decides.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.numerics.linalg import one_blas_thread

N_FOLDS = 5

#: Rows are divided into folds again until so many predictions of held-out rows are made, but not
#: more often.
LEAST_TESTED = 300
MOST_REPEATS = 4

#: Of the finalizer of splitmix64; see `numerics.random`.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

#: Entries that are hashed at a time.
BATCH = 1 << 20

#: Bits to which products with the mean row count, of the largest of them. Beyond, they depend on
#: the order of additions, and on how well landmarks span the rows.
PRODUCT_BITS = 26


def assign_folds(codes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Number the folds of labeled rows: (repeats, l), stratified, the same every time.

    Few labels are divided several times: one division alone would decide by chance.

    codes : class numbers.
    keys : of the rows, in whose order they are drawn.
    """
    repeats = int(np.clip(np.ceil(LEAST_TESTED / len(codes)), 1, MOST_REPEATS))
    found = np.empty((repeats, len(codes)), dtype=np.int8)
    rng = np.random.default_rng(0)
    order = np.argsort(keys, kind="stable")
    for folds in found:
        first = 0
        for code in np.unique(codes):
            own = rng.permutation(order[codes[order] == code])
            # classes go on where the last one ended: folds differ by one row at most
            folds[own] = (first + np.arange(len(own))) % N_FOLDS
            first += len(own)
    return found


def content_keys(rows: Any, columns: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    """Return keys (n,), uint64, of rows and their weights, the same in any order of the rows.

    Parameters
    ----------
    rows : csr_array or ndarray. Values count as float32, so that the last digits of float64, which
        change with the order of additions where rows were scaled, do not matter. Zeros count as
        entries that are not stored.
    columns : number of each column, where the columns were renumbered: the order may be that of the
        most frequent ones of the first rows; None if they were not.
    weights : sample weights.
    """
    return _places_of_products(rows, weights) | (_hashes(rows, columns, weights) >> np.uint64(32))


def _places_of_products(rows: Any, weights: np.ndarray) -> np.ndarray:
    """Products with the mean row, in the upper halves of integers of the same order."""
    values = _as_singles(rows.data if sp.issparse(rows) else rows).astype(np.float64)
    if sp.issparse(rows):
        values = sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    with one_blas_thread():
        products = values @ (weights @ values)
    size = float(np.abs(products).max(initial=0.0))
    bits = np.rint(np.ldexp(products, PRODUCT_BITS - int(np.frexp(size)[1])))
    return (bits.astype(np.int64) + (1 << (PRODUCT_BITS + 1))).astype(np.uint64) << np.uint64(32)


def _hashes(rows: Any, columns: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    """Hashes of rows and weights; see `content_keys`."""
    n, d = rows.shape
    numbers = np.arange(d, dtype=np.uint64) if columns is None else columns.astype(np.uint64)
    salt = _scrambled((numbers + np.uint64(1)) * _STEP)
    keys = _scrambled(_bits(weights) + _STEP)
    if sp.issparse(rows):
        entries = np.where(rows.data != 0, _scrambled(_bits(rows.data) + salt[rows.indices]), 0)
        # sums wrap around, and so do their differences
        ends = np.concatenate([[np.uint64(0)], np.cumsum(entries.astype(np.uint64))])
        keys += ends[rows.indptr[1:]] - ends[rows.indptr[:-1]]
        return _scrambled(keys)
    step = max(BATCH // max(d, 1), 1)
    for low in range(0, n, step):
        part = rows[low : low + step]
        entries = np.where(part != 0, _scrambled(_bits(part) + salt), np.uint64(0))
        keys[low : low + step] += np.add.reduce(entries, axis=1, dtype=np.uint64)
    return _scrambled(keys)


def _bits(values: np.ndarray) -> np.ndarray:
    return _as_singles(values).view(np.uint32).astype(np.uint64)


def _as_singles(values: np.ndarray) -> np.ndarray:
    """Values as float32; those beyond its range are at its ends."""
    most = np.finfo(np.float32).max
    return np.ascontiguousarray(np.clip(values, -most, most), dtype=np.float32)


def _scrambled(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))
