"""Fields of csv text: where each one stands, read by compiled loops that run without the GIL.

The rules are those of RFC 4180. A field may stand in double quotes; then it may hold delimiters,
line ends and, doubled, quotes. Blanks around a field do not count. Lines without anything in them
are skipped. Fields are never copied: they are ranges of the text, in which a doubled quote is made
one in place.
"""

from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.features.table_columns import MISSING
from dask_s3vm.io.svmlight_parser import MOST_DIGITS, read_number, to_float
from dask_s3vm.numerics.compiler import kernel

__all__ = [
    "BadRowError",
    "Fields",
    "Words",
    "cut",
    "find_distinct",
    "look_up",
    "make_words",
    "missing_words",
    "numbers_of",
]

_QUOTE, _FEED, _RETURN, _BLANK, _TAB = 34, 10, 13, 32, 9
# Why a row is not understood.
_FINE, _FEW, _MANY, _OPEN, _BEHIND, _INSIDE = range(6)
_REASONS = {
    _FEW: "has {found} fields, wanted {wanted}",
    _MANY: "has more than {wanted} fields",
    _OPEN: "has a quoted field that does not end",
    _BEHIND: "has something behind the closing quote of field {found}",
    _INSIDE: "has a quote inside field {found}, which does not start with one",
}
_PRIME, _BASIS = np.uint64(1099511628211), np.uint64(14695981039346656037)


class Fields(NamedTuple):
    """Fields of some rows: ``text[starts[i, j]:stops[i, j]]``."""

    text: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    def word(self, row: int, column: int) -> str:
        """Return one field as text."""
        raw = self.text[self.starts[row, column] : self.stops[row, column]].tobytes()
        return raw.decode("utf-8", "surrogateescape")


class Words(NamedTuple):
    """A table of words that a field is looked up in: their bytes, and places by hash."""

    text: np.ndarray
    edges: np.ndarray
    slots: np.ndarray


class BadRowError(ValueError):
    """A row breaks a rule; where it starts in the text, and why.

    Parameters
    ----------
    start : int
        Where the row starts.
    reason : str
        What is wrong with it.
    """

    def __init__(self, start: int, reason: str) -> None:
        super().__init__(start, reason)
        self.start = start
        self.reason = reason


def cut(text: bytes, n_fields: int, delimiter: str = ",") -> Fields:
    """Find the fields of all rows of `text`.

    Parameters
    ----------
    text : bytes
        Whole rows, below 2 GiB.
    n_fields : int
        Fields of each row.
    delimiter : str
        One character.

    Returns
    -------
    Fields
        Where they are, in a copy of the text.

    Raises
    ------
    BadRowError
        At the first row with another number of fields, or with a quote in a wrong place.
    """
    array = np.frombuffer(bytearray(text), dtype=np.uint8)
    rows = _count_rows(array)
    starts = np.empty((rows, n_fields), dtype=np.int32)
    stops = np.empty((rows, n_fields), dtype=np.int32)
    row, line, found, code = _cut(array, ord(delimiter), starts, stops)
    if code != _FINE:
        raise BadRowError(line, _REASONS[code].format(found=found, wanted=n_fields))
    return Fields(array, starts[:row], stops[:row])


def make_words(words: list[str] | tuple[str, ...]) -> Words:
    """Make a table of distinct words; the code of a word is its place in the list."""
    raw = [word.encode("utf-8", "surrogateescape") for word in words]
    edges = np.cumsum([0, *map(len, raw)], dtype=np.int64)
    text = np.frombuffer(b"".join(raw), dtype=np.uint8).copy()
    slots = np.full(_room(len(raw)), -1, dtype=np.int32)
    _fill(text, edges, slots)
    return Words(text, edges, slots)


def missing_words() -> Words:
    """Make the table of the words that stand for a missing value."""
    return make_words(MISSING)


def numbers_of(fields: Fields, column: int, missing: Words) -> tuple[np.ndarray, int, int]:
    """Read a column of numbers.

    Returns
    -------
    values : array of float64
        The numbers; NaN where a field is one of the `missing` words.
    wrong : int
        First row whose field is neither, or -1.
    gap : int
        First row with a missing value, or -1.
    """
    values = np.empty(len(fields.starts))
    starts, stops = fields.starts[:, column], fields.stops[:, column]
    wrong, gap, left = _read_numbers(fields.text, starts, stops, missing, values)
    for row in np.flatnonzero(np.isinf(values)).tolist() if left else []:
        values[row] = float(fields.word(row, column))  # rare: long, or between two float64
        if np.isinf(values[row]) and (wrong < 0 or row < wrong):
            wrong = row
    return values, int(wrong), int(gap)


@kernel
def _count_rows(text: Any) -> int:
    """Return how many rows there can be, one for each line end outside quotes."""
    rows, quoted = 1, False
    for letter in text:
        if letter == _QUOTE:
            quoted = not quoted
        elif letter == _FEED and not quoted:
            rows += 1
    return rows


@kernel
def _is_blank(letter: Any, delimiter: int) -> bool:
    if letter == delimiter:
        return False
    return letter in (_BLANK, _TAB, _RETURN)  # a return is part of a line end


@kernel
def _cut(text: Any, delimiter: int, starts: Any, stops: Any) -> tuple[int, int, int, int]:
    """Return rows found; and for a row not understood its start, its field, and the reason."""
    row, pos, wanted = 0, 0, starts.shape[1]
    while pos < text.size:
        line, field = pos, 0
        while pos < text.size and _is_blank(text[pos], delimiter):
            pos += 1
        if pos == text.size or text[pos] == _FEED:
            pos += 1
            continue
        pos = line
        while True:
            if field == wanted:
                return row, line, field, _MANY
            pos, start, stop, code = _next_field(text, pos, delimiter)
            if code != _FINE:
                return row, line, field + 1, code
            starts[row, field], stops[row, field] = start, stop
            field += 1
            if pos == text.size or text[pos] == _FEED:
                break
            pos += 1
        if field < wanted:
            return row, line, field, _FEW
        row += 1
        pos += 1
    return row, 0, 0, _FINE


