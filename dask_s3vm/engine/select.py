"""Exact order statistics of per-row values that stay in the shards.

The k-th smallest value is found digit by digit. Every float64 is mapped to an unsigned integer of
the same order. Each round counts, over all shards, the candidates by the next 12 bits, and the
candidates that share the leading bits of the answer remain. There are six counting rounds at most,
whatever the values. As soon as no more than `GATHER` candidates are left, they are gathered
instead. Ties are broken by global row number, so the answer is that of a stable sort of all values.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.operations import Uses, operation, uses_of
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.digits import BITS, count_digits, order_keys

#: op(shard, *args) -> (values, ascending row numbers within the shard) of the rows to select from.
ValuesOf = Callable[..., tuple[np.ndarray, np.ndarray]]

#: Candidates are gathered in the client when no more than this are left.
GATHER = 2048

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
    (found,) = select_each(engine, (k,), (values_of,), *args)
    return found


def select_each(
    engine: Engine, positions: Sequence[int], lists: Sequence[ValuesOf], *args: Any
) -> list[Ranked]:
    """`select` in several lists, at a position in each, in the same rounds.

    Costs: as `select`; where many rows share a value, 2 rounds more for each list.
    """
    lists, n_lists = tuple(lists), len(lists)
    places, lows, shift = list(positions), [0] * n_lists, 64
    while True:
        width = min(BITS, shift)
        if shift == 64:
            found = engine.sum(_first_histograms, lists, args)
            for k, counts in zip(places, found, strict=True):
                _check_position(k, int(counts.sum()))
        else:
            found = engine.sum(_histograms, tuple(lows), shift, width)
        shift -= width
        sizes = []
        for number, counts in enumerate(found):
            ends = np.cumsum(counts)
            digit = int(np.searchsorted(ends, places[number], side="right"))
            places[number] -= int(ends[digit - 1]) if digit else 0
            lows[number] |= digit << shift
            sizes.append(int(counts[digit]))
        if shift == 0 or max(sizes) <= GATHER:
            return _pick(engine, places, sizes, tuple(lows), shift)


def count_crossing(engine: Engine, rising_of: ValuesOf, falling_of: ValuesOf, *args: Any) -> int:
    """Find where an ascending list of values crosses a descending one.

    Let A be the values of `rising_of` sorted ascending and B those of `falling_of` sorted
    descending. Returns the largest k, counted from 1, with A_k < B_k, or 0 if there is none:
    max_t min(#{A < t}, #{B >= t}).

    Costs: 1 round if all A are above 0 and all B below; else 2-4 as a rule, 7 at most; no pass over
    the rows.
    """
    low, shift, below, above = 0, 64, 0, 0
    while True:
        width = min(BITS, shift)
        if shift == 64:
            rising, falling = engine.sum(_first_histograms, (rising_of, falling_of), args)
        else:
            rising, falling = engine.sum(_histograms, (low, low), shift, width)
        # for t at the lower edge of each digit's range: #{A < t} and #{B >= t}
        less = below + np.cumsum(rising) - rising
        no_less = above + np.cumsum(falling[::-1])[::-1]
        digit = int(np.flatnonzero(less <= no_less)[-1]) if less[0] <= no_less[0] else 0
        below, above = int(less[digit]), int(no_less[digit] - falling[digit])
        shift -= width
        low |= digit << shift
        a, b = int(rising[digit]), int(falling[digit])
        if shift == 0 or a == 0 or b == 0:  # values of one list alone cross nothing
            return max(min(below, above + b), min(below + a, above))
        if a + b <= GATHER:
            found = engine.each(_take_candidates, (low, low), shift)
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


def _pick(
    engine: Engine, places: Sequence[int], sizes: Sequence[int], lows: tuple[int, ...], shift: int
) -> list[Ranked]:
    """Return, of the candidates of each list whose leading digits are those of its low, one each.

    sizes : numbers of these candidates.
    """
    if max(sizes) <= GATHER:
        found = engine.each(_take_candidates, lows, shift)
        return [_ranked(k, [lists[number] for lists in found]) for number, k in enumerate(places)]
    # all bits are known, but more rows than may be gathered share the value: find the k-th of them
    ties = np.array(engine.each(_tie_counts, lows))
    ends = np.cumsum(ties, axis=0)
    shards = [int(np.searchsorted(ends[:, i], k, side="right")) for i, k in enumerate(places)]
    wanted = tuple(
        (shard, k - int(ends[shard - 1, i] if shard else 0))
        for i, (shard, k) in enumerate(zip(shards, places, strict=True))
    )
    rows = engine.each(_tied_rows, wanted)
    values = _decode(np.array(lows, dtype=np.uint64))
    return [Ranked(float(values[i]), rows[shard][i]) for i, shard in enumerate(shards)]


def _ranked(k: int, parts: list[tuple[np.ndarray, np.ndarray]]) -> Ranked:
    """Element `k` of candidates that were gathered from the shards."""
    keys = np.concatenate([keys for keys, _ in parts])
    rows = np.concatenate([rows for _, rows in parts])
    place = np.argsort(keys, kind="stable")[k]
    return Ranked(float(_decode(keys[place : place + 1])[0]), int(rows[place]))


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
    found = []
    candidates = []
    for values_of in lists:
        values, rows = values_of(shard, *args)
        keys, counts = _encode(values)
        candidates.append((keys, rows))
        found.append(counts)
    shard.state["candidates"] = candidates
    return tuple(found)


@operation(changes="candidates")
def _histograms(
    shard: Shard, lows: tuple[int, ...], shift: int, width: int
) -> tuple[np.ndarray, ...]:
    """Narrow the candidates to those that share the digits of `lows`; count them by the next one.

    lows : one for each list.
    """
    found = []
    for keys, _ in _narrowed(shard, lows, shift):
        counts = np.zeros(1 << width, dtype=np.int64)
        count_digits(keys, shift, width, counts)
        found.append(counts)
    return tuple(found)


@operation(reads=["candidates"])
def _take_candidates(
    shard: Shard, lows: tuple[int, ...], shift: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the candidates that share the digits of `lows`, with global row numbers.

    Two numbers per candidate travel to the client; there are at most `GATHER` of a list over all
    shards.
    """
    candidates = _narrowed(shard, lows, shift)
    del shard.state["candidates"]
    return [(keys, rows.astype(np.int64) + shard.first_row) for keys, rows in candidates]


@operation(changes="candidates")
def _tie_counts(shard: Shard, lows: tuple[int, ...]) -> list[int]:
    """Narrow the candidates to those with the keys `lows`; return their numbers."""
    return [len(keys) for keys, _ in _narrowed(shard, lows, 0)]


@operation(reads=["candidates"])
def _tied_rows(shard: Shard, wanted: tuple[tuple[int, int], ...]) -> list[int]:
    """Return the global number of one candidate of each list; -1 if it is of another shard.

    wanted : (shard, place among its candidates), for each list.
    """
    candidates = shard.state.pop("candidates")
    return [
        int(rows[k]) + shard.first_row if shard.number == number else -1
        for (number, k), (_, rows) in zip(wanted, candidates, strict=True)
    ]


def _narrowed(
    shard: Shard, lows: tuple[int, ...], shift: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keep the candidates that share the bits of `lows` from bit `shift` up, and return them."""
    candidates = shard.state["candidates"]
    assert len(candidates) == len(lows), "candidates of another search"
    for place, ((keys, rows), low) in enumerate(zip(candidates, lows, strict=True)):
        chosen = (keys >> np.uint64(shift)) == np.uint64(low >> shift)
        candidates[place] = (keys[chosen], rows[chosen])
    return candidates


def _encode(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Map float64 to uint64 of the same order; (keys, counts by the leading digit)."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    keys, counts = np.empty_like(bits), np.zeros(1 << BITS, dtype=np.int64)
    if order_keys(bits, keys, counts):
        raise ValueError("the values to select from contain NaN; wanted numbers")
    return keys, counts


def _decode(keys: np.ndarray) -> np.ndarray:
    """Invert `_encode`."""
    return np.where(keys & _TOP, keys ^ _TOP, ~keys).view(np.float64)
