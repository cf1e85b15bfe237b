"""Exact order statistics of per-row values that stay in the shards.

The k-th smallest value is found digit by digit: a float64 is mapped to an unsigned integer of
the same order, and each round counts, over all shards, the values by their next 12 bits below
the digits found so far. Six rounds at the very most, whatever the values; as soon as few
candidates are left they are gathered instead. Ties go by global row number, so the answer is the
one that a stable sort of all values would give.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.operations import Uses, operation, uses_of
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard

#: op(shard, *args) -> (values, row numbers within the shard, ascending) of the rows that count.
ValuesOf = Callable[..., tuple[np.ndarray, np.ndarray]]

_BITS = 12
_TOP = np.uint64(1 << 63)

#: Gather the candidates when no more than this are left.
GATHER = 2048


class Ranked(NamedTuple):
    """A value and the global number of its row; compares as (value, row)."""

    value: float
    row: int


def up_to(shard: Shard, values: np.ndarray, rows: np.ndarray, last: Ranked) -> np.ndarray:
    """Which (value, row of the shard) are not behind `last`."""
    place = last.row - shard.start
    return (values < last.value) | ((values == last.value) & (rows.astype(np.int64) <= place))


def select(engine: Engine, k: int, values_of: ValuesOf, *args: Any) -> Ranked:
    """Find the element at position `k` (from 0) of all values sorted by (value, row).

    Costs: 2-4 rounds as a rule, 8 at most; no pass over the rows.
    """
    low, shift = 0, 64
    while True:
        width = min(_BITS, shift)
        if shift == 64:
            (counts,) = engine.sum(_first_histograms, (values_of,), args)
            _check_position(k, int(counts.sum()))
        else:
            (counts,) = engine.sum(_histograms, 1, low, shift, width)
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, k, side="right"))
        k -= int(ends[digit - 1]) if digit else 0
        shift -= width
        low |= digit << shift
        if counts[digit] <= GATHER or shift == 0:
            return _pick(engine, k, int(counts[digit]), low, shift)


def count_crossing(engine: Engine, rising_of: ValuesOf, falling_of: ValuesOf, *args: Any) -> int:
    """Count the leading pairs of two lists, one ascending and one descending, that are in order.

    With A the values of `rising_of` sorted ascending and B those of `falling_of` descending, the
    largest k with A_k < B_k (counted from 1), which is max_t min(#{A < t}, #{B >= t}).

    Costs: 2-4 rounds as a rule, 7 at most; no pass over the rows.
    """
    low, shift, below, above = 0, 64, 0, 0
    while True:
        width = min(_BITS, shift)
        if shift == 64:
            rising, falling = engine.sum(_first_histograms, (rising_of, falling_of), args)
        else:
            rising, falling = engine.sum(_histograms, 2, low, shift, width)
        # at the lower edge of a digit's range: how many of A are below, how many of B are not
        less = below + np.cumsum(rising) - rising
        no_less = above + np.cumsum(falling[::-1])[::-1]
        digit = int(np.flatnonzero(less <= no_less)[-1]) if less[0] <= no_less[0] else 0
        below, above = int(less[digit]), int(no_less[digit] - falling[digit])
        shift -= width
        low |= digit << shift
        if shift == 0:
            a, b = int(rising[digit]), int(falling[digit])
            return max(min(below, above + b), min(below + a, above))
        if rising[digit] + falling[digit] <= GATHER:
            found = engine.each(_take_candidates, 2, low, shift)
            a_values, b_values = (
                np.sort(_decode(np.concatenate([lists[place][0] for lists in found])))
                for place in (0, 1)
            )
            thresholds = np.append(b_values, np.inf)
            a_less = below + np.searchsorted(a_values, thresholds, side="left")
            a_less[-1] = below + len(a_values)
            b_no_less = above + len(b_values) - np.arange(len(thresholds))
            return max(int(np.minimum(a_less, b_no_less).max()), 0)


def _check_position(k: int, n: int) -> None:
    if not 0 <= k < n:
        raise IndexError(f"position {k} is outside the {n} values to select from")


def _pick(engine: Engine, k: int, n: int, low: int, shift: int) -> Ranked:
    """Take element `k` of the candidates whose leading digits are those of `low`."""
    if n <= GATHER:
        found = engine.each(_take_candidates, 1, low, shift)
        keys = np.concatenate([keys for ((keys, _),) in found])
        rows = np.concatenate([rows for ((_, rows),) in found])
        place = np.argsort(keys, kind="stable")[k]
        return Ranked(float(_decode(keys[place : place + 1])[0]), int(rows[place]))
    # one value, tied more often than is worth gathering: count up to the k-th row that has it
    ties = engine.each(_tie_count, low)
    ends = np.cumsum(ties)
    shard = int(np.searchsorted(ends, k, side="right"))
    wanted = k - (int(ends[shard - 1]) if shard else 0)
    found = engine.each(_tied_row, shard, wanted)
    value = float(_decode(np.array([low], dtype=np.uint64))[0])
    return Ranked(value, found[shard])


# Operations on one shard --------------------------------------------------------------------
#
# The candidates that are left, as (keys, rows) per list, wait in `state` for the next round.


def _uses_of_lists(lists: tuple[ValuesOf, ...], args: tuple[Any, ...]) -> Uses:
    """Candidates are made from what the lists of values are made from."""
    reads = [name for values_of in lists for name in uses_of(values_of, args).reads]
    return Uses(sets="candidates", reads=tuple(dict.fromkeys(reads)))


@operation(uses=_uses_of_lists)
def _first_histograms(
    shard: Shard, lists: tuple[ValuesOf, ...], args: tuple[Any, ...]
) -> tuple[np.ndarray, ...]:
    """Take the values of each list, and count them by their leading digit."""
    held = []
    for values_of in lists:
        values, rows = values_of(shard, *args)
        held.append((_encode(values), rows))
    shard.state["candidates"] = held
    return tuple(_digit_counts(keys, 64, _BITS) for keys, _ in held)


@operation(changes="candidates")
def _histograms(
    shard: Shard, n_lists: int, low: int, shift: int, width: int
) -> tuple[np.ndarray, ...]:
    """Keep the candidates whose leading digits are those of `low`; count them by the next."""
    return tuple(
        _digit_counts(keys, shift, width) for keys, _ in _narrowed(shard, n_lists, low, shift)
    )


@operation(reads=["candidates"])
def _take_candidates(
    shard: Shard, n_lists: int, low: int, shift: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Hand out the last candidates, with global row numbers."""
    held = _narrowed(shard, n_lists, low, shift)
    del shard.state["candidates"]
    return [(keys, rows.astype(np.int64) + shard.start) for keys, rows in held]


@operation(changes="candidates")
def _tie_count(shard: Shard, low: int) -> int:
    ((keys, _),) = _narrowed(shard, 1, low, 0)
    return len(keys)


@operation(reads=["candidates"])
def _tied_row(shard: Shard, number: int, k: int) -> int:
    ((_, rows),) = shard.state.pop("candidates")
    return int(rows[k]) + shard.start if shard.number == number else -1


def _narrowed(
    shard: Shard, n_lists: int, low: int, shift: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    held = shard.state["candidates"]
    assert len(held) == n_lists, "candidates of another search"
    for place, (keys, rows) in enumerate(held):
        chosen = (keys >> np.uint64(shift)) == np.uint64(low >> shift)
        held[place] = (keys[chosen], rows[chosen])
    return held


def _digit_counts(keys: np.ndarray, shift: int, width: int) -> np.ndarray:
    digits = (keys >> np.uint64(shift - width)) & np.uint64((1 << width) - 1)
    return np.bincount(digits.astype(np.int64), minlength=1 << width)


def _encode(values: np.ndarray) -> np.ndarray:
    """Map float64 to uint64 of the same order; -0.0 and 0.0 are one value."""
    values = np.asarray(values, dtype=np.float64) + 0.0
    if np.isnan(values).any():
        raise ValueError("cannot select from values with NaN among them")
    bits = values.view(np.uint64)
    return np.where(bits & _TOP, ~bits, bits | _TOP)


def _decode(keys: np.ndarray) -> np.ndarray:
    """Map back what `_encode` gives."""
    return np.where(keys & _TOP, keys ^ _TOP, ~keys).view(np.float64)
