"""Read the rows and labels of svmlight text whose size is known.

A compiled parser, which runs without the GIL, writes the lines it fully understands straight
into arrays of the right size. Any other line it hands to `parse_line`, the strict reader; single
numbers that it cannot round for certain are left to Python's ``float()``.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dask_s3vm.io.characters import (
    MOST_DIGITS,
    is_line_over,
    is_word_over,
    read_column,
    read_number,
    skip_blanks,
    skip_line,
    skip_query,
)
from dask_s3vm.io.decimals import to_float
from dask_s3vm.io.lines import end_of_line, largest_power, parse_line
from dask_s3vm.io.scan import Summary, summarize
from dask_s3vm.numerics.compiler import kernel

__all__ = ["parse"]

# Positions in the parser's array of counts: rows and entries written, numbers left open.
_ROWS, _ENTRIES, _OPEN = range(3)
_LABEL_POWER = largest_power(np.dtype(np.float64))
_FEW = 64


def parse(
    text: bytes, expected: Summary, first_column: int, n_features: int, dtype: np.dtype
) -> tuple[csr_array, np.ndarray]:
    """Read the rows and labels of `text`.

    Parameters
    ----------
    text : bytes
        Whole lines.
    expected : Summary
        What the text held when it was looked through.
    first_column : int
        The column number that stands for column 0 of the result: 0 or 1.
    n_features : int
        Number of columns of the result.
    dtype : dtype
        Type of the values, float64 or float32.

    Returns
    -------
    rows : scipy.sparse.csr_array
        The rows, values of zero included.
    labels : array of float64
        The labels.

    Raises
    ------
    ValueError
        If the text is not what was expected.
    """
    room = _Room(expected, n_features, dtype)
    array = np.frombuffer(text, dtype=np.uint8)
    limit = largest_power(dtype)
    counts = np.zeros(3, dtype=np.int64)
    position = 0
    while True:
        position, pending = _parse_lines(
            array, position, first_column, n_features, limit, counts, *room.arrays
        )
        room.settle(text, pending[: counts[_OPEN]])
        if position == len(text):
            break
        stop = end_of_line(text, position)
        row = parse_line(text[position:stop], first_column, dtype)
        if row is not None and not room.add_row(counts, first_column, *row):
            break
        position = stop
    if position < len(text) or not room.is_full(counts):
        found = summarize(text, first_column, dtype)
        if found.rows != expected.rows:
            raise ValueError(f"{found.rows} rows, expected {expected.rows}")
        raise ValueError(f"{found.entries} entries, expected {expected.entries}")
    return room.matrix(), room.labels


class _Room:
    """Arrays of the size that the rows will need.

    Parameters
    ----------
    expected : Summary
        Numbers of rows and entries.
    n_features : int
        Number of columns.
    dtype : dtype
        Type of the values.
    """

    def __init__(self, expected: Summary, n_features: int, dtype: np.dtype) -> None:
        rows, entries = expected.rows, expected.entries
        wide = max(rows, n_features, entries) > np.iinfo(np.int32).max
        # Kernels read half as much with the narrow type.
        index = np.dtype(np.int64 if wide else np.int32)
        self.n_features = n_features
        self.labels = np.empty(rows)
        self.indptr = np.zeros(rows + 1, dtype=index)
        self.indices = np.empty(entries, dtype=index)
        self.data = np.empty(entries, dtype=dtype)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What the compiled parser writes into."""
        return self.labels, self.indptr, self.indices, self.data

    def settle(self, text: bytes, pending: np.ndarray) -> None:
        """Fill in numbers that were left open: start, stop and slot (-1 - row for a label)."""
        for start, stop, slot in pending.tolist():
            if slot < 0:
                self.labels[-1 - slot] = float(text[start:stop])
            else:
                self.data[slot] = float(text[start:stop])

    def add_row(
        self,
        counts: np.ndarray,
        first_column: int,
        label: float,
        columns: list[int],
        values: list[float],
    ) -> bool:
        """Write one row behind the others; tell whether there was room for it."""
        row, start = counts[_ROWS], counts[_ENTRIES]
        stop = start + len(columns)
        if row == len(self.labels) or stop > len(self.data):
            return False
        if columns and columns[-1] - first_column >= self.n_features:
            raise ValueError(f"column number {columns[-1]}, but n_features is {self.n_features}")
        self.labels[row] = label
        self.indices[start:stop] = np.array(columns, dtype=np.int64) - first_column
        self.data[start:stop] = values
        self.indptr[row + 1] = stop
        counts[_ROWS] += 1
        counts[_ENTRIES] = stop
        return True

    def is_full(self, counts: np.ndarray) -> bool:
        """Tell whether all was written that was expected."""
        return bool(counts[_ROWS] == len(self.labels) and counts[_ENTRIES] == len(self.data))

    def matrix(self) -> csr_array:
        """Return the rows, which share memory with the arrays."""
        shape = (len(self.labels), self.n_features)
        return csr_array((self.data, self.indices, self.indptr), shape=shape)


