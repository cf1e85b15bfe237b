"""Look through svmlight text without keeping it: rows, columns, kind of labels, mistakes.

A compiled scanner, which runs without the GIL, reads the lines it fully understands. Any other
line it hands to `parse_line`, the strict reader, which knows every rule and says what is wrong.
So a mistake is described in one place only, and the scanner can stay simple.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from dask_s3vm.io.lines import LARGEST_COLUMN, parse_line

__all__ = ["BadLineError", "Summary", "summarise"]

# From here on not every whole number is a float64: such labels are left as they are.
_LARGEST_INTEGER = 2**53
_NO_COLUMN = 2**62

# Positions in the scanner's array of results.
_ROWS, _LOW, _HIGH, _INTEGRAL = range(4)
_POWERS = 10 ** np.arange(16, dtype=np.int64)


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
    """

    rows: int
    low: int | None
    high: int | None
    integral: bool


def summarise(text: bytes, first_column: int, dtype: np.dtype) -> Summary:
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
        Rows, columns and kind of labels.

    Raises
    ------
    BadLineError
        At the first line that breaks a rule.
    """
    found = np.array([0, _NO_COLUMN, -1, 1], dtype=np.int64)
    array = np.frombuffer(text, dtype=np.uint8)
    # 10**limit is below the largest value: only numbers beyond it need a closer look.
    limit = int(np.finfo(dtype).maxexp * np.log10(2.0))
    position = _scan(array, 0, first_column, limit, found)
    while position < len(text):
        stop = _end_of_line(text, position)
        try:
            row = parse_line(text[position:stop], first_column, dtype)
        except ValueError as error:
            raise BadLineError(position, str(error)) from None
        if row is not None:
            _count_row(found, *row)
        position = _scan(array, stop, first_column, limit, found)
    rows, low, high, integral = found.tolist()
    if high < 0:
        return Summary(rows, None, None, bool(integral))
    return Summary(rows, low, high, bool(integral))


def _count_row(found: np.ndarray, label: float, columns: list[int], values: list[float]) -> None:
    found[_ROWS] += 1
    if columns:
        found[_LOW] = min(found[_LOW], columns[0])
        found[_HIGH] = max(found[_HIGH], columns[-1])
    if not label.is_integer() or abs(label) > _LARGEST_INTEGER:
        found[_INTEGRAL] = 0


def _end_of_line(text: bytes, start: int) -> int:
    end = text.find(b"\n", start)
    return len(text) if end < 0 else end + 1


@numba.njit(cache=True, nogil=True)
def _scan(text: Any, pos: int, first_column: int, limit: int, found: Any) -> int:
    """Count lines from `pos` on; return the start of the first line not understood, or the end."""
    while pos < text.size:
        line = pos
        pos = _skip_blanks(text, pos)
        if _is_line_over(text, pos):
            pos = _skip_line(text, pos)
            continue
        pos, mantissa, digits, fraction, exponent = _scan_number(text, pos)
        if pos < 0 or not _is_word_over(text, pos) or digits - fraction + exponent > 308:
            return line
        if found[_INTEGRAL]:
            # With 15 digits at most, a float64 is whole exactly if its decimal number is.
            if exponent != 0 or digits > 15:
                return line
            if mantissa % _POWERS[fraction] != 0:
                found[_INTEGRAL] = 0
        pos, low, high = _scan_pairs(text, pos, first_column, limit)
        if pos < 0:
            return line
        # Only now is the line known to be good: a line handed back must not count twice.
        found[_ROWS] += 1
        found[_LOW] = min(found[_LOW], low)
        found[_HIGH] = max(found[_HIGH], high)
        pos = _skip_line(text, pos)
    return pos


@numba.njit(cache=True, nogil=True)
def _scan_pairs(text: Any, pos: int, first_column: int, limit: int) -> tuple[int, int, int]:
    """Return the end of the pairs (-1 if not understood), smallest and largest column."""
    low, high = _NO_COLUMN, -1
    previous = first_column - 1
    pos = _skip_blanks(text, pos)
    while not _is_line_over(text, pos):
        start, column = pos, 0
        while pos < text.size and 48 <= text[pos] <= 57 and pos - start < 11:
            column = column * 10 + _digit(text, pos)
            pos += 1
        if pos == start or pos == text.size or text[pos] != 58:  # a colon
            return -1, low, high
        if column <= previous or column > LARGEST_COLUMN:
            return -1, low, high
        pos, _, digits, fraction, exponent = _scan_number(text, pos + 1)
        if pos < 0 or not _is_word_over(text, pos) or digits - fraction + exponent > limit:
            return -1, low, high
        low = min(low, column)
        high = previous = column
        pos = _skip_blanks(text, pos)
    return pos, low, high


@numba.njit(cache=True, nogil=True)
def _scan_number(text: Any, pos: int) -> tuple[int, int, int, int, int]:
    """Return end (-1 if no plain number), mantissa, its digits, those after the dot, exponent."""
    mantissa, digits, fraction, exponent, dot = 0, 0, 0, 0, 0
    if pos < text.size and (text[pos] == 43 or text[pos] == 45):  # plus, minus
        pos += 1
    while pos < text.size:
        if 48 <= text[pos] <= 57:
            if digits < 16:  # more are never looked at, and would overflow
                mantissa = mantissa * 10 + _digit(text, pos)
            digits += 1
            fraction += dot
        elif text[pos] == 46 and dot == 0:
            dot = 1
        else:
            break
        pos += 1
    if digits == 0:
        return -1, mantissa, digits, fraction, exponent
    if pos < text.size and (text[pos] | 32) == 101:  # e, E
        pos += 1
        sign = -1 if pos < text.size and text[pos] == 45 else 1
        if pos < text.size and (text[pos] == 43 or text[pos] == 45):
            pos += 1
        start = pos
        while pos < text.size and 48 <= text[pos] <= 57 and pos - start < 6:
            exponent = exponent * 10 + _digit(text, pos)
            pos += 1
        exponent *= sign
        if pos == start:
            return -1, mantissa, digits, fraction, exponent
    return pos, mantissa, digits, fraction, exponent


@numba.njit(cache=True, nogil=True)
def _digit(text: Any, pos: int) -> Any:
    # A signed word: numba would turn a mix of signed and unsigned ones into a float.
    return np.int64(text[pos]) - 48


@numba.njit(cache=True, nogil=True)
def _skip_blanks(text: Any, pos: int) -> int:
    while pos < text.size and (text[pos] == 32 or text[pos] == 9 or 11 <= text[pos] <= 13):
        pos += 1
    return pos


@numba.njit(cache=True, nogil=True)
def _skip_line(text: Any, pos: int) -> int:
    while pos < text.size and text[pos] != 10:
        pos += 1
    return min(pos + 1, text.size)


@numba.njit(cache=True, nogil=True)
def _is_line_over(text: Any, pos: int) -> bool:
    return pos >= text.size or text[pos] == 10 or text[pos] == 35  # line feed, hash


@numba.njit(cache=True, nogil=True)
def _is_word_over(text: Any, pos: int) -> bool:
    return _is_line_over(text, pos) or text[pos] == 32 or text[pos] == 9 or 11 <= text[pos] <= 13
