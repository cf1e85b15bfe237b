"""Direct calls to actors, which tell a lost worker from a failed operation.

distributed's own actor proxy sends every call through the scheduler unless the client was made with
`direct_to_workers`, and leaves a call pending for ever on any failure other than `OSError`. Here a
call goes straight to the worker where that can be reached, several calls share one trip into the
event loop, and every outcome is an answer or an exception.
"""

import asyncio
from typing import Any

import distributed
from distributed.actor import ProxyRPC
from distributed.comm import CommClosedError
from distributed.protocol import to_serialize

from dask_s3vm import _config
from dask_s3vm.exceptions import EngineError, WorkerLostError

#: How often, in seconds, to ask whether a worker that has not answered is still there.
WATCH = 2.0

#: What a dask future raises when a worker or what it held is gone. Not any OSError: a task of the
#: user's graph may raise one of its own, for a file that is not there.
LOST = (
    ConnectionError,
    CommClosedError,
    distributed.CancelledError,
    distributed.scheduler.KilledWorker,
)


class RemoteActor:
    """An actor on a worker, by the future that keeps it there."""

    def __init__(self, client: distributed.Client, future: distributed.Future) -> None:
        actor = future.result()
        self.future = future
        self._key = actor.key
        self._address = actor._address
        self._rpc = client.rpc(self._address)
        if not client.sync(_reachable, self._rpc):
            self._rpc = ProxyRPC(client.scheduler, self._address)

    async def call(self, method: str, args: tuple[Any, ...]) -> Any:
        """Call a method; raises what it raises, or `WorkerLostError`."""
        try:
            answer = await self._rpc.actor_execute(
                actor=self._key,
                function=method,
                args=[to_serialize(arg) for arg in args],
                kwargs={},
            )
        except (*LOST, OSError, KeyError) as error:  # KeyError: the worker knows no such actor
            raise WorkerLostError(f"worker {self._address} is gone: {error!r}") from error
        except Exception as error:
            raise EngineError(f"a round could not be sent or answered: {error!r}") from error
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]

    def lost(self) -> bool:
        """Whether the scheduler has given the actor up."""
        return self.future.status not in ("finished", "pending")


def call_all(
    client: distributed.Client, actors: list[RemoteActor], method: str, args: tuple[Any, ...]
) -> list[Any]:
    """Call a method of every actor at once; answers in their order."""
    return client.sync(_call_all, actors, method, args)


async def _call_all(actors: list[RemoteActor], method: str, args: tuple[Any, ...]) -> list[Any]:
    calls = [asyncio.ensure_future(actor.call(method, args)) for actor in actors]
    pending = set(calls)
    try:
        while pending:
            done, pending = await asyncio.wait(
                pending, timeout=WATCH, return_when=asyncio.FIRST_EXCEPTION
            )
            for call in done:
                call.result()
            for actor, call in zip(actors, calls, strict=True):
                if call in pending and actor.lost():
                    raise WorkerLostError("a worker of this fit is gone")
    finally:
        for call in pending:
            call.cancel()
    return [call.result() for call in calls]


async def _reachable(rpc: Any) -> bool:
    """Whether a worker answers when it is called directly."""
    try:
        await asyncio.wait_for(rpc.identity(), _config.connect_timeout())
    except (*LOST, OSError):
        return False
    return True
