"""Where the rows are cut into shards, and how their columns are numbered.

Both follow from the data alone: not from chunks, workers or threads. A shard is cut where the
running cost of the rows (stored entries, and a little per row) passes a multiple of an equal
share, so shards are balanced by work; a block can find its cuts on its own once it knows the
cost of all rows before it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.blocks import (
    MAX_ENTRIES,
    Block,
    column_type,
    opened,
    row_costs,
    row_count,
    slice_rows,
)
from dask_s3vm.engine.mapped import MappedRows
from dask_s3vm.engine.shard import Piece
from dask_s3vm.kernels.rows import CSR

#: A stored entry with its column number, as the nominal unit of `shard-bytes`.
BYTES_PER_ENTRY = 12

#: Below this width all of a vector is in the fastest cache and column order does not matter.
MIN_COLUMNS_TO_ORDER = 4096

#: Column frequencies are taken from so many rows at the head of the data.
ROWS_TO_COUNT = 16_384


@dataclass(frozen=True)
class Facts:
    """What is known of one block: sizes, and the values that labels take in it.

    mapped : whether its rows can stay in their file; true where there is nothing to store.
    """

    n_rows: int
    n_features: int
    cost: int
    nbytes: int
    sparse: bool
    labels: np.ndarray | None
    mapped: bool = False


@dataclass(frozen=True)
class Layout:
    """How the data lies in shards.

    Attributes
    ----------
    n_rows, n_features : shape of the data.
    starts : first row of each shard, and `n_rows` at the end.
    order : original number of each internal column, or None where they are the same.
    sparse : whether shards are sparse: if any block of the data is.
    mapped : whether shards are views of files: each of rows of one block, as the file has them.
    """

    n_rows: int
    n_features: int
    starts: tuple[int, ...]
    order: np.ndarray | None
    sparse: bool
    mapped: bool = False

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return len(self.starts) - 1

    def to_internal(self, w: np.ndarray) -> np.ndarray:
        """Bring a vector (.., d + 1) over features and bias to the internal column order."""
        if self.order is None:
            return w
        return np.concatenate([w[..., :-1][..., self.order], w[..., -1:]], axis=-1)

    def to_external(self, w: np.ndarray) -> np.ndarray:
        """Bring a vector (.., d + 1) in internal column order back to the user's."""
        if self.order is None:
            return w
        back = np.empty_like(w)
        back[..., self.order] = w[..., :-1]
        back[..., -1] = w[..., -1]
        return back


def facts_of(block: Block) -> Facts:
    """Measure a block."""
    rows, n_rows = block.rows, row_count(block.rows)
    costs = int(row_costs(rows).sum())
    arrays = rows if isinstance(rows, CSR) else (rows,)
    mapped = isinstance(rows, MappedRows)
    return Facts(
        n_rows,
        block.n_features,
        costs,
        sum(array.nbytes for array in arrays),
        rows.indptr is not None if isinstance(rows, MappedRows) else isinstance(rows, CSR),
        None if block.labels is None else np.unique(block.labels),
        mapped or n_rows == 0 or (isinstance(rows, CSR) and len(rows.indices) == 0),
    )


def equal_shares(facts: list[Facts], shard_bytes: int) -> tuple[int, int, list[int]]:
    """Total cost, number of shards, and the cost before each block."""
    costs = [fact.cost for fact in facts]
    total = sum(costs)
    n_shards = shard_count(total, facts[0].n_features, shard_bytes)
    return total, n_shards, [int(offset) for offset in np.cumsum([0, *costs[:-1]])]


@dataclass(frozen=True)
class Share:
    """What a block must know to find its cuts.

    It begins at cost `offset` of `total`, which is cut into `n_shards`, the first of them number
    `first`.
    """

    offset: int
    total: int
    n_shards: int
    first: int


