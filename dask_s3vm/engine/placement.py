"""Rows on the workers of a dask cluster, from blocks to shards.

Blocks are computed there (`ComputedBlocks`) or sent there (`ScatteredBlocks`) once, and stay as
futures of a `ClusterSource`. Tasks build shards from them on the worker that will hold the shards,
and an actor takes the shards over. Then the blocks are released, so that one copy of the rows
remains. After a loss the missing shards are built in the same way, from the dask graph or from the
client's rows.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import distributed
import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block, narrow_rows, row_count, slice_block
from dask_s3vm.engine.calls import LOST, RemoteGroup, remote_actors, scattered_to
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.column_scale import ColumnScale
from dask_s3vm.engine.computing import RetryBudget, check_lineage, in_one_span, submitted, task_key
from dask_s3vm.engine.estimate import DataSize, check_room, stays_mapped
from dask_s3vm.engine.peers import PeerGroup
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Piece, build_shard
from dask_s3vm.engine.sources import Columns, LocalSource, summarize
from dask_s3vm.engine.watch import gathered, release, scattered, watched
from dask_s3vm.engine.workers import Holdings, first_runs, worker_limits, worker_threads
from dask_s3vm.exceptions import MemoryShortWarning, WorkerLostError, warn

T = TypeVar("T")
R = TypeVar("R")


def _homes(
    client: distributed.Client, numbers: Sequence[int], n_blocks: int
) -> dict[str, list[int]]:
    """Give each worker the blocks of the shards that it will hold, or most of them."""
    threads = worker_threads(client, patience=_config.replacement_timeout())
    ends = np.cumsum(list(threads.values())) / sum(threads.values())
    places = np.searchsorted(ends, (np.array(numbers) + 0.5) / n_blocks)
    homes: dict[str, list[int]] = {}
    for number, place in zip(numbers, places.tolist(), strict=True):
        homes.setdefault(list(threads)[place], []).append(number)
    return homes


class ComputedBlocks:
    """Blocks that workers compute from a dask graph."""

    def __init__(self, client: distributed.Client, lazy: list[Any]) -> None:
        self._client = client
        self._lazy = lazy
        self.n_blocks = len(lazy)

    def __call__(self, numbers: Sequence[int]) -> dict[int, distributed.Future]:
        """Return the futures of some blocks, by number."""
        if distributed.futures_of(self._lazy):  # dask computes where their inputs are
            futures = self._client.compute([self._lazy[number] for number in numbers])
            return dict(zip(numbers, futures, strict=True))
        blocks: dict[int, distributed.Future] = {}
        for home, own in _homes(self._client, numbers, self.n_blocks).items():
            lazy = [self._lazy[number] for number in own]
            futures = self._client.compute(lazy, workers=[home], allow_other_workers=True)
            blocks |= dict(zip(own, futures, strict=True))
        return blocks

    def check_lineage(self, loss: BaseException) -> None:
        """Raise `LineageError` if some of the user's data cannot be computed again."""
        check_lineage(loss)


