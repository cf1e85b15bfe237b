"""The parser of svmlight text: compiled for lines in order, strict and slow for all others.

The compiled one runs without the GIL. Short numbers take one operation on float64, which rounds
once (Clinger's fast path). Longer ones are left open for the caller, who has Arrow round them.
"""

import re
from typing import Any

import numpy as np

from dask_s3vm.io.errors import shorten
from dask_s3vm.numerics.compiler import kernel

__all__ = ["LARGEST_COLUMN", "MOST_OPEN", "largest_power", "parse_line", "read_lines"]

#: So that column numbers fit an unsigned 32-bit word, with one to spare.
LARGEST_COLUMN = 2**32 - 2

# So many decimal digits always fit an unsigned 64-bit word.
_MOST_DIGITS = 19

#: Positions in the array of counts: rows, entries, smallest and largest column number, whether all
#: labels are whole numbers, numbers left open.
ROWS, ENTRIES, LOW, HIGH, INTEGRAL, OPEN = range(6)
NO_COLUMN = 2**62

#: Most numbers that are left open at a time.
MOST_OPEN = 1 << 15

_TEN = np.uint64(10)
_POWERS = _TEN ** np.arange(16, dtype=np.uint64)
_QUERY = np.frombuffer(b"qid:", dtype=np.uint8)

# These powers of ten, and whole numbers up to this one, are float64 numbers themselves.
_EXACT_POWER = 22
_EXACT_WHOLE = np.uint64(2**53)
_EXACT = np.array([float(10**power) for power in range(_EXACT_POWER + 1)])


def largest_power(dtype: np.dtype) -> int:
    """Return p so that 10**p is a finite value: only numbers beyond it need a closer look."""
    return int(np.finfo(dtype).maxexp * np.log10(2.0))


_LABEL_POWER = largest_power(np.dtype(np.float64))


@kernel
def read_lines(
    text: Any,
    pos: int,
    first_column: int,
    end_column: int,
    limit: int,
    keep: bool,
    counts: Any,
    pending: Any,
    labels: Any,
    indptr: Any,
    indices: Any,
    data: Any,
) -> int:
    """Read lines from `pos` on; return the start of the first line not understood, or the end.

    With `keep` they are written into the arrays; lines that do not fit these count as not
    understood. So does a line whose numbers do not fit `pending`, the list of ``counts[OPEN]``
    numbers left open: start, stop, and slot (-1 - row for a label).
    """
    counts[OPEN] = 0
    while pos < text.size:
        line = pos
        pos = _skip_blanks(text, pos)
        if _is_line_over(text, pos):
            pos = _skip_line(text, pos)
            continue
        row, slot, left = counts[ROWS], counts[ENTRIES], counts[OPEN]
        first_slot, whole, start = slot, counts[INTEGRAL], pos
        pos, negative, mantissa, digits, scale = read_number(text, pos)
        if pos < 0 or not _is_word_over(text, pos) or digits + scale > _LABEL_POWER:
            return line
        if keep:
            if row == labels.size:
                return line
            sure, number = _to_number(negative, mantissa, digits, scale)
            labels[row] = number
            if not sure:
                if left == len(pending):
                    return line
                pending[left] = start, pos, -1 - row
                left += 1
        elif whole:
            # With 15 digits at most, a float64 is whole exactly if its decimal number is.
            if digits > 15 or scale < -15 or scale > 0:
                return line
            whole = np.int64(mantissa % _POWERS[-scale] == 0)
        low, previous = NO_COLUMN, first_column - 1
        pos = _skip_query(text, _skip_blanks(text, pos))
        while not _is_line_over(text, pos):
            pos, column = _read_column(text, pos)
            if pos < 0 or column <= previous or column >= end_column:
                return line
            start = pos
            pos, negative, mantissa, digits, scale = read_number(text, pos)
            if pos < 0 or not _is_word_over(text, pos) or digits + scale > limit:
                return line
            if keep:
                if slot == data.size:
                    return line
                sure, number = _to_number(negative, mantissa, digits, scale)
                indices[slot] = column - first_column
                data[slot] = number
                if not sure:
                    if left == len(pending):
                        return line
                    pending[left] = start, pos, slot
                    left += 1
            elif slot == first_slot:
                low = column
            slot += 1
            previous = column
            pos = _skip_blanks(text, pos)
        # Only now is the line known to be good: a line handed back must not count twice.
        if keep:
            indptr[row + 1] = slot
        elif slot > first_slot:
            counts[LOW] = min(counts[LOW], low)
            counts[HIGH] = max(counts[HIGH], previous)
        counts[ROWS], counts[ENTRIES], counts[OPEN] = row + 1, slot, left
        counts[INTEGRAL] = whole
        pos = _skip_line(text, pos)
    return pos


