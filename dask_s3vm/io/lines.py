"""The rules of one svmlight line, and what to say when a line breaks them."""

import re

import numpy as np

from dask_s3vm.io.errors import shorten

__all__ = ["LARGEST_COLUMN", "end_of_line", "largest_power", "parse_line"]

# So that column numbers fit an unsigned 32-bit word, with one to spare.
LARGEST_COLUMN = 2**32 - 2

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_COLUMN = re.compile(rb"\d+")
_QUERY = re.compile(rb"qid:[+-]?\d+")


def parse_line(
    line: bytes, first_column: int, dtype: np.dtype
) -> tuple[float, list[int], list[float]] | None:
    """Read one line by the strict rules.

    Parameters
    ----------
    line : bytes
        The line, with or without its end.
    first_column : int
        The smallest column number allowed, 0 or 1.
    dtype : dtype
        The type that values must fit.

    Returns
    -------
    label : float
        The label.
    columns : list of int
        Column numbers as written.
    values : list of float
        Their values; ``None`` in place of all three if the line has no data.

    Raises
    ------
    ValueError
        If the line breaks a rule; the text says which.
    """
    words = line.split(b"#", 1)[0].split()
    if not words:
        return None
    label = _number("label", words[0], np.dtype(np.float64))
    pairs = words[1:]
    if pairs and _QUERY.fullmatch(pairs[0]):
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


def largest_power(dtype: np.dtype) -> int:
    """Return p so that 10**p is a finite value: only numbers beyond it need a closer look."""
    return int(np.finfo(dtype).maxexp * np.log10(2.0))


def end_of_line(text: bytes, start: int) -> int:
    """Return where the line that starts at `start` is over, its line feed included."""
    end = text.find(b"\n", start)
    return len(text) if end < 0 else end + 1


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
