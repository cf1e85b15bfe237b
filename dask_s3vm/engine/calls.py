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

#: False only to measure what the watch costs.
WATCHED = True

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
    actors: Sequence[RemoteActor],
    method: str,
    args: tuple[Any, ...],
    patience: float | None = None,
) -> list[Any]:
    """Call a method of every actor at once; answers in their order.

    patience : seconds after which to raise `TimeoutError`; None for those of the watch.
    """
    return in_loop(client, _call_all, client, actors, method, args, patience=patience)


def call_each(
    client: distributed.Client, actors: Sequence[RemoteActor], method: str, args: tuple[Any, ...]
) -> list[Any]:
    """As `call_all`, but a lost worker is an answer: its `WorkerLostError`."""
    return in_loop(client, _call_each, client, actors, method, args)


async def _call_all(
    client: distributed.Client, actors: Sequence[RemoteActor], method: str, args: tuple[Any, ...]
) -> list[Any]:
    if not WATCHED:
        return await asyncio.gather(*(actor.call(method, args) for actor in actors))
    for actor in actors:
        if actor.lost():
            raise WorkerLostError(f"worker {actor.address} is gone")
    calls = [asyncio.ensure_future(actor.call(method, args)) for actor in actors]
    pending, watch, pause = set(calls), None, FIRST_LOOK
    try:
        while pending:
            done, pending = await asyncio.wait(
                pending, timeout=pause, return_when=asyncio.FIRST_EXCEPTION
            )
            for call in done:
                call.result()
            if not pending:
                break
            waited = [actor for actor, call in zip(actors, calls, strict=True) if call in pending]
            for actor in waited:  # a call to a dead worker may be trying to connect for long
                if actor.lost():
                    raise WorkerLostError(f"worker {actor.address} is gone")
            if pause >= tick():
                watch = watch or Watch(client)
                await watch.look({actor.address for actor in waited})
            pause = min(2.0 * pause, tick())
    finally:
        for call in pending:
            call.cancel()
    return [call.result() for call in calls]


async def _call_each(
    client: distributed.Client, actors: Sequence[RemoteActor], method: str, args: tuple[Any, ...]
) -> list[Any]:
    async def one(actor: RemoteActor) -> Any:
        try:
            return (await _call_all(client, [actor], method, args))[0]
        except WorkerLostError as error:
            return error

    return await asyncio.gather(*(one(actor) for actor in actors))


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
