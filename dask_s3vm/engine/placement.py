"""Rows on the workers of a dask cluster, and how shards find their place there.

Blocks are computed (or sent) once and stay as futures; shards are built from them by tasks on the
worker that will hold them, and handed to an actor there. Then the blocks are let go: there is one
copy of the rows. After a loss all of it is done again, from the dask graph or the client's rows.
"""

import itertools
import logging
import uuid
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import distributed
import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block, row_count, slice_block
from dask_s3vm.engine.calls import LOST, RemoteActor
from dask_s3vm.engine.clients import worker_threads
from dask_s3vm.engine.cluster import ActorGroup, ClusterEngine, submit_group
from dask_s3vm.engine.estimate import DataSize, check_room, stays_mapped
from dask_s3vm.engine.memory import worker_limits
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Piece, build_shard
from dask_s3vm.engine.sources import Columns, LocalSource, summarise
from dask_s3vm.engine.tree import node_edges
from dask_s3vm.exceptions import MemoryShortWarning, WorkerLostError

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: Makes the blocks, as futures, in order.
MakeBlocks = Callable[[], list[distributed.Future]]


def computed_blocks(client: distributed.Client, lazy: list[Any]) -> MakeBlocks:
    """Blocks computed on the workers from a dask graph."""
    return lambda: client.compute(lazy)


