"""Rows in Arrow IPC and Parquet files: opened by their footers, read batch by batch, or mapped.

Sparse rows are two list columns, ``indices: list<uint32>`` and ``values: list<float32>`` (or
float64), with the same offsets: together they are a CSR matrix. Where all values are 1, there is no
column of them. Dense rows are one column ``row: fixed_size_list<float32 or float64>``. A column
``label``, of numbers or strings, may stand beside. The metadata of the schema tell ``n_features``.

Compiled code trusts offsets and column numbers: nothing leaves this module that was not checked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import dask.array as da
import numpy as np
import pyarrow as pa
from pyarrow import types
from scipy.sparse import csr_array

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.io.archive import STEP
from dask_s3vm.io.batches import BROKEN, UNITS, read_batches, read_footer, release_pages
from dask_s3vm.io.blocks import MOST_FEATURES, Head, Piece, Source, open_blocks
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.sources import DataFile, UrlPath
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.ones import ones

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
    unlabeled : int or str, optional
        What to put in place of labels that are null. Without it, a null is an error.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    y : dask.array.Array of shape (n_rows,) or None
        The labels; strings as objects. None if there are none.
    """
    source = BatchSource("arrow", unlabeled)
    return open_blocks(source, urlpath, n_features, block, dtype)


def read_parquet(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = None,
    unlabeled: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open Parquet files as dask arrays, one block per row group: see `read_arrow`.

    Opening reads footers only; blocks are read, and checked, when the arrays are computed.
    """
    source = BatchSource("parquet", unlabeled)
    return open_blocks(source, urlpath, n_features, block, dtype)


class BatchSource(Source):
    """Files whose pieces are record batches or row groups; `unlabeled` stands for null labels."""

    broken = BROKEN

    def __init__(self, name: str, unlabeled: Any) -> None:
        self.name, self.unlabeled = name, unlabeled
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

    def _batch(self, piece: Piece, *columns: str) -> "_Batch":
        place = f"{UNITS[self.name]} {piece.number}"
        table, mapped = read_batches(self.name, piece.file, [piece.number], columns)
        batches = table.to_batches()
        if len(batches) != 1:
            batches = table.combine_chunks().to_batches()
        if len(batches) > 1:
            raise ValueError(f"{place} does not fit one batch")
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        return _Batch(batch, piece.file.name, place, mapped)


def _head(schema: Any, rows: tuple[int, ...], name: str) -> Head:
    """Return what the schema of a file says, which somebody else may have made."""
    kinds = {field.name: field.type for field in schema}
    if len(kinds) != len(schema):
        raise DataFileError(name, f"has two columns of one name, {schema.names}; {_WANTED}")
    announced = _announced(schema, name)
    labels = _label_type(kinds["label"], name) if "label" in kinds else None
    if "indices" in kinds:
        values = kinds.get("values", pa.list_(pa.float32()))
        if not _is_list(kinds["indices"], types.is_integer):
            raise DataFileError(name, f"column 'indices' is {kinds['indices']}; {_WANTED}")
        if not _is_list(values, _is_number):
            raise DataFileError(name, f"column 'values' is {values}; {_WANTED}")
        return Head(rows, announced, np.dtype(values.value_type.to_pandas_dtype()), labels)
    row = kinds.get("row")
    if row is None:
        raise DataFileError(name, f"has the columns {schema.names[:9]}; {_WANTED}")
    if not types.is_fixed_size_list(row) or not _is_number(row.value_type):
        raise DataFileError(name, f"column 'row' is {row}; {_WANTED}")
    if row.list_size < 1 or announced not in (None, row.list_size):
        reason = f"rows have {row.list_size} columns, but metadata n_features is {announced}"
        raise DataFileError(name, reason)
    kind = np.dtype(row.value_type.to_pandas_dtype())
    return Head(rows, row.list_size, kind, labels, dense=True)


def _announced(schema: Any, name: str) -> int | None:
    text = (schema.metadata or {}).get(b"n_features")
    if text is None:
        return None
    if not text.isdigit() or len(text) > 10 or not 1 <= int(text) <= MOST_FEATURES:
        reason = f"metadata n_features is {text[:30]!r}, wanted 1 to {MOST_FEATURES}"
        raise DataFileError(name, reason)
    return int(text)


def _is_number(kind: Any) -> bool:
    return types.is_floating(kind) or types.is_integer(kind)


def _is_list(kind: Any, holds: Callable[[Any], bool]) -> bool:
    return (types.is_list(kind) or types.is_large_list(kind)) and holds(kind.value_type)


def _label_type(kind: Any, name: str) -> np.dtype:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return np.dtype(object)
    if types.is_boolean(kind) or _is_number(kind):
        return np.dtype(kind.to_pandas_dtype())
    raise DataFileError(name, f"column 'label' is {kind}; {_WANTED}")


@dataclass
class _Batch:
    """A record batch, its place for errors, and the map of the file that it may lie in."""

    batch: Any
    name: str
    place: str
    mapped: np.ndarray | None

    def rows(self, n_features: int, dtype: np.dtype) -> csr_array | np.ndarray:
        """Return the rows; DataFileError is of the first that is not in order.

        They lie in the file's map if it has one and the types are as wanted.
        """
        if "indices" not in self.batch.schema.names:
            return self._dense(n_features, dtype)
        offsets, indices, values = self._triple()
        self._check_in_steps(offsets, indices, values, n_features)
        narrow = n_features <= np.iinfo(np.int32).max
        if indices.dtype == np.uint32 and narrow:
            indices = indices.view(np.int32)  # all are below 2**31: the same numbers
        else:
            indices = indices.astype(np.int32 if narrow else np.int64)
        matrix = csr_array((len(offsets) - 1, n_features), dtype=dtype)
        # Not by the constructor: it copies arrays that are a small part of what they are views of.
        matrix.data = values.astype(dtype, copy=False)
        matrix.indices = indices
        matrix.indptr = offsets.astype(indices.dtype, copy=False)
        matrix.has_canonical_format = True
        return matrix

    def highest_column(self) -> int:
        """Return the largest column number, -1 if there are no entries."""
        _, indices, _ = self._triple()
        return int(indices.max()) if indices.size else -1

    def labels(self, dtype: np.dtype, unlabeled: Any) -> np.ndarray:
        """Return the labels, with `unlabeled` (unless None) in place of nulls."""
        column = self._column("label")
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            if unlabeled is None:
                reason = "the label is null, and there is no mark for unlabeled rows"
                raise self._wrong(reason, _first(column.is_null()))
            try:
                column = column.fill_null(pa.scalar(unlabeled, type=column.type))
            except pa.ArrowException as error:
                raise self._wrong(
                    f"unlabeled is {unlabeled!r}, which is no {column.type} as the labels are"
                ) from error
        labels: np.ndarray = column.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            row = _first(~np.isfinite(labels))
            raise self._wrong(f"label {labels[row]} is not finite", row)
        return labels

    def _wrong(self, reason: str, row: int | None = None) -> DataFileError:
        """Return an error; rows count from 0 within the batch."""
        where = self.place if row is None else f"{self.place}, row {row}"
        return DataFileError(self.name, reason, where)

    def _column(self, name: str) -> Any:
        """Return a column whose buffers are as long as it says, and whose offsets fit."""
        column = self.batch.column(name)
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise self._wrong(f"column {name!r} is broken: {error}") from error
        return column

    def _lists(self, name: str) -> tuple[Any, np.ndarray]:
        """Return a column of lists without nulls, and the numbers in it: views of the map."""
        column = self._column(name)
        if column.null_count:
            raise self._wrong(f"{name!r} is null", _first(column.is_null()))
        if column.values.null_count:
            raise self._wrong(f"column {name!r} has a null among its numbers")
        return column, column.values.to_numpy()

    def _triple(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return offsets from 0 on, column numbers and values of the entries that belong to rows.

        Without a column of values, all are 1.
        """
        offsets, indices = self._entries("indices")
        values = ones(len(indices))
        if "values" in self.batch.schema.names:
            others, values = self._entries("values")
            if not np.array_equal(offsets, others):
                row = _first(offsets != others) - 1
                raise self._wrong("'indices' and 'values' are of different lengths", row)
        if indices.dtype != np.uint32:
            indices = indices.astype(np.int64)
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.result_type(values.dtype, np.float32))
        return frozen(offsets), frozen(indices), frozen(values)

    def _entries(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        column, numbers = self._lists(name)
        offsets = column.offsets.to_numpy() if len(column) else np.zeros(1, np.int32)
        low, high = int(offsets[0]), int(offsets[-1])
        return offsets - low if low else offsets, numbers[low:high]

    def _dense(self, n_features: int, dtype: np.dtype) -> np.ndarray:
        column, numbers = self._lists("row")
        width = column.type.list_size
        if width != n_features:
            raise self._wrong(f"rows have {width} columns, wanted {n_features}")
        start = column.offset * width
        matrix = numbers[start : start + len(column) * width].reshape(len(column), width)
        if not np.all(np.isfinite(matrix)):
            row, number = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
            raise self._wrong(f"value {matrix[row, number]} of column {number} is not finite", row)
        return matrix.astype(dtype, copy=False)

    def _check_in_steps(
        self, offsets: np.ndarray, indices: np.ndarray, values: np.ndarray, n_features: int
    ) -> None:
        """Check rows a few MiB at a time: a batch may be larger than memory, which it fills."""
        nbytes, n_rows = indices.nbytes + values.nbytes, len(offsets) - 1
        step = max(1, n_rows * STEP // max(nbytes, 1))
        for start in range(0, n_rows, step):
            part = offsets[start : start + step + 1]
            row, entry = _find_wrong(part, indices, values, n_features)
            release_pages(self.mapped)
            if entry < 0:
                continue
            column = int(indices[entry])
            reason = f"value {values[entry]} of column {column} is not finite"
            if not 0 <= column < n_features:
                reason = f"column number {column}, wanted 0 to {n_features - 1}"
            elif entry > part[row] and column <= indices[entry - 1]:
                reason = (
                    f"column number {column} after {indices[entry - 1]}, but columns must increase"
                )
            raise self._wrong(reason, start + row)


def _first(flags: Any) -> int:
    return int(np.argmax(np.asarray(flags)))


@kernel
def _find_wrong(offsets: Any, indices: Any, values: Any, n_features: int) -> tuple[int, int]:
    """Return row and entry of the first that is not in order; -1 if all are."""
    for row in range(offsets.size - 1):
        previous = np.int64(-1)
        for entry in range(np.int64(offsets[row]), np.int64(offsets[row + 1])):
            column = np.int64(indices[entry])
            if column <= previous or column >= n_features or not np.isfinite(values[entry]):
                return row, entry
            previous = column
    return -1, -1
