"""An engine on a dask cluster: one group of shards per worker, each a dask actor.

Rounds are direct calls to the actors (see `calls`), with no task and no graph. Actors die with
their worker; this engine does not: see `ClusterEngine.step`.
"""

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import distributed

from dask_s3vm import _config
from dask_s3vm.engine.calls import RemoteActor, call_all
from dask_s3vm.engine.group import Group, Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.shard import drop_state
from dask_s3vm.engine.tree import Node, Parts, cover, sum_nodes
from dask_s3vm.exceptions import EngineError, WorkerLostError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Places the shards on the workers that there are, and returns the groups in order.
Place = Callable[[], list["ActorGroup"]]


class ActorGroup:
    """Shards `first` to `stop` of `n_shards`, in a group that lives on a worker."""

    def __init__(self, actor: RemoteActor, first: int, stop: int, n_shards: int) -> None:
        self.actor = actor
        self._nodes = cover(first, stop, n_shards)

    def by_node(self, parts: Parts) -> Iterator[tuple[Node, Parts]]:
        """Sort the flat answer to `sum` by the nodes of the tree."""
        size = len(parts) // len(self._nodes)
        for number, node in enumerate(self._nodes):
            yield node, parts[number * size : (number + 1) * size]


def submit_group(
    client: distributed.Client,
    shards: list[distributed.Future],
    n_shards: int,
    worker: str,
    n_threads: int,
    key: str,
) -> distributed.Future:
    """Make an actor of shards that are on a worker, or on their way to it."""
    return client.submit(
        Group,
        shards,
        n_shards,
        n_threads,
        key=key,
        actor=True,
        workers=[worker],
        allow_other_workers=True,  # a pinned task whose worker dies would wait for ever
    )


class ClusterEngine:
    """Shards on the workers of a dask cluster.

    Parameters
    ----------
    client : the client of the cluster.
    place : puts the shards on the workers that there are; called again after a loss. Shards are
        made from their source anew, so they are the same wherever they end up.
    layout : how the data lies in shards.
    """

    def __init__(self, client: distributed.Client, place: Place, layout: Layout) -> None:
        self.layout = layout
        self.rounds = 0
        self.generation = -1  # 0 once the shards are placed
        self._client = client
        self._place = place
        self._groups: list[ActorGroup] = []
        self._prepared: dict[str, tuple[Operation, tuple[Any, ...]]] = {}
        self._stepping = False
        self.step(lambda: None)

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        answers = zip(self._groups, self._call("sum", op, *args), strict=True)
        nodes = itertools.chain.from_iterable(group.by_node(parts) for group, parts in answers)
        return sum_nodes(nodes, self.layout.n_shards)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        return [result for answer in self._call("each", op, *args) for result in answer]

    def prepare(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.prepare`."""
        self.step(lambda: self.each(op, *args))
        self.remember(name, op, *args)

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.remember`."""
        self._prepared[name] = (op, args)  # put back in the order in which names first came

    def forget(self) -> None:
        """See `Engine.forget`."""
        self._prepared.clear()
        self.step(lambda: self.each(drop_state))

    def step(self, advance: Callable[[], T]) -> T:
        """See `Engine.step`: a step that meets a lost worker is started again.

        A step within a step is part of it: the outer one starts again as a whole.
        """
        if self._stepping:
            return advance()
        self._stepping = True
        try:
            return self._attempt(advance)
        finally:
            self._stepping = False

    def close(self) -> None:
        """See `Engine.close`."""
        with contextlib.suppress(EngineError):  # a worker may be gone, which does as well
            self._call("close")
        self._let_go()

    def _attempt(self, advance: Callable[[], T]) -> T:
        attempts = _config.recovery_attempts()
        for attempt in range(attempts + 1):
            try:
                if not self._groups:
                    self._settle()
                return advance()
            except WorkerLostError as error:
                self._let_go()
                if attempt == attempts:
                    raise
                logger.warning("%s; placing the rows again (%d)", error, attempt + 1)
                time.sleep(0.5 * attempt)  # workers that are restarted need a moment
        raise AssertionError("unreachable")

    def _let_go(self) -> None:
        """Let the scheduler forget the groups, whoever still holds one."""
        futures = [group.actor.future for group in self._groups]
        self._groups = []
        self._client.cancel(futures)

    def _settle(self) -> None:
        """Place all shards, and put back the row state that lasts."""
        self._groups = self._place()
        self.generation += 1
        for op, args in self._prepared.values():
            self.each(op, *args)

    def _call(self, method: str, *args: Any) -> list[Any]:
        self.rounds += 1
        return call_all(self._client, [group.actor for group in self._groups], method, args)

    def __repr__(self) -> str:
        return f"<ClusterEngine: {self.layout.n_shards} shards on {len(self._groups)} workers>"
