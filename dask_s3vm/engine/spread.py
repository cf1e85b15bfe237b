"""Which worker gets which shards. Shards weigh the same: they are cut by stored entries.

First come consecutive runs, by threads. After a loss only what is missing is handed out, to those
who have least per thread; when workers join, a fair share moves over to them, if that is worth it.
"""

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from dask_s3vm.engine.tree import node_edges

#: Numbers of shards, ascending, by the address of a worker.
Holdings = dict[str, list[int]]

#: Shards move only if the fullest worker then has this part less per thread.
WORTH = 0.1


def first_runs(n_shards: int, threads: Sequence[int]) -> list[tuple[int, int]]:
    """Cut the shards into one consecutive run per worker, by its threads; none is empty.

    Runs end where large nodes of the tree of sums end, an eighth of a share off at most: a group
    then answers with few partial sums.
    """
    ideal = np.cumsum([0, *threads]) * n_shards / sum(threads)
    ends = np.array(node_edges(n_shards, 4 * len(threads)))
    edges = [int(ends[np.argmin(np.abs(ends - edge))]) for edge in ideal]
    return [(first, stop) for first, stop in itertools.pairwise(edges) if stop > first]


def hand_out(missing: Sequence[int], threads: dict[str, int], held: Holdings) -> Holdings:
    """Give missing shards, in consecutive runs, to those who have least per thread."""
    sizes = _fill(len(missing), threads, {worker: len(held.get(worker, ())) for worker in threads})
    ends = itertools.accumulate(sizes.values(), initial=0)
    runs = zip(sizes, itertools.pairwise(ends), strict=True)
    return {worker: list(missing[low:high]) for worker, (low, high) in runs if high > low}


def rebalance(threads: dict[str, int], held: Holdings) -> Holdings:
    """Shards to move, by the worker that gets them; none if it is not worth it."""
    total = sum(map(len, held.values()))
    fair = _fill(total, threads, dict.fromkeys(threads, 0))
    if _fullest(fair, threads) > (1.0 - WORTH) * _fullest(
        {worker: len(numbers) for worker, numbers in held.items()}, threads
    ):
        return {}
    moving = sorted(
        number for worker, numbers in held.items() for number in numbers[fair.get(worker, 0) :]
    )
    kept = {worker: numbers[: fair.get(worker, 0)] for worker, numbers in held.items()}
    wanted = {worker: size - len(kept.get(worker, ())) for worker, size in fair.items()}
    ends = itertools.accumulate(wanted.values(), initial=0)
    runs = zip(wanted, itertools.pairwise(ends), strict=True)
    return {worker: moving[low:high] for worker, (low, high) in runs if high > low}


def _fill(n: int, threads: dict[str, int], loads: dict[str, int]) -> dict[str, int]:
    """Numbers of shards that make the fullest worker, by shards per thread, as empty as can be."""
    sizes = dict.fromkeys(sorted(threads), 0)
    queue = [((loads[worker] + 1) / threads[worker], worker) for worker in sizes]
    heapq.heapify(queue)
    for _ in range(n):
        _, worker = queue[0]
        sizes[worker] += 1
        after = (loads[worker] + sizes[worker] + 1) / threads[worker]
        heapq.heapreplace(queue, (after, worker))
    return sizes


def _fullest(sizes: dict[str, int], threads: dict[str, int]) -> float:
    return max(size / threads.get(worker, 1) for worker, size in sizes.items())
