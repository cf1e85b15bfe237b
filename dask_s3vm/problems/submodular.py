"""Labels as a set: S-QP-S3VM (Emara & Kantardzic, Problem 4).

A is the set of unlabeled rows with the label +1. With s = sum_A z and the sums of `label_sums`, the
set function (17) is

    S(A) = C* g.s - 1/2 C*^2 t.s + 1/2 C*^2 |s|^2 + Q5(|A|)
    Q5(n) = n [C*^2 u (3/2 d - a) + C* G] - 1/2 C*^2 d n^2

where a <= K_ij <= d for all rows, and |g.z| <= G: max(d, -a) sum_L c_i, or |g| sqrt(d) for centered
rows. Up to Q5, which depends on the size of A alone, it is -F(A) plus
a constant. The paper has a = 0, K_ij >= 0. Theorem 3 also holds for a < 0: the difference of gains
S(A + m) - S(A) - [S(A + q + m) - S(A + q)] = C*^2 (d - K_qm) >= 0 requires no sign of K, and a gain

    C* g.z_m - 1/2 C*^2 t.z_m + C*^2 s.z_m + 1/2 C*^2 K_mm + Q5(|A| + 1) - Q5(|A|)

is at least C*^2 [u (d - a) - |A| (d - a) - d/2] >= 0, since |A| <= u - 1 and a <= 0: the three
sums over rows are at least -C* G, -1/2 C*^2 u d and C*^2 |A| a, and K_mm >= 0.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dask_s3vm.engine.blocks import copy_rows, stack_rows
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import Ranked, select, up_to
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.greedy import find_items, lazy_greedy
from dask_s3vm.kernels.passes import products, square_norms, sum_rows
from dask_s3vm.kernels.rows import CSR, Rows
from dask_s3vm.problems.label_sums import LabelSums, lengths, unlabeled_rows


@dataclass(frozen=True)
class SetFunction:
    """S: `low` and `high` are the bounds a and d of the kernel; see `label_sums.kernel_bounds`."""

    sums: LabelSums
    low: float
    high: float

    def value(self, raw: np.ndarray) -> float:
        """S of a set whose sum of raw rows is `raw`; the size of the set last."""
        sums = self.sums
        nothing = sums.value(np.zeros(len(raw)))
        return nothing - sums.value(raw) + self.by_size(raw[-1])

    def by_size(self, n: float) -> float:
        """Q5 of sets of n rows."""
        cost, low, high = self.sums.cost, self.low, self.high
        each = cost**2 * self.sums.n_unlabeled * (1.5 * high - low)
        each += cost * self.sums.most_pull(low, high)
        return n * each - 0.5 * cost**2 * high * n**2


class Picking(NamedTuple):
    """Parameters of `lazy_greedy` besides the rows."""

    q: np.ndarray
    mean: np.ndarray
    rise: float


class Items(NamedTuple):
    """Distinct rows, and the global numbers of the rows that are equal to each, ascending."""

    rows: Rows
    starts: np.ndarray
    numbers: np.ndarray

    def pick(self, picking: Picking, n_picks: int) -> tuple[np.ndarray, int]:
        """See `lazy_greedy`."""
        every = np.arange(len(self.starts) - 1, dtype=np.uint32)
        along = np.zeros(len(every))
        if picking.mean.any():
            products(self.rows, every, picking.mean, along)
        square = square_norms(self.rows, every, len(picking.q))
        return lazy_greedy(
            self.rows,
            self.starts,
            self.numbers,
            square,
            along,
            picking.mean,
            picking.q,
            picking.rise,
            n_picks,
        )

    def picked(self, used: np.ndarray) -> np.ndarray:
        """Global numbers of the first `used` rows of each item, ascending."""
        return np.sort(self.numbers[self.first(used)])

    def first(self, used: np.ndarray) -> np.ndarray:
        """Which of `numbers` are among the first `used` of their item."""
        sizes = np.diff(self.starts)
        rank = np.arange(len(self.numbers)) - np.repeat(self.starts[:-1], sizes)
        return rank < np.repeat(used, sizes)

    def sum(self, used: np.ndarray, n_features: int) -> np.ndarray:
        """Sum of the raw rows picked; their number last."""
        chosen = np.flatnonzero(used).astype(np.uint32)
        raw = np.zeros(n_features + 1)
        sum_rows(self.rows, chosen, used[chosen].astype(np.float64), raw)
        return raw


def picking_of(function: SetFunction) -> Picking:
    """Return the parameters of greedy on S; Q5 does not affect the order of gains."""
    sums = function.sums
    q = -sums.direction(np.zeros(len(sums.unlabeled)))[:-1]
    return Picking(q, sums.mean, sums.cost**2)


def distinct_bytes(engine: Engine) -> int:
    """Bytes of the distinct unlabeled rows of each shard, summed. Costs: 1 round, 1 pass."""
    return sum(engine.each(measure_items))


def gather_items(engine: Engine) -> Items:
    """Gather all distinct unlabeled rows at the client. Costs: 1 round, 1 pass."""
    return _joined(engine.each(items_of))


def gather_picked(engine: Engine, picking: Picking, keep: float) -> Items:
    """Let each shard pick a share `keep` of its rows, and gather these at the client.

    This is the first round of GreeDi. Costs: 1 round.
    """
    return _joined(engine.each(best_items_of, picking, keep))


def proven_share(
    engine: Engine, function: SetFunction, raw: np.ndarray, picks: np.ndarray
) -> float:
    """Return a lower bound of S(A) / max S(B) over sets B of the size of A.

    By submodularity S(B) <= S(A) + the sum of the |B| largest gains S(A + m) - S(A). Costs: 4-6
    rounds, 2 passes.
    """
    value, n = function.value(raw), len(picks)
    if n == 0 or n == function.sums.n_unlabeled:
        return 1.0
    sums = function.sums
    direction = sums.direction(raw)
    shift = float(np.add.reduce(sums.mean * sums.mean))
    args = (direction, np.append(sums.mean, 0.0), sums.cost**2, shift, picks)
    last = min(n, sums.n_unlabeled - n) - 1
    threshold = select(engine, last, falling_gains, *args)
    (total,) = engine.sum(sum_up_to, threshold, *args)
    rest = function.by_size(raw[-1] + 1.0) - function.by_size(raw[-1])
    most = value - total + (last + 1) * rest
    return value / most if most > 0 else 1.0  # rows that are all zero: every set has the value 0


def bits_of_rows(engine: Engine, numbers: np.ndarray) -> list[np.ndarray]:
    """Return ascending global row numbers as one bit a row, by shard."""
    starts = np.asarray(engine.layout.starts)
    cuts = np.searchsorted(numbers, starts)
    bits = []
    for shard in range(len(starts) - 1):
        mask = np.zeros(starts[shard + 1] - starts[shard], dtype=bool)
        mask[numbers[cuts[shard] : cuts[shard + 1]] - starts[shard]] = True
        bits.append(np.packbits(mask))
    return bits


def _joined(parts: list[tuple[Rows, np.ndarray, np.ndarray]]) -> Items:
    """Join the items of shards, and merge those that several shards have."""
    parts = [part for part in parts if len(part[2])]
    offsets = np.cumsum([0, *(int(part[1].max()) + 1 for part in parts)])
    rows = stack_rows([part[0] for part in parts])
    item = np.concatenate([part[1] + offset for part, offset in zip(parts, offsets, strict=False)])
    numbers = np.concatenate([part[2] for part in parts])
    if len(parts) > 1:
        first, merged = find_items(rows, np.arange(offsets[-1], dtype=np.uint32))
        if len(first) < offsets[-1]:
            rows, item = copy_rows(rows, first.astype(np.uint32)), merged[item]
    starts = np.append(0, np.cumsum(np.bincount(item)))
    return Items(rows, starts, numbers[np.argsort(item, kind="stable")])


# Operations on one shard ----------------------------------------------------------------------


def items_of(shard: Shard) -> tuple[Rows, np.ndarray, np.ndarray]:
    """(distinct unlabeled rows, item and global number of each unlabeled row)."""
    free = unlabeled_rows(shard)
    first, item = _items(shard, free)
    numbers = free.astype(np.int64) + shard.first_row
    return copy_rows(shard.rows, free[first]), item, numbers


def measure_items(shard: Shard) -> int:
    """Return the bytes of the distinct unlabeled rows; stores the items for the next operation."""
    free = unlabeled_rows(shard)
    first, item = _items(shard, free)
    shard.state["items"] = (first, item)
    rows = free[first]
    if not isinstance(shard.rows, CSR):
        return len(rows) * shard.rows.shape[1] * shard.rows.itemsize
    entries = int((shard.rows.indptr[rows + np.uint32(1)] - shard.rows.indptr[rows]).sum())
    return entries * (shard.rows.indices.itemsize + shard.rows.values.itemsize) + 4 * len(rows)


def best_items_of(
    shard: Shard, picking: Picking, keep: float
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """As `items_of`, for the rows that greedy picks among those of this shard alone."""
    rows, _, numbers = found = items_of(shard)
    if len(numbers) == 0:
        return found
    items = _joined([found])
    used, _ = items.pick(picking, min(len(numbers), int(np.ceil(keep * len(numbers)))))
    chosen = np.flatnonzero(used)
    best = items.numbers[items.first(used)]
    return (
        copy_rows(rows, chosen.astype(np.uint32)),
        np.repeat(np.arange(len(chosen)), used[chosen]),
        best,
    )


def falling_gains(
    shard: Shard,
    direction: np.ndarray,
    mean: np.ndarray,
    rise: float,
    shift: float,
    picks: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(minus the gain in S without Q5, row numbers) of the unlabeled rows outside the set."""
    own = picks[
        np.searchsorted(picks, shard.first_row) : np.searchsorted(
            picks, shard.first_row + shard.n_rows
        )
    ]
    left = shard.unlabeled.copy()
    left[own - shard.first_row] = False
    rows = np.flatnonzero(left).astype(np.uint32)
    square, along = lengths(shard, rows, mean)
    score = np.empty(len(rows))
    products(shard.rows, rows, direction, score)
    return score + direction[-1] - 0.5 * rise * (square - 2.0 * along + shift), rows


def sum_up_to(shard: Shard, last: Ranked, *args: object) -> tuple[float]:
    """(sum of the values of `falling_gains` up to `last`,)."""
    values, rows = falling_gains(shard, *args)  # type: ignore[arg-type]
    return (float(np.add.reduce(values[up_to(shard, values, rows, last)])),)


def _items(shard: Shard, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept = shard.state.pop("items", None)
    return find_items(shard.rows, free) if kept is None else kept
