"""Record batches as blocks of rows: checked, and without a copy where the types allow it.

Files come from anywhere. Compiled code that runs over the rows later on trusts their offsets and
column numbers, so nothing leaves this module that has not been looked at.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.table_files import release_pages
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.ones import ones

__all__ = ["batch_labels", "batch_rows", "highest_column"]

#: Bytes of a batch that are checked before their pages are let go.
_CHECKED_AT_ONCE = 2**24

_FINE, _OFFSETS, _RANGE, _ORDER, _FINITE = range(5)


class Place:
    """Where a batch stands, for errors; and the map that its buffers may lie in.

    Parameters
    ----------
    name : str
        The file.
    batch : str
        The record batch or row group, with its number.
    mapped : array of uint8, optional
        The whole file, mapped.
    """

    def __init__(self, name: str, batch: str, mapped: np.ndarray | None = None) -> None:
        self.name = name
        self.batch = batch
        self.mapped = mapped

    def release(self) -> None:
        """Let go of the pages of the map that were read; they stay in the system's cache."""
        release_pages(self.mapped)

    def wrong(self, reason: str, row: int | None = None) -> DataFileError:
        """Return the error; rows count from 0 within the batch."""
        where = self.batch if row is None else f"{self.batch}, row {row}"
        return DataFileError(self.name, reason, where)


def batch_rows(
    batch: Any, place: Place, n_features: int, dtype: np.dtype
) -> csr_array | np.ndarray:
    """Return the rows of a record batch; DataFileError is of the first that is not in order.

    They lie in the file's map if it has one and the types are as wanted.
    """
    _validate(batch, place)
    if "indices" not in batch.schema.names:
        return _dense_rows(batch.column("row"), place, n_features, dtype)
    offsets, indices, values = _triple(batch, place)
    code, row, entry = _check_in_steps(offsets, indices, values, n_features, place)
    if code == _OFFSETS:
        raise place.wrong("list offsets fall, or point outside the list", row)
    if code == _RANGE:
        raise place.wrong(f"column number {indices[entry]}, wanted 0 to {n_features - 1}", row)
    if code == _ORDER:
        raise place.wrong(
            f"column number {indices[entry]} after {indices[entry - 1]}, but columns must increase",
            row,
        )
    if code == _FINITE:
        raise place.wrong(f"value {values[entry]} of column {indices[entry]} is not finite", row)
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


def highest_column(batch: Any, place: Place) -> int:
    """Return the largest column number of a batch, -1 if it has no entries."""
    _validate(batch, place)
    _, indices, _ = _triple(batch, place)
    return int(indices.max()) if indices.size else -1


def batch_labels(batch: Any, place: Place, dtype: np.dtype, unlabeled: Any) -> np.ndarray:
    """Return the labels of a record batch, with `unlabeled` (unless None) in place of nulls."""
    column = batch.column("label")
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise place.wrong(f"column 'label' is broken: {error}") from error
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        if unlabeled is None:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise place.wrong("the label is null, and there is no mark for unlabeled rows", row)
        try:
            column = column.fill_null(pa.scalar(unlabeled, type=column.type))
        except pa.ArrowException as error:
            raise place.wrong(
                f"unlabeled is {unlabeled!r}, which is no {column.type} as the labels are"
            ) from error
    labels: np.ndarray = column.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise place.wrong(f"label {labels[row]} is not finite", row)
    return labels


def _validate(batch: Any, place: Place) -> None:
    """Refuse nulls, and buffers that are too short for what the batch says of itself."""
    for name in ("row", "indices", "values"):
        if name not in batch.schema.names:
            continue
        column = batch.column(name)
        try:
            column.validate()
        except pa.ArrowException as error:
            raise place.wrong(f"column {name!r} is broken: {error}") from error
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise place.wrong(f"{name!r} is null", row)
        if column.values.null_count:
            raise place.wrong(f"column {name!r} has a null among its numbers")


