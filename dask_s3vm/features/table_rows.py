"""Columns of numbers, codes and texts to sparse rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack

from dask_s3vm.numerics.compiler import kernel

__all__ = ["assemble", "hash_texts", "side_by_side"]

#: Kind of a column of numbers, in compiled code.
_NUMBER = -1


def hash_texts(texts: Sequence[str], n_features: int, dtype: Any) -> csr_array:
    """Return texts as rows of hashed words, each row of unit length.

    A word is a run of two or more letters or digits, in lower case. Its feature and its sign are
    those of MurmurHash3 (Weinberger et al. 2009), the same on every machine. Features are counts.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    hasher = HashingVectorizer(n_features=n_features, norm="l2", dtype=dtype)
    rows = csr_array(hasher.transform(texts))
    rows.sort_indices()
    return rows


def side_by_side(parts: Sequence[csr_array]) -> csr_array:
    """Return the rows of several matrices as the rows of one."""
    return parts[0] if len(parts) == 1 else csr_array(hstack(parts, format="csr"))


def assemble(
    columns: Sequence[np.ndarray],
    sizes: Sequence[int | None],
    offset: np.ndarray,
    factor: np.ndarray,
    dtype: Any,
) -> csr_array:
    """Make sparse rows of columns.

    Parameters
    ----------
    columns : sequence of arrays
        Numbers (float64, NaN = missing), or codes of categories (int32, negative = unknown or
        missing).
    sizes : sequence of int or None
        Number of categories of each column, None for numbers.
    offset, factor : arrays
        A number x becomes ``(x - offset) * factor``.
    dtype : dtype
        Type of the entries.

    Returns
    -------
    csr_array
        One feature for each column of numbers and for each category; zeros are not stored.
    """
    n = len(columns[0]) if columns else 0
    numbers = [c for c, size in zip(columns, sizes, strict=True) if size is None]
    codes = [c for c, size in zip(columns, sizes, strict=True) if size is not None]
    widths = np.array([1 if size is None else size for size in sizes], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    kinds = np.array([_NUMBER if size is None else 1 for size in sizes], dtype=np.int64)
    values = np.array(numbers, dtype=np.float64).reshape(len(numbers), n)
    marks = np.array(codes, dtype=np.int32).reshape(len(codes), n)
    index = np.int32 if max(n * len(sizes), int(first[-1])) < 2**31 else np.int64
    indptr = np.zeros(n + 1, dtype=index)
    _count(values, marks, kinds, offset, factor, indptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(int(indptr[-1]), dtype=index)
    data = np.empty(int(indptr[-1]), dtype=dtype)
    _write(values, marks, kinds, offset, factor, first, indptr, indices, data)
    return csr_array((data, indices, indptr), shape=(n, int(first[-1])))


@kernel
def _count(values: Any, marks: Any, kinds: Any, offset: Any, factor: Any, indptr: Any) -> None:
    for row in range(indptr.size - 1):
        i, j, held = 0, 0, 0
        for c in range(kinds.size):
            if kinds[c] == _NUMBER:
                value = (values[i, row] - offset[c]) * factor[c]
                held += value < 0.0 or value > 0.0  # neither zero nor NaN
                i += 1
            else:
                held += marks[j, row] >= 0
                j += 1
        indptr[row + 1] = held


@kernel
def _write(
    values: Any,
    marks: Any,
    kinds: Any,
    offset: Any,
    factor: Any,
    first: Any,
    indptr: Any,
    indices: Any,
    data: Any,
) -> None:
    for row in range(indptr.size - 1):
        i, j, slot = 0, 0, indptr[row]
        for c in range(kinds.size):
            if kinds[c] == _NUMBER:
                value = (values[i, row] - offset[c]) * factor[c]
                i += 1
                if value < 0.0 or value > 0.0:
                    indices[slot] = first[c]
                    data[slot] = value
                    slot += 1
            else:
                code = marks[j, row]
                j += 1
                if code >= 0:
                    indices[slot] = first[c] + code
                    data[slot] = 1.0
                    slot += 1
