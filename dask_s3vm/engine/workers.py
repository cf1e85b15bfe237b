"""The workers of a cluster: which there are, which shards they get, and pieces of work for them."""

import asyncio
import contextlib
import heapq
import itertools
import logging
import sys
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import distributed
import numpy as np
from distributed.system import MEMORY_LIMIT

from dask_s3vm import _config, interrupts
from dask_s3vm._version import __version__
from dask_s3vm.engine.calls import LOST
from dask_s3vm.engine.computing import RetryBudget, in_one_span, submitted
from dask_s3vm.engine.tree import node_edges
from dask_s3vm.engine.watch import (
    cluster_state,
    gathered,
    keys_on_paused,
    next_done,
    runs_tasks,
    scattered,
    watched,
)
from dask_s3vm.exceptions import EngineError, VersionMismatchError, WorkerLostError

logger = logging.getLogger(__name__)

#: Numbers of shards, ascending, by the address of the worker that holds them.
Holdings = dict[str, list[int]]

#: Shards move only if the largest number of shards per thread falls by at least this share.
MIN_GAIN = 0.1

#: Hosts of workers on this machine.
HERE = ("127.0.0.1", "localhost", "::1")

#: By client, what need not be done again for a worker: (what, address, folder of the worker). The
#: folder tells a worker from an earlier one at the same address.
_done: weakref.WeakKeyDictionary[distributed.Client, set[tuple[Any, str, str]]] = (
    weakref.WeakKeyDictionary()
)


def worker_threads(client: distributed.Client, patience: float | None = None) -> dict[str, int]:
    """Return the threads of each worker by address, after a check that all run this version.

    patience : seconds to wait for a first worker; default `s3vm.connect-timeout`.
    """
    patience = _config.connect_timeout() if patience is None else patience
    deadline = time.monotonic() + patience
    while not (found := running_workers(state := cluster_state(client))):
        if time.monotonic() > deadline:
            raise EngineError(
                f"the scheduler at {client.scheduler.address} has no worker "
                f"(waited {patience:g} s); start one with `dask worker ADDRESS`"
            )
        interrupts.sleep(0.1)
    try:
        check_versions(client, found, state)
    except WorkerLostError:  # a worker has left meanwhile: look again
        return worker_threads(client, patience)
    return found


def first_time(
    client: distributed.Client, what: Any, workers: Iterable[str], state: dict[str, Any]
) -> list[str]:
    """Return those of some workers for which `done_for` has not been called.

    Fits follow each other on the same workers, which log and remember whatever they are asked.
    """
    done = _done.get(client, ())
    return [one for one in workers if (what, *_identity(one, state)) not in done]


def done_for(
    client: distributed.Client, what: Any, workers: Iterable[str], state: dict[str, Any]
) -> None:
    """Have `first_time` leave these workers out from now on."""
    present = {one for one in _done.get(client, ()) if one[1] in state["workers"]}
    _done[client] = present | {(what, *_identity(one, state)) for one in workers}


def _identity(worker: str, state: dict[str, Any]) -> tuple[str, str]:
    return worker, state["workers"].get(worker, {}).get("local_directory", "")


def running_workers(state: dict[str, Any]) -> dict[str, int]:
    """Return the threads of the workers that accept work, by address, from a scheduler's state."""
    workers = sorted(state["workers"].items())
    return {address: info["nthreads"] for address, info in workers if runs_tasks(info)}


def check_versions(
    client: distributed.Client, workers: Iterable[str], state: dict[str, Any] | None = None
) -> None:
    """Raise `VersionMismatchError` if one of these workers runs another version.

    state : the scheduler's identity, if it is known.
    """
    state = state or cluster_state(client)
    workers = first_time(client, "version", workers, state)
    if not workers:
        return
    found = watched(
        client,
        lambda: client.run(_worker_version, workers=workers, on_error="return", asynchronous=True),
        workers,
    )
    wrong = {
        worker: version
        for worker, version in found.items()
        if version != __version__ and not isinstance(version, OSError)  # OSError: it has left
    }
    if wrong:
        worker, version = next(iter(sorted(wrong.items())))
        what = f"version {version}" if isinstance(version, str) else f"none ({version!r})"
        raise VersionMismatchError(
            f"{len(wrong)} of {len(found)} workers do not run dask_s3vm {__version__} as the "
            f"client does: worker {worker} has {what}; install one version everywhere"
        )
    right = [worker for worker, version in found.items() if version == __version__]
    done_for(client, "version", right, state)


