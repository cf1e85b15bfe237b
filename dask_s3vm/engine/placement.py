"""Rows on the workers of a dask cluster, and how shards find their place there.

Blocks are computed (or sent) once and stay as futures; shards are built from them by tasks on the
worker that will hold them, and handed to an actor there. Then the blocks are let go: there is one
copy of the rows. After a loss all of it is done again, from the dask graph or the client's rows.
"""

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import distributed
import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block, slice_block
from dask_s3vm.engine.clients import worker_threads
from dask_s3vm.engine.cluster import ActorGroup, ClusterEngine, submit_group
from dask_s3vm.engine.plan import Facts, Layout
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Piece, build_shard
from dask_s3vm.engine.sources import Columns, LocalSource, summarise

#: Makes the blocks, as futures, in order.
MakeBlocks = Callable[[], list[distributed.Future]]


def computed_blocks(client: distributed.Client, lazy: list[Any]) -> MakeBlocks:
    """Blocks computed on the workers from a dask graph."""
    return lambda: client.compute(lazy)


def scattered_blocks(client: distributed.Client, block: Block) -> MakeBlocks:
    """Rows of this process, sent to the workers in slices."""
    facts = plan.facts_of(block)

    def send() -> list[distributed.Future]:
        n_slices = max(len(client.nthreads()), facts.nbytes // _config.shard_bytes() + 1)
        edges = np.linspace(0, facts.n_rows, n_slices + 1).astype(int)
        slices = [slice_block(block, low, high) for low, high in itertools.pairwise(edges)]
        return client.scatter(slices, hash=False)

    return send


class ClusterSource:
    """Blocks on the workers of a client."""

    def __init__(
        self, client: distributed.Client, make_blocks: MakeBlocks, columns: Columns
    ) -> None:
        self._client = client
        self._make_blocks = make_blocks
        self._columns = columns
        self._blocks: list[distributed.Future] = make_blocks()
        self.facts: list[Facts] = client.gather(
            client.map(plan.facts_of, self._blocks, pure=False, key="s3vm-measure")
        )
        self.summary = summarise(self.facts, columns)

    def gather(self) -> LocalSource:
        """Bring the rows to this process."""
        return LocalSource(self._client.gather(self._take_blocks()), self._columns, own=True)

    def place(self, classes: np.ndarray | None) -> Engine:
        """See `Source.place`."""
        pieces, layout = self._lay_out()
        return ClusterEngine(lambda: self._place_shards(pieces, layout, classes), layout)

    def _lay_out(self) -> tuple[list[list[Piece]], Layout]:
        """Find the pieces of each shard, and the layout."""
        client, blocks = self._client, self._blocks
        total, n_shards, offsets = plan.equal_shares(self.facts, _config.shard_bytes())
        cuts = client.gather(
            client.map(plan.cut_points, blocks, offsets, total=total, n_shards=n_shards, pure=False)
        )
        sizes = [fact.n_rows for fact in self.facts]
        pieces, starts = plan.assign_pieces(cuts, sizes, n_shards)
        order = plan.column_order(
            self.facts,
            lambda number, n_rows: client.submit(
                plan.count_columns, blocks[number], n_rows, pure=False
            ).result(),
        )
        return pieces, plan.layout_of(self.facts, starts, order)

    def _take_blocks(self) -> list[distributed.Future]:
        """Hand the blocks out; nobody else holds them, so whoever takes them can let them go."""
        blocks, self._blocks = self._blocks, []
        return blocks or self._make_blocks()

    def _place_shards(
        self, pieces: list[list[Piece]], layout: Layout, classes: np.ndarray | None
    ) -> list[ActorGroup]:
        client = self._client
        threads = worker_threads(client)
        blocks = self._take_blocks()
        runs = _runs(layout.n_shards, list(threads.values()))
        homes = _homes(client, blocks, pieces, runs, list(threads))
        position = None if layout.order is None else plan.positions(layout.order)
        token = uuid.uuid4().hex[:12]
        actors = []
        for home, (first, stop) in zip(homes, runs, strict=True):
            shards = [
                client.submit(
                    build_shard,
                    number,
                    layout.starts[number],
                    layout.n_features,
                    [(blocks[piece.block], piece.low, piece.high) for piece in pieces[number]],
                    classes,
                    position,
                    self._columns.part(classes, layout.starts[number], layout.starts[number + 1]),
                    key=f"s3vm-shard-{token}-{number}",
                    workers=[home],
                    allow_other_workers=True,
                )
                for number in range(first, stop)
            ]
            key = f"s3vm-group-{token}-{first}"
            actors.append(submit_group(client, shards, layout.n_shards, home, threads[home], key))
        del blocks, shards  # the workers keep them as long as a shard or group needs them
        return [
            ActorGroup(actor, first, stop, layout.n_shards)
            for actor, (first, stop) in zip(actors, runs, strict=True)
        ]


def _runs(n_shards: int, threads: list[int]) -> list[tuple[int, int]]:
    """Cut the shards into one consecutive run per worker, by its threads; none is empty."""
    edges = np.rint(np.cumsum([0, *threads]) * n_shards / sum(threads)).astype(int)
    runs = itertools.pairwise(int(edge) for edge in edges)
    return [(first, stop) for first, stop in runs if stop > first]


def _homes(
    client: distributed.Client,
    blocks: list[distributed.Future],
    pieces: list[list[Piece]],
    runs: list[tuple[int, int]],
    workers: list[str],
) -> list[str]:
    """Choose a worker for each run of shards: the free one that has most of its blocks."""
    holders = client.who_has(blocks)
    free, homes = list(workers), []
    for first, stop in runs:
        rows = dict.fromkeys(free, 0)
        for piece in (piece for number in range(first, stop) for piece in pieces[number]):
            for worker in holders.get(blocks[piece.block].key, ()):
                if worker in rows:
                    rows[worker] += piece.high - piece.low
        home = max(free, key=lambda worker: rows[worker])
        free.remove(home)
        homes.append(home)
    return homes