def scattered_blocks(
    client: distributed.Client, block: Block, nbytes: int, block_map: Any = None
) -> MakeBlocks:
    """Rows of this process, sent to the workers in slices, and replaced there by `block_map`.

    nbytes : size of the rows, of the new ones if they are replaced.
    """
    n_rows = row_count(block.rows)

    def send() -> list[distributed.Future]:
        n_slices = max(len(client.nthreads()), nbytes // _config.shard_bytes() + 1)
        edges = np.linspace(0, n_rows, min(n_slices, n_rows) + 1).astype(int)
        if block_map is not None:
            edges[:-1] -= edges[:-1] % block_map.piece_rows
            edges = np.unique(edges)
            sent_map = client.scatter(block_map, hash=False)
        blocks = []
        for low, high in itertools.pairwise(edges):
            # one by one: in one message they would all be in the scheduler's memory at once
            sent = client.scatter([slice_block(block, low, high)], hash=False)[0]
            if block_map is not None:
                sent = client.submit(_mapped, sent_map, sent, pure=False)
            blocks.append(sent)
        return blocks

    return send


def _mapped(block_map: Any, block: Block) -> Block:
    return block_map(block)


class ClusterSource:
    """Blocks on the workers of a client."""

    def __init__(
        self, client: distributed.Client, make_blocks: MakeBlocks, columns: Columns
    ) -> None:
        self._client = client
        self._make_blocks = make_blocks
        self._columns = columns
        self._blocks: list[distributed.Future] = []
        try:
            self.facts = self._retried(lambda: self._map(plan.facts_of))
            self.summary = summarise(self.facts, columns)
        except BaseException:
            self.close()
            raise

    def gather(self) -> LocalSource:
        """Bring the rows to this process."""
        blocks = self._retried(lambda: self._client.gather(self._present()))
        self.close()
        return LocalSource(blocks, self._columns, own=True)

    def place(self, classes: np.ndarray | None) -> Engine:
        """See `Source.place`."""
        pieces, layout = self._retried(self._lay_out)
        return ClusterEngine(
            self._client, lambda: self._place_shards(pieces, layout, classes), layout
        )

    def close(self) -> None:
        """Let go of the blocks."""
        self._blocks = []

    def _present(self) -> list[distributed.Future]:
        """Return the blocks, made if they are not there."""
        self._blocks = self._blocks or self._make_blocks()
        return self._blocks

    def _retried(self, work: Callable[[], T]) -> T:
        """Do something with the blocks; again, with new ones, if a worker was lost."""
        for attempt in range(_config.recovery_attempts()):
            try:
                return work()
            except LOST as error:
                logger.warning("%r; reading the rows again (%d)", error, attempt + 1)
                self.close()
        return work()

    def _map(self, function: Callable[..., R], *columns: list[Any], **fixed: Any) -> list[R]:
        """Run a function on every block, beside the entries of columns."""
        futures = self._client.map(function, self._present(), *columns, pure=False, **fixed)
        return self._client.gather(futures)

    def _lay_out(self) -> tuple[list[list[Piece]], Layout]:
        """Find the pieces of each shard, and the layout."""
        mapped = self._stays_mapped()
        shares, n_shards = plan.shares(self.facts, _config.shard_bytes(), mapped)
        cuts = self._map(plan.cut_block, shares)
        sizes = [fact.n_rows for fact in self.facts]
        pieces, starts = plan.assign_pieces(cuts, sizes, n_shards)
        order = None if mapped else plan.column_order(self.facts, self._count_columns)
        return pieces, plan.layout_of(self.facts, starts, order, mapped)

    def _stays_mapped(self) -> bool:
        """Whether rows stay in files; the first to tell of data that does not fit at all."""
        limits, size = worker_limits(self._client), DataSize.of(self.facts)
        threads = tuple(worker_threads(self._client).values())
        mapped = stays_mapped(size, limits, threads)
        warning = check_room(size, limits, threads, mapped)
        if warning:
            warnings.warn(warning, MemoryShortWarning, stacklevel=2)
        return mapped

    def _count_columns(self, head: list[tuple[int, int]]) -> list[np.ndarray]:
        blocks = self._present()
        counts = [
            self._client.submit(plan.count_columns, blocks[number], n_rows, pure=False)
            for number, n_rows in head
        ]
        return self._client.gather(counts)

    def _place_shards(
        self, pieces: list[list[Piece]], layout: Layout, classes: np.ndarray | None
    ) -> list[ActorGroup]:
        """Build the shards where they are to be; see `ClusterEngine` for what a loss does."""
        try:
            threads = worker_threads(self._client)
            check_room(
                DataSize.of(self.facts),
                worker_limits(self._client),  # fewer workers, after a loss
                tuple(threads.values()),
                layout.mapped,
            )
            runs = _runs(layout.n_shards, list(threads.values()))
            actors = self._submit(pieces, layout, classes, threads, runs)
            return [
                ActorGroup(RemoteActor(self._client, actor), first, stop, layout.n_shards)
                for actor, (first, stop) in zip(actors, runs, strict=True)
            ]
        except LOST as error:
            raise WorkerLostError(f"a worker was lost while rows were placed: {error!r}") from error
        finally:
            self.close()

    def _submit(
        self,
        pieces: list[list[Piece]],
        layout: Layout,
        classes: np.ndarray | None,
        threads: dict[str, int],
        runs: list[tuple[int, int]],
    ) -> list[distributed.Future]:
        """Start building shards and groups; the blocks go as soon as nothing needs them."""
        client, blocks = self._client, self._present()
        homes = _homes(client, blocks, pieces, runs, list(threads))
        token = uuid.uuid4().hex[:12]
        position = None
        if layout.order is not None:
            position = client.submit(plan.positions, layout.order, key=f"s3vm-columns-{token}")
        actors = []
        for home, (first, stop) in zip(homes, runs, strict=True):
            shards = [
                client.submit(
                    build_shard,
                    number,
                    layout.starts[number],
                    layout,
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
        self.close()
        return actors


def _runs(n_shards: int, threads: list[int]) -> list[tuple[int, int]]:
    """Cut the shards into one consecutive run per worker, by its threads; none is empty.

    Runs end where large nodes of the tree of sums end, an eighth of a share off at most: a group
    then answers with few partial sums.
    """
    ideal = np.cumsum([0, *threads]) * n_shards / sum(threads)
    ends = np.array(node_edges(n_shards, 4 * len(threads)))
    edges = [int(ends[np.argmin(np.abs(ends - edge))]) for edge in ideal]
    return [(first, stop) for first, stop in itertools.pairwise(edges) if stop > first]


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
