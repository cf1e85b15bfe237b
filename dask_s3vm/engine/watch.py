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

#: False only to measure what the watch costs.
WATCHED = True

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
    concerned: Collection[str] | None = None,
) -> T:
    """Wait for what `start` starts in the client's event loop.

    Raises `SchedulerLostError` if the scheduler does not answer, `WorkerLostError` if a worker
    falls silent meanwhile: any, or one of those concerned.
    """
    return in_loop(client, _watched, client, start, concerned)


async def _watched(
    client: distributed.Client,
    start: Callable[[], Awaitable[T]],
    concerned: Collection[str] | None,
) -> T:
    if not WATCHED:
        return await start()
    task = asyncio.ensure_future(start())
    watch = Watch(client)
    try:
        while not (await asyncio.wait([task], timeout=tick()))[0]:
            await watch.look(concerned)
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

    async def look(self, concerned: Collection[str] | None = None) -> None:
        """Raise `WorkerLostError` if a worker is silent: any, or one of those concerned.

        So it does if one of these has left. One that is silent is removed from the cluster, as dask
        would do by itself after `worker-ttl`: its tasks go to others.
        """
        workers = (await _ask(self._client))["workers"]
        for address in concerned or ():
            if address not in workers:  # somebody else has removed it, and it may still be silent
                raise WorkerLostError(f"worker {address} has left the cluster")
        now = time.monotonic()
        silent = []
        for address, about in workers.items():
            seen, since = self._heard.get(address, (None, now))
            if seen != about["last_seen"]:
                self._heard[address] = (about["last_seen"], now)
            elif now - since > _config.worker_timeout():
                silent.append(address)
        if concerned is not None:
            silent = [address for address in silent if address in concerned]
        for address in silent:
            await self._remove(address, workers[address].get("nanny"))
        if silent:
            raise WorkerLostError(
                f"worker {silent[0]} has been silent for {_config.worker_timeout():g} s "
                "(s3vm.worker-timeout)"
            )

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
