"""Rows in Arrow IPC and Parquet files: opened by their footers, read batch by batch, or mapped.

Sparse rows are two list columns, ``indices: list<uint32>`` and ``values: list<float32>`` (or
float64), with the same offsets: together they are a CSR matrix. Where all values are 1, there is no
column of them. Dense rows are one column ``row: fixed_size_list<float32 or float64>``. A column
``label``, of numbers or strings, may stand beside. The metadata of the schema tell ``n_features``.
"""

from typing import Any, Literal

import dask.array as da
import numpy as np
import pyarrow as pa
from pyarrow import types

from dask_s3vm.io.arrow_rows import Batch
from dask_s3vm.io.batches import BROKEN, UNITS, read_batches, read_footer
from dask_s3vm.io.blocks import MOST_FEATURES, Head, Piece, Source, open_blocks
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.sources import DataFile, UrlPath

__all__ = ["read_arrow", "read_parquet"]

_WANTED = (
    "wanted columns 'indices' (list of integers) and 'values' (list of numbers; without it they "
    "are 1), or 'row' (fixed-size list of numbers), and perhaps 'label' (numbers or strings)"
)


def read_arrow(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = None,
    known_labels: Any = None,
    unlabeled: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open Arrow IPC files (also called Feather) as dask arrays, one block per record batch.

    Opening reads footers only. When the arrays are computed, local files are mapped: blocks of
    sparse rows with ``uint32`` column numbers, and dense blocks, are views of the map, which
    the operating system reads and drops as it likes. Every block is checked when it is made, with
    its checksum if this package wrote it.

    Parameters
    ----------
    urlpath : str, path or list of these
        File, glob pattern, folder, or list of these; anything fsspec can open. See
        `dask_s3vm.io.arrow` for the columns.
    n_features : int, optional
        Number of columns of `X`; by default what the files' metadata tell or, where they do not,
        one more than the largest column number, for which the files are looked through.
    block : {"gcxs", "scipy"}
        Type of the sparse blocks. Dense rows are numpy blocks.
    dtype : dtype, optional
        Type of the values, float64 or float32; by default as stored.
    known_labels : list, optional
        As in `read_svmlight`.
    unlabeled : int or str, optional
        What to put in place of labels that are null. Without it, a null is an error.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    y : dask.array.Array of shape (n_rows,) or None
        The labels; strings as objects. None if there are none.
    """
    return open_blocks(
        BatchSource("arrow", unlabeled),
        urlpath,
        n_features=n_features,
        block=block,
        dtype=dtype,
        known_labels=known_labels,
    )


def read_parquet(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = None,
    known_labels: Any = None,
    unlabeled: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open Parquet files as dask arrays, one block per row group.

    Opening reads footers only; blocks are read, and checked, when the arrays are computed.

    Parameters
    ----------
    urlpath, n_features, block, dtype, known_labels, unlabeled
        As in `read_arrow`.

    Returns
    -------
    X, y : dask.array.Array
        As of `read_arrow`.
    """
    return open_blocks(
        BatchSource("parquet", unlabeled),
        urlpath,
        n_features=n_features,
        block=block,
        dtype=dtype,
        known_labels=known_labels,
    )


class BatchSource(Source):
    """Files of a format whose pieces are record batches or row groups.

    `unlabeled` stands for null labels; None refuses them.
    """

    broken = BROKEN

    def __init__(self, name: str, unlabeled: Any) -> None:
        self.name = name
        self.unlabeled = unlabeled
        self.refusal = f"cannot be read as {name}"

    def look(self, file: DataFile, n_features: int | None) -> Head:
        """Read the footer; if neither it nor the user tells the number of columns, all rows."""
        schema, rows = read_footer(self.name, file)
        head = _head(schema, rows, file.name)
        if head.n_features is not None or n_features is not None:
            return head
        pieces = [Piece(file, number, 0, count) for number, count in enumerate(rows)]
        columns = [self._batch(piece, "indices", "values").highest_column() for piece in pieces]
        return Head(rows, max([-1, *columns]) + 1, head.values, head.labels)

    def read_rows(self, piece: Piece, n_features: int, dtype: np.dtype) -> Any:
        """Return the rows of a batch, in the map of the file where the types allow it."""
        return self._batch(piece, "row", "indices", "values").rows(n_features, dtype)

    def read_labels(self, piece: Piece, dtype: np.dtype) -> np.ndarray:
        """Return the labels of a batch."""
        return self._batch(piece, "label").labels(dtype, self.unlabeled)

    def where(self, piece: Piece, row: int) -> str:
        """Rows count within their batch."""
        return f"{UNITS[self.name]} {piece.number}, row {row}"

    def _batch(self, piece: Piece, *columns: str) -> Batch:
        place = f"{UNITS[self.name]} {piece.number}"
        table, mapped = read_batches(self.name, piece.file, [piece.number], columns)
        batches = table.to_batches()
        if len(batches) != 1:
            batches = table.combine_chunks().to_batches()
        if len(batches) > 1:
            raise ValueError(f"{place} does not fit one batch")
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        return Batch(batch, piece.file.name, place, mapped)


def _head(schema: Any, rows: tuple[int, ...], name: str) -> Head:
    """Return what the schema of a file says, which somebody else may have made."""
    kinds = {field.name: field.type for field in schema}
    if len(kinds) != len(schema):
        raise DataFileError(name, f"has two columns of one name, {schema.names}; {_WANTED}")
    announced = _announced(schema, name)
    labels = _label_type(kinds["label"], name) if "label" in kinds else None
    if "indices" in kinds:
        indices = _item(kinds["indices"])
        values = _item(kinds["values"]) if "values" in kinds else pa.float32()
        if indices is None or not types.is_integer(indices):
            raise DataFileError(name, f"column 'indices' is {kinds['indices']}; {_WANTED}")
        if values is None or not _is_number(values):
            raise DataFileError(name, f"column 'values' is {kinds['values']}; {_WANTED}")
        return Head(rows, announced, np.dtype(values.to_pandas_dtype()), labels)
    row = kinds.get("row")
    if row is None:
        raise DataFileError(name, f"has the columns {schema.names[:9]}; {_WANTED}")
    if not types.is_fixed_size_list(row) or not _is_number(row.value_type):
        raise DataFileError(name, f"column 'row' is {row}; {_WANTED}")
    if row.list_size < 1 or announced not in (None, row.list_size):
        raise DataFileError(
            name, f"rows have {row.list_size} columns, but metadata n_features is {announced}"
        )
    kind = np.dtype(row.value_type.to_pandas_dtype())
    return Head(rows, row.list_size, kind, labels, dense=True)


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