def shares(facts: list[Facts], shard_bytes: int, mapped: bool) -> tuple[list[Share], int]:
    """Find the share of each block, and the number of shards.

    Rows that are mapped cannot be put together: every block is cut for itself, so that the shards
    follow from the data and from the batches in which its files hold it.
    """
    if not mapped:
        total, n_shards, offsets = equal_shares(facts, shard_bytes)
        return [Share(offset, total, n_shards, 0) for offset in offsets], n_shards
    target = max(shard_bytes // BYTES_PER_ENTRY, 16 * (facts[0].n_features + 1))
    counts = [round(fact.cost / target) or 1 if fact.n_rows else 0 for fact in facts]
    ends = np.cumsum([0, *counts])
    found = [
        Share(0, fact.cost, count, int(first))
        for fact, count, first in zip(facts, counts, ends, strict=False)
    ]
    return found, int(ends[-1])


def column_order(
    facts: list[Facts], count: Callable[[list[tuple[int, int]]], list[np.ndarray]]
) -> np.ndarray | None:
    """Order the columns by how often they occur in the first rows; None to leave them.

    `count` counts the columns in the head of the data: in the first rows of each block, given as
    (block, rows) pairs.
    """
    n_features = facts[0].n_features
    if n_features < MIN_COLUMNS_TO_ORDER or not any(fact.sparse for fact in facts):
        return None
    head, left = [], ROWS_TO_COUNT
    for number, fact in enumerate(facts):
        if left > 0 and fact.n_rows:
            head.append((number, min(left, fact.n_rows)))
        left -= fact.n_rows
    return order_columns(np.sum(count(head), axis=0))


def layout_of(
    facts: list[Facts], starts: tuple[int, ...], order: np.ndarray | None, mapped: bool = False
) -> Layout:
    """Put together what has been found out."""
    sparse = any(fact.sparse for fact in facts)
    return Layout(starts[-1], facts[0].n_features, starts, order, sparse, mapped)


def shard_count(cost: int, n_features: int, shard_bytes: int) -> int:
    """Choose the number of shards.

    Shards of about `shard_bytes`; small data in 2, 4 or 8, for threads to share; but not so many
    that handling a shard's vectors of length d (about four sweeps over them) rivals its pass.
    """
    target = max(1, shard_bytes // BYTES_PER_ENTRY)
    wanted = -(-cost // target)
    if wanted < 8:
        wanted = 1 << (max(1, min(8, 8 * cost // target)).bit_length() - 1)
    width = n_features + 1
    most = max(cost // (16 * width), 2 if cost >= 4 * width else 1)
    fewest = cost // MAX_ENTRIES + 1
    return int(max(fewest, min(wanted, most)))


def cut_points(block: Block, offset: int, total: int, n_shards: int) -> list[tuple[int, int]]:
    """Cut a block whose rows are preceded by rows of cost `offset`.

    Returns (shard number, row of the block at which that shard's part begins) pairs; the row
    that begins at running cost c belongs to shard floor(c n_shards / total).
    """
    costs = row_costs(block.rows)
    before = offset + np.cumsum(costs) - costs
    numbers = before * n_shards // max(total, 1)
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return [(int(numbers[i]), int(i)) for i in firsts]


def cut_block(block: Block, share: Share) -> list[tuple[int, int]]:
    """Cut a block by its share; see `cut_points`."""
    cuts = cut_points(block, share.offset, share.total, share.n_shards)
    return [(share.first + number, row) for number, row in cuts]


def assign_pieces(
    cuts: list[list[tuple[int, int]]], sizes: list[int], n_shards: int
) -> tuple[list[list[Piece]], tuple[int, ...]]:
    """Collect, from the cuts of all blocks, the pieces of each shard and the shards' first rows."""
    pieces: list[list[Piece]] = [[] for _ in range(n_shards)]
    counts = np.zeros(n_shards, dtype=np.int64)
    for block, (points, size) in enumerate(zip(cuts, sizes, strict=True)):
        ends = [low for _, low in points[1:]] + [size] * bool(points)
        for (number, low), high in zip(points, ends, strict=True):
            pieces[number].append(Piece(block, low, high))
            counts[number] += high - low
    last = Piece(0, 0, 0)
    for own in pieces:
        if not own:  # one row outweighs a whole share: the next shard is empty
            own.append(Piece(last.block, last.high, last.high))
        last = own[-1]
    return pieces, tuple(int(start) for start in np.cumsum(np.append(0, counts)))


def count_columns(block: Block, n_rows: int) -> np.ndarray:
    """Count how often each column is not zero in the first `n_rows` rows of a block."""
    head = opened(slice_rows(block.rows, 0, n_rows))
    if not isinstance(head, CSR):
        return np.count_nonzero(head, axis=0)
    return np.bincount(head.indices, minlength=block.n_features)


def order_columns(counts: np.ndarray) -> np.ndarray:
    """Most frequent columns first, so that a pass finds them together in the cache.

    A fifth off a pass over text, whose vocabulary is numbered in some other way.
    """
    return np.argsort(-counts, kind="stable")


def positions(order: np.ndarray) -> np.ndarray:
    """Invert an order: the internal number of each original column."""
    position: np.ndarray = np.empty(len(order), dtype=column_type(len(order)))
    position[order] = np.arange(len(order), dtype=position.dtype)
    return position
