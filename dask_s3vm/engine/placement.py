"""Rows on the workers of a dask cluster, and how shards find their place there.

Blocks are computed (or sent) once and stay as futures; shards are built from them by tasks on the
worker that will hold them, and handed to an actor there. Then the blocks are let go: there is one
copy of the rows. After a loss it is done again for the shards that are missing, from the dask graph
or the client's rows.
"""

import contextlib
import itertools
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import distributed
import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block, row_count, slice_block
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.calls import LOST, remote_actors
from dask_s3vm.engine.cluster import ActorGroup, ClusterEngine
from dask_s3vm.engine.computing import check_lineage
from dask_s3vm.engine.estimate import DataSize, check_room, stays_mapped
from dask_s3vm.engine.member import Member
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Piece, build_shard
from dask_s3vm.engine.sources import Columns, LocalSource, summarize
from dask_s3vm.engine.spread import Holdings, first_runs
from dask_s3vm.engine.watch import gathered, watched
from dask_s3vm.engine.workers import worker_limits, worker_threads
from dask_s3vm.exceptions import MemoryShortWarning, WorkerLostError
from dask_s3vm.interrupts import warn

T = TypeVar("T")
R = TypeVar("R")

#: Makes blocks of some numbers, as futures.
MakeBlocks = Callable[[Sequence[int]], dict[int, distributed.Future]]


class ComputedBlocks:
    """Blocks computed on the workers from a dask graph."""

    def __init__(self, client: distributed.Client, lazy: list[Any]) -> None:
        self._client = client
        self._lazy = lazy
        self.n_blocks = len(lazy)

    def __call__(self, numbers: Sequence[int]) -> dict[int, distributed.Future]:
        """See `MakeBlocks`."""
        futures = self._client.compute([self._lazy[number] for number in numbers])
        return dict(zip(numbers, futures, strict=True))

    def check_lineage(self, loss: BaseException) -> None:
        """Raise `LineageError` if some of the user's data can never be computed again."""
        check_lineage(loss)


