"""svmlight text: counted, read into arrays, and explained where it breaks a rule.

The compiled parser (`svmlight_parser`) first counts rows and entries, then writes them into arrays
of the right size. It reads the lines that it fully understands. Any other line goes to
`parse_line`, which knows every rule of the format, and says which one a line breaks. Arrow rounds
the numbers that are too long for the compiled parser: to the nearest float64, as ``float()`` does.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from dask_s3vm.io.errors import shorten
from dask_s3vm.io.svmlight_parser import (
    ENTRIES,
    HIGH,
    INTEGRAL,
    LOW,
    MOST_OPEN,
    NO_COLUMN,
    OPEN,
    ROWS,
    largest_power,
    read_lines,
)  # fmt: skip

__all__ = ["LARGEST_COLUMN", "BadLineError", "Summary", "parse", "parse_line", "summarize",
           "with_labels"]  # fmt: skip

# So that column numbers fit an unsigned 32-bit word, with one to spare.
LARGEST_COLUMN = 2**32 - 2

# From here on not every whole number is a float64: such labels are left as they are.
_LARGEST_INTEGER = 2**53


class BadLineError(ValueError):
    """A line breaks a rule of the format; why, and where it starts in the text."""

    def __init__(self, reason: str, start: int) -> None:
        super().__init__(reason)
        self.start = start


def with_labels(lines: bytes) -> bytes:
    """Return whole lines without labels, as in files of SVMlin, with a label of 0 each.

    Every line is a row, also an empty one.
    """
    if not lines:
        return lines
    ended = lines.endswith(b"\n")
    body = lines[:-1] if ended else lines
    return b"0 " + body.replace(b"\n", b"\n0 ") + (b"\n" if ended else b"")


@dataclass(frozen=True)
class Summary:
    """What a piece of text holds.

    That is: lines with data, smallest and largest column number as written (None if no row has a
    column), whether every label is a whole number, and pairs of all rows. These tell how much room
    the rows need, not what they are: they do not count when summaries are compared.
    """

    rows: int
    low: int | None
    high: int | None
    integral: bool
    entries: int = field(default=0, compare=False)


def summarize(text: bytes, first_column: int, dtype: np.dtype) -> Summary:
    """Check whole lines and count what they hold; BadLineError is of the first that breaks a rule.

    `first_column` is the smallest column number allowed, `dtype` the type that values must fit.
    """
    room = _Room(0, 0, LARGEST_COLUMN + 1, np.dtype(dtype))
    room.read(text, first_column, keep=False)
    rows, entries, low, high, integral, _ = room.counts.tolist()
    low, high = (None, None) if high < 0 else (low, high)
    return Summary(rows, low, high, bool(integral), entries)


def parse(
    text: bytes, expected: Summary, first_column: int, n_features: int, dtype: np.dtype
) -> tuple[csr_array, np.ndarray]:
    """Read whole lines: rows, values of zero included, and labels as float64.

    `expected` is what they held when they were looked through; ValueError if that has changed.
    `first_column` is the column number that stands for column 0 of the result.
    """
    room = _Room(expected.rows, expected.entries, n_features, np.dtype(dtype))
    if not room.read(text, first_column, keep=True):
        found = summarize(text, first_column, dtype)
        if found.rows != expected.rows:
            raise ValueError(f"{found.rows} rows, expected {expected.rows}")
        raise ValueError(f"{found.entries} entries, expected {expected.entries}")
    shape = (len(room.labels), n_features)
    return csr_array((room.data, room.indices, room.indptr), shape=shape), room.labels


class _Room:
    """Counts of what was read, and arrays of the size that the rows will need."""

    def __init__(self, rows: int, entries: int, n_features: int, dtype: np.dtype) -> None:
        wide = max(rows, n_features, entries) > np.iinfo(np.int32).max and rows > 0
        # Kernels read half as much with the narrow type.
        index = np.dtype(np.int64 if wide else np.int32)
        self.counts = np.array([0, 0, NO_COLUMN, -1, 1, 0], dtype=np.int64)
        self.labels = np.empty(rows)
        self.indptr = np.zeros(rows + 1, dtype=index)
        self.indices = np.empty(entries, dtype=index)
        self.data = np.empty(entries, dtype=dtype)
        self._n_features = n_features

    def read(self, text: bytes, first_column: int, keep: bool) -> bool:
        """Read all lines, and keep them or only count; tell whether they fill the arrays."""
        array = np.frombuffer(text, dtype=np.uint8)
        limit = largest_power(self.data.dtype)
        # Numbers of columns count from 0 in the arrays, and as written when they are counted.
        end = self._n_features + (first_column if keep else 0)
        pending = np.empty((MOST_OPEN if keep else 0, 3), dtype=np.int64)
        position = 0
        while True:
            position = read_lines(
                array, position, first_column, end, limit, keep, self.counts, pending,
                self.labels, self.indptr, self.indices, self.data,
            )  # fmt: skip
            is_open = self._settle(text, pending[: self.counts[OPEN]])
            if position == len(text):
                break
            if is_open:  # there may have been no room for more
                continue
            stop = text.find(b"\n", position) + 1 or len(text)
            try:
                row = parse_line(text[position:stop], first_column, self.data.dtype)
            except ValueError as error:
                raise BadLineError(str(error), position) from None
            if row is not None and not self._add_row(first_column, keep, *row):
                return False
            position = stop
        return not keep or (
            int(self.counts[ROWS]) == len(self.labels)
            and int(self.counts[ENTRIES]) == len(self.data)
        )

    def _settle(self, text: bytes, pending: np.ndarray) -> bool:
        """Fill in numbers that were left open; tell whether there were any."""
        if not len(pending):
            return False
        # every other word is what stands between two numbers
        edges = np.ascontiguousarray(pending[:, :2]).ravel()
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(text)]
        words = pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers)
        own = words.take(pa.array(np.arange(0, len(edges), 2)))
        numbers, slots = own.cast(pa.float64()).to_numpy(), pending[:, 2]
        self.labels[-1 - slots[slots < 0]] = numbers[slots < 0]
        self.data[slots[slots >= 0]] = numbers[slots >= 0]
        return True

    def _add_row(
        self, first_column: int, keep: bool, label: float, columns: list[int], values: list[float]
    ) -> bool:
        """Count one row, and write it behind the others; tell whether there was room for it."""
        counts = self.counts
        row, start = int(counts[ROWS]), int(counts[ENTRIES])
        stop = start + len(columns)
        if keep:
            if row == len(self.labels) or stop > len(self.data):
                return False
            if columns and columns[-1] - first_column >= self._n_features:
                raise ValueError(
                    f"column number {columns[-1]}, but n_features is {self._n_features}"
                )
            self.labels[row] = label
            self.indices[start:stop] = np.array(columns, dtype=np.int64) - first_column
            self.data[start:stop] = values
            self.indptr[row + 1] = stop
        counts[ROWS], counts[ENTRIES] = row + 1, stop
        if columns:
            counts[LOW] = min(counts[LOW], columns[0])
            counts[HIGH] = max(counts[HIGH], columns[-1])
        if not label.is_integer() or abs(label) > _LARGEST_INTEGER:
            counts[INTEGRAL] = 0
        return True


# The strict reader --------------------------------------------------------------------------------

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_COLUMN = re.compile(rb"\d+")
_QUERY_WORD = re.compile(rb"qid:[+-]?\d+")


def parse_line(
    line: bytes, first_column: int, dtype: np.dtype
) -> tuple[float, list[int], list[float]] | None:
    """Read one line by the strict rules; ValueError says which rule it breaks.

    Returns label, column numbers as written, and their values; None if the line has no data.
    """
    words = line.split(b"#", 1)[0].split()
    if not words:
        return None
    label = _number("label", words[0], np.dtype(np.float64))
    pairs = words[1:]
    if pairs and _QUERY_WORD.fullmatch(pairs[0]):
        pairs = pairs[1:]
    columns: list[int] = []
    values: list[float] = []
    for pair in pairs:
        column, colon, value = pair.partition(b":")
        if not colon:
            raise ValueError(f"{_quote(pair)} is not an index:value pair")
        columns.append(_column(column, columns, first_column))
        values.append(_number(f"value of column {columns[-1]}", value, dtype))
    return label, columns, values


def _number(what: str, word: bytes, dtype: np.dtype) -> float:
    if _NOT_FINITE.fullmatch(word):
        raise ValueError(f"{what} is {_quote(word)}, not a finite number")
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{what} is {_quote(word)}, not a number")
    number = float(word)
    if abs(number) > float(np.finfo(dtype).max):
        raise ValueError(f"{what} is {_quote(word)}, too large for {dtype}")
    return number


def _column(word: bytes, before: list[int], first_column: int) -> int:
    if not _COLUMN.fullmatch(word):
        if word.startswith(b"-") and _COLUMN.fullmatch(word[1:]):
            raise ValueError(f"column number {_quote(word)} is negative")
        if word == b"qid":
            raise ValueError("qid: is allowed right after the label only, with a whole number")
        raise ValueError(f"{_quote(word)} is not a column number")
    # The length comes first: int() refuses very long words.
    if len(word.lstrip(b"0")) > 10 or int(word) > LARGEST_COLUMN:
        raise ValueError(f"column number {_quote(word)} is above {LARGEST_COLUMN}")
    column = int(word)
    if column < first_column:
        raise ValueError(f"column number {column} although zero_based=False")
    if before and column == before[-1]:
        raise ValueError(f"column number {column} occurs twice")
    if before and column < before[-1]:
        raise ValueError(f"column number {column} after {before[-1]}, but columns must increase")
    return column


def _quote(word: bytes) -> str:
    return f"'{shorten(word, 30)}'"
