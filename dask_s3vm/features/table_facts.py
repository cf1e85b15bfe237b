"""What the rows of a table say about its columns; facts of pieces are put together.

So an encoder is fitted in one pass over pieces of a table, in any order and on any machine.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from dask_s3vm.features.table_columns import (
    CellError,
    codes_of,
    has_decimal_comma,
    has_marks,
    is_number,
    kind_of,
    numbers_of,
    texts_of,
    whole,
    words_of,
)

__all__ = ["SCALES", "Facts", "MixedColumnError", "Moments", "agreed", "facts_of", "median_of",
           "moments_of", "put_together", "refuse_crowded", "refuse_mixed", "scaling"]  # fmt: skip

#: Ways to scale numbers; see `TableEncoder`.
SCALES = ("unit", "maxabs", "std", "none")

#: Order statistics that a piece keeps of a column for the median.
_RANKS = 1025

#: Day, month and year in an order that a reader would have to guess; a time may follow.
_OTHER_DATE = re.compile(
    r"\d{1,2}([./-])\d{1,2}\1(\d{2}|\d{4})([ T].*)?|\d{4}([./])\d{1,2}\4\d{1,2}([ T].*)?"
)

#: From so many distinct words on, a column that is mostly numbers is taken for a column of numbers
#: with a mistake in it.
ENOUGH_WORDS, _MOSTLY = 10, 0.8

_OR_WORDS = "or name the column in categorical= or text="

#: Spellings of numbers and dates that are not read: whether a word is one, how many tell that a
#: column has them, and what to say.
_UNREAD: tuple[tuple[Callable[[str], Any], int, str], ...] = (
    (
        has_decimal_comma,
        1,
        "a number with a decimal comma; wanted a point: decimal=',' reads such numbers of csv "
        f"files, without marks of thousands; {_OR_WORDS}",
    ),
    (
        has_marks,
        ENOUGH_WORDS,
        "a number with marks; wanted digits and a point alone: take the marks away, " + _OR_WORDS,
    ),
    (
        _OTHER_DATE.fullmatch,
        ENOUGH_WORDS,
        "a date in a form that is not read; wanted year, month and day, as in 2024-12-31; "
        + _OR_WORDS,
    ),
)


@dataclass(frozen=True)
class Moments:
    """Range, mean and sum of squared deviations of some numbers.

    Attributes
    ----------
    count : int
        Number of values, without missing ones.
    low, high : float
        Smallest and largest value.
    mean : float
        Mean.
    squares : float
        Sum of ``(x - mean)**2``.
    """

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0


@dataclass(frozen=True)
class Facts:
    """What some rows say about a column.

    Attributes
    ----------
    kind : {"number", "date", "category", "text"} or None
        What it holds; None if all values are missing.
    moments : Moments
        Of its numbers or dates.
    words : tuple of str or None
        Its distinct words; None if there are more than an encoder takes.
    gap : int or None
        The first row without a value.
    ranks : list of (count, order statistics)
        For the median: one entry for each piece of the table.
    n_words : int
        Number of rows with a word, of a column of categories.
    """

    kind: str | None = None
    moments: Moments = field(default_factory=Moments)
    words: tuple[str, ...] | None = ()
    gap: int | None = None
    ranks: tuple[tuple[int, np.ndarray], ...] = ()
    n_words: int = 0


def facts_of(
    column: pa.Array,
    name: str,
    *,
    role: str = "auto",
    most: int = 10_000,
    null_values: Collection[str] = (),
    with_ranks: bool = False,
) -> Facts:
    """Return the facts of a column.

    Parameters
    ----------
    column : pyarrow.Array
        The column.
    name : str
        What errors call it.
    role : {"auto", "number", "category", "date", "text"}
        What it has to be; "auto": its type tells.
    most : int
        Most categories to keep.
    null_values : collection of str
        Words for missing values, besides the empty one.
    with_ranks : bool
        Whether to keep order statistics.

    Raises
    ------
    CellError
        If a value is not what it has to be.
    """
    kind = _checked_kind(column, name) if role == "auto" else role
    if kind is None:
        return Facts(gap=0 if len(column) else None)
    if kind in ("number", "date"):
        values = numbers_of(column, name, null_values, kind)
        missing = np.isnan(values)
        ranks = (_ranks_of(values[~missing]),) if with_ranks else ()
        return Facts(kind, moments_of(values), (), _first(missing), ranks)
    if kind == "text":
        return Facts(kind, gap=_first(texts_of(column, null_values)[1]))
    indices, words = words_of(column, null_values)
    empty = [code for code, word in enumerate(words) if word is None]
    missing = (indices < 0) | np.isin(indices, empty) if empty else indices < 0
    if pa.types.is_dictionary(column.type):  # which may have more words than the rows
        used = np.unique(indices[indices >= 0])
        words = [words[code] for code in used.tolist()]
    held = {word for word in words if word is not None}
    kept = tuple(held) if len(held) <= most else None
    return Facts(kind, words=kept, gap=_first(missing), n_words=int((~missing).sum()))


def agreed(parts: Sequence[Facts]) -> Facts:
    """Combine the facts of pieces of a column; where they differ in kind, it has categories."""
    kinds = {part.kind for part in parts} - {None}
    words: set[str] | None = set()
    for part in parts:
        words = None if words is None or part.words is None else words | set(part.words)
    return Facts(
        kind="category" if len(kinds) > 1 else next(iter(kinds), None),
        moments=put_together(part.moments for part in parts),
        words=None if words is None else tuple(sorted(words)),
        gap=next((part.gap for part in parts if part.gap is not None), None),
        ranks=tuple(rank for part in parts for rank in part.ranks),
        n_words=sum(part.n_words for part in parts),
    )


def moments_of(values: np.ndarray) -> Moments:
    """Return the moments of some numbers; NaN is a missing value."""
    held = values[~np.isnan(values)]
    if held.size == 0:
        return Moments()
    with np.errstate(over="ignore"):  # beyond 1e154, where no standard deviation is finite
        mean = float(held.mean())
        squares = float(np.square(held - mean).sum())
    return Moments(int(held.size), float(held.min()), float(held.max()), mean, squares)


def put_together(parts: Iterable[Moments]) -> Moments:
    """Combine the moments of pieces (Chan, Golub and LeVeque 1979)."""
    count, low, high, mean, squares = 0, math.inf, -math.inf, 0.0, 0.0
    for part in parts:
        if part.count == 0:
            continue
        total = count + part.count
        step = part.mean - mean
        mean += step * part.count / total
        squares += part.squares + step * step * count * part.count / total
        count = total
        low, high = min(low, part.low), max(high, part.high)
    return Moments(count, low, high, mean, squares)


def median_of(ranks: Sequence[tuple[int, np.ndarray]]) -> float:
    """Return the median of pieces from their order statistics.

    Exact if no piece has more than 1025 values, or if there is one piece. Else each of the 1025
    order statistics of a piece stands for as many of its values, and the share of values below the
    result differs from 1/2 by at most 1/1024.
    """
    ranks = [rank for rank in ranks if rank[0]]
    if not ranks:
        return 0.0
    if len(ranks) == 1:  # the middle of an odd number of statistics, or all values
        return float(np.median(ranks[0][1]))
    values = np.concatenate([held for _, held in ranks])
    weights = np.concatenate([np.full(len(held), count / len(held)) for count, held in ranks])
    order = np.argsort(values, kind="stable")
    values, below = values[order], np.cumsum(weights[order])
    half = below[-1] / 2
    place = int(np.searchsorted(below, half))
    if np.isclose(below[place], half) and place + 1 < len(values):
        return float((values[place] + values[place + 1]) / 2)
    return float(values[place])


def scaling(moments: Moments, scale: str) -> tuple[float, float]:
    """Return offset and factor of a column: x becomes ``(x - offset) * factor``."""
    if moments.count == 0 or scale == "none":
        return 0.0, 1.0
    if scale == "unit":
        return moments.low, _inverse(moments.high - moments.low)
    if scale == "maxabs":
        return 0.0, _inverse(max(abs(moments.low), abs(moments.high)))
    return 0.0, _inverse(math.sqrt(moments.squares / moments.count))


def _inverse(width: float) -> float:
    """Return 1 / width; 1 for a constant column, or if one of them is not finite."""
    return 1.0 / width if 0 < width < math.inf and math.isfinite(1.0 / width) else 1.0


def _ranks_of(values: np.ndarray) -> tuple[int, np.ndarray]:
    if len(values) <= _RANKS:
        return len(values), np.sort(values)
    # linear: the middle one is the median, also of an even number of values
    return len(values), np.quantile(values, np.linspace(0, 1, _RANKS))


def _checked_kind(column: pa.Array, name: str) -> str | None:
    try:
        return kind_of(column.type)
    except ValueError as error:
        raise CellError(0, name, str(error)) from None


def _first(flags: np.ndarray) -> int | None:
    return int(flags.argmax()) if flags.any() else None


# Mistakes -------------------------------------------------------------------------------------


def refuse_crowded(names: Sequence[str], facts: Sequence[Facts], most: int) -> None:
    """Refuse columns of more than so many categories, all in one message."""
    crowded = [
        repr(name)
        for name, found in zip(names, facts, strict=True)
        if found.words is None or len(found.words) > most
    ]
    if crowded:
        which = "columns " + ", ".join(crowded) + " have"
        raise ValueError(
            f"{which if len(crowded) > 1 else f'column {crowded[0]} has'} more than {most} "
            "categories (max_categories); name a column of text in TableEncoder(text=...), leave "
            "out one of ids (drop=...), or allow more"
        )


class MixedColumnError(ValueError):
    """A column has numbers or dates, and few words that are none; or numbers written otherwise.

    Parameters
    ----------
    column : str
        Its name.
    words : tuple of str
        What is wrong among them.
    reason : str
        What was found and what is wanted.
    """

    def __init__(self, column: str, words: tuple[str, ...], reason: str) -> None:
        super().__init__(column, words, reason)
        self.column = column
        self.words = words
        self.reason = reason

    def __str__(self) -> str:
        return f"column {self.column!r} {self.reason}"

    def cell_of(self, table: pa.Table, part: int | None = None) -> CellError | None:
        """Return the error of the first row of a table that has one of the words."""
        codes, _ = codes_of(whole(table.column(self.column)), self.words)
        if not (codes >= 0).any():
            return None
        row = int((codes >= 0).argmax())
        shown, word = min(self.words), self.words[codes[row]]
        reason = self.reason.replace(f"holds {shown!r}", f"holds {word!r}", 1)
        return CellError(row, self.column, reason, part)


def refuse_mixed(name: str, words: Sequence[str]) -> None:
    """Raise `MixedColumnError` for words that are numbers or dates, but for a few.

    Those in spellings that are not read, too: as categories, they would say nothing of their order.
    """
    others = [word for word in words if not is_number(word)]
    few = (1 - _MOSTLY) * len(words) if len(words) >= ENOUGH_WORDS else 0
    for is_one, least, reason in _UNREAD:
        found = [word for word in others if is_one(word)]
        if len(found) >= least and len(others) - len(found) <= few:
            raise MixedColumnError(name, tuple(found), f"holds {min(found)!r}, {reason}")
    kind = "numbers"
    if others and len(others) == len(words):
        kind, others = "dates", [word for word in words if not is_date(word)]
        few = (len(words) - 1) // 2
    if others and len(others) <= few:
        shown = ", ".join(repr(word) for word in sorted(others)[:3])
        raise MixedColumnError(
            name,
            tuple(others),
            f"holds {kind}, but also {shown}; wanted one kind: "
            "name these in null_values=, which makes them missing, or the column in "
            "categorical= or text=",
        )


def is_date(word: str) -> bool:
    """Whether a word is a date or a time in the form of ISO 8601."""
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return False
    return True
