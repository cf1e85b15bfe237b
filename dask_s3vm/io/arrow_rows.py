"""Record batches as blocks of rows: checked, and without a copy where the types allow it.

Files come from anywhere. Compiled code that runs over the rows later on trusts their offsets and
column numbers, so nothing leaves this module that has not been looked at.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types
from scipy.sparse import csr_array

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.io.batches import release_pages
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.ones import ones

__all__ = ["Batch"]

#: Bytes of a batch that are checked before their pages are let go.
_CHECKED_AT_ONCE = 2**24

_FINE, _OFFSETS, _RANGE, _ORDER, _FINITE = range(5)


@dataclass
class Batch:
    """A record batch, its place for errors, and the map of the file that it may lie in."""

    batch: Any
    name: str
    place: str
    mapped: np.ndarray | None

    def rows(self, n_features: int, dtype: np.dtype) -> csr_array | np.ndarray:
        """Return the rows; DataFileError is of the first that is not in order.

        They lie in the file's map if it has one and the types are as wanted.
        """
        self._validate()
        if "indices" not in self.batch.schema.names:
            return self._dense(n_features, dtype)
        offsets, indices, values = self._triple()
        code, row, entry = self._check_in_steps(offsets, indices, values, n_features)
        if code != _FINE:
            column = indices[entry] if code != _OFFSETS else 0
            reasons = {
                _OFFSETS: "list offsets fall, or point outside the list",
                _RANGE: f"column number {column}, wanted 0 to {n_features - 1}",
                _ORDER: f"column number {column} after {indices[entry - 1]}, but columns must "
                "increase",
                _FINITE: f"value {values[entry]} of column {column} is not finite",
            }
            raise self._wrong(reasons[code], row)
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
        self._validate()
        _, indices, _ = self._triple()
        return int(indices.max()) if indices.size else -1

    def labels(self, dtype: np.dtype, unlabeled: Any) -> np.ndarray:
        """Return the labels, with `unlabeled` (unless None) in place of nulls."""
        column = self.batch.column("label")
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise self._wrong(f"column 'label' is broken: {error}") from error
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

    def _validate(self) -> None:
        """Refuse nulls, and buffers that are too short for what the batch says of itself."""
        for name in ("row", "indices", "values"):
            if name not in self.batch.schema.names:
                continue
            column = self.batch.column(name)
            try:
                column.validate()
            except pa.ArrowException as error:
                raise self._wrong(f"column {name!r} is broken: {error}") from error
            if column.null_count:
                raise self._wrong(f"{name!r} is null", _first(column.is_null()))
            if column.values.null_count:
                raise self._wrong(f"column {name!r} has a null among its numbers")

    def _triple(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return offsets from 0 on, column numbers and values of the entries that belong to rows.

        Without a column of values, all are 1.
        """
        offsets, indices = self._list("indices")
        if "values" in self.batch.schema.names:
            others, values = self._list("values")
        else:
            others, values = offsets, ones(len(indices))
        low, high = int(offsets[0]), int(offsets[-1])
        first, last = int(others[0]), int(others[-1])
        if not 0 <= low <= high <= len(indices) or not 0 <= first <= last <= len(values):
            raise self._wrong("list offsets point outside the list")
        offsets = offsets - low if low else offsets
        others = others - first if first else others
        if not np.array_equal(offsets, others):
            row = _first(offsets != others) - 1
            raise self._wrong("'indices' and 'values' are of different lengths", row)
        indices, values = indices[low:high], values[first:last]
        if indices.dtype != np.uint32:
            if indices.dtype == np.uint64:
                indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
            indices = indices.astype(np.int64)
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.result_type(values.dtype, np.float32))
        return frozen(offsets), frozen(indices), frozen(values)

    def _list(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the offsets of a list column, and all numbers that these point into."""
        column = self.batch.column(name)
        dtype = np.dtype(np.int64 if types.is_large_list(column.type) else np.int32)
        offsets = np.zeros(1, dtype=dtype)  # without rows, the buffer may be missing
        if n := len(column):
            whole = self._array(column.buffers()[1], dtype)
            offsets = whole[column.offset : column.offset + n + 1]
        return offsets, self._numbers(column.values)

    def _dense(self, n_features: int, dtype: np.dtype) -> np.ndarray:
        column = self.batch.column("row")
        width = column.type.list_size
        if width != n_features:
            raise self._wrong(f"rows have {width} columns, wanted {n_features}")
        start = column.offset * width
        numbers = self._numbers(column.values)[start : start + len(column) * width]
        matrix = numbers.reshape(len(column), width)
        if not np.all(np.isfinite(matrix)):
            row, number = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
            raise self._wrong(f"value {matrix[row, number]} of column {number} is not finite", row)
        return matrix.astype(dtype, copy=False)

    def _numbers(self, values: Any) -> np.ndarray:
        """Return the numbers of an array without nulls."""
        dtype = np.dtype(values.type.to_pandas_dtype())
        if not len(values):
            return np.empty(0, dtype=dtype)
        whole = self._array(values.buffers()[-1], dtype)
        return whole[values.offset : values.offset + len(values)]

    def _array(self, buffer: Any, dtype: np.dtype) -> np.ndarray:
        """Return a buffer as an array: a view of the mapped file if it lies in there.

        The view's `base` is then a `numpy.memmap`, by which others can tell.
        """
        count = buffer.size // dtype.itemsize
        if self.mapped is not None:
            start = buffer.address - self.mapped.ctypes.data
            if start >= 0 and start + buffer.size <= self.mapped.size:
                return self.mapped[start : start + count * dtype.itemsize].view(dtype)
        return np.frombuffer(buffer, dtype=dtype, count=count)

    def _check_in_steps(
        self, offsets: np.ndarray, indices: np.ndarray, values: np.ndarray, n_features: int
    ) -> tuple[int, int, int]:
        """Check rows a few MiB at a time: a batch may be larger than memory, which it fills."""
        nbytes, n_rows = indices.nbytes + values.nbytes, len(offsets) - 1
        step = max(1, n_rows * _CHECKED_AT_ONCE // max(nbytes, 1))
        for start in range(0, n_rows, step):
            part = offsets[start : start + step + 1]
            code, row, entry = _check(part, indices, values, n_features)
            if code != _FINE:
                return code, start + row, entry
            release_pages(self.mapped)
        return _FINE, 0, 0


def _first(flags: Any) -> int:
    return int(np.argmax(np.asarray(flags)))


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
