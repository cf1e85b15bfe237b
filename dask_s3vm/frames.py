"""Frames as people have them: rows with named columns, of pandas, dask, polars or pyarrow.

This is the one place that recognizes them. Frames are told by what they can do, so that none of
their packages is imported. A frame of numbers becomes an array; any other needs a `TableEncoder`.
"""

from collections import Counter
from typing import Any

import numpy as np

#: Kinds of dtypes that are numbers: integers, floating-point numbers and booleans.
_NUMBERS = "iufb"


def is_lazy_frame(X: Any) -> bool:
    """Whether X is a dask DataFrame."""
    return hasattr(X, "to_dask_array") and hasattr(X, "columns")


def is_pandas_frame(X: Any) -> bool:
    """Whether X is a pandas DataFrame."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and not is_lazy_frame(X)


def is_arrow_frame(X: Any) -> bool:
    """Whether X is a table of polars, pyarrow or another package that speaks Arrow."""
    return (
        hasattr(X, "__arrow_c_stream__")
        and (hasattr(X, "columns") or hasattr(X, "schema"))
        and not is_pandas_frame(X)
    )


def is_frame(X: Any) -> bool:
    """Whether X has named columns; a query that has not been run is refused."""
    if hasattr(X, "collect") and hasattr(X, "columns") and not hasattr(X, "to_dask_array"):
        raise TypeError(
            f"X is a {type(X).__name__}, a query that was not run; wanted its rows: X.collect()"
        )
    return is_lazy_frame(X) or is_pandas_frame(X) or is_arrow_frame(X)


def names_of(X: Any) -> list[Any]:
    """Names of the columns of a frame, in order; a name that occurs twice is refused."""
    names = list(_arrow(X).column_names if is_arrow_frame(X) else X.columns)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"X has several columns named {_some(twice)}; wanted distinct names")
    return names


def text_names(X: Any) -> np.ndarray | None:
    """Names of the columns of a frame as scikit-learn keeps them; None if they are no strings."""
    names = names_of(X)
    strings = [isinstance(name, str) for name in names]
    if not any(strings):
        return None
    if not all(strings):
        raise TypeError(
            "X has names of columns that are strings and others that are not, such as "
            f"{names[strings.index(False)]!r}; wanted strings alone"
        )
    return np.array(names, dtype=object)


def is_numeric(X: Any) -> bool:
    """Whether all columns of a frame are numbers; objects of pandas may be, too."""
    if is_arrow_frame(X):
        return all(_is_arrow_number(field.type) for field in _arrow(X).schema)
    if is_pandas_frame(X):
        X = X.infer_objects()
    return all(getattr(kind, "kind", "O") in _NUMBERS for kind in X.dtypes)


def take_label(X: Any, name: str) -> tuple[Any, Any]:
    """Split a frame into the columns beside `name`, and that column."""
    if not is_frame(X):
        raise ValueError(
            f"y is {name!r}, the name of a column, but X is a {type(X).__name__}, which has no "
            "named columns; wanted a DataFrame, or the labels themselves"
        )
    names = names_of(X)
    if name not in names:
        raise ValueError(f"y is {name!r}, but X has no such column; it has {_some(names)}")
    rest = [one for one in names if one != name]
    if not rest:
        raise ValueError(f"X has no column beside {name!r}, the labels; wanted at least one")
    if is_arrow_frame(X):
        table = _arrow(X)
        labels = table.column(name)
        if hasattr(labels.type, "value_type"):  # categories, which Arrow cannot always decode
            return table.select(rest), np.array([*labels.to_pylist(), None], dtype=object)[:-1]
        return table.select(rest), labels.to_numpy()
    return X[rest], X[name]


def check_index(X: Any, y: Any) -> None:
    """Refuse labels in another order than the rows, by the index of both.

    Rows and labels belong together by their place, as in scikit-learn, so that an index with other
    values says nothing.
    """
    if not is_pandas_frame(X) or not hasattr(y, "index") or len(y) != len(X):
        return
    rows, labels = X.index, y.index
    if rows.equals(labels) or not rows.is_unique or not hasattr(labels, "get_indexer"):
        return
    if labels.is_unique and (rows.get_indexer(labels) >= 0).all():
        raise ValueError(
            "y has the index of X in another order, but labels belong to rows by their place; "
            "wanted y.loc[X.index]"
        )


def in_order(X: Any, wanted: np.ndarray | None, who: str) -> Any:
    """Return a frame with its columns in the order of training; others are refused by name.

    wanted : names of the columns in training; None: rows without names, nothing is checked.
    """
    if wanted is None:
        return X
    known, found = [str(name) for name in wanted], names_of(X)
    there, trained = set(found), set(known)
    absent = [name for name in known if name not in there]
    strange = [name for name in found if name not in trained]
    if absent or strange:
        parts = [f"it lacks {_some(absent)}"] if absent else []
        parts += [f"it has {_some(strange)}, which training had not"] if strange else []
        raise ValueError(
            f"X has other feature names than {who} was trained on: {' and '.join(parts)}; wanted "
            f"the columns {_some(known)}"
        )
    if found == known:
        return X
    return _arrow(X).select(known) if is_arrow_frame(X) else X[known]


def as_rows(X: Any) -> Any:
    """Return the numbers of a frame: a dask array for dask, else an ndarray (or pandas' frame).

    A pandas frame stays what it is: scikit-learn reads it, with its missing values.
    """
    if is_lazy_frame(X):
        return lazy_array(X.astype("float64") if _is_mixed(X) else X)
    if is_pandas_frame(X):
        return X.infer_objects()
    table = _arrow(X)
    if not table.num_columns:
        return np.empty((table.num_rows, 0))
    return np.column_stack([_numbers(table.column(i)) for i in range(table.num_columns)])


def rows_for(model: Any, X: Any) -> Any:
    """Rows of X for a fitted model: columns of a frame in order, or encoded as in training."""
    if not is_frame(X):
        return X
    label = getattr(model, "label_name_", None)
    if label is not None and label in names_of(X):
        X, _ = take_label(X, label)
    encoder = getattr(model, "encoder_", None)
    if encoder is not None:
        return encoder.transform(X)
    X = in_order(X, getattr(model, "feature_names_in_", None), type(model).__name__)
    if not is_numeric(X):
        raise ValueError(
            f"X has columns that are not numbers, but {type(model).__name__} was trained on numbers"
        )
    return as_rows(X)


def like_frame(values: Any, X: Any) -> Any:
    """Return one value per row as a series with the index of X, where X has one."""
    if is_lazy_frame(X):
        import dask.dataframe as dd

        return dd.from_dask_array(values, index=X.index)
    if is_pandas_frame(X):
        series = type(X.iloc[:, 0]) if X.shape[1] else None
        return values if series is None else series(values, index=X.index)
    return values


def lazy_parts(X: Any) -> list[Any]:
    """Return the partitions of a dask DataFrame or Series as they are, one delayed value each.

    dask would read several partitions of a file as one where few of its columns are wanted: labels
    would come in other pieces than the rows that they belong to.
    """
    return list(X.to_delayed(optimize_graph=False))


def lazy_array(X: Any) -> Any:
    """Return a dask DataFrame or Series of one dtype as an array, a block for each partition."""
    import dask
    import dask.array as da

    meta = X._meta.to_numpy()
    make = dask.delayed(_values, pure=True)
    shape = (np.nan, *meta.shape[1:])
    blocks = [da.from_delayed(make(part), shape=shape, meta=meta) for part in lazy_parts(X)]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _values(part: Any) -> np.ndarray:
    return part.to_numpy()


def _is_mixed(X: Any) -> bool:
    """Whether the columns have several types, of which dask would make objects."""
    return len({str(kind) for kind in X.dtypes}) > 1 or any(
        not isinstance(kind, np.dtype) for kind in X.dtypes
    )


def _arrow(X: Any) -> Any:
    import pyarrow as pa

    return X if isinstance(X, pa.Table) else pa.table(X)


def _is_arrow_number(kind: Any) -> bool:
    import pyarrow.types as types

    whole_or_not = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(whole_or_not or types.is_boolean(kind))


def _numbers(column: Any) -> np.ndarray:
    """A column of Arrow as numbers; nulls become NaN."""
    import pyarrow.types as types

    if types.is_decimal(column.type):
        column = column.cast("double")
    return np.array(column.to_numpy(), dtype=np.float64)


def _some(names: list[Any]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(repr(str(name)) for name in names[:5]) + more
