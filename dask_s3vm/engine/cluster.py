"""An engine on a dask cluster: one group of shards per worker, each a dask actor.

Rounds are direct calls to the actors, with no task and no graph. Actors die with their worker;
this engine does not: see `ClusterEngine.step`.
"""

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import distributed

from dask_s3vm import _config
from dask_s3vm.engine.group import Group, Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.tree import Node, Parts, cover, sum_nodes
from dask_s3vm.exceptions import WorkerLostError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Places the shards on the workers that there are, and returns the groups in order.
Place = Callable[[], list["ActorGroup"]]


class ActorGroup:
    """Shards `first` to `stop` of `n_shards`, in a group that lives on a worker."""

    def __init__(self, future: distributed.Future, first: int, stop: int, n_shards: int) -> None:
        self._nodes = cover(first, stop, n_shards)
        self._future = future
        self._actor = future.result()

    def start(self, method: str, op: Operation, args: tuple[Any, ...]) -> Callable[[], Any]:
        """Begin a call; the returned function waits for what it gives."""
        try:
            pending = getattr(self._actor, method)(op, *args)
        except RuntimeError as error:  # the future of the actor is lost already
            raise WorkerLostError(str(error)) from error

        def wait() -> Any:
            try:
                return pending.result()
            except (OSError, KeyError, distributed.CancelledError) as error:
                raise WorkerLostError(f"a worker of this fit is gone: {error}") from error

        return wait

    def by_node(self, parts: Parts) -> Iterator[tuple[Node, Parts]]:
        """Sort the flat answer to `sum` by the nodes of the tree."""
        size = len(parts) // len(self._nodes)
        for number, node in enumerate(self._nodes):
            yield node, parts[number * size : (number + 1) * size]

    def close(self) -> None:
        """Let the worker forget the group."""
        with contextlib.suppress(Exception):  # the worker may be gone, which does as well
            self._actor.close().result(timeout=5)
        self._future.release()


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
    place : puts the shards on the workers that there are; called again after a loss. Shards are
        made from their source anew, so they are the same wherever they end up.
    layout : how the data lies in shards.
    """

    def __init__(self, place: Place, layout: Layout) -> None:
        self.layout = layout
        self.rounds = 0
        self.generation = 0
        self._place = place
        self._prepared: dict[str, tuple[Operation, tuple[Any, ...]]] = {}
        self._groups = place()

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        answers = zip(self._groups, self._call("sum", op, args), strict=True)
        nodes = itertools.chain.from_iterable(group.by_node(parts) for group, parts in answers)
        return sum_nodes(nodes, self.layout.n_shards)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        return [result for answer in self._call("each", op, args) for result in answer]

    def prepare(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.prepare`."""
        self._prepared[name] = (op, args)
        self.step(lambda: self.each(op, *args))

    def step(self, advance: Callable[[], T]) -> T:
        """See `Engine.step`: a step that meets a lost worker is started again."""
        for attempt in range(1, _config.recovery_attempts() + 1):
            try:
                return advance()
            except WorkerLostError as error:
                logger.warning("%s; placing the rows again (attempt %d)", error, attempt)
                self._recover()
        return advance()

    def close(self) -> None:
        """See `Engine.close`."""
        for group in self._groups:
            group.close()
        self._groups = []

    def _call(self, method: str, op: Operation, args: tuple[Any, ...]) -> list[Any]:
        self.rounds += 1
        waits = [group.start(method, op, args) for group in self._groups]
        return [wait() for wait in waits]

    def _recover(self) -> None:
        """Place all shards again, and put back the row state that lasts."""
        self.close()
        self._groups = self._place()
        self.generation += 1
        for op, args in self._prepared.values():
            self.each(op, *args)

    def __repr__(self) -> str:
        return f"<ClusterEngine: {self.layout.n_shards} shards on {len(self._groups)} workers>"
