"""How rows look as Arrow columns, in IPC files and in Parquet files alike.

Sparse rows are two list columns, ``indices: list<uint32>`` and ``values: list<float32>`` (or
float64), with the same offsets: together they are a CSR matrix. Dense rows are one column
``row: fixed_size_list<float32 or float64>``. A column ``label``, of numbers or strings, may stand
beside. The metadata of the schema tell ``n_features``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from dask_s3vm.io.blocks import MOST_FEATURES
from dask_s3vm.io.errors import DataFileError

__all__ = ["Layout", "layout_of", "make_schema"]

_WANTED = (
    "wanted columns 'indices' (list of integers) and 'values' (list of numbers), or 'row' "
    "(fixed-size list of numbers), and perhaps 'label' (numbers or strings)"
)


@dataclass(frozen=True)
class Layout:
    """What a schema says about rows and labels.

    Attributes
    ----------
    dense : bool
        Whether rows are one column of fixed-size lists.
    n_features : int or None
        Number of columns of X; None if the schema does not tell.
    values : dtype
        Type of the values as stored.
    labels : dtype or None
        Type of the labels as they will be read; None without labels. Strings are objects.
    """

    dense: bool
    n_features: int | None
    values: np.dtype
    labels: np.dtype | None


def make_schema(
    n_features: int, values: np.dtype | None, labels: np.dtype | None, dense: bool
) -> Any:
    """Return the schema of rows with these types.

    Parameters
    ----------
    n_features : int
        Number of columns of X.
    values : dtype
        float32 or float64.
    labels : dtype or None
        Type of the labels; None for rows without.
    dense : bool
        Whether rows are fixed-size lists.

    Returns
    -------
    pyarrow.Schema
        The schema.
    """
    item = pa.field("item", pa.from_numpy_dtype(values), nullable=False)
    if dense:
        fields = [pa.field("row", pa.list_(item, n_features), nullable=False)]
    else:
        columns = pa.field("item", pa.uint32(), nullable=False)
        fields = [
            pa.field("indices", pa.list_(columns), nullable=False),
            pa.field("values", pa.list_(item), nullable=False),
        ]
    if labels is not None:
        kind = pa.string() if labels.kind in "UO" else pa.from_numpy_dtype(labels)
        fields.insert(0, pa.field("label", kind, nullable=False))
    return pa.schema(fields, metadata={"n_features": str(n_features)})


def layout_of(schema: Any, name: str) -> Layout:
    """Read a schema that somebody else may have made.

    Parameters
    ----------
    schema : pyarrow.Schema
        The schema.
    name : str
        The file, for errors.

    Returns
    -------
    Layout
        What it says.

    Raises
    ------
    DataFileError
        If it has no rows in it, or columns of other types.
    """
    kinds = {field.name: field.type for field in schema}
    if len(kinds) != len(schema):
        raise DataFileError(name, f"has two columns of one name, {schema.names}; {_WANTED}")
    announced = _announced(schema, name)
    labels = _label_type(kinds["label"], name) if "label" in kinds else None
    if "indices" in kinds and "values" in kinds:
        indices = _item(kinds["indices"])
        values = _item(kinds["values"])
        if indices is None or not types.is_integer(indices):
            raise DataFileError(name, f"column 'indices' is {kinds['indices']}; {_WANTED}")
        if values is None or not _is_number(values):
            raise DataFileError(name, f"column 'values' is {kinds['values']}; {_WANTED}")
        return Layout(False, announced, np.dtype(values.to_pandas_dtype()), labels)
    row = kinds.get("row")
    if row is None:
        raise DataFileError(name, f"has the columns {schema.names[:9]}; {_WANTED}")
    if not types.is_fixed_size_list(row) or not _is_number(row.value_type):
        raise DataFileError(name, f"column 'row' is {row}; {_WANTED}")
    if row.list_size < 1 or announced not in (None, row.list_size):
        raise DataFileError(
            name, f"rows have {row.list_size} columns, but metadata n_features is {announced}"
        )
    return Layout(True, row.list_size, np.dtype(row.value_type.to_pandas_dtype()), labels)


def _announced(schema: Any, name: str) -> int | None:
    """Return the number of columns that the metadata tell."""
    text = (schema.metadata or {}).get(b"n_features")
    if text is None:
        return None
    if not text.isdigit() or len(text) > 10 or not 1 <= int(text) <= MOST_FEATURES:
        raise DataFileError(
            name, f"metadata n_features is {text[:30]!r}, wanted 1 to {MOST_FEATURES}"
        )
    return int(text)


def _item(kind: Any) -> Any:
    return kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None


def _is_number(kind: Any) -> bool:
    return types.is_floating(kind) or types.is_integer(kind)


def _label_type(kind: Any, name: str) -> np.dtype:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return np.dtype(object)
    if types.is_boolean(kind) or _is_number(kind):
        return np.dtype(kind.to_pandas_dtype())
    raise DataFileError(name, f"column 'label' is {kind}; {_WANTED}")
