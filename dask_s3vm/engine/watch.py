"""Waits that end even if the cluster stops answering.

A broken connection is an error at once. But a process that is frozen or cut off from the network
keeps its connections open, and a plain wait for it never ends. Every wait here therefore asks the
scheduler at intervals. The scheduler must answer, and it knows when it last heard from each worker.

Three more waits would never end in plain dask: tasks that a worker was given stay there when it is
paused for lack of memory or is to retire; tasks wait forever where no worker is left; and tasks
that were to run on a certain worker "or on another one", and became ready while there was none at
all, are not given to those that join later.
"""

import asyncio
import contextlib
import logging
import queue
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import distributed
from distributed.comm import CommClosedError

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.computing import task_key
from dask_s3vm.engine.on_scheduler import forget_past, stranded, working_for
from dask_s3vm.exceptions import SchedulerLostError, WorkerLostError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Longest time between two looks at the cluster, in seconds.
TICK = 2.0

#: Tasks that nobody waits for: asyncio itself keeps weak references only.
_background: set[asyncio.Future[Any]] = set()

#: Clients whose scheduler cannot forget past tasks.
_cannot_forget: weakref.WeakSet[distributed.Client] = weakref.WeakSet()


def tick() -> float:
    """Return the seconds between two looks at the cluster."""
    return min(TICK, _config.worker_timeout() / 4, _config.scheduler_timeout() / 4)


def in_loop(
    client: distributed.Client,
    start: Callable[..., Coroutine[Any, Any, T]],
    *args: Any,
    patience: float | None = None,
) -> T:
    """Run the coroutine `start(*args)` in the client's event loop, and wait for its result.

    As `client.sync`, except that `interrupts` can end the wait. `client.sync` would block the event
    loop forever if an exception reached it at the wrong moment.

    patience : seconds after which to raise `TimeoutError`; None for no limit.
    """
    if client.loop.asyncio_loop.is_closed():
        raise RuntimeError("the event loop of the dask client is closed")
    answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    async def run() -> None:
        try:
            answer.put((await start(*args), None))
        except BaseException as error:
            answer.put((None, error))

    # an abandoned coroutine is not cancelled: dask's own coroutines inside would log errors
    client.loop.asyncio_loop.call_soon_threadsafe(_start, run())
    try:
        result, error = interrupts.take(answer, patience)
    except queue.Empty:
        raise TimeoutError(f"no answer within {patience:g} s") from None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame, and holds futures that must be released
    return result


def _start(work: Coroutine[Any, Any, None]) -> None:
    """Have the event loop, which this is called in, do something that nobody waits for."""
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


def forget_later(client: distributed.Client, span: str) -> None:
    """Have the scheduler forget the past tasks of a span of dask, without waiting for it.

    A scheduler that cannot, as one without this package, logs an error: it is not asked again.
    """
    if client in _cannot_forget:
        return

    async def ask() -> None:
        try:
            await client._run_on_scheduler(forget_past, span)
        except Exception as error:
            _cannot_forget.add(client)
            logger.debug("the scheduler cannot forget past tasks: %r", error)

    client.loop.asyncio_loop.call_soon_threadsafe(_start, ask())


def watched(
    client: distributed.Client,
    start: Callable[[], Awaitable[T]],
    concerned: Collection[str] = (),
    meanwhile: Callable[[], Awaitable[None]] | None = None,
    keys: Sequence[Any] = (),
) -> T:
    """Wait for the awaitable that `start` returns, in the client's event loop, with a watch.

    Raises `SchedulerLostError` if the scheduler does not answer, and `WorkerLostError` if one of
    the workers `concerned`, or one that works for this client, is lost meanwhile, keeps tasks of
    this client without running them, or if there is no worker to run them. Other workers may work
    for other clients and are left alone. `meanwhile` is awaited after every look. `keys` are those
    of tasks that are waited for.
    """
    return in_loop(client, _watched, client, start, concerned, meanwhile, keys)


