"""The engine of one process: its shards, and the threads that run over them.

`LocalEngine` is the engine for rows in this process. `SharedRows` lets several engines use one copy
of the rows. `Group` runs operations over the shards of a process; on a cluster, every worker has
one (see `calls.WorkerGroup`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dask_s3vm import interrupts
from dask_s3vm.engine import memory
from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.protocol import RoundTimes
from dask_s3vm.engine.shard import Shard, drop_state, shared
from dask_s3vm.engine.tree import Parts, TreeSum, cover_all, sum_in_turn


class LocalEngine:
    """All shards in this process, run over by `n_threads` threads.

    The reference for every other engine: same shards, same code, same order of addition.
    """

    def __init__(self, shards: list[Shard], layout: Layout, n_threads: int) -> None:
        self.layout = layout
        self.n_threads = n_threads
        self.rounds = 0
        self.losses = 0  # rows in this process are never lost
        self.times = RoundTimes()
        self._group = Group(shards, len(shards), n_threads)

    @property
    def shard_counts(self) -> dict[str, int]:
        """See `Engine.shard_counts`."""
        return {"this process": self.layout.n_shards}

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        return self._timed(self._group.sum, op, *args)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        return self._timed(self._group.each, op, *args)

    @property
    def loop(self) -> Callable[..., Parts] | None:
        """See `Engine.loop`."""
        return self._loop if self.layout.n_shards == 1 else None

    def _loop(self, op: Operation, *args: Any) -> Parts:
        found = self.sum(op, *args)
        self._count(found[0] - 1)
        return found

    def _timed(self, run: Callable[..., Any], op: Operation, *args: Any) -> Any:
        interrupts.check()
        self._count(1)
        if self.times.wanted:
            self.times.set_mark(self.rounds, {})
        began = time.perf_counter()
        result = run(op, *args)
        self.times.pass_seconds += time.perf_counter() - began
        self.times.round_seconds = self.times.pass_seconds
        return result

    def _count(self, n_rounds: int) -> None:
        """Count rounds."""
        self.rounds += n_rounds

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.remember`; does nothing, since rows in this process are never lost."""

    def forget(self) -> None:
        """See `Engine.forget`."""
        self.each(drop_state)

    def shared_rows(self) -> "SharedRows":
        """Return the rows, for other engines that share them."""
        return SharedRows(self._group.shards, self.layout)

    def close(self) -> None:
        """See `Engine.close`."""
        self._group.close()

    def __repr__(self) -> str:
        return f"<LocalEngine: {self.layout.n_shards} shards, {self.n_threads} threads>"


@dataclass(frozen=True)
class SharedRows:
    """Rows that several engines of one process share; each engine has its own row state.

    They can be pickled and sent to another process, where engines share that copy.
    """

    shards: list[Shard]
    layout: Layout

    def engine(self, n_threads: int = 1) -> LocalEngine:
        """Create an engine over these rows."""
        return LocalEngine([shared(shard) for shard in self.shards], self.layout, n_threads)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in memory."""
        return sum(shard.nbytes for shard in self.shards)

    def __sizeof__(self) -> int:
        """Return the true size, for dask."""
        return object.__sizeof__(self) + self.nbytes


class Group:
    """The shards of one process, and its threads.

    Parameters
    ----------
    shards : the shards.
    n_shards : number of shards of all groups.
    n_threads : number of threads to run over the shards; kernels release the GIL.
    """

    def __init__(self, shards: list[Shard], n_shards: int, n_threads: int) -> None:
        memory.learn_limit()
        self._n_shards = n_shards
        self._n_threads = n_threads
        self._shards: list[Shard] = []
        self._backward = False
        self._pool: ThreadPoolExecutor | None = None
        self._hold(shards)

    @property
    def shards(self) -> list[Shard]:
        """The shards, in order."""
        return self._shards

    def sum(self, op: Operation, *args: Any, numbers: Sequence[int] | None = None) -> Parts:
        """Run `op` on all shards, or on those of some `numbers`, and sum along the tree.

        Returns the sums of the nodes that `tree.cover_all` gives for these shards, one after the
        other in a flat tuple, which dask sends a millisecond faster than a nested one.
        """
        nodes = self._nodes if numbers is None else cover_all(numbers, self._n_shards)
        if self._helpers < 1 and not self._mapped:  # small rows: no locks
            return tuple(
                part
                for node in nodes
                for part in sum_in_turn(node, lambda number: self._run_on(number, op, args))
            )
        sums = [TreeSum(node) for node in nodes]
        by_shard = {number: tree for tree in sums for number in range(*tree.top)}

        def work(shard: Shard) -> None:
            by_shard[shard.number].put((shard.number, shard.number + 1), op(shard, *args))

        self._spread(work, numbers)
        return tuple(part for tree in sums for part in tree.total())

    def _run_on(self, number: int, op: Operation, args: tuple[Any, ...]) -> Any:
        shard = self._by_number[number]
        try:
            return op(shard, *args)
        finally:
            shard.release_pages()

    def each(self, op: Operation, *args: Any, numbers: Sequence[int] | None = None) -> list[Any]:
        """Run `op` on all shards, or on those of some `numbers`; results in the order of shards."""
        results: dict[int, Any] = {}

        def work(shard: Shard) -> None:
            results[shard.number] = op(shard, *args)

        self._spread(work, numbers)
        return [results[number] for number in sorted(results)]

    def close(self) -> None:
        """Release the rows and the threads."""
        self._shards = []
        self._by_number.clear()
        if self._pool is not None:
            self._pool.shutdown()

    def _hold(self, shards: list[Shard]) -> None:
        """Replace the shards of this group."""
        self._shards = sorted(shards, key=lambda shard: shard.number)
        self._by_number: dict[int, Shard] = {shard.number: shard for shard in self._shards}
        self._nodes = cover_all([shard.number for shard in self._shards], self._n_shards)
        self._mapped = any(shard.in_file is not None for shard in shards)
        self._helpers = min(self._n_threads, len(shards)) - 1
        if self._helpers > 0 and self._pool is None:
            self._pool = ThreadPoolExecutor(self._n_threads - 1, thread_name_prefix="s3vm")

    def _spread(self, work: Callable[[Shard], None], numbers: Sequence[int] | None = None) -> None:
        """Call `work` for all or some shards, in this thread and those of the pool.

        Rows in files are gone over forward and backward in turn.
        """
        shards = self._shards
        if numbers is not None:
            chosen = set(numbers)
            shards = [shard for shard in shards if shard.number in chosen]
        # Of files that do not fit into memory, the pages where the last pass ended are still there:
        # of 0.6 GB, with memory for half of it, a quarter less was read than always forward.
        if self._mapped:
            self._backward = not self._backward
        queue = iter(shards[::-1] if self._backward else shards)
        if self._pool is None:
            _drain(queue, work)
            return
        helpers = [self._pool.submit(_drain, queue, work) for _ in range(self._helpers)]
        try:
            _drain(queue, work)
        finally:
            for helper in helpers:
                helper.exception()  # wait for all threads, even if this one has failed
        for helper in helpers:
            helper.result()


def _drain(queue: Iterator[Shard], work: Callable[[Shard], None]) -> None:
    # a list iterator yields each item once, even to several threads
    for shard in queue:
        try:
            work(shard)
        finally:
            shard.release_pages()