@kernel
def _next_field(text: Any, pos: int, delimiter: int) -> tuple[int, int, int, int]:
    """Return where the field at `pos` is over, its own start and stop, and what is wrong."""
    while pos < text.size and _is_blank(text[pos], delimiter):
        pos += 1
    if pos < text.size and text[pos] == _QUOTE:
        return _quoted_field(text, pos + 1, delimiter)
    start = stop = pos
    while pos < text.size and text[pos] != delimiter and text[pos] != _FEED:
        if text[pos] == _QUOTE:
            return pos, start, stop, _INSIDE
        if not _is_blank(text[pos], delimiter):
            stop = pos + 1
        pos += 1
    return pos, start, stop, _FINE


@kernel
def _quoted_field(text: Any, pos: int, delimiter: int) -> tuple[int, int, int, int]:
    start = stop = pos
    while True:
        if pos == text.size:
            return pos, start, stop, _OPEN
        if text[pos] == _QUOTE:
            if pos + 1 == text.size or text[pos + 1] != _QUOTE:
                break
            pos += 1
        if stop != pos:  # behind a doubled quote, all moves up
            text[stop] = text[pos]
        stop += 1
        pos += 1
    pos += 1
    while pos < text.size and _is_blank(text[pos], delimiter):
        pos += 1
    over = pos == text.size or text[pos] == delimiter or text[pos] == _FEED
    return pos, start, stop, _FINE if over else _BEHIND


@kernel
def _read_numbers(
    text: Any, starts: Any, stops: Any, missing: Words, values: Any
) -> tuple[int, int, int]:
    """Return the first row that is no number, the first missing one, and how many are left open.

    Numbers left open are written as infinity, which no number that is read here can be.
    """
    wrong = gap = -1
    left = 0
    for row in range(starts.size):
        start, stop = starts[row], stops[row]
        pos, negative, mantissa, digits, scale = read_number(text, start)
        if start == stop or pos != stop:
            values[row] = np.nan
            if _find(text, start, stop, missing) < 0:
                if wrong < 0:
                    wrong = row
            elif gap < 0:
                gap = row
            continue
        sure, number = False, 0.0
        if digits <= MOST_DIGITS:
            sure, number = to_float(mantissa, scale)
        if not sure or np.isinf(number):
            number = np.inf
            left += 1
        values[row] = -number if negative else number
    return wrong, gap, left


@kernel
def _hash(text: Any, start: int, stop: int) -> Any:
    mixed = _BASIS
    for pos in range(start, stop):
        mixed = (mixed ^ np.uint64(text[pos])) * _PRIME
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def _room(count: int) -> int:
    """Return how many slots so many words need: a power of two, at most half of them taken."""
    size = 8
    while size < 2 * count:
        size *= 2
    return size


@kernel
def _same(text: Any, start: int, stop: int, other: Any, low: int, high: int) -> bool:
    if stop - start != high - low:
        return False
    for k in range(stop - start):  # noqa: SIM110 (compiled: a loop)
        if text[start + k] != other[low + k]:
            return False
    return True


@kernel
def _find(text: Any, start: int, stop: int, words: Words) -> int:
    """Return the code of a field, or -1."""
    mask = np.uint64(words.slots.size - 1)
    slot = _hash(text, start, stop) & mask
    while words.slots[slot] >= 0:
        code = words.slots[slot]
        if _same(text, start, stop, words.text, words.edges[code], words.edges[code + 1]):
            return code
        slot = (slot + np.uint64(1)) & mask
    return -1


@kernel
def _fill(text: Any, edges: Any, slots: Any) -> None:
    mask = np.uint64(slots.size - 1)
    for code in range(edges.size - 1):
        slot = _hash(text, edges[code], edges[code + 1]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = code


@kernel
def look_up(text: Any, starts: Any, stops: Any, words: Words) -> Any:
    """Return the codes of fields in a table of words, -1 for those not in it."""
    codes = np.empty(starts.size, dtype=np.int32)
    for row in range(starts.size):
        codes[row] = _find(text, starts[row], stops[row], words)
    return codes


@kernel
def find_distinct(text: Any, starts: Any, stops: Any, most: int) -> Any:
    """Return the first row of every distinct field, in order; more than `most` are not looked for.

    If there are more, one more than `most` is returned.
    """
    rows = np.empty(64, dtype=np.int64)
    slots = np.full(128, -1, dtype=np.int64)
    count = 0
    for row in range(starts.size):
        start, stop = starts[row], stops[row]
        mask = np.uint64(slots.size - 1)
        slot = _hash(text, start, stop) & mask
        while slots[slot] >= 0:
            other = slots[slot]
            if _same(text, start, stop, text, starts[other], stops[other]):
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] >= 0:
            continue
        if count == rows.size:
            longer = np.empty(2 * count, dtype=np.int64)
            longer[:count] = rows
            rows = longer
        rows[count] = row
        slots[slot] = row
        count += 1
        if count > most:
            break
        if 2 * count >= slots.size:
            slots = _spread(text, starts, stops, rows, count)
    return rows[:count]


@kernel
def _spread(text: Any, starts: Any, stops: Any, rows: Any, count: int) -> Any:
    """Return a table twice as large with the same rows in it."""
    slots = np.full(4 * count, -1, dtype=np.int64)
    mask = np.uint64(slots.size - 1)
    for k in range(count):
        row = rows[k]
        slot = _hash(text, starts[row], stops[row]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = row
    return slots
