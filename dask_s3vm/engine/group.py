"""The shards of one process, and the threads that run over them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dask_s3vm.engine import memory
from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.shard import Shard
from dask_s3vm.engine.tree import Parts, TreeSum, cover_all


class Group:
    """Shards that live in this process.

    Parameters
    ----------
    shards : shards, in order.
    n_shards : number of shards of the whole data, over all groups.
    n_threads : threads to run over them; kernels release the GIL.
    """

    def __init__(self, shards: list[Shard], n_shards: int, n_threads: int) -> None:
        memory.learn_limit()
        self._n_shards = n_shards
        self._n_threads = n_threads
        self._shards: list[Shard] = []
        self._pool: ThreadPoolExecutor | None = None
        self._hold(shards)

    @property
    def shards(self) -> list[Shard]:
        """The shards, in order."""
        return self._shards

    def sum(self, op: Operation, *args: Any, numbers: Sequence[int] | None = None) -> Parts:
        """Run `op` on every shard, or on some, and add up the subtrees that these make up.

        Returns the parts of these nodes one after another, in the order of `cover`: a flat tuple,
        because dask takes a millisecond longer to send a nested one.
        """
        nodes = self._nodes if numbers is None else cover_all(numbers, self._n_shards)
        sums = [TreeSum(node) for node in nodes]
        by_shard = {number: tree for tree in sums for number in range(*tree.top)}

        def work(shard: Shard) -> None:
            by_shard[shard.number].put((shard.number, shard.number + 1), op(shard, *args))

        self._spread(work, numbers)
        return tuple(part for tree in sums for part in tree.total())

    def each(self, op: Operation, *args: Any, numbers: Sequence[int] | None = None) -> list[Any]:
        """Run `op` on every shard, or on some; what it gives, in the order of the shards."""
        results: dict[int, Any] = {}

        def work(shard: Shard) -> None:
            results[shard.number] = op(shard, *args)

        self._spread(work, numbers)
        return [results[number] for number in sorted(results)]

    def close(self) -> None:
        """Let go of rows and threads."""
        self._shards = []
        if self._pool is not None:
            self._pool.shutdown()

    def _hold(self, shards: list[Shard]) -> None:
        """Have these shards from now on."""
        self._shards = sorted(shards, key=lambda shard: shard.number)
        self._nodes = cover_all([shard.number for shard in self._shards], self._n_shards)
        self._helpers = min(self._n_threads, len(shards)) - 1
        if self._helpers > 0 and self._pool is None:
            self._pool = ThreadPoolExecutor(self._n_threads - 1, thread_name_prefix="s3vm")

    def _spread(self, work: Callable[[Shard], None], numbers: Sequence[int] | None = None) -> None:
        """Share the shards, or some, out to the threads, this one included."""
        shards = self._shards
        if numbers is not None:
            chosen = set(numbers)
            shards = [shard for shard in shards if shard.number in chosen]
        queue = iter(shards)
        if self._pool is None:
            _drain(queue, work)
            return
        helpers = [self._pool.submit(_drain, queue, work) for _ in range(self._helpers)]
        try:
            _drain(queue, work)
        finally:
            for helper in helpers:
                helper.exception()  # wait, also when this thread has failed
        for helper in helpers:
            helper.result()


def _drain(queue: Iterator[Shard], work: Callable[[Shard], None]) -> None:
    # a list iterator hands out each item once, also to several threads
    for shard in queue:
        try:
            work(shard)
        finally:
            shard.rest()
