"""Rows that have been looked at and are ready to be placed, with the columns that go with them.

`LocalSource` is for rows in this process; `placement.ClusterSource` for rows on workers.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.engine.plan import Facts, Layout
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Piece, Shard, build_shard, encode


@dataclass(frozen=True)
class Summary:
    """Facts about all rows: sizes, and the sorted distinct values of the labels, if any."""

    n_rows: int
    n_features: int
    labels: np.ndarray | None


class Source(Protocol):
    """Checked rows, ready to be placed."""

    summary: Summary

    def place(self, classes: np.ndarray | None) -> LocalEngine:
        """See `Source.place`."""
        total, n_shards, offsets = plan.equal_shares(self._facts, _config.shard_bytes())
        cuts = [
            plan.cut_points(self._block(number), offset, total, n_shards)
            for number, offset in enumerate(offsets)
        ]
        sizes = [fact.n_rows for fact in self._facts]
        pieces, starts = plan.assign_pieces(cuts, sizes, n_shards)
        order = plan.column_order(
            self._facts, lambda number, n_rows: plan.count_columns(self._block(number), n_rows)
        )
        layout = plan.layout_of(self._facts, starts, order)
        shards = self._build(pieces, layout, classes)
        return LocalEngine(shards, layout, _config.local_threads())

    def _block(self, number: int) -> Block:
        block = self._blocks[number]
        assert block is not None, "block used after it was let go"
        return block

    def _build(
        self, pieces: list[list[Piece]], layout: Layout, classes: np.ndarray | None
    ) -> list[Shard]:
        position = None if layout.order is None else plan.positions(layout.order)
        shards = []
        for number, own in enumerate(pieces):
            start, stop = layout.starts[number], layout.starts[number + 1]
            parts = [(self._block(piece.block), piece.low, piece.high) for piece in own]
            columns = self._columns.part(classes, start, stop)
            shards.append(
                build_shard(
                    number, start, layout.n_features, parts, classes, position, columns, self._own
                )
            )
            if self._own:  # pieces go in the order of the blocks: those before are used up
                self._blocks[: own[-1].block] = [None] * own[-1].block
        self._blocks = []
        return shards
