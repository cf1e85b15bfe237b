"""Where rows are cut into shards, and how columns are numbered.

Both follow from the data and `s3vm.shard-bytes` alone, not from chunks, workers or threads; rows
that stay in mapped files are the exception (see `shares`). The cost of a row is its number of
stored entries, plus 4. A shard ends where the running cost of the rows passes a multiple of an
equal share, which balances the shards by work. A block can find its cuts on its own once it knows
the cost of all rows before it.

In order: `facts_of` measures each block, `column_order` numbers the columns, `shares` tells each
block its part of the total cost, `cut_block` cuts it, `assign_pieces` collects the pieces of each
shard, and `layout_of` completes the `Layout`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.blocks import (
    MAX_ENTRIES,
    Block,
    column_type,
    opened,
    row_count,
    row_work,
    slice_rows,
)
from dask_s3vm.engine.column_scale import ColumnScale, Ranges, ranges_of
from dask_s3vm.engine.mapped import MappedRows
from dask_s3vm.engine.shard import Piece
from dask_s3vm.kernels.passes import count_entries
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.labels import Tally

#: Nominal size of a stored entry with its column number, to convert `s3vm.shard-bytes` to cost.
BYTES_PER_ENTRY = 12

#: With fewer columns a vector fits in the fastest cache, and the order of columns does not matter.
MIN_COLUMNS_TO_ORDER = 4096

#: Number of rows at the head of the data from which column frequencies are counted.
ROWS_TO_COUNT = 16_384

#: With at most this many entries per column, all rows are counted, and columns that do not occur
#: get no number: work on vectors is then a tenth of a pass over the rows, or more.
MAX_ENTRIES_TO_DROP = 64


@dataclass(frozen=True)
class Facts:
    """Measurements of one block.

    Attributes
    ----------
    n_rows, n_features : shape of the block.
    cost : sum of the costs of its rows.
    nbytes : size of the arrays of its rows, in memory or in a file.
    sparse : whether the rows are sparse.
    labels : distinct labels and their counts; None if the block has no labels.
    mapped : whether the rows can stay in their file; also true of blocks without stored entries.
    ranges : of the columns, where they are asked for and the rows are dense.
    """

    n_rows: int
    n_features: int
    cost: int
    nbytes: int
    sparse: bool
    labels: Tally | None
    mapped: bool = False
    ranges: Ranges | None = None


@dataclass(frozen=True)
class Layout:
    """How the data is divided into shards.

    Attributes
    ----------
    n_rows, n_features_in : shape of the data.
    n_features : number of internal columns: all, or those that occur.
    starts : first row of each shard, followed by `n_rows`.
    order : original number of each internal column; None if columns are not renumbered.
    sparse : whether shards are sparse, which they are if any block is.
    mapped : whether shards are views of files; each then consists of rows of a single block.
    scale : how columns were scaled, by their original numbers; None if they were not.
    """

    n_rows: int
    n_features_in: int
    n_features: int
    starts: tuple[int, ...]
    order: np.ndarray | None
    sparse: bool
    mapped: bool = False
    scale: ColumnScale | None = None

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return len(self.starts) - 1

    def to_internal(self, w: np.ndarray) -> np.ndarray:
        """Bring weights (..., d + 1), features and bias, from the user's to internal columns.

        Entries of columns that do not occur are dropped: at the minimum they are 0.
        """
        if self.scale is not None:
            w = self.scale.to_scaled(w)
        if self.order is None:
            return w
        return np.concatenate([w[..., :-1][..., self.order], w[..., -1:]], axis=-1)

    def to_external(self, w: np.ndarray) -> np.ndarray:
        """Bring weights (..., d + 1), features and bias, from internal to the user's columns."""
        w = self._to_given_order(w)
        return w if self.scale is None else self.scale.to_given(w)

    def _to_given_order(self, w: np.ndarray) -> np.ndarray:
        if self.order is None:
            return w
        back = np.zeros((*w.shape[:-1], self.n_features_in + 1), dtype=w.dtype)
        back[..., self.order] = w[..., :-1]
        back[..., -1] = w[..., -1]
        return back