async def _watched(
    client: distributed.Client,
    start: Callable[[], Awaitable[T]],
    concerned: Collection[str],
    meanwhile: Callable[[], Awaitable[None]] | None,
    keys: Sequence[Any],
) -> T:
    task = asyncio.ensure_future(start())
    watch = Watch(client)
    try:
        while not (await asyncio.wait([task], timeout=tick()))[0]:
            lost = await watch.look(concerned)
            if lost:
                raise WorkerLostError(f"worker {min(lost)} has left the cluster or is silent")
            if meanwhile is not None:
                await meanwhile()
            await watch.check_tasks_run(keys)
        return task.result()
    finally:
        task.cancel()


def gathered(client: distributed.Client, futures: Sequence[distributed.Future]) -> list[Any]:
    """Wait for the results of futures; see `watched`."""
    return watched(
        client,
        lambda: client.gather(list(futures), asynchronous=True),
        keys=[future.key for future in futures],
    )


def release(client: distributed.Client, futures: Iterable[distributed.Future]) -> None:
    """Have the scheduler forget futures, whoever still refers to them.

    A wait that was given up keeps its futures alive in the frames of cancelled coroutines until the
    garbage collector comes by. Their tasks would stay where they are, on a worker that runs none,
    and new futures with the same keys would wait for these very tasks.
    """
    for future in futures:
        future.release()
    # futures count their references in the event loop: new ones must not be counted before that
    in_loop(client, asyncio.sleep, 0.0)


def wait_until_gone(
    client: distributed.Client, futures: Sequence[distributed.Future], patience: float
) -> None:
    """Wait until no worker holds the results of cancelled futures, but not longer than `patience`.

    A client sends cancellations in batches. Until they arrive, dask retires no worker that holds
    an actor.
    """
    keys = [future.key for future in futures]

    async def look() -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not any((await client.scheduler.who_has(keys=keys)).values()):
                return
            await asyncio.sleep(0.002)

    in_loop(client, look, patience=patience)


def scattered(
    client: distributed.Client, value: Any, broadcast: bool = False
) -> distributed.Future:
    """Send a value to a worker, or to all of them; see `watched`."""
    key = task_key("shared")
    try:
        sent = watched(
            client, lambda: client.scatter({key: value}, broadcast=broadcast, asynchronous=True)
        )
    except TimeoutError as error:
        raise WorkerLostError("no worker accepts data") from error
    return sent[key]


