"""The shards of one process, and the threads that run over them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dask_s3vm.engine.shard import Shard
from dask_s3vm.engine.tree import Parts, TreeSum, cover

#: What a round runs on a shard: op(shard, *args).
Operation = Callable[..., Any]


class Group:
    """Consecutive shards that live in this process; on a cluster, a dask actor.

    Parameters
    ----------
    shards : consecutive shards, in order.
    n_shards : number of shards of the whole data, over all groups.
    n_threads : threads to run over them; kernels release the GIL.
    """

    def __init__(self, shards: list[Shard], n_shards: int, n_threads: int) -> None:
        self._shards = shards
        first, stop = shards[0].number, shards[-1].number + 1
        self._nodes = cover(first, stop, n_shards)
        self._helpers = min(n_threads, len(shards)) - 1
        self._pool: ThreadPoolExecutor | None = None
        if self._helpers > 0:
            self._pool = ThreadPoolExecutor(self._helpers, thread_name_prefix="s3vm")

    @property
    def shards(self) -> list[Shard]:
        """The shards, in order."""
        return self._shards

    def sum(self, op: Operation, *args: Any) -> Parts:
        """Run `op` on every shard and add up the subtrees that this group holds whole.

        Returns the parts of these nodes one after another, in the order of `cover`: a flat tuple,
        because dask takes a millisecond longer to send a nested one.
        """
        sums = [TreeSum(node) for node in self._nodes]
        by_shard = {number: tree for tree in sums for number in range(*tree.top)}

        def work(shard: Shard) -> None:
            by_shard[shard.number].put((shard.number, shard.number + 1), op(shard, *args))

        self._spread(work)
        return tuple(part for tree in sums for part in tree.total())

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """Run `op` on every shard and return what it gives, in the order of the shards."""
        results: dict[int, Any] = {}

        def work(shard: Shard) -> None:
            results[shard.number] = op(shard, *args)

        self._spread(work)
        return [results[shard.number] for shard in self._shards]

    def close(self) -> None:
        """Let go of rows and threads."""
        self._shards = []
        if self._pool is not None:
            self._pool.shutdown()

    def _spread(self, work: Callable[[Shard], None]) -> None:
        """Share the shards out to the threads, this one included."""
        queue = iter(self._shards)
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
        work(shard)