def facts_of(block: Block, with_ranges: bool = False) -> Facts:
    """Measure a block, and its columns if requested."""
    rows, n_rows = block.rows, row_count(block.rows)
    costs = int(row_work(rows).sum())
    arrays = rows if isinstance(rows, CSR) else (rows,)
    mapped = isinstance(rows, MappedRows)
    return Facts(
        n_rows,
        block.n_features,
        costs,
        sum(array.nbytes for array in arrays),
        rows.indptr is not None if isinstance(rows, MappedRows) else isinstance(rows, CSR),
        None if block.labels is None else Tally.of(block.labels),
        mapped or n_rows == 0 or (isinstance(rows, CSR) and len(rows.indices) == 0),
        ranges_of(rows) if with_ranges else None,
    )


def scaled_facts(facts: list[Facts], scale: ColumnScale | None) -> list[Facts]:
    """Return the facts of rows that are scaled while they are placed: they become float64."""
    if scale is None:
        return facts
    return [replace(fact, nbytes=8 * fact.n_rows * fact.n_features) for fact in facts]


@dataclass(frozen=True)
class Share:
    """What a block must know to find its cuts.

    Attributes
    ----------
    offset : cost of the rows before the block.
    total : cost of all rows that are cut together.
    n_shards : number of shards that these make up.
    first : number of the first of these shards.
    """

    offset: int
    total: int
    n_shards: int
    first: int


