"""Sources: checked rows with their labels and weights, ready to be placed in an engine.

`LocalSource` holds rows in this process, `placement.ClusterSource` rows on workers.
"""

import sys
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import memory, plan
from dask_s3vm.engine.blocks import Block
from dask_s3vm.engine.column_scale import ColumnScale, Ranges
from dask_s3vm.engine.estimate import DataSize, stays_mapped
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.engine.plan import Facts, Layout
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Piece, Shard, build_shard, encode
from dask_s3vm.labels import Tally


@dataclass(frozen=True)
class Summary:
    """Measurements of all rows.

    n_rows, n_features : shape of the data.
    labels : distinct labels and their counts; None without labels.
    block_rows : number of rows of each block.
    ranges : of the columns, where they were asked for and all rows are dense; else None.
    """

    n_rows: int
    n_features: int
    labels: Tally | None
    block_rows: tuple[int, ...]
    ranges: Ranges | None = None


class Source(Protocol):
    """Checked rows, ready to be placed."""

    summary: Summary

    def place(self, classes: np.ndarray | None, scale: ColumnScale | None = None) -> Engine:
        """Cut the rows into shards, and return an engine that holds them.

        classes : sorted class labels, which become class numbers; other labels are unlabeled rows.
            None for rows without labels.
        scale : of the columns of dense rows; rows that stay in files stay as they are.

        May be called once: the rows move to the engine.
        """
        ...

    def close(self) -> None:
        """Release the rows, if they have not been placed."""
        ...


@dataclass(frozen=True)
class Columns:
    """Labels and weights of all rows, in this process; None if absent or part of the blocks."""

    labels: np.ndarray | None
    weights: np.ndarray | None

    def check(self, n_rows: int) -> None:
        """Raise `ValueError` if the length is not the number of rows of X."""
        for name, values in (("y", self.labels), ("sample_weight", self.weights)):
            if values is not None and len(values) != n_rows:
                raise ValueError(
                    f"{name} does not fit X: X has {n_rows} rows, {name} has {len(values)} entries"
                )

    def part(
        self, classes: np.ndarray | None, start: int, stop: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the class numbers and the weights of rows `start` to `stop`."""
        codes = weights = None
        if self.labels is not None and classes is not None:
            codes = encode(self.labels[start:stop], classes)
        if self.weights is not None:
            weights = self.weights[start:stop]
        return codes, weights


def summarize(facts: list[Facts], columns: Columns) -> Summary:
    """Check that blocks and columns fit together, and summarize them."""
    widths = {fact.n_features for fact in facts}
    if len(widths) > 1:
        raise ValueError(
            f"the blocks of X have different numbers of columns: {sorted(widths)}; wanted one"
        )
    n_rows = sum(fact.n_rows for fact in facts)
    n_features = widths.pop()
    if n_rows == 0 or n_features == 0:
        raise ValueError(
            f"X is empty: it has shape ({n_rows}, {n_features}); wanted at least one row and column"
        )
    columns.check(n_rows)
    found = [fact.labels for fact in facts if fact.labels is not None and len(fact.labels.values)]
    labels = Tally.joined(found) if found else None
    if columns.labels is not None:
        labels = Tally.of(columns.labels)
    ranges = [fact.ranges for fact in facts if fact.ranges is not None]
    measured = bool(ranges) and not any(fact.sparse for fact in facts)
    return Summary(
        n_rows,
        n_features,
        labels,
        tuple(fact.n_rows for fact in facts),
        Ranges.joined(ranges) if measured else None,
    )


class LocalSource:
    """Blocks in this process; see `Source`.

    Parameters
    ----------
    blocks : the blocks, in order.
    columns : labels and weights that are not part of the blocks.
    own : whether shards copy the rows, and blocks are released as this proceeds; else shards are
        views of the user's arrays where possible.
    with_ranges : whether columns are measured.
    """

    def __init__(
        self, blocks: list[Block], columns: Columns, own: bool, with_ranges: bool = False
    ) -> None:
        self._blocks: list[Block | None] = list(blocks)
        self._facts = [plan.facts_of(block, with_ranges) for block in blocks]
        self._columns = columns
        self._own = own
        self.summary = summarize(self._facts, columns)

    def place(
        self,
        classes: np.ndarray | None,
        scale: ColumnScale | None = None,
        *,
        whole: bool = False,
    ) -> LocalEngine:
        """See `Source.place`; `whole`: in one shard, for solves that have one thread each."""
        self._facts = plan.scaled_facts(self._facts, scale)
        threads, size = {"here": _config.local_threads()}, DataSize.of(self._facts)
        mapped = size.in_files and stays_mapped(size, {"here": memory.limit_here()}, threads)
        order = None if mapped else plan.column_order(self._facts, self._count_columns)
        width = plan.width_of(self.summary.n_features, order)
        shard_bytes = sys.maxsize if whole else _config.shard_bytes()
        shares, n_shards = plan.shares(self._facts, width, shard_bytes, mapped)
        cuts = [plan.cut_block(self._block(i), share) for i, share in enumerate(shares)]
        sizes = [fact.n_rows for fact in self._facts]
        pieces, starts = plan.assign_pieces(cuts, sizes, n_shards)
        layout = plan.layout_of(self._facts, starts, order, mapped, scale)
        shards = self._build(pieces, layout, classes)
        return LocalEngine(shards, layout, _config.local_threads())

    def close(self) -> None:
        """Release the blocks."""
        self._blocks = []

    def _block(self, number: int) -> Block:
        block = self._blocks[number]
        assert block is not None, "the block was used after its release"
        return block

    def _count_columns(self, head: list[tuple[int, int]]) -> np.ndarray:
        counts = np.zeros(self.summary.n_features, dtype=np.int64)
        for number, n_rows in head:
            counts += plan.count_columns(self._block(number), n_rows)
        return counts

    def _build(
        self, pieces: list[list[Piece]], layout: Layout, classes: np.ndarray | None
    ) -> list[Shard]:
        """Build all shards, and release the blocks."""
        order = layout.order
        position = None if order is None else plan.positions(order, layout.n_features_in)
        shards = []
        for number, own in enumerate(pieces):
            start, stop = layout.starts[number], layout.starts[number + 1]
            parts = [(self._block(piece.block), piece.low, piece.high) for piece in own]
            columns = self._columns.part(classes, start, stop)
            shard = build_shard(
                number, start, layout, parts, classes, position, columns, self._own, layout.scale
            )
            shards.append(shard)
            if self._own:  # pieces are in the order of blocks: earlier blocks are no longer needed
                self._blocks[: own[-1].block] = [None] * own[-1].block
        self._blocks = []
        return shards