def _triple(batch: Any, place: Place) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return offsets from 0 on, column numbers and values of the entries that belong to rows.

    Without a column of values, all are 1.
    """
    offsets, indices = _list_arrays(batch.column("indices"), place)
    if "values" in batch.schema.names:
        others, values = _list_arrays(batch.column("values"), place)
    else:
        others, values = offsets, ones(len(indices))
    low, high = int(offsets[0]), int(offsets[-1])
    first, last = int(others[0]), int(others[-1])
    if not 0 <= low <= high <= len(indices) or not 0 <= first <= last <= len(values):
        raise place.wrong("list offsets point outside the list")
    offsets = offsets - low if low else offsets
    others = others - first if first else others
    if not np.array_equal(offsets, others):
        row = int(np.flatnonzero(offsets != others)[0]) - 1
        raise place.wrong("'indices' and 'values' are of different lengths", row)
    indices, values = indices[low:high], values[first:last]
    if indices.dtype != np.uint32:
        if indices.dtype == np.uint64:
            indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
        indices = indices.astype(np.int64)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.result_type(values.dtype, np.float32))
    return frozen(offsets), frozen(indices), frozen(values)


def _list_arrays(column: Any, place: Place) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets of a list column, and all numbers that these point into."""
    n = len(column)
    wide = pa.types.is_large_list(column.type)
    if n:
        whole = _as_array(column.buffers()[1], np.dtype(np.int64 if wide else np.int32), place)
        offsets = whole[column.offset : column.offset + n + 1]
    else:  # then the buffer may be missing
        offsets = np.zeros(1, dtype=np.int64 if wide else np.int32)
    return offsets, _numbers(column.values, place)


def _dense_rows(column: Any, place: Place, n_features: int, dtype: np.dtype) -> np.ndarray:
    width = column.type.list_size
    if width != n_features:
        raise place.wrong(f"rows have {width} columns, wanted {n_features}")
    numbers = _numbers(column.values, place)
    start = column.offset * width
    matrix = numbers[start : start + len(column) * width].reshape(len(column), width)
    if not np.all(np.isfinite(matrix)):
        row, number = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise place.wrong(f"value {matrix[row, number]} of column {number} is not finite", row)
    return matrix.astype(dtype, copy=False)


def _numbers(values: Any, place: Place) -> np.ndarray:
    """Return the numbers of an array without nulls."""
    dtype = np.dtype(values.type.to_pandas_dtype())
    if not len(values):
        return np.empty(0, dtype=dtype)
    whole = _as_array(values.buffers()[-1], dtype, place)
    return whole[values.offset : values.offset + len(values)]


def _as_array(buffer: Any, dtype: np.dtype, place: Place) -> np.ndarray:
    """Return a buffer as an array: a view of the mapped file if it lies in there.

    The view's `base` is then a `numpy.memmap`, by which others can tell.
    """
    count = buffer.size // dtype.itemsize
    if place.mapped is not None:
        start = buffer.address - place.mapped.ctypes.data
        if start >= 0 and start + buffer.size <= place.mapped.size:
            return place.mapped[start : start + count * dtype.itemsize].view(dtype)
    return np.frombuffer(buffer, dtype=dtype, count=count)


def _check_in_steps(
    offsets: np.ndarray, indices: np.ndarray, values: np.ndarray, n_features: int, place: Place
) -> tuple[int, int, int]:
    """Check rows a few MiB at a time: a batch may be larger than memory, which pages of it fill."""
    nbytes, n_rows = indices.nbytes + values.nbytes, len(offsets) - 1
    step = max(1, n_rows * _CHECKED_AT_ONCE // max(nbytes, 1))
    for start in range(0, n_rows, step):
        part = offsets[start : start + step + 1]
        code, row, entry = _check(part, indices, values, n_features)
        if code != _FINE:
            return code, start + row, entry
        place.release()
    return _FINE, 0, 0


@kernel
def _check(offsets: Any, indices: Any, values: Any, n_features: int) -> tuple[int, int, int]:
    """Return what is wrong first, if anything, in which row and at which entry."""
    for row in range(offsets.size - 1):
        low, high = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if low < 0 or high < low or high > indices.size or high > values.size:
            return _OFFSETS, row, 0
        previous = np.int64(-1)
        for entry in range(low, high):
            column = np.int64(indices[entry])
            if column < 0 or column >= n_features:
                return _RANGE, row, entry
            if column <= previous:
                return _ORDER, row, entry
            if not np.isfinite(values[entry]):
                return _FINITE, row, entry
            previous = column
    return _FINE, 0, 0
