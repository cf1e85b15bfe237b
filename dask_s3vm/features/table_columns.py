"""Columns of tables: from tables of many types, as numbers or words, to sparse rows.

`columns_of` takes a table apart. `numbers_or_none`, `words_of` and `codes_of` interpret a column,
with missing values marked. `Moments` describe a column of numbers and can be combined from pieces.
`assemble` makes sparse rows of columns of numbers and codes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dask_s3vm.numerics.compiler import kernel

#: Words for missing values.
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")

#: Ways to scale numbers; see `TableEncoder`.
SCALES = ("unit", "maxabs", "std", "none")

#: Kind of a column of numbers, in compiled code.
_NUMBER = -1


# Tables to columns ----------------------------------------------------------------------------


def columns_of(X: Any, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return the columns of a table by name.

    Parameters
    ----------
    X : DataFrame, pyarrow.Table, dict of columns, records, or array
        Records are dicts, or a structured array. Columns of a plain array or of lists of rows have
        no names: they get `names`, or their numbers.
    names : sequence of str, optional
        The columns to return. A table with names must have all of them; others are ignored.

    Returns
    -------
    dict of str to array
        The columns, in the order of `names` or of the table.
    """
    found = _named_columns(X)
    if found is None:
        return _numbered_columns(X, names)
    if names is None:
        return {str(name): _array(column) for name, column in found.items()}
    by_name = {str(name): column for name, column in found.items()}
    absent = [name for name in names if name not in by_name]
    if absent:
        raise ValueError(f"X has no column {absent[:5]}; it has {list(by_name)[:20]}")
    return {name: _array(by_name[name]) for name in names}


def _named_columns(X: Any) -> Mapping[str, Any] | None:
    """Return the columns of a table that has names; None if it has none."""
    if hasattr(X, "column_names") and hasattr(X, "column"):  # pyarrow
        return {name: X.column(name).to_numpy() for name in X.column_names}
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas
        return {str(name): X.iloc[:, i] for i, name in enumerate(X.columns)}
    if isinstance(X, Mapping):
        return X
    if isinstance(X, np.ndarray) and X.dtype.names:
        return {name: X[name] for name in X.dtype.names}
    if isinstance(X, Sequence) and len(X) and isinstance(X[0], Mapping):
        names = list(X[0])
        for number, record in enumerate(X):
            if set(record) != set(names):
                raise ValueError(
                    f"record {number} has the fields {sorted(map(str, record))}, record 0 has "
                    f"{sorted(map(str, names))}; wanted the same in all"
                )
        return {str(name): [record[name] for record in X] for name in names}
    return None


def _numbered_columns(X: Any, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if table.ndim != 2:
        raise ValueError(f"X has {table.ndim} dimension(s), wanted a table: rows and columns")
    if names is None:
        names = [str(number) for number in range(table.shape[1])]
    if len(names) != table.shape[1]:
        raise ValueError(f"X has {table.shape[1]} columns, wanted {len(names)}: {names[:20]}")
    return {name: table[:, i] for i, name in enumerate(names)}


def _array(column: Any) -> np.ndarray:
    """Return one column as an array, of objects if numpy has no type for the values."""
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    array = np.asarray(column)
    if array.dtype.kind not in "biufUO" or array.ndim != 1:
        array = np.array(list(column), dtype=object)
    return array


# Columns as numbers, words and codes ----------------------------------------------------------


def numbers_or_none(column: np.ndarray) -> np.ndarray | None:
    """Return a column as float64, missing values as NaN; None if a value is not a number.

    Booleans are words, as they are in a file.
    """
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    if column.dtype.kind == "b":
        return None
    words, missing = words_of(column)
    filled = np.where(missing, "nan", words)
    try:
        return filled.astype(np.float64)
    except ValueError:
        return None


def words_of(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as words, as in a file, and which of them are missing."""
    if column.dtype.kind == "f":
        words = _words_of_floats(column)
    elif column.dtype.kind in "iubU":
        words = column.astype(np.str_)
    else:
        words = np.array([_word(value) for value in column.tolist()], dtype=np.str_)
    words = np.strings.strip(words)
    return words, np.isin(words, MISSING)


def codes_of(column: np.ndarray, categories: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each value in `categories` (-1: not found), and which are missing."""
    words, missing = words_of(column)
    places = {word: code for code, word in enumerate(categories)}
    distinct, which = np.unique(words, return_inverse=True)
    codes = np.array([places.get(word, -1) for word in distinct.tolist()], dtype=np.int32)
    return np.where(missing, np.int32(-1), codes[which]), missing


def _word(value: Any) -> str:
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _words_of_floats(column: np.ndarray) -> np.ndarray:
    """Write integers without a point: missing values turn a column of integers into floats."""
    values = column.astype(np.float64)
    distinct, which = np.unique(values, return_inverse=True)
    return np.array([_word(value) for value in distinct.tolist()], dtype=np.str_)[which]


# Moments of numbers, and scaling by them ------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Range, mean and sum of squared deviations of some numbers.

    Attributes
    ----------
    count : int
        Number of values, without missing ones.
    low, high : float
        Smallest and largest value.
    mean : float
        Mean.
    squares : float
        Sum of ``(x - mean)**2``.
    """

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0


def moments_of(values: np.ndarray) -> Moments:
    """Return the moments of some numbers; NaN is a missing value."""
    held = values[~np.isnan(values)]
    if held.size == 0:
        return Moments()
    mean = float(held.mean())
    squares = float(np.square(held - mean).sum())
    return Moments(int(held.size), float(held.min()), float(held.max()), mean, squares)


def put_together(parts: Iterable[Moments]) -> Moments:
    """Combine the moments of pieces (Chan, Golub and LeVeque 1979)."""
    count, low, high, mean, squares = 0, math.inf, -math.inf, 0.0, 0.0
    for part in parts:
        if part.count == 0:
            continue
        total = count + part.count
        step = part.mean - mean
        mean += step * part.count / total
        squares += part.squares + step * step * count * part.count / total
        count = total
        low, high = min(low, part.low), max(high, part.high)
    return Moments(count, low, high, mean, squares)


def scaling(moments: Moments, scale: str) -> tuple[float, float]:
    """Return offset and factor of a column: x becomes ``(x - offset) * factor``."""
    if moments.count == 0 or scale == "none":
        return 0.0, 1.0
    if scale == "unit":
        return moments.low, _inverse(moments.high - moments.low)
    if scale == "maxabs":
        return 0.0, _inverse(max(abs(moments.low), abs(moments.high)))
    return 0.0, _inverse(math.sqrt(moments.squares / moments.count))


def _inverse(width: float) -> float:
    """Return 1 / width; 1 for a constant column, or if the inverse is not finite."""
    return 1.0 / width if width > 0 and math.isfinite(1.0 / width) else 1.0


# Columns to sparse rows -----------------------------------------------------------------------


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