class ScatteredBlocks:
    """Rows of this process, sent to the workers in slices, and replaced there by `block_map`.

    n_workers : at least so many slices.
    nbytes : size of the rows, of the new ones if they are replaced.
    """

    def __init__(
        self,
        client: distributed.Client,
        block: Block,
        n_workers: int,
        nbytes: int,
        block_map: Any = None,
    ) -> None:
        self._client = client
        self._block = block
        self._map = block_map
        n_rows = row_count(block.rows)
        n_slices = min(max(n_workers, nbytes // _config.shard_bytes() + 1), n_rows)
        edges = np.linspace(0, n_rows, n_slices + 1).astype(int)
        if block_map is not None:
            edges[:-1] -= edges[:-1] % block_map.piece_rows
            edges = np.unique(edges)
        # fixed for good: what is sent again must be the same slices
        self._slices = list(itertools.pairwise(edges.tolist()))
        self.n_blocks = len(self._slices)

    def __call__(self, numbers: Sequence[int]) -> dict[int, distributed.Future]:
        """See `MakeBlocks`."""
        sent_map = None if self._map is None else self._send(self._map)
        blocks = {}
        for number in numbers:
            # one by one: in one message they would all be in the scheduler's memory at once
            sent = self._send(slice_block(self._block, *self._slices[number]))
            if sent_map is not None:
                sent = self._client.submit(_mapped, sent_map, sent, pure=False)
            blocks[number] = sent
        return blocks

    def check_lineage(self, loss: BaseException) -> None:
        """Rows in this process can always be sent again."""

    def _send(self, value: Any) -> distributed.Future:
        try:
            return watched(
                self._client,
                lambda: self._client.scatter([value], hash=False, asynchronous=True),
            )[0]
        except TimeoutError as error:
            raise WorkerLostError("no worker takes rows") from error


def _mapped(block_map: Any, block: Block) -> Block:
    return block_map(block)


class ClusterSource:
    """Blocks on the workers of a client."""

    def __init__(
        self,
        client: distributed.Client,
        make_blocks: ComputedBlocks | ScatteredBlocks,
        columns: Columns,
    ) -> None:
        self._client = client
        self._make_blocks = make_blocks
        self._columns = columns
        self._blocks: dict[int, distributed.Future] = {}
        self._in_a_row = 0  # losses
        self._budget = Budget()
        try:
            self.facts = self._retried(lambda: self._map(plan.facts_of))
            self.summary = summarize(self.facts, columns)
        except BaseException:
            self.close()
            raise

    def gather(self) -> LocalSource:
        """Bring the rows to this process."""
        blocks = self._retried(lambda: gathered(self._client, self._all_blocks()))
        self.close()
        return LocalSource(blocks, self._columns, own=True)

    def place(self, classes: np.ndarray | None) -> Engine:
        """See `Source.place`."""
        pieces, layout = self._retried(self._lay_out)
        return ClusterEngine(self._client, _Maker(self, pieces, layout, classes), layout)

    def close(self) -> None:
        """Let go of the blocks."""
        self._blocks = {}

    def blocks(self, numbers: Collection[int]) -> dict[int, distributed.Future]:
        """Return blocks, made if they are not there."""
        missing = sorted(number for number in set(numbers) if number not in self._blocks)
        if missing:
            self._blocks |= self._make_blocks(missing)
        return {number: self._blocks[number] for number in numbers}

    def forget(self, loss: BaseException) -> None:
        """Let go of blocks after a loss; raises `LineageError` if they cannot be made again."""
        self.close()
        self._in_a_row += 1
        if self._in_a_row > 1:  # the first time it may have been blocks of ours
            self._make_blocks.check_lineage(loss)

    def found(self) -> None:
        """Blocks were there: losses from before were got over."""
        self._in_a_row = 0

    def columns_of(
        self, classes: np.ndarray | None, start: int, stop: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Class numbers and weights of some rows, where these did not come with the blocks."""
        return self._columns.part(classes, start, stop)

    def _all_blocks(self) -> list[distributed.Future]:
        return list(self.blocks(range(self._make_blocks.n_blocks)).values())

    def _retried(self, work: Callable[[], T]) -> T:
        """Do something with the blocks; again, with new ones, if a worker was lost."""
        while True:
            try:
                result = work()
            except LOST as error:
                self.forget(error)
                self._budget.spend(error)
                worker_threads(self._client, patience=_config.replacement_timeout())
            else:
                self.found()
                self._budget.progress()
                return result

    def _map(self, function: Callable[..., R], *columns: list[Any], **fixed: Any) -> list[R]:
        """Run a function on every block, beside the entries of columns."""
        futures = self._client.map(function, self._all_blocks(), *columns, pure=False, **fixed)
        return gathered(self._client, futures)

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
        threads = worker_threads(self._client)
        limits, size = worker_limits(self._client, threads), DataSize.of(self.facts)
        mapped = stays_mapped(size, limits, threads)
        warning = check_room(size, limits, threads, mapped)
        if warning:
            warn(warning, MemoryShortWarning)
        return mapped

    def _count_columns(self, head: list[tuple[int, int]]) -> list[np.ndarray]:
        blocks = self.blocks([number for number, _ in head])
        counts = [
            self._client.submit(plan.count_columns, blocks[number], n_rows, pure=False)
            for number, n_rows in head
        ]
        return gathered(self._client, counts)


class _Maker:
    """Makes shards from blocks; see `cluster.ShardMaker`."""

    def __init__(
        self,
        source: ClusterSource,
        pieces: list[list[Piece]],
        layout: Layout,
        classes: np.ndarray | None,
    ) -> None:
        self._source = source
        self._client = source._client
        self._pieces = pieces
        self._layout = layout
        self._classes = classes

    def assign(self, threads: dict[str, int]) -> Holdings:
        """Consecutive runs by threads, each to the free worker that has most of its blocks."""
        runs = first_runs(self._layout.n_shards, list(threads.values()))
        try:
            blocks = self._source.blocks(self._blocks_of(range(self._layout.n_shards)))
            holders = watched(
                self._client,
                lambda: self._client.scheduler.who_has(keys=[one.key for one in blocks.values()]),
            )
        except LOST as error:
            raise self._lost(error) from error
        free, shards = list(threads), {}
        for first, stop in runs:
            rows = dict.fromkeys(free, 0)
            for piece in (piece for own in self._pieces[first:stop] for piece in own):
                for worker in holders.get(blocks[piece.block].key, ()):
                    if worker in rows:
                        rows[worker] += piece.high - piece.low
            home = max(free, key=lambda worker: rows[worker])
            free.remove(home)
            shards[home] = list(range(first, stop))
        return shards

    def build(self, shards: Holdings, threads: dict[str, int]) -> list[ActorGroup]:
        """Build shards where they are to be, from the blocks that they need and no others."""
        limits = worker_limits(self._client, threads)  # fewer workers, after a loss
        check_room(DataSize.of(self._source.facts), limits, threads, self._layout.mapped)
        futures: list[distributed.Future] = []
        try:
            for actor in self._submit(shards, threads):
                futures.append(actor)
            actors = remote_actors(self._client, futures)
            self._source.found()
        except BaseException as error:
            with contextlib.suppress(Exception):
                self._client.cancel(futures)
            if isinstance(error, LOST):
                raise self._lost(error) from error
            raise
        finally:
            self._source.close()
        n_shards = self._layout.n_shards
        return [
            ActorGroup(actor, numbers, n_shards)
            for actor, numbers in zip(actors, shards.values(), strict=True)
        ]

    def _submit(self, shards: Holdings, threads: dict[str, int]) -> Iterator[distributed.Future]:
        """Start building shards and groups; the blocks go as soon as nothing needs them."""
        client, layout, starts = self._client, self._layout, self._layout.starts
        numbers = [number for own in shards.values() for number in own]
        blocks = self._source.blocks(self._blocks_of(numbers))
        token = uuid.uuid4().hex[:12]
        position = None
        if layout.order is not None:
            position = client.submit(plan.positions, layout.order, key=f"s3vm-columns-{token}")
        # the scheduler remembers tasks of late for its logs: no array of length d in each of them
        form = replace(layout, order=None)
        for home, own in shards.items():
            # never strictly: a pinned task whose worker dies would wait for ever
            here: dict[str, Any] = {"workers": [home], "allow_other_workers": True}
            built = [
                client.submit(
                    build_shard,
                    number,
                    starts[number],
                    form,
                    [
                        (blocks[piece.block], piece.low, piece.high)
                        for piece in self._pieces[number]
                    ],
                    self._classes,
                    position,
                    self._source.columns_of(self._classes, starts[number], starts[number + 1]),
                    key=f"s3vm-shard-{token}-{number}",
                    **here,
                )
                for number in own
            ]
            yield client.submit(
                Member,
                built,
                layout.n_shards,
                threads[home],
                key=f"s3vm-group-{token}-{own[0]}",
                actor=True,
                **here,
            )
        self._source.close()

    def _blocks_of(self, numbers: Collection[int]) -> list[int]:
        return sorted({piece.block for number in numbers for piece in self._pieces[number]})

    def _lost(self, error: BaseException) -> WorkerLostError:
        """Say it, unless what is lost can never be made again."""
        self._source.forget(error)
        return WorkerLostError(f"a worker was lost while rows were placed: {error!r}")
