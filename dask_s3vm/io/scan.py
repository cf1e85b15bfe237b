"""Look through svmlight text without keeping it: rows, columns, kind of labels, mistakes.

A compiled scanner, which runs without the GIL, reads the lines it fully understands. Any other
line it hands to `parse_line`, the strict reader, which knows every rule and says what is wrong.
So a mistake is described in one place only, and the scanner can stay simple.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dask_s3vm.io.characters import (
    is_line_over,
    is_word_over,
    read_column,
    read_number,
    skip_blanks,
    skip_line,
    skip_query,
)
from dask_s3vm.io.lines import LARGEST_COLUMN, end_of_line, largest_power, parse_line
from dask_s3vm.numerics.compiler import kernel

__all__ = ["BadLineError", "Summary", "summarize"]

# From here on not every whole number is a float64: such labels are left as they are.
_LARGEST_INTEGER = 2**53
_NO_COLUMN = 2**62

# Positions in the scanner's array of results.
_ROWS, _ENTRIES, _LOW, _HIGH, _INTEGRAL = range(5)
_POWERS = np.uint64(10) ** np.arange(16, dtype=np.uint64)


class BadLineError(ValueError):
    """A line breaks a rule of the format; where it stands in the text, and why.

    Parameters
    ----------
    start : int
        Where the line starts in the text.
    reason : str
        What is wrong with it.
    """

    def __init__(self, start: int, reason: str) -> None:
        super().__init__(start, reason)
        self.start = start
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Summary:
    """What a piece of text holds.

    Attributes
    ----------
    rows : int
        Lines with data.
    low, high : int or None
        Smallest and largest column number as written; ``None`` if no row has a column.
    integral : bool
        Whether every label is a whole number.
    entries : int
        Pairs of all rows, also those with a value of zero. It says how much room the rows need,
        not what they are, so it does not count when summaries are compared.
    """

    rows: int
    low: int | None
    high: int | None
    integral: bool
    entries: int = field(default=0, compare=False)


def summarize(text: bytes, first_column: int, dtype: np.dtype) -> Summary:
    """Check every line of `text` and count what it holds.

    Parameters
    ----------
    text : bytes
        Whole lines.
    first_column : int
        The smallest column number allowed, 0 or 1.
    dtype : dtype
        The type that values must fit.

    Returns
    -------
    Summary
        Rows, columns, kind of labels, entries.

    Raises
    ------
    BadLineError
        At the first line that breaks a rule.
    """
    found = np.array([0, 0, _NO_COLUMN, -1, 1], dtype=np.int64)
    array = np.frombuffer(text, dtype=np.uint8)
    limit = largest_power(dtype)
    position = _scan(array, 0, first_column, limit, found)
    while position < len(text):
        stop = end_of_line(text, position)
        try:
            row = parse_line(text[position:stop], first_column, dtype)
        except ValueError as error:
            raise BadLineError(position, str(error)) from None
        if row is not None:
            _count_row(found, *row)
        position = _scan(array, stop, first_column, limit, found)
    rows, entries, low, high, integral = found.tolist()
    if high < 0:
        return Summary(rows, None, None, bool(integral), entries)
    return Summary(rows, low, high, bool(integral), entries)


def _count_row(found: np.ndarray, label: float, columns: list[int], values: list[float]) -> None:
    found[_ROWS] += 1
    found[_ENTRIES] += len(columns)
    if columns:
        found[_LOW] = min(found[_LOW], columns[0])
        found[_HIGH] = max(found[_HIGH], columns[-1])
    if not label.is_integer() or abs(label) > _LARGEST_INTEGER:
        found[_INTEGRAL] = 0


@kernel
def _scan(text: Any, pos: int, first_column: int, limit: int, found: Any) -> int:
    """Count lines from `pos` on; return the start of the first line not understood, or the end."""
    while pos < text.size:
        line = pos
        pos = skip_blanks(text, pos)
        if is_line_over(text, pos):
            pos = skip_line(text, pos)
            continue
        pos, _, mantissa, digits, scale = read_number(text, pos)
        if pos < 0 or not is_word_over(text, pos) or digits + scale > 308:
            return line
        whole = 1
        if found[_INTEGRAL]:
            # With 15 digits at most, a float64 is whole exactly if its decimal number is.
            if digits > 15 or scale < -15 or scale > 0:
                return line
            whole = int(mantissa % _POWERS[-scale] == 0)
        pos, entries, low, high = _scan_pairs(text, pos, first_column, limit)
        if pos < 0:
            return line
        # Only now is the line known to be good: a line handed back must not count twice.
        found[_ROWS] += 1
        found[_ENTRIES] += entries
        found[_LOW] = min(found[_LOW], low)
        found[_HIGH] = max(found[_HIGH], high)
        found[_INTEGRAL] &= whole
        pos = skip_line(text, pos)
    return pos


@kernel
def _scan_pairs(text: Any, pos: int, first_column: int, limit: int) -> tuple[int, int, int, int]:
    """Return the pairs' end (-1 if not understood), number, smallest and largest column."""
    entries, low, high = 0, _NO_COLUMN, -1
    previous = first_column - 1
    pos = skip_query(text, skip_blanks(text, pos))
    while not is_line_over(text, pos):
        pos, column = read_column(text, pos)
        if pos < 0 or column <= previous or column > LARGEST_COLUMN:
            return -1, entries, low, high
        pos, _, _, digits, scale = read_number(text, pos)
        if pos < 0 or not is_word_over(text, pos) or digits + scale > limit:
            return -1, entries, low, high
        entries += 1
        low = min(low, column)
        high = previous = column
        pos = skip_blanks(text, pos)
    return pos, entries, low, high