class ScatteredBlocks:
    """Rows of this process that are sent to the workers in slices.

    Parameters
    ----------
    client : the client of the cluster.
    block : the rows.
    n_workers : number of workers, and least number of slices.
    nbytes : size of the rows on the workers, after `block_map`.
    block_map : replaces the rows of each slice on its worker (see `ingest.BlockMap`), or None.
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
        # fixed from now on: slices that are sent again must be the same
        self._slices = list(itertools.pairwise(edges.tolist()))
        self.n_blocks = len(self._slices)

    def __call__(self, numbers: Sequence[int]) -> dict[int, distributed.Future]:
        """Return the futures of some blocks, by number."""
        blocks = scattered_to(
            self._client, _homes(self._client, numbers, self.n_blocks), self._slice
        )
        if self._map is not None:
            sent_map = scattered(self._client, self._map)
            for number, sent in blocks.items():
                blocks[number] = submitted(self._client, _apply_map, sent_map, sent)
        return blocks

    def _slice(self, number: int) -> Block:
        part = slice_block(self._block, *self._slices[number])
        return part._replace(rows=narrow_rows(part.rows, part.n_features))

    def check_lineage(self, loss: BaseException) -> None:
        """Do nothing: rows in this process can always be sent again."""


def _apply_map(block_map: Any, block: Block) -> Block:
    return block_map(block)


class ClusterSource:
    """Blocks on the workers of a client; see `sources.Source`.

    Parameters
    ----------
    client : the client of the cluster.
    make_blocks : makes the blocks, now and after losses.
    columns : labels and weights that are not part of the blocks.
    with_ranges : whether columns are measured.

    Attributes
    ----------
    facts, summary : measurements of each block, and of all rows.
    """

    def __init__(
        self,
        client: distributed.Client,
        make_blocks: ComputedBlocks | ScatteredBlocks,
        columns: Columns,
        with_ranges: bool = False,
    ) -> None:
        self._client = client
        self._make_blocks = make_blocks
        self._columns = columns
        self._with_ranges = with_ranges
        self._blocks: dict[int, distributed.Future] = {}
        self._losses_in_a_row = 0
        self._budget = RetryBudget()
        try:
            self.facts = self._retried(lambda: self._map(plan.facts_of, with_ranges=with_ranges))
            self.summary = summarize(self.facts, columns)
        except BaseException:
            self.close()
            raise

    def gather(self) -> LocalSource:
        """Move the rows to this process."""
        blocks = self._retried(lambda: gathered(self._client, self._all_blocks()))
        self.close()
        return LocalSource(blocks, self._columns, own=True, with_ranges=self._with_ranges)

    def place(self, classes: np.ndarray | None, scale: ColumnScale | None = None) -> Engine:
        """See `Source.place`."""
        self.facts = plan.scaled_facts(self.facts, scale)
        pieces, layout = self._retried(lambda: self._lay_out(scale))
        return ClusterEngine(self._client, _BlockShardMaker(self, pieces, layout, classes), layout)

    def close(self) -> None:
        """Release the blocks."""
        self._blocks = {}

    def blocks(self, numbers: Collection[int]) -> dict[int, distributed.Future]:
        """Return the futures of some blocks, by number; makes those that do not exist."""
        missing = sorted(number for number in set(numbers) if number not in self._blocks)
        if missing:
            with in_one_span(self._client):
                self._blocks |= self._make_blocks(missing)
        return {number: self._blocks[number] for number in numbers}

    def note_loss(self, loss: BaseException) -> None:
        """Release the blocks after a loss; raises `LineageError` if they cannot be made again."""
        release(self._client, self._blocks.values())
        self.close()
        self._losses_in_a_row += 1
        # a first loss may concern blocks that were computed here: only a second one in a row shows
        # that the user's data is lost
        if self._losses_in_a_row > 1:
            self._make_blocks.check_lineage(loss)

    def note_success(self) -> None:
        """Record that blocks were available: earlier losses are overcome."""
        self._losses_in_a_row = 0

    def columns_of(
        self, classes: np.ndarray | None, start: int, stop: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return class numbers and weights of some rows, each None where the blocks hold it."""
        return self._columns.part(classes, start, stop)

    def _all_blocks(self) -> list[distributed.Future]:
        return list(self.blocks(range(self._make_blocks.n_blocks)).values())

    def _retried(self, work: Callable[[], T]) -> T:
        """Call a function that uses the blocks; retry with new blocks if a worker was lost."""
        while True:
            try:
                with in_one_span(self._client):
                    result = work()
            except LOST as error:
                self.note_loss(error)
                self._budget.spend(error)
                worker_threads(self._client, patience=_config.replacement_timeout())
            else:
                self.note_success()
                self._budget.progress()
                return result

    def _map(self, function: Callable[..., R], *columns: list[Any], **fixed: Any) -> list[R]:
        """Run a function on every block and the matching entries of `columns`."""
        blocks = self._all_blocks()
        keys = [task_key(function.__name__) for _ in blocks]
        futures = self._client.map(function, blocks, *columns, key=keys, **fixed)
        return self._gathered(futures)

    def _gathered(self, futures: list[distributed.Future]) -> list[Any]:
        """Wait for results; none of the tasks outlives a loss."""
        try:
            return gathered(self._client, futures)
        except LOST:
            release(self._client, futures)
            raise

    def _lay_out(self, scale: ColumnScale | None) -> tuple[list[list[Piece]], Layout]:
        """Cut the blocks: return the pieces of each shard, and the layout."""
        mapped = self._stays_mapped()
        order = None if mapped else plan.column_order(self.facts, self._count_columns)
        width = plan.width_of(self.summary.n_features, order)
        shares, n_shards = plan.shares(self.facts, width, _config.shard_bytes(), mapped)
        cuts = self._map(plan.cut_block, shares)
        sizes = [fact.n_rows for fact in self.facts]
        pieces, starts = plan.assign_pieces(cuts, sizes, n_shards)
        return pieces, plan.layout_of(self.facts, starts, order, mapped, scale)

    def _stays_mapped(self) -> bool:
        """Decide whether rows stay in files; refuses, or warns of, data that is too large."""
        threads = worker_threads(self._client, patience=_config.replacement_timeout())
        limits, size = worker_limits(self._client, threads), DataSize.of(self.facts)
        mapped = stays_mapped(size, limits, threads)
        warning = check_room(size, limits, threads, mapped)
        if warning:
            warn(warning, MemoryShortWarning)
        return mapped

    def _count_columns(self, head: list[tuple[int, int]]) -> np.ndarray:
        """Sum the counts of some blocks among the workers: each is a vector of length d."""
        blocks = self.blocks([number for number, _ in head])
        counts = [
            submitted(self._client, plan.count_columns, blocks[number], n_rows)
            for number, n_rows in head
        ]
        while len(counts) > 1:
            pairs = itertools.zip_longest(counts[::2], counts[1::2])
            counts = [
                one if other is None else submitted(self._client, np.add, one, other)
                for one, other in pairs
            ]
        return self._gathered(counts)[0]


