"""svmlight text to arrays: a compiled reader of lines, and a strict one that says what is wrong.

The compiled reader runs without the GIL. It cuts lines into column numbers and words; Arrow makes
numbers of the words, each the nearest float64, as ``float()`` does. A line that either does not
take goes to `parse_line`, which knows every rule of the format, and says which one it breaks.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dask_s3vm.io.errors import shorten
from dask_s3vm.numerics.compiler import kernel

__all__ = ["LARGEST_COLUMN", "BadLineError", "Lines", "parse_line", "read_lines"]

#: So that column numbers fit an unsigned 32-bit word, with one to spare.
LARGEST_COLUMN = 2**32 - 2

#: What a letter is: one of a word, a blank, or the end of what a line says.
_IN_WORD, _BLANK, _LINE_OVER = range(3)
_KINDS = np.zeros(256, np.uint8)
_KINDS[[*b" \t\v\f\r"]] = _BLANK
_KINDS[[*b"\n#"]] = _LINE_OVER
_ONE = np.uint64(1)
_QUERY = np.frombuffer(b"qid:", dtype=np.uint8)


class BadLineError(ValueError):
    """A line breaks a rule of the format; why, and where it starts in the text."""

    def __init__(self, reason: str, start: int) -> None:
        super().__init__(reason)
        self.start = start


class Lines(NamedTuple):
    """What the lines with data hold, as a CSR matrix; column numbers are those of the text."""

    labels: np.ndarray
    offsets: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def read_lines(text: bytes, first_column: int, dtype: np.dtype, labeled: bool = True) -> Lines:
    """Read whole lines; BadLineError is of the first that breaks a rule.

    `first_column` is the smallest column number allowed, `dtype` the type that values must fit.
    Lines that are not `labeled`, as in files of SVMlin, are rows with the label 0, also if empty.
    """
    most_rows, most_pairs = text.count(b"\n") + 1, len(text) // 3 + 1
    starts, offsets = np.empty(most_rows, np.int64), np.zeros(most_rows + 1, np.int64)
    columns = np.empty(most_pairs, np.uint32)
    edges = np.zeros(most_rows + most_pairs + 1, np.int64)
    letters = np.empty(len(text) + most_rows, np.uint8)
    n_rows, bad = _split_lines(
        np.frombuffer(text, np.uint8), first_column, labeled,
        starts, offsets, columns, edges, letters,
    )  # fmt: skip
    offsets = offsets[: n_rows + 1]
    labels_at = offsets[:-1] + np.arange(n_rows)  # the words of a row: its label, its values
    n_words, buffers = n_rows + int(offsets[-1]), (pa.py_buffer(edges), pa.py_buffer(letters))
    numbers = _numbers(pa.Array.from_buffers(pa.large_string(), n_words, [None, *buffers]))
    fits = np.abs(numbers) <= np.finfo(dtype).max
    own = labels_at[labels_at < len(numbers)]
    fits[own] = np.isfinite(numbers[own])
    good = len(fits) if fits.all() else int(fits.argmin())
    if good < n_words:
        bad = starts[np.searchsorted(labels_at, good, "right") - 1]
    if bad < len(text):
        raise _explained(text, int(bad), first_column, dtype, labeled)
    values = np.delete(numbers, labels_at).astype(dtype, copy=False)
    return Lines(numbers[labels_at], offsets, columns[: len(values)], values)


def _numbers(words: pa.Array) -> np.ndarray:
    """Return the numbers that words are, up to the first word that is none."""
    try:  # not by `to_numpy`, which would import pandas
        return np.frombuffer(words.cast(pa.float64()).buffers()[1], np.float64, len(words))
    except pa.ArrowInvalid:
        if len(words) == 1:
            return np.empty(0)
    half = len(words) // 2
    found = _numbers(words[:half])
    return found if len(found) < half else np.append(found, _numbers(words[half:]))


@kernel
def _split_lines(
    text: Any,
    first_column: int,
    labeled: bool,
    starts: Any,
    offsets: Any,
    columns: Any,
    edges: Any,
    letters: Any,
) -> tuple[Any, Any]:
    """Find the rows of a text: where their lines start, their column numbers, and their words.

    A word ends in `letters` at its entry of `edges`, where the next one starts. Returns the number
    of rows, and where the first line starts that is no row; the end of the text if all are.

    Places are unsigned: signed ones might count from the end, and numba would look at each.
    """
    pos = n_rows = n_pairs = end = np.uint64(0)
    while pos < np.uint64(text.size):
        line, last = pos, end
        pos = _skip_blanks(text, pos)
        if labeled:
            if _is_line_over(text, pos):
                pos = _skip_line(text, pos)
                continue
            pos, last = _copy_word(text, pos, letters, last)
        else:
            letters[last] = 48  # zero
            last += _ONE
        pos = _skip_query(text, _skip_blanks(text, pos))
        entry, previous = n_pairs, np.int64(first_column - 1)
        edges[n_rows + entry + _ONE] = last
        while not _is_line_over(text, pos):
            pos, column = _read_column(text, pos)
            if column <= previous or column > LARGEST_COLUMN:
                return n_rows, line
            pos, last = _copy_word(text, pos, letters, last)
            columns[entry] = column
            entry += _ONE
            edges[n_rows + entry + _ONE] = last
            previous = column
            pos = _skip_blanks(text, pos)
        # only now is the line known to be a row
        starts[n_rows] = line
        n_rows, n_pairs, end = n_rows + _ONE, entry, last
        offsets[n_rows] = n_pairs
        pos = _skip_line(text, pos)
    return n_rows, pos


@kernel
def _copy_word(text: Any, pos: Any, letters: Any, last: Any) -> tuple[Any, Any]:
    """Append a word to others; returns where it ends here and there."""
    behind = pos + _ONE
    if behind < np.uint64(text.size) and text[pos] == 43:  # not all versions of Arrow take a plus
        pos += np.uint64(48 <= text[behind] <= 57 or text[behind] == 46)  # a digit, a point
    while pos < np.uint64(text.size) and _KINDS[text[pos]] == _IN_WORD:
        letters[last] = text[pos]
        pos += _ONE
        last += _ONE
    return pos, last


@kernel
def _skip_blanks(text: Any, pos: Any) -> Any:
    """Return where the next word, comment or line end stands."""
    while pos < np.uint64(text.size) and _KINDS[text[pos]] == _BLANK:
        pos += _ONE
    return pos


@kernel
def _skip_line(text: Any, pos: Any) -> Any:
    """Return where the next line starts."""
    while pos < np.uint64(text.size) and text[pos] != 10:
        pos += _ONE
    return min(pos + _ONE, np.uint64(text.size))


@kernel
def _is_line_over(text: Any, pos: Any) -> bool:
    """Tell whether no further word stands in the line: its end is here, or a comment."""
    return pos >= np.uint64(text.size) or _KINDS[text[pos]] == _LINE_OVER


@kernel
def _skip_query(text: Any, pos: Any) -> Any:
    """Return where the pairs start, behind ``qid:`` and its number if these stand at `pos`.

    Anything else that starts like it is left standing: it is no pair.
    """
    word = pos
    for letter in _QUERY:
        if pos == np.uint64(text.size) or text[pos] != letter:
            return word
        pos += _ONE
    if pos < np.uint64(text.size) and (text[pos] == 43 or text[pos] == 45):  # plus, minus
        pos += _ONE
    start = pos
    while pos < np.uint64(text.size) and 48 <= text[pos] <= 57:
        pos += _ONE
    if pos == start or (pos < np.uint64(text.size) and _KINDS[text[pos]] == _IN_WORD):
        return word
    return _skip_blanks(text, pos)


@kernel
def _read_column(text: Any, pos: Any) -> tuple[Any, Any]:
    """Return where the value of a pair starts, and its column number; -1 if no pair is here."""
    start = pos
    while pos < np.uint64(text.size) and text[pos] == 48:
        pos += _ONE
    stop = min(pos + np.uint64(11), np.uint64(text.size))  # more digits are too many
    column = np.int64(0)
    while pos < stop and 48 <= text[pos] <= 57:
        column = column * 10 + np.int64(text[pos]) - 48
        pos += _ONE
    if pos == start or pos == np.uint64(text.size) or text[pos] != 58:  # a colon
        return pos, -1
    return pos + _ONE, column


# The strict reader --------------------------------------------------------------------------------

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_COLUMN = re.compile(rb"\d+")
_QUERY_WORD = re.compile(rb"qid:[+-]?\d+")


def _explained(
    text: bytes, start: int, first_column: int, dtype: np.dtype, labeled: bool
) -> BadLineError:
    """Return the error of the line that starts there."""
    line = text[start : text.find(b"\n", start) + 1 or len(text)]
    try:
        parse_line(line if labeled else b"0 " + line, first_column, dtype)
    except ValueError as error:
        return BadLineError(str(error), start)
    raise AssertionError(f"the line {line!r} is in order")


def parse_line(
    line: bytes, first_column: int, dtype: np.dtype
) -> tuple[float, list[int], list[float]] | None:
    """Read one line by the strict rules; ValueError says which rule it breaks.

    Returns label, column numbers as written, and their values; None if the line has no data.
    """
    words = line.split(b"#", 1)[0].split()
    if not words:
        return None
    label = _number("the label", words[0], np.dtype(np.float64))
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
