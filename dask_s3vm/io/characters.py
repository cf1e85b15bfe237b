"""The compiled scanner's and parser's common view of svmlight bytes: blanks, words, numbers.

numba's on-disk cache looks at a function's own file only: after a change here, delete
``__pycache__`` in this directory.
"""

from typing import Any

import numpy as np

from dask_s3vm.numerics.compiler import kernel

__all__ = [
    "MOST_DIGITS",
    "is_line_over",
    "is_word_over",
    "read_column",
    "read_number",
    "skip_blanks",
    "skip_line",
    "skip_query",
]

# So many decimal digits always fit an unsigned 64-bit word.
MOST_DIGITS = 19

_TEN = np.uint64(10)
_QUERY = np.frombuffer(b"qid:", dtype=np.uint8)


@kernel
def skip_blanks(text: Any, pos: int) -> int:
    """Return where the next word, comment or line end stands."""
    while pos < text.size and (text[pos] == 32 or text[pos] == 9 or 11 <= text[pos] <= 13):
        pos += 1
    return pos


@kernel
def skip_line(text: Any, pos: int) -> int:
    """Return where the next line starts."""
    while pos < text.size and text[pos] != 10:
        pos += 1
    return min(pos + 1, text.size)


@kernel
def is_line_over(text: Any, pos: int) -> bool:
    """Tell whether no further word stands in the line: its end is here, or a comment."""
    return pos >= text.size or text[pos] == 10 or text[pos] == 35  # line feed, hash


@kernel
def is_word_over(text: Any, pos: int) -> bool:
    """Tell whether a word that reaches up to `pos` ends there."""
    return is_line_over(text, pos) or text[pos] == 32 or text[pos] == 9 or 11 <= text[pos] <= 13


@kernel
def skip_query(text: Any, pos: int) -> int:
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
    if pos == start or not is_word_over(text, pos):
        return word
    return skip_blanks(text, pos)


@kernel
def read_column(text: Any, pos: int) -> tuple[int, int]:
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

    Parameters
    ----------
    text : array of uint8
        The text.
    pos : int
        Where the number starts.

    Returns
    -------
    stop : int
        Where the number ends; -1 if there is none, or one with a very long exponent.
    negative : bool
        Whether there is a minus sign.
    mantissa : uint64
        The digits as a whole number; of more than `MOST_DIGITS` only the first ones.
    digits : int
        How many digits there are, without leading zeros.
    scale : int
        The power of ten that belongs to all of the digits.
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
        if digits < MOST_DIGITS:  # more would overflow
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
