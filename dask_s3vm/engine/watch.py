"""Waiting for a cluster that may have stopped answering.

A connection that breaks is an error at once. A process that is frozen, or behind a network cut,
breaks nothing: whoever waits for it would wait for ever. So every wait here looks up from time to
time and asks the scheduler, which must answer, and which knows when it last heard each worker.
"""

import asyncio
import contextlib
import logging
import queue
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

import distributed
from distributed.comm import CommClosedError

from dask_s3vm import _config, interrupts
from dask_s3vm.exceptions import SchedulerLostError, WorkerLostError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Longest time between two looks, in seconds.
TICK = 2.0

_background: set[asyncio.Future[Any]] = set()


def tick() -> float:
    """Seconds between two looks."""
    return min(TICK, _config.worker_timeout() / 4, _config.scheduler_timeout() / 4)


def in_loop(
    client: distributed.Client,
    start: Callable[..., Coroutine[Any, Any, T]],
    *args: Any,
    patience: float | None = None,
) -> T:
    """Wait for a coroutine in the client's event loop; an interrupt ends the wait.

    As `client.sync`, whose wait would block the event loop for ever if an exception reached it at
    the wrong moment.

    patience : seconds after which to raise `TimeoutError`.
    """
    if client.loop.asyncio_loop.is_closed():
        raise RuntimeError("the event loop of the dask client is closed")
    answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    async def run() -> None:
        try:
            answer.put((await start(*args), None))
        except BaseException as error:
            answer.put((None, error))

    # not cancelled when it is given up: what dask awaits inside would complain
    client.loop.add_callback(run)
    try:
        result, error = interrupts.take(answer, patience)
    except queue.Empty:
        raise TimeoutError(f"no answer within {patience:g} s") from None
    if error is not None:
        raise error
    return result


def watched(
    client: distributed.Client,
    start: Callable[[], Awaitable[T]],
    concerned: Collection[str] = (),
) -> T:
    """Wait for what `start` starts in the client's event loop.

    Raises `SchedulerLostError` if the scheduler does not answer, and `WorkerLostError` if a worker
    is lost meanwhile that is concerned, or works for this client. Other workers of the cluster may
    be at work for somebody else: they are not ours to judge.
    """
    return in_loop(client, _watched, client, start, concerned)


async def _watched(
    client: distributed.Client,
    start: Callable[[], Awaitable[T]],
    concerned: Collection[str],
) -> T:
    task = asyncio.ensure_future(start())
    watch = Watch(client)
    try:
        while not (await asyncio.wait([task], timeout=tick()))[0]:
            lost = await watch.look(concerned)
            if lost:
                raise WorkerLostError(f"worker {min(lost)} has left the cluster, or fell silent")
        return task.result()
    finally:
        task.cancel()


def gathered(client: distributed.Client, futures: Sequence[distributed.Future]) -> list[Any]:
    """Results of futures, with a watch on the cluster while they are waited for."""
    return watched(client, lambda: client.gather(list(futures), asynchronous=True))


def next_done(client: distributed.Client, coming: distributed.as_completed) -> distributed.Future:
    """Next future that is done or has failed; there must be one."""
    return watched(client, coming.__anext__)


def cluster_state(client: distributed.Client) -> dict[str, Any]:
    """What the scheduler says of itself and its workers; raises `SchedulerLostError`."""
    return in_loop(client, _ask, client)


async def _ask(client: distributed.Client) -> dict[str, Any]:
    patience = _config.scheduler_timeout()
    deadline = time.monotonic() + patience
    while client.status in ("running", "connecting") and client.scheduler is not None:
        left = deadline - time.monotonic()
        if left <= 0.0:
            break
        try:
            return await asyncio.wait_for(client.scheduler.identity(), left)
        except (OSError, CommClosedError):  # the client may be about to connect again
            await asyncio.sleep(0.1)
    address = getattr(client.scheduler, "address", "unknown")
    raise SchedulerLostError(
        f"the scheduler at {address} does not answer (waited {patience:g} s, "
        "s3vm.scheduler-timeout); once there is one again, fit again or go on from a checkpoint"
    )


class Watch:
    """Looks at the cluster again and again, while somebody waits."""

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        #: by worker: when it was last heard, by the scheduler's clock; since when we know, by ours
        self._heard: dict[str, tuple[float, float]] = {}

    async def look(self, concerned: Collection[str] = ()) -> set[str]:
        """Find workers that are lost: those concerned that have left, or are silent.

        Silent workers that have something to do for this client count as well. One that is silent
        is removed from the cluster, as dask would do by itself after `worker-ttl`: its tasks go to
        others.
        """
        workers = (await _ask(self._client))["workers"]
        lost = {address for address in concerned if address not in workers}
        silent = self._silent(workers)
        ours = silent.intersection(concerned)
        if silent - ours:
            ours |= await self._working_for_us(silent - ours)
        for address in ours:
            await self._remove(address, workers[address].get("nanny"))
        return lost | ours

    def _silent(self, workers: dict[str, Any]) -> set[str]:
        """Workers that the scheduler has not heard for long, by our clock."""
        now, silent = time.monotonic(), set()
        for address, about in workers.items():
            seen, since = self._heard.get(address, (None, now))
            if seen != about["last_seen"]:
                self._heard[address] = (about["last_seen"], now)
            elif now - since > _config.worker_timeout():
                silent.add(address)
        return silent

    async def _working_for_us(self, workers: set[str]) -> set[str]:
        """Which of some workers process or hold what this client waits for."""
        try:
            found = await self._client._run_on_scheduler(
                working_for, self._client.id, sorted(workers)
            )
        except Exception as error:  # a scheduler need not have this package
            logger.debug("silent workers are left alone: %r", error)
            return set()
        return set(found)

    async def _remove(self, address: str, nanny: str | None) -> None:
        logger.warning("worker %s is silent: removed from the cluster", address)
        with contextlib.suppress(OSError, CommClosedError):
            await asyncio.wait_for(
                self._client.scheduler.unregister(address=address, stimulus_id="s3vm-silent"),
                _config.scheduler_timeout(),
            )
        if nanny:  # it may live, and start another one
            task = asyncio.ensure_future(_restart(self._client, nanny))
            _background.add(task)
            task.add_done_callback(_background.discard)


async def _restart(client: distributed.Client, nanny: str) -> None:
    with contextlib.suppress(Exception):  # a service to the cluster; the fit goes on without
        await asyncio.wait_for(client.rpc(nanny).kill(reason="s3vm-silent"), 30.0)


def working_for(client: str, workers: list[str], dask_scheduler: Any = None) -> list[str]:
    """Workers, of some, with a task that a client wants or that leads to one. For the scheduler."""

    def is_wanted(task: Any) -> bool:
        stack, seen = [task], set()
        while stack:
            one = stack.pop()
            if any(state.client_key == client for state in one.who_wants or ()):
                return True
            seen.add(one)
            stack += [other for other in one.dependents if other not in seen]
        return False

    states = [dask_scheduler.workers[address] for address in workers]
    return [
        state.address
        for state in states
        if any(map(is_wanted, {*state.processing, *state.has_what}))
    ]