def _worker_version() -> str:
    import dask_s3vm

    return dask_s3vm.__version__


def worker_limits(client: distributed.Client, workers: Collection[str]) -> dict[str, int]:
    """Return the bytes that each worker may use.

    Workers without a limit share the memory of the machine, if it is this one. On other machines
    they are assumed to have enough.
    """
    found = cluster_state(client)["workers"]
    present = {address: found[address] for address in workers if address in found}
    unlimited = [address for address, info in present.items() if not info["memory_limit"]]
    share = MEMORY_LIMIT // max(1, len(unlimited))
    return {
        address: info["memory_limit"] or (share if info["host"] in HERE else sys.maxsize)
        for address, info in present.items()
    }


class WorkerList:
    """The workers of a cluster as of a few seconds ago, refreshed without ever waiting.

    `updated` costs a look at the clock and, every `s3vm.elastic-interval`, a request to the
    scheduler in the background.
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self._request: Future[dict[str, Any]] | None = None
        self._next = time.monotonic() + _config.elastic_interval()
        self._workers: dict[str, int] = {}

    def updated(self) -> bool:
        """Whether a new list has arrived since the last call; sends requests when they are due."""
        if self._request is not None:
            if not self._request.done():
                return False
            request, self._request = self._request, None
            if request.cancelled() or request.exception() is not None:
                return False
            self._workers = running_workers(request.result())
            return True
        interval = _config.elastic_interval()
        if interval > 0.0 and time.monotonic() >= self._next:
            self._next = time.monotonic() + interval
            loop = self._client.loop.asyncio_loop
            self._request = asyncio.run_coroutine_threadsafe(self._ask(), loop)
        return False

    def forget(self) -> None:
        """Drop a pending request: its answer may contain workers that are lost by now."""
        self._request = None

    def workers(self) -> dict[str, int]:
        """Return the threads of the workers, by address."""
        return self._workers

    async def _ask(self) -> dict[str, Any]:
        return await asyncio.wait_for(
            self._client.scheduler.identity(), _config.scheduler_timeout()
        )


# Which worker gets which shards -------------------------------------------------------------
#
# Shards cost about the same, since they are cut by cost. Workers at first get consecutive runs of
# them, in proportion to their threads. After a loss only the missing shards are handed out. When
# workers join, or one turns out to be slow, shards move to the others if that is worth it.


def first_runs(n_shards: int, threads: Sequence[int]) -> list[tuple[int, int]]:
    """Cut the shards into consecutive runs in proportion to threads, at most one per worker.

    Runs end where large nodes of the tree of sums end, at most an eighth of an average share from
    the ideal cut, so that a group answers with few partial sums. Empty runs are left out.
    """
    ideal = np.cumsum([0, *threads]) * n_shards / sum(threads)
    ends = np.array(node_edges(n_shards, 4 * len(threads)))
    edges = [int(ends[np.argmin(np.abs(ends - edge))]) for edge in ideal]
    return [(first, stop) for first, stop in itertools.pairwise(edges) if stop > first]


def hand_out(missing: Sequence[int], threads: dict[str, int], held: Holdings) -> Holdings:
    """Assign missing shards, in consecutive runs, to the workers with fewest per thread."""
    loads = {worker: len(held.get(worker, ())) for worker in threads}
    return _cut_by_sizes(missing, _fill(len(missing), threads, loads))


def rebalance(threads: Mapping[str, float], held: Holdings) -> Holdings:
    """Return the shards that should move, by the worker that gets them; none if not worth it.

    threads : of each worker; fewer for a slow one (see `paces`).
    """
    total = sum(map(len, held.values()))
    fair = _fill(total, threads, dict.fromkeys(threads, 0))
    if _fullest(fair, threads) > (1.0 - MIN_GAIN) * _fullest(
        {worker: len(numbers) for worker, numbers in held.items()}, threads
    ):
        return {}
    moving = sorted(
        number for worker, numbers in held.items() for number in numbers[fair.get(worker, 0) :]
    )
    staying = {worker: min(len(numbers), fair.get(worker, 0)) for worker, numbers in held.items()}
    wanted = {worker: size - staying.get(worker, 0) for worker, size in fair.items()}
    return _cut_by_sizes(moving, wanted)


def _cut_by_sizes(numbers: Sequence[int], sizes: dict[str, int]) -> Holdings:
    """Cut a list of shards into consecutive runs of given sizes; leaves out empty ones."""
    ends = itertools.accumulate(sizes.values(), initial=0)
    runs = zip(sizes, itertools.pairwise(ends), strict=True)
    return {worker: list(numbers[low:high]) for worker, (low, high) in runs if high > low}


def _fill(n: int, threads: Mapping[str, float], loads: dict[str, int]) -> dict[str, int]:
    """Distribute `n` shards so that the largest number of shards per thread is least.

    loads : number of shards that each worker has already.
    """
    sizes = dict.fromkeys(sorted(threads), 0)
    queue = [((loads[worker] + 1) / threads[worker], worker) for worker in sizes]
    heapq.heapify(queue)
    for _ in range(n):
        _, worker = queue[0]
        sizes[worker] += 1
        after = (loads[worker] + sizes[worker] + 1) / threads[worker]
        heapq.heapreplace(queue, (after, worker))
    return sizes


def _fullest(sizes: dict[str, int], threads: Mapping[str, float]) -> float:
    """Return the largest number of shards per thread."""
    return max(size / threads.get(worker, 1) for worker, size in sizes.items())


# Pieces of work ----------------------------------------------------------------------------


def run_on_workers(
    client: distributed.Client,
    work: Callable[..., Any],
    shared: Any,
    arguments: Sequence[tuple[Any, ...]],
) -> Generator[tuple[int, Any], None, None]:
    """Run the pieces of `computing.run_pool` as tasks of the workers."""
    missing = set(range(len(arguments)))
    budget, patience = RetryBudget(), None
    while missing:
        worker_threads(client, patience=patience)  # waits for one, and checks versions
        patience = _config.replacement_timeout()
        pending: dict[distributed.Future, int] = {}
        try:
            sent = scattered(client, shared, broadcast=True)
            for number in sorted(missing):
                pending[_submit_piece(client, work, sent, arguments, number)] = number
            coming = distributed.as_completed(list(pending), loop=client.loop)

            async def leave_paused(
                pending: dict[distributed.Future, int] = pending,
                coming: distributed.as_completed = coming,
                sent: Any = sent,
            ) -> None:
                """Give pieces on paused workers to others: dask lets them wait there."""
                stuck = await keys_on_paused(client)
                for future in [one for one in pending if one.key in stuck]:
                    number = pending.pop(future)
                    again = _submit_piece(client, work, sent, arguments, number)
                    pending[again] = number
                    coming.add(again)
                    await client.cancel([future], asynchronous=True)

            while pending:
                done = next_done(client, coming, leave_paused)
                if done not in pending:  # it was on a paused worker
                    continue
                (result,) = gathered(client, [done])  # waits while dask runs a lost piece again
                number = pending.pop(done)
                missing.discard(number)
                done.release()
                budget.progress()
                yield number, result
        # scattered data has no lineage: it is lost with the last worker that holds it
        except LOST as error:
            logger.warning("sending the shared data again")
            budget.spend(error)
        finally:
            if pending:
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    client.cancel(list(pending))


def _submit_piece(
    client: distributed.Client,
    work: Callable[..., Any],
    shared: distributed.Future,
    arguments: Sequence[tuple[Any, ...]],
    number: int,
) -> distributed.Future:
    with in_one_span(client):
        return submitted(client, work, shared, *arguments[number], priority=-number)
