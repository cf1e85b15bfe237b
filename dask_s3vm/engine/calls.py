"""Direct calls to actors, which tell a lost worker from a failed operation.

distributed's own actor proxy sends every call through the scheduler unless the client was made with
`direct_to_workers`, and leaves a call pending for ever on any failure other than `OSError`. Here a
call goes straight to the worker where that can be reached, several calls share one trip into the
event loop, and every outcome is an answer or an exception.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import distributed
from distributed.actor import ProxyRPC
from distributed.comm import CommClosedError
from distributed.protocol import to_serialize

from dask_s3vm import _config
from dask_s3vm.engine.watch import Watch, gathered, in_loop, tick
from dask_s3vm.exceptions import EngineError, WorkerLostError

#: Seconds after which to look, for the first time, whether an actor that has not answered is lost.
FIRST_LOOK = 0.05

#: What a dask future raises when a worker or what it held is gone. Not any OSError: a task of the
#: user's graph may raise one of its own, for a file that is not there.
LOST = (
    ConnectionError,
    CommClosedError,
    distributed.CancelledError,
    distributed.scheduler.KilledWorker,
    WorkerLostError,
)


class RemoteActor:
    """An actor on a worker, by the future that keeps it there."""

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
        except (*LOST, OSError, KeyError) as error:  # KeyError: the worker knows no such actor
            self._gone = True
            raise WorkerLostError(f"worker {self.address} is gone: {error!r}") from error
        except Exception as error:
            raise EngineError(f"a round could not be sent or answered: {error!r}") from error
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]

    def lost(self) -> bool:
        """Whether a call has failed, or the scheduler has given the actor up."""
        return self._gone or self.future.status not in ("finished", "pending")


def remote_actors(
    client: distributed.Client, futures: Sequence[distributed.Future]
) -> list[RemoteActor]:
    """Wait for actors, and find out how to call each."""
    actors = gathered(client, futures)
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
    """Call a method of several actors at once; answers in their order.

    The answer of an actor whose worker is lost is its `WorkerLostError`; what a method raises is
    raised.

    calls : actors, and the arguments for each.
    patience : seconds after which to raise `TimeoutError`; None for those of the watch.
    """
    return in_loop(client, _call_all, client, calls, method, patience=patience)


async def _call_all(
    client: distributed.Client,
    calls: Sequence[tuple[RemoteActor, tuple[Any, ...]]],
    method: str,
) -> list[Any]:
    tasks = {asyncio.ensure_future(_answer(actor, method, args)): actor for actor, args in calls}
    order, lost = list(tasks), dict[asyncio.Future[Any], WorkerLostError]()
    pending, watch, pause = set(tasks), None, FIRST_LOOK
    while pending:
        done, pending = await asyncio.wait(
            pending, timeout=pause, return_when=asyncio.FIRST_EXCEPTION
        )
        for task in done:
            task.result()
        # a call to a dead worker may be trying to connect for long
        gone = {tasks[task].address for task in pending if tasks[task].lost()}
        if pending and pause >= tick():
            watch = watch or Watch(client)
            gone |= await watch.look({tasks[task].address for task in pending})
        for task in [task for task in pending if tasks[task].address in gone]:
            task.cancel()
            pending.discard(task)
            lost[task] = WorkerLostError(f"worker {tasks[task].address} is gone")
        pause = min(2.0 * pause, tick())
    return [lost[task] if task in lost else task.result() for task in order]


async def _answer(actor: RemoteActor, method: str, args: tuple[Any, ...]) -> Any:
    if actor.lost():
        return WorkerLostError(f"worker {actor.address} is gone")
    try:
        return await actor.call(method, args)
    except WorkerLostError as error:
        return error


async def _reachable(client: distributed.Client, addresses: set[str]) -> dict[str, bool]:
    """Which workers answer when they are called directly."""

    async def one(address: str) -> bool:
        try:
            await asyncio.wait_for(client.rpc(address).identity(), _config.connect_timeout())
        except (*LOST, OSError):
            return False
        return True

    order = sorted(addresses)
    return dict(zip(order, await asyncio.gather(*map(one, order)), strict=True))