def next_done(
    client: distributed.Client,
    coming: distributed.as_completed,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> distributed.Future:
    """Wait for the next future that has finished or failed; there must be one. See `watched`."""
    return watched(client, coming.__anext__, meanwhile=meanwhile)


async def keys_on_paused(client: distributed.Client) -> set[str]:
    """Return the keys of tasks that wait or run on workers that are paused for lack of memory."""
    workers = (await _ask(client))["workers"]
    paused = [address for address, info in workers.items() if info.get("status") == "paused"]
    if not paused:
        return set()
    try:
        found = await asyncio.wait_for(
            client.scheduler.processing(workers=paused), _config.scheduler_timeout()
        )
    except TimeoutError:  # the next look at the scheduler says so
        return set()
    return {key for keys in found.values() for key in keys}


def cluster_state(client: distributed.Client) -> dict[str, Any]:
    """Ask the scheduler for its identity, workers included; raises `SchedulerLostError`."""
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
        except (OSError, CommClosedError):  # the client may be reconnecting
            await asyncio.sleep(0.1)
    address = getattr(client.scheduler, "address", "unknown")
    raise SchedulerLostError(
        f"the scheduler at {address} does not answer (waited {patience:g} s, "
        "s3vm.scheduler-timeout); once it is back, fit again or resume from a checkpoint"
    )


def runs_tasks(info: dict[str, Any]) -> bool:
    """Whether a worker starts tasks: it is not paused, not about to retire, and has threads."""
    return info.get("status", "running") == "running" and info["nthreads"] > 0


class Watch:
    """Finds lost workers by repeated looks at the cluster, while something is waited for."""

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        #: by worker: its last sign of life by the scheduler's clock, and when we learned of it
        self._heard: dict[str, tuple[float, float]] = {}
        #: by worker that neither runs tasks nor starts any: since when
        self._idle: dict[str, float] = {}
        self._alone: float | None = None  # since when that is so for all workers

    async def look(self, concerned: Collection[str] = ()) -> set[str]:
        """Return the lost workers: those `concerned` that have left the cluster or are silent.

        Silent workers that hold or process something for this client count too. A lost worker that
        is silent is removed from the cluster, as dask itself does after `worker-ttl`, so that its
        tasks go to others.
        """
        workers = (await _ask(self._client))["workers"]
        self._note_idle(workers)
        lost = {address for address in concerned if address not in workers}
        silent = self._silent(workers)
        ours = silent.intersection(concerned)
        if silent - ours:
            ours |= await self._working_for_us(silent - ours)
        for address in ours:
            await self._remove(address, workers[address].get("nanny"))
        return lost | ours

    async def check_tasks_run(self, keys: Sequence[Any] = ()) -> None:
        """Raise `WorkerLostError` if tasks of this client wait where nothing runs them.

        That is on workers that have neither run nor started any for `s3vm.worker-timeout`, by the
        last looks, or on a cluster that has had no others for that long, or for
        `s3vm.replacement-timeout` if that is shorter; or nowhere, those of some `keys`.
        """
        now, patience = time.monotonic(), _config.worker_timeout()
        shorter = min(patience, _config.replacement_timeout())
        if self._alone is not None and now - self._alone > shorter:
            raise WorkerLostError(f"no worker has accepted tasks for {shorter:g} s")
        idle = {address for address, since in self._idle.items() if now - since > patience}
        if idle:
            stuck = await self._working_for_us(idle, holding=False)
            if stuck:
                raise WorkerLostError(
                    f"worker {min(stuck)} is paused or about to retire, and has kept tasks for "
                    f"{patience:g} s without running them"
                )
        if keys and await self._asked(stranded, keys):
            raise WorkerLostError("tasks wait for a worker that is gone, not for those there are")

    def _note_idle(self, workers: dict[str, Any]) -> None:
        """Note since when workers neither run nor start tasks, and since when all of them do not.

        A task that has begun on a worker that is paused or is to retire runs to its end.
        """
        now = time.monotonic()
        self._idle = {
            address: self._idle.get(address, now)
            for address, info in workers.items()
            if not runs_tasks(info) and not info["metrics"].get("task_counts", {}).get("executing")
        }
        if len(self._idle) < len(workers):
            self._alone = None
        elif self._alone is None:
            self._alone = now

    def _silent(self, workers: dict[str, Any]) -> set[str]:
        """Return the workers whose last sign of life has not changed for `s3vm.worker-timeout`.

        Measured by the clock of this process, not by that of the scheduler.
        """
        now, silent = time.monotonic(), set()
        for address, info in workers.items():
            seen, since = self._heard.get(address, (None, now))
            if seen != info["last_seen"]:
                self._heard[address] = (info["last_seen"], now)
            elif now - since > _config.worker_timeout():
                silent.add(address)
        return silent

    async def _working_for_us(self, workers: set[str], holding: bool = True) -> set[str]:
        """Return those of some workers that process, or hold, something for this client."""
        found = await self._asked(working_for, self._client.id, sorted(workers), holding)
        return set(found or ())

    async def _asked(self, question: Callable[..., Any], *args: Any) -> Any:
        """Call a function on the scheduler; None if it cannot be called there."""
        try:
            return await asyncio.wait_for(
                self._client._run_on_scheduler(question, *args), _config.scheduler_timeout()
            )
        except Exception as error:  # this package need not be installed on the scheduler
            logger.debug("cannot ask the scheduler: %r", error)
            return None

    async def _remove(self, address: str, nanny: str | None) -> None:
        logger.warning("worker %s is silent: removing it from the cluster", address)
        with contextlib.suppress(OSError, CommClosedError):
            await asyncio.wait_for(
                self._client.scheduler.unregister(address=address, stimulus_id="s3vm-silent"),
                _config.scheduler_timeout(),
            )
        if nanny:  # it may still respond, and start another worker
            _start(_restart(self._client, nanny))


async def _restart(client: distributed.Client, nanny: str) -> None:
    with contextlib.suppress(Exception):  # a courtesy to the cluster: the fit does not depend on it
        await asyncio.wait_for(client.rpc(nanny).kill(reason="s3vm-silent"), 30.0)
