"""Tables in memory, of many kinds, as columns; values as numbers or words, missing ones marked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["MISSING", "codes_of", "columns_of", "numbers_or_none", "words_of"]

#: Words that stand for a value that is not there.
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


def columns_of(X: Any, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return the columns of a table by name.

    Parameters
    ----------
    X : DataFrame, pyarrow.Table, dict of columns, records, or array
        Records are dicts, or a structured array. Rows of a plain array or of lists have no names:
        they get `names`, or their numbers.
    names : sequence of str, optional
        The columns wanted, all of which a table with names must have; others are left out.

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


def numbers_or_none(column: np.ndarray) -> np.ndarray | None:
    """Return a column as float64, missing values as NaN; None if a value is not a number.

    Truth values are words, as they are in a file.
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
    """Return a column as words, as a file would have them, and which of them are missing."""
    if column.dtype.kind == "f":
        words = _words_of_floats(column)
    elif column.dtype.kind in "iubU":
        words = column.astype(np.str_)
    else:
        words = np.array([_word(value) for value in column.tolist()], dtype=np.str_)
    words = np.strings.strip(words)
    return words, np.isin(words, MISSING)


def codes_of(column: np.ndarray, categories: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each value among `categories` (-1: not there), and which are missing."""
    words, missing = words_of(column)
    places = {word: code for code, word in enumerate(categories)}
    distinct, which = np.unique(words, return_inverse=True)
    codes = np.array([places.get(word, -1) for word in distinct.tolist()], dtype=np.int32)
    return np.where(missing, np.int32(-1), codes[which]), missing


def _named_columns(X: Any) -> Mapping[str, Any] | None:
    """Columns of a table that has names; None if it has none."""
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
    """One column as an array; what numpy has no type for, as objects."""
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    array = np.asarray(column)
    if array.dtype.kind not in "biufUO" or array.ndim != 1:
        array = np.array(list(column), dtype=object)
    return array


def _word(value: Any) -> str:
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _words_of_floats(column: np.ndarray) -> np.ndarray:
    """Whole numbers without a point: a column of them turns to floats when a value is missing."""
    values = column.astype(np.float64)
    distinct, which = np.unique(values, return_inverse=True)
    return np.array([_word(value) for value in distinct.tolist()], dtype=np.str_)[which]