class _BlockShardMaker:
    """Builds shards from the blocks of a source; see `cluster.ShardMaker`."""

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
        """Assign consecutive runs, each to the free worker that holds most of its rows."""
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

    def build(self, shards: Holdings, threads: dict[str, int]) -> list[RemoteGroup]:
        """Build shards on their workers, from the blocks that they need and no others."""
        limits = worker_limits(self._client, threads)  # after a loss there are fewer workers
        check_room(DataSize.of(self._source.facts), limits, threads, self._layout.mapped)
        futures: list[distributed.Future] = []
        try:
            with in_one_span(self._client):
                for actor in self._submit(shards, threads):
                    futures.append(actor)
            actors = remote_actors(self._client, futures)
            self._source.note_success()
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
            RemoteGroup(actor, numbers, n_shards)
            for actor, numbers in zip(actors, shards.values(), strict=True)
        ]

    def _submit(self, shards: Holdings, threads: dict[str, int]) -> Iterator[distributed.Future]:
        """Submit the tasks that build shards and groups; release blocks as soon as possible."""
        client, layout, starts = self._client, self._layout, self._layout.starts
        numbers = [number for own in shards.values() for number in own]
        blocks = self._source.blocks(self._blocks_of(numbers))
        position = None
        if layout.order is not None:
            position = submitted(client, plan.positions, layout.order, layout.n_features_in)
        # the scheduler keeps recent tasks for its logs: they must not hold arrays of length d
        form = replace(layout, order=None, scale=None)
        scale = None if layout.scale is None else scattered(client, layout.scale)
        for home, own in shards.items():
            # not strictly pinned: such a task would wait forever if its worker died
            here: dict[str, Any] = {"workers": [home], "allow_other_workers": True}
            built = [
                submitted(
                    client,
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
                    scale=scale,
                    **here,
                )
                for number in own
            ]
            yield submitted(
                client,
                PeerGroup,
                built,
                layout.n_shards,
                threads[home],
                actor=True,
                **here,
            )
        self._source.close()

    def _blocks_of(self, numbers: Collection[int]) -> list[int]:
        return sorted({piece.block for number in numbers for piece in self._pieces[number]})

    def _lost(self, error: BaseException) -> WorkerLostError:
        """Return the error to raise after a loss; raises `LineageError` if it is final."""
        self._source.note_loss(error)
        return WorkerLostError(f"a worker was lost while rows were placed: {error!r}")