@kernel
def _to_number(negative: bool, mantissa: Any, digits: int, scale: int) -> tuple[bool, float]:
    """Return whether a number is settled, and ``mantissa * 10**scale``, rounded once."""
    if digits > _MOST_DIGITS or mantissa > _EXACT_WHOLE or abs(scale) > _EXACT_POWER:
        return False, 0.0
    # Both are float64 numbers, so only the one operation rounds.
    number = np.float64(mantissa)
    number = number / _EXACT[-scale] if scale < 0 else number * _EXACT[scale]
    return True, -number if negative else number


@kernel
def _skip_blanks(text: Any, pos: int) -> int:
    """Return where the next word, comment or line end stands."""
    while pos < text.size and (text[pos] == 32 or text[pos] == 9 or 11 <= text[pos] <= 13):
        pos += 1
    return pos


@kernel
def _skip_line(text: Any, pos: int) -> int:
    """Return where the next line starts."""
    while pos < text.size and text[pos] != 10:
        pos += 1
    return min(pos + 1, text.size)


@kernel
def _is_line_over(text: Any, pos: int) -> bool:
    """Tell whether no further word stands in the line: its end is here, or a comment."""
    return pos >= text.size or text[pos] == 10 or text[pos] == 35  # line feed, hash


@kernel
def _is_word_over(text: Any, pos: int) -> bool:
    """Tell whether a word that reaches up to `pos` ends there."""
    return _is_line_over(text, pos) or text[pos] == 32 or text[pos] == 9 or 11 <= text[pos] <= 13


@kernel
def _skip_query(text: Any, pos: int) -> int:
    """Return where the pairs start, behind ``qid:`` and its number if these stand at `pos`.

    Anything else that starts like it is left standing: it is no pair, so its line is not
    understood.
    """
    word = pos
    for letter in _QUERY:
        if pos == text.size or text[pos] != letter:
            return word
        pos += 1
    if pos < text.size and (text[pos] == 43 or text[pos] == 45):  # plus, minus
        pos += 1
    start = pos
    while pos < text.size and _is_digit(text, pos):
        pos += 1
    if pos == start or not _is_word_over(text, pos):
        return word
    return _skip_blanks(text, pos)


@kernel
def _read_column(text: Any, pos: int) -> tuple[int, int]:
    """Return where the value of a pair starts (-1 if no pair is here), and its column number.

    No more than eleven digits are read: enough to see that a number is too large.
    """
    start, column = pos, 0
    while pos < text.size and _is_digit(text, pos) and pos - start < 11:
        column = column * 10 + _digit(text, pos)
        pos += 1
    if pos == start or pos == text.size or text[pos] != 58:  # a colon
        return -1, column
    return pos + 1, column


@kernel
def read_number(text: Any, pos: int) -> tuple[int, bool, Any, int, int]:
    """Read a plain decimal number, which is ``mantissa * 10**scale``.

    Returns where it ends (-1 if there is none, or one with a very long exponent), whether there is
    a minus sign, the mantissa (of more than `_MOST_DIGITS` digits only the first ones), the number
    of digits without leading zeros, and the power of ten that belongs to all of the digits.
    """
    negative = pos < text.size and text[pos] == 45
    if negative or (pos < text.size and text[pos] == 43):
        pos += 1
    start = pos
    pos, mantissa, digits = _read_digits(text, pos, np.uint64(0), 0)
    seen, scale = pos - start, 0
    if pos < text.size and text[pos] == 46:
        start = pos + 1
        pos, mantissa, digits = _read_digits(text, start, mantissa, digits)
        seen += pos - start
        scale = start - pos
    if seen == 0:
        return -1, negative, mantissa, digits, scale
    if pos < text.size and (text[pos] | 32) == 101:  # e, E
        pos, exponent = _read_exponent(text, pos + 1)
        scale += exponent
    return pos, negative, mantissa, digits, scale


@kernel
def _read_digits(text: Any, pos: int, mantissa: Any, digits: int) -> tuple[int, Any, int]:
    """Append digits to a mantissa; return their end, and the new mantissa and its digits."""
    if digits == 0:
        while pos < text.size and text[pos] == 48:
            pos += 1
    while pos < text.size and _is_digit(text, pos):
        if digits < _MOST_DIGITS:  # more would overflow
            mantissa = mantissa * _TEN + np.uint64(_digit(text, pos))
        digits += 1
        pos += 1
    return pos, mantissa, digits


@kernel
def _read_exponent(text: Any, pos: int) -> tuple[int, int]:
    """Return the end of the exponent (-1 if there is none, or a very long one), and itself."""
    negative = pos < text.size and text[pos] == 45
    if negative or (pos < text.size and text[pos] == 43):
        pos += 1
    start, exponent = pos, 0
    while pos < text.size and _is_digit(text, pos):
        if pos - start == 6:
            return -1, 0
        exponent = exponent * 10 + _digit(text, pos)
        pos += 1
    if pos == start:
        return -1, 0
    return pos, -exponent if negative else exponent


@kernel
def _is_digit(text: Any, pos: int) -> bool:
    return 48 <= text[pos] <= 57


@kernel
def _digit(text: Any, pos: int) -> Any:
    # A signed word: numba would turn a mix of signed and unsigned ones into a float.
    return np.int64(text[pos]) - 48


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
