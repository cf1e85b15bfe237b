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

from dask_s3vm.io.arrow_rows import Place, batch_labels, batch_rows, highest_column
from dask_s3vm.io.blocks import MOST_FEATURES, Head, Piece, Source, open_blocks
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import DataFile, UrlPath, find_files
from dask_s3vm.io.table_files import BROKEN, batch_files

__all__ = ["make_schema", "read_arrow", "read_parquet"]

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
        The labels that may occur, the mark of unlabeled rows included; any other is an error.
    unlabeled : int or str, optional
        What to put in place of labels that are null. Without it, a null is an error.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    y : dask.array.Array of shape (n_rows,) or None
        The labels; strings as objects. None if there are none.

    Raises
    ------
    DataFileError
        If a file is not such a file, or (when the arrays are computed) a row is not in order.
    """
    return _open(urlpath, BatchSource("arrow", unlabeled), n_features, block, dtype, known_labels)


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

    Raises
    ------
    DataFileError
        If a file is not such a file, or (when the arrays are computed) a row is not in order.
    """
    return _open(urlpath, BatchSource("parquet", unlabeled), n_features, block, dtype, known_labels)


def _open(
    urlpath: UrlPath, source: "BatchSource", n_features: Any, block: str, dtype: Any, known: Any
) -> tuple[da.Array, da.Array | None]:
    files = find_files(urlpath, FORMATS[source.name].fits)
    return open_blocks(
        source, files, n_features=n_features, block=block, dtype=dtype, known_labels=known
    )


class BatchSource(Source):
    """Files whose pieces are record batches or row groups.

    Parameters
    ----------
    name : {"arrow", "parquet"}
        The format.
    unlabeled : object
        What stands for null labels; None refuses them.
    """

    broken = BROKEN

    def __init__(self, name: str, unlabeled: Any) -> None:
        self.name = name
        self.unlabeled = unlabeled
        self.refusal = f"cannot be read as {name}"

    def look(self, file: DataFile) -> Head:
        """Read the footer."""
        schema, rows = batch_files(self.name).footer(file)
        return head_of(schema, rows, file.name)

    def read_rows(self, piece: Piece, n_features: int, dtype: np.dtype) -> Any:
        """Return the rows of a batch, in the map of the file where the types allow it."""
        return batch_rows(*self._read(piece, ["row", "indices", "values"]), n_features, dtype)

    def read_labels(self, piece: Piece, dtype: np.dtype) -> np.ndarray:
        """Return the labels of a batch."""
        return batch_labels(*self._read(piece, ["label"]), dtype, self.unlabeled)

    def highest_column(self, piece: Piece) -> int:
        """Return the largest column number of a batch, -1 if it has no entries."""
        return highest_column(*self._read(piece, ["indices", "values"]))

    def where(self, piece: Piece, row: int) -> str:
        """Rows count within their batch."""
        return f"{batch_files(self.name).unit} {piece.number}, row {row}"

    def _read(self, piece: Piece, columns: list[str]) -> tuple[Any, Place]:
        files = batch_files(self.name)
        table, mapped = files.read(piece.file, [piece.number], columns)
        batches = table.to_batches()
        if len(batches) != 1:
            batches = table.combine_chunks().to_batches()
        if len(batches) > 1:
            raise ValueError(f"{files.unit} {piece.number} does not fit one batch")
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        return batch, Place(piece.file.name, f"{files.unit} {piece.number}", mapped)


def make_schema(
    n_features: int, values: np.dtype | None, labels: np.dtype | None, dense: bool
) -> Any:
    """Return the schema of rows with these types; without `labels` they have none.

    Sparse rows of bool have no column of values.
    """
    item = pa.field("item", pa.from_numpy_dtype(values), nullable=False)
    if dense:
        fields = [pa.field("row", pa.list_(item, n_features), nullable=False)]
    else:
        columns = pa.field("item", pa.uint32(), nullable=False)
        fields = [pa.field("indices", pa.list_(columns), nullable=False)]
        if values is None or values.kind != "b":
            fields.append(pa.field("values", pa.list_(item), nullable=False))
    if labels is not None:
        kind = pa.string() if labels.kind in "UO" else pa.from_numpy_dtype(labels)
        fields.insert(0, pa.field("label", kind, nullable=False))
    return pa.schema(fields, metadata={"n_features": str(n_features)})


def head_of(schema: Any, rows: tuple[int, ...], name: str) -> Head:
    """Read the schema of a file that somebody else may have made, and check its columns."""
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
