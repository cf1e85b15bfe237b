"""Direct calls to actors, which tell a lost worker from a failed operation.

distributed's own actor proxy sends every call through the scheduler, unless the client was created
with `direct_to_workers`, and leaves a call pending forever after any failure other than `OSError`.
Here a call goes straight to the worker if the client can reach it, the calls of a round share one
trip into the event loop, and every call ends with an answer or an exception.

Of a group of shards, `WorkerGroup` is the actor and `RemoteGroup` the client's side of it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import distributed
from distributed.actor import ProxyRPC
from distributed.comm import CommClosedError
from distributed.protocol import to_serialize

from dask_s3vm import _config
from dask_s3vm.engine.computing import task_key
from dask_s3vm.engine.local import Group
from dask_s3vm.engine.tree import Node, Parts, by_node, cover_all
from dask_s3vm.engine.watch import Watch, gathered, in_loop, tick, watched
from dask_s3vm.exceptions import EngineError, WorkerLostError

#: Seconds until the first check whether an actor that has not answered is lost.
FIRST_LOOK = 0.05

#: What a dask future raises if a worker, or data that it held, is lost. Not every OSError: a task
#: of the user's graph may raise one, for instance for a missing file.
LOST = (
    ConnectionError,
    CommClosedError,
    distributed.CancelledError,
    distributed.scheduler.KilledWorker,
    WorkerLostError,
)

#: Calls whose answers nobody waits for: asyncio itself keeps weak references only.
_told: set[asyncio.Future[Any]] = set()


class RemoteActor:
    """The client's side of an actor.

    Parameters
    ----------
    client : the client of the cluster.
    future : the future that keeps the actor alive.
    actor : distributed's proxy of the actor.
    direct : whether the client can reach the worker; else calls go through the scheduler.
    """

    def __init__(
        self, client: distributed.Client, future: distributed.Future, actor: Any, direct: bool
    ) -> None:
        self.future = future
        self.key = actor.key
        self.address: str = actor._address
        rpc = client.rpc(self.address)
        self._gone = False
        self._rpc = rpc if direct else ProxyRPC(client.scheduler, self.address)

    async def call(self, method: str, args: tuple[Any, ...]) -> Any:
        """Call a method; raises what it raises, or `WorkerLostError`."""
        try:
            answer = await self._rpc.actor_execute(
                actor=self.key,
                function=method,
                args=[to_serialize(arg) for arg in args],
                kwargs={},
            )
        except (*LOST, OSError, KeyError) as error:  # KeyError: the worker has no such actor
            self._gone = True
            raise WorkerLostError(f"worker {self.address} is gone: {error!r}") from error
        except Exception as error:
            raise EngineError(
                f"a call to worker {self.address} could not be sent or answered: {error!r}"
            ) from error
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]

    def lost(self) -> bool:
        """Whether a call has failed, or the scheduler has given up the actor."""
        return self._gone or self.future.status not in ("finished", "pending")


def remote_actors(
    client: distributed.Client, futures: Sequence[distributed.Future]
) -> list[RemoteActor]:
    """Wait for actors, and find out which of them can be called directly."""
    try:
        actors = gathered(client, futures)
    except RuntimeError as error:  # dask's error if a worker goes that has just made its actor
        if "Worker holding Actor was lost" not in str(error):
            raise
        raise WorkerLostError(str(error)) from error
    direct = in_loop(client, _reachable, client, {actor._address for actor in actors})
    return [
        RemoteActor(client, future, actor, direct[actor._address])
        for future, actor in zip(futures, actors, strict=True)
    ]


def call_all(
    client: distributed.Client,
    calls: Sequence[tuple[RemoteActor, tuple[Any, ...]]],
    method: str,
    patience: float | None = None,
) -> list[Any]:
    """Call a method of several actors at once; return the answers in their order.

    For an actor whose worker is lost the answer is a `WorkerLostError`. An exception that a method
    raises is raised here.

    calls : actors, and the arguments for each.
    patience : seconds after which to raise `TimeoutError`; None to wait until all have answered or
        are found to be lost.
    """
    return in_loop(client, called_all, client, calls, method, patience=patience)


async def called_all(
    client: distributed.Client,
    calls: Sequence[tuple[RemoteActor, tuple[Any, ...]]],
    method: str,
    on_loss: Callable[[list[RemoteActor]], None] | None = None,
) -> list[Any]:
    """As `call_all`, in the event loop.

    on_loss : called with the actors that have not answered, as long as one is lost.
    """
    tasks = {asyncio.ensure_future(_answer(actor, method, args)): actor for actor, args in calls}
    order, lost = list(tasks), dict[asyncio.Future[Any], WorkerLostError]()
    pending, watch, pause = set(tasks), None, FIRST_LOOK
    while pending:
        done, pending = await asyncio.wait(
            pending, timeout=pause, return_when=asyncio.FIRST_EXCEPTION
        )
        failed = any(task.exception() for task in done)
        if not (failed or pending or lost):  # as a rule
            break
        if failed:
            for task in order:  # others may fail, too: asyncio would log what nobody asks for
                task.add_done_callback(_forget)
            for task in done:
                task.result()
        # a call to a dead worker may try to connect for a long time
        gone = {tasks[task].address for task in pending if tasks[task].lost()}
        if pending and pause >= tick():
            watch = watch or Watch(client)
            gone |= await watch.look({tasks[task].address for task in pending})
        for task in [task for task in pending if tasks[task].address in gone]:
            task.cancel()
            pending.discard(task)
            lost[task] = WorkerLostError(f"worker {tasks[task].address} is gone")
        n_lost = len(lost) + sum(isinstance(task.result(), WorkerLostError) for task in done)
        if on_loss is not None and n_lost and pending:
            on_loss([tasks[task] for task in pending])
        pause = min(2.0 * pause, tick())
    return [lost[task] if task in lost else task.result() for task in order]


def tell_all(actors: Sequence[RemoteActor], method: str, args: tuple[Any, ...]) -> None:
    """Call a method of several actors, from the event loop, without waiting for the answers."""
    calls = asyncio.gather(
        *(_answer(actor, method, args) for actor in actors), return_exceptions=True
    )
    task = asyncio.ensure_future(asyncio.wait_for(calls, _config.worker_timeout()))
    _told.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    _told.discard(task)
    if not task.cancelled():
        task.exception()  # asyncio would log it


async def _answer(actor: RemoteActor, method: str, args: tuple[Any, ...]) -> Any:
    """As `RemoteActor.call`, but return a `WorkerLostError` instead of raising it."""
    if actor.lost():
        return WorkerLostError(f"worker {actor.address} is gone")
    try:
        return await actor.call(method, args)
    except WorkerLostError as error:
        return error


async def _reachable(client: distributed.Client, addresses: set[str]) -> dict[str, bool]:
    """Find out which workers answer direct calls."""

    async def one(address: str) -> bool:
        try:
            await asyncio.wait_for(client.rpc(address).identity(), _config.connect_timeout())
        except (*LOST, OSError):
            return False
        return True

    order = sorted(addresses)
    return dict(zip(order, await asyncio.gather(*map(one, order)), strict=True))


def scattered_to(
    client: distributed.Client, homes: dict[str, list[int]], make: Callable[[int], Any]
) -> dict[int, distributed.Future]:
    """Send each worker its values, in order, to all workers at once; see `watch.watched`.

    homes : numbers of values, by the address of their worker.
    make : returns a value; called in threads, so that one is made while another is sent.
    """
    found: dict[int, distributed.Future] = {}

    async def send(home: str, direct: bool) -> None:
        # one at a time: a single message would put them all in memory at once
        for number in homes[home]:
            value = await asyncio.to_thread(make, number)
            try:
                key = task_key("rows")
                sent = await client.scatter(
                    {key: value}, workers=[home], direct=direct, asynchronous=True
                )
                found[number] = sent[key]
            except KeyError as error:  # the scheduler knows it no more
                raise WorkerLostError(f"worker {home} is gone") from error

    async def send_all() -> None:
        direct = await _reachable(client, set(homes))
        await asyncio.gather(*(send(home, direct[home]) for home in homes if direct[home]))
        for home in homes:  # through the scheduler, which has one value at a time in its memory
            if not direct[home]:
                await send(home, False)

    try:
        watched(client, send_all, list(homes))
    except TimeoutError as error:
        raise WorkerLostError("a worker accepts no data") from error
    return dict(sorted(found.items()))


# Groups ---------------------------------------------------------------------------------------


class WorkerGroup(Group):
    """The shards of an engine on this worker: a dask actor, whose calls run one at a time."""

    _seconds = 0.0

    def run(self, method: str, numbers: Sequence[int] | None, *args: Any) -> Any:
        """Call `sum` or `each`, for all shards (None) or for some."""
        began = time.perf_counter()
        try:
            return getattr(self, method)(*args, numbers=numbers)
        finally:
            self._seconds += time.perf_counter() - began

    def take_seconds(self) -> float:
        """Return the time of the passes since the last time that it was asked for."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def absorb(self, keys: list[str]) -> None:
        """Take over the shards of other actors of this worker, given by their keys."""
        actors = distributed.get_worker().state.actors
        shards = list(self._shards)
        for key in keys:
            other = actors[key]
            shards += other._shards
            other.close()
        self._hold(shards)

    def shed(self, numbers: list[int]) -> None:
        """Release shards that other workers hold now."""
        gone = set(numbers)
        self._hold([shard for shard in self._shards if shard.number not in gone])


class RemoteGroup:
    """The client's side of a `WorkerGroup`: its actor, and the numbers of its shards."""

    def __init__(self, actor: RemoteActor, numbers: Sequence[int], n_shards: int) -> None:
        self.actor = actor
        self._n_shards = n_shards
        self.hold(numbers)

    def hold(self, numbers: Iterable[int]) -> None:
        """Set the numbers of the shards."""
        self.numbers = sorted(numbers)
        self.nodes = cover_all(self.numbers, self._n_shards)

    def by_node(self, parts: Parts, numbers: list[int]) -> Iterator[tuple[Node, Parts]]:
        """Split the flat result of `Group.sum` over some shards into the sums of tree nodes."""
        nodes = self.nodes if numbers == self.numbers else cover_all(numbers, self._n_shards)
        return by_node(nodes, parts)