def shares(
    facts: list[Facts], n_features: int, shard_bytes: int, mapped: bool
) -> tuple[list[Share], int]:
    """Return the share of each block, and the number of shards.

    `n_features` is the number of internal columns. Mapped rows of different blocks cannot be
    concatenated. Every block is then cut on its own, and the shards follow from the data and from
    the batches in its files.
    """
    if not mapped:
        total, n_shards, offsets = equal_shares(facts, n_features, shard_bytes)
        return [Share(offset, total, n_shards, 0) for offset in offsets], n_shards
    target = max(shard_bytes // BYTES_PER_ENTRY, 16 * (n_features + 1))
    counts = [round(fact.cost / target) or 1 if fact.n_rows else 0 for fact in facts]
    ends = np.cumsum([0, *counts])
    found = [
        Share(0, fact.cost, count, int(first))
        for fact, count, first in zip(facts, counts, ends, strict=False)
    ]
    return found, int(ends[-1])


def equal_shares(
    facts: list[Facts], n_features: int, shard_bytes: int
) -> tuple[int, int, list[int]]:
    """Return the total cost, the number of shards, and the cost of the rows before each block."""
    costs = [fact.cost for fact in facts]
    total = sum(costs)
    n_shards = shard_count(total, n_features, shard_bytes)
    return total, n_shards, [int(offset) for offset in np.cumsum([0, *costs[:-1]])]


def shard_count(cost: int, n_features: int, shard_bytes: int) -> int:
    """Choose the number of shards.

    Shards have about `shard_bytes`. Small data is cut into 1, 2, 4 or 8 shards, for threads to
    share. A shard must not be so small that work on its vectors of length d (about four sweeps over
    them) rivals a pass over its rows.
    """
    target = max(1, shard_bytes // BYTES_PER_ENTRY)
    wanted = -(-cost // target)
    if wanted < 8:
        wanted = 1 << (max(1, min(8, 8 * cost // target)).bit_length() - 1)
    width = n_features + 1
    most = max(cost // (16 * width), 2 if cost >= 4 * width else 1)
    fewest = cost // MAX_ENTRIES + 1
    return int(max(fewest, min(wanted, most)))


def cut_block(block: Block, share: Share) -> list[tuple[int, int]]:
    """Cut a block according to its share; see `cut_points`."""
    cuts = cut_points(block, share.offset, share.total, share.n_shards)
    return [(share.first + number, row) for number, row in cuts]


def cut_points(block: Block, offset: int, total: int, n_shards: int) -> list[tuple[int, int]]:
    """Cut a block whose rows are preceded by rows of cost `offset`.

    Returns (shard number, first row of the block in that shard) pairs. The row that begins at
    running cost c belongs to shard floor(c n_shards / total).
    """
    costs = row_work(block.rows)
    before = offset + np.cumsum(costs) - costs
    numbers = before * n_shards // max(total, 1)
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return [(int(numbers[i]), int(i)) for i in firsts]


def assign_pieces(
    cuts: list[list[tuple[int, int]]], sizes: list[int], n_shards: int
) -> tuple[list[list[Piece]], tuple[int, ...]]:
    """Collect the pieces of each shard from the cuts of all blocks; also return `Layout.starts`."""
    pieces: list[list[Piece]] = [[] for _ in range(n_shards)]
    counts = np.zeros(n_shards, dtype=np.int64)
    for block, (points, size) in enumerate(zip(cuts, sizes, strict=True)):
        ends = [low for _, low in points[1:]] + [size] * bool(points)
        for (number, low), high in zip(points, ends, strict=True):
            pieces[number].append(Piece(block, low, high))
            counts[number] += high - low
    last = Piece(0, 0, 0)
    for own in pieces:
        if not own:  # a row that costs more than a whole share leaves the next shard empty
            own.append(Piece(last.block, last.high, last.high))
        last = own[-1]
    return pieces, tuple(int(start) for start in np.cumsum(np.append(0, counts)))


def layout_of(
    facts: list[Facts],
    starts: tuple[int, ...],
    order: np.ndarray | None,
    mapped: bool = False,
    scale: ColumnScale | None = None,
) -> Layout:
    """Assemble the layout; rows that stay in files stay as they are."""
    sparse = any(fact.sparse for fact in facts)
    n_features_in = facts[0].n_features
    width = width_of(n_features_in, order)
    scale = None if mapped else scale
    return Layout(starts[-1], n_features_in, width, starts, order, sparse, mapped, scale)


def width_of(n_features_in: int, order: np.ndarray | None) -> int:
    """Return the number of internal columns."""
    return n_features_in if order is None else len(order)


def column_order(
    facts: list[Facts], count: Callable[[list[tuple[int, int]]], np.ndarray]
) -> np.ndarray | None:
    """Order the columns by their frequency; None to keep the user's order.

    Frequencies are those in the first rows; or in all rows if the data is wide for its size, and
    columns that do not occur are then left out. `count` sums `count_columns` over (block number,
    number of rows) pairs.
    """
    n_features = facts[0].n_features
    if n_features < MIN_COLUMNS_TO_ORDER or not any(fact.sparse for fact in facts):
        return None
    if sum(fact.cost for fact in facts) <= MAX_ENTRIES_TO_DROP * n_features:
        counts = count([(number, fact.n_rows) for number, fact in enumerate(facts)])
        return order_columns(counts)[: max(1, np.count_nonzero(counts))]
    head, left = [], ROWS_TO_COUNT
    for number, fact in enumerate(facts):
        if left > 0 and fact.n_rows:
            head.append((number, min(left, fact.n_rows)))
        left -= fact.n_rows
    return order_columns(count(head))


def count_columns(block: Block, n_rows: int) -> np.ndarray:
    """Count the nonzeros of each column in the first `n_rows` rows of a block."""
    head = opened(slice_rows(block.rows, 0, n_rows))
    if not isinstance(head, CSR):
        return np.count_nonzero(head, axis=0)
    counts = np.zeros(block.n_features, dtype=np.int64)
    count_entries(head.indices, counts)
    return counts


def order_columns(counts: np.ndarray) -> np.ndarray:
    """Sort columns by descending frequency, so that a pass finds the frequent ones in the cache.

    Saves a fifth of the time of a pass over text, whose vocabulary is in some other order.
    """
    return np.argsort(-counts, kind="stable")


def positions(order: np.ndarray, n_features_in: int) -> np.ndarray:
    """Return the internal number of each original column that has one: the inverse of an order."""
    position: np.ndarray = np.zeros(n_features_in, dtype=column_type(len(order)))
    position[order] = np.arange(len(order), dtype=position.dtype)
    return position