@kernel
def _parse_lines(
    text: Any,
    pos: int,
    first_column: int,
    n_features: int,
    limit: int,
    counts: Any,
    labels: Any,
    indptr: Any,
    indices: Any,
    data: Any,
) -> tuple[int, Any]:
    """Write lines from `pos` on; return the start of the first line not understood, or the end.

    Lines that do not fit the arrays count as not understood, too. The second result is the list
    of numbers left open, which is as long as ``counts[_OPEN]`` says.
    """
    pending = np.empty((_FEW, 3), dtype=np.int64)
    counts[_OPEN] = 0
    while pos < text.size:
        line = pos
        pos = skip_blanks(text, pos)
        if is_line_over(text, pos):
            pos = skip_line(text, pos)
            continue
        row, slot, left = counts[_ROWS], counts[_ENTRIES], counts[_OPEN]
        if row == labels.size:
            return line, pending
        start = pos
        pos, sure, number = _parse_number(text, pos, _LABEL_POWER)
        if pos < 0:
            return line, pending
        labels[row] = number
        if not sure:
            pending = _leave_open(pending, left, start, pos, -1 - row)
            left += 1
        previous = first_column - 1
        pos = skip_query(text, skip_blanks(text, pos))
        while not is_line_over(text, pos):
            pos, column = read_column(text, pos)
            if pos < 0 or column <= previous or column - first_column >= n_features:
                return line, pending
            start = pos
            pos, sure, number = _parse_number(text, pos, limit)
            if pos < 0 or slot == data.size:
                return line, pending
            indices[slot] = column - first_column
            data[slot] = number
            if not sure:
                pending = _leave_open(pending, left, start, pos, slot)
                left += 1
            slot += 1
            previous = column
            pos = skip_blanks(text, pos)
        # Only now is the line known to be good: what it wrote is overwritten otherwise.
        indptr[row + 1] = slot
        counts[_ROWS], counts[_ENTRIES], counts[_OPEN] = row + 1, slot, left
        pos = skip_line(text, pos)
    return pos, pending


@kernel
def _parse_number(text: Any, pos: int, limit: int) -> tuple[int, bool, float]:
    """Return the end of a number (-1 if not understood), whether it is settled, and itself."""
    pos, negative, mantissa, digits, scale = read_number(text, pos)
    if pos < 0 or not is_word_over(text, pos) or digits + scale > limit:
        return -1, False, 0.0
    if digits > MOST_DIGITS:
        return pos, False, 0.0
    sure, number = to_float(mantissa, scale)
    return pos, sure, -number if negative else number


@kernel
def _leave_open(pending: Any, count: int, start: int, stop: int, slot: int) -> Any:
    """Append to the list of numbers left open; return the list, a longer one if it was full."""
    if count == len(pending):
        longer = np.empty((2 * count, 3), dtype=np.int64)
        longer[:count] = pending
        pending = longer
    pending[count] = start, stop, slot
    return pending
