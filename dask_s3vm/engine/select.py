"""Exact order statistics of per-row values that stay in the shards.

The k-th smallest value is found digit by digit. Every float64 is mapped to an unsigned integer of
the same order. Each round counts, over all shards, the candidates by the next 12 bits, and the
candidates that share the leading bits of the answer remain. There are six counting rounds at most,
whatever the values. As soon as no more than `GATHER` candidates are left, they are gathered
instead. Ties are broken by global row number, so the answer is that of a stable sort of all values.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.operations import Uses, operation, uses_of
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard

#: op(shard, *args) -> (values, ascending row numbers within the shard) of the rows to select from.
ValuesOf = Callable[..., tuple[np.ndarray, np.ndarray]]

#: Candidates are gathered in the client when no more than this are left.
GATHER = 2048

#: Bits of a digit.
_BITS = 12

#: The sign bit of a float64.
_TOP = np.uint64(1 << 63)


class Ranked(NamedTuple):
    """A value and its global row number; compares as (value, row)."""

    value: float
    row: int


def up_to(shard: Shard, values: np.ndarray, rows: np.ndarray, last: Ranked) -> np.ndarray:
    """Return the mask of the (value, row of the shard) pairs that do not come after `last`."""
    place = last.row - shard.first_row
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
    """Find where an ascending list of values crosses a descending one.

    Let A be the values of `rising_of` sorted ascending and B those of `falling_of` sorted
    descending. Returns the largest k, counted from 1, with A_k < B_k, or 0 if there is none:
    max_t min(#{A < t}, #{B >= t}).

    Costs: 2-4 rounds as a rule, 7 at most; no pass over the rows.
    """
    low, shift, below, above = 0, 64, 0, 0
    while True:
        width = min(_BITS, shift)
        if shift == 64:
            rising, falling = engine.sum(_first_histograms, (rising_of, falling_of), args)
        else:
            rising, falling = engine.sum(_histograms, 2, low, shift, width)
        # for t at the lower edge of each digit's range: #{A < t} and #{B >= t}
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
    """Return element `k` of the `n` candidates whose leading digits are those of `low`."""
    if n <= GATHER:
        found = engine.each(_take_candidates, 1, low, shift)
        keys = np.concatenate([keys for ((keys, _),) in found])
        rows = np.concatenate([rows for ((_, rows),) in found])
        place = np.argsort(keys, kind="stable")[k]
        return Ranked(float(_decode(keys[place : place + 1])[0]), int(rows[place]))
    # all bits are known, but more rows than may be gathered share the value: find the k-th of them
    ties = engine.each(_tie_count, low)
    ends = np.cumsum(ties)
    shard = int(np.searchsorted(ends, k, side="right"))
    wanted = k - (int(ends[shard - 1]) if shard else 0)
    found = engine.each(_tied_row, shard, wanted)
    value = float(_decode(np.array([low], dtype=np.uint64))[0])
    return Ranked(value, found[shard])


# Operations on one shard --------------------------------------------------------------------
#
# The row state "candidates" holds, for each list of values, the (keys, rows) that are left.


def _uses_of_lists(lists: tuple[ValuesOf, ...], args: tuple[Any, ...]) -> Uses:
    """Declare that candidates depend on the row state from which the lists are computed."""
    reads = [name for values_of in lists for name in uses_of(values_of, args).reads]
    return Uses(sets="candidates", reads=tuple(dict.fromkeys(reads)))


@operation(uses=_uses_of_lists)
def _first_histograms(
    shard: Shard, lists: tuple[ValuesOf, ...], args: tuple[Any, ...]
) -> tuple[np.ndarray, ...]:
    """Compute the values of each list, and count them by their leading digit."""
    candidates = []
    for values_of in lists:
        values, rows = values_of(shard, *args)
        candidates.append((_encode(values), rows))
    shard.state["candidates"] = candidates
    return tuple(_digit_counts(keys, 64, _BITS) for keys, _ in candidates)


@operation(changes="candidates")
def _histograms(
    shard: Shard, n_lists: int, low: int, shift: int, width: int
) -> tuple[np.ndarray, ...]:
    """Narrow the candidates to those that share the digits of `low`; count them by the next one."""
    return tuple(
        _digit_counts(keys, shift, width) for keys, _ in _narrowed(shard, n_lists, low, shift)
    )


@operation(reads=["candidates"])
def _take_candidates(
    shard: Shard, n_lists: int, low: int, shift: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the candidates that share the digits of `low`, with global row numbers.

    Two numbers per candidate travel to the client; there are at most `GATHER` over all shards.
    """
    candidates = _narrowed(shard, n_lists, low, shift)
    del shard.state["candidates"]
    return [(keys, rows.astype(np.int64) + shard.first_row) for keys, rows in candidates]


@operation(changes="candidates")
def _tie_count(shard: Shard, low: int) -> int:
    """Narrow the candidates to those with the key `low`; return their number."""
    ((keys, _),) = _narrowed(shard, 1, low, 0)
    return len(keys)


@operation(reads=["candidates"])
def _tied_row(shard: Shard, number: int, k: int) -> int:
    """Return the global number of candidate `k` of shard `number`; -1 on other shards."""
    ((_, rows),) = shard.state.pop("candidates")
    return int(rows[k]) + shard.first_row if shard.number == number else -1


def _narrowed(
    shard: Shard, n_lists: int, low: int, shift: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keep the candidates that share the bits of `low` from bit `shift` up, and return them."""
    candidates = shard.state["candidates"]
    assert len(candidates) == n_lists, "candidates of another search"
    for place, (keys, rows) in enumerate(candidates):
        chosen = (keys >> np.uint64(shift)) == np.uint64(low >> shift)
        candidates[place] = (keys[chosen], rows[chosen])
    return candidates


def _digit_counts(keys: np.ndarray, shift: int, width: int) -> np.ndarray:
    digits = (keys >> np.uint64(shift - width)) & np.uint64((1 << width) - 1)
    return np.bincount(digits.astype(np.int64), minlength=1 << width)


def _encode(values: np.ndarray) -> np.ndarray:
    """Map float64 to uint64 of the same order; -0.0 and 0.0 become the same key."""
    values = np.asarray(values, dtype=np.float64) + 0.0
    if np.isnan(values).any():
        raise ValueError("the values to select from contain NaN; wanted numbers")
    bits = values.view(np.uint64)
    return np.where(bits & _TOP, ~bits, bits | _TOP)


def _decode(keys: np.ndarray) -> np.ndarray:
    """Invert `_encode`."""
    return np.where(keys & _TOP, keys ^ _TOP, ~keys).view(np.float64)
