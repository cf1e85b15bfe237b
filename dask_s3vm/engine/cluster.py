"""An engine on a dask cluster: one group of shards per worker, each a dask actor.

Rounds are direct calls to the actors (see `calls`), with no task and no graph. Actors die with
their worker; this engine does not: see `ClusterEngine.step`.
"""

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import distributed

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.calls import RemoteActor, call_all, call_each
from dask_s3vm.engine.census import Census
from dask_s3vm.engine.group import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.shard import drop_state
from dask_s3vm.engine.spread import Holdings, hand_out, rebalance
from dask_s3vm.engine.tree import Node, Parts, cover_all, sum_nodes
from dask_s3vm.engine.workers import check_versions, worker_threads
from dask_s3vm.exceptions import (
    EngineError,
    LineageError,
    MemoryShortError,
    SchedulerLostError,
    VersionMismatchError,
    WorkerLostError,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: False only to measure what steps as transactions cost.
TRANSACTIONS = True

#: Shards move to workers that have joined only after this many times the time that it last took.
REST = 10.0


class ActorGroup:
    """Shards of some numbers, in a group that lives on a worker."""

    def __init__(self, actor: RemoteActor, numbers: list[int], n_shards: int) -> None:
        self.actor = actor
        self._n_shards = n_shards
        self.hold(numbers)

    def hold(self, numbers: list[int]) -> None:
        """Have these shards from now on."""
        self.numbers = sorted(numbers)
        self._nodes = cover_all(self.numbers, self._n_shards)

    def by_node(self, parts: Parts) -> Iterator[tuple[Node, Parts]]:
        """Sort the flat answer to `sum` by the nodes of the tree."""
        size = len(parts) // len(self._nodes)
        for number, node in enumerate(self._nodes):
            yield node, parts[number * size : (number + 1) * size]


class ShardMaker(Protocol):
    """Makes shards on workers, from their source: the same ones wherever they end up."""

    def assign(self, threads: dict[str, int]) -> Holdings:
        """Say who gets which shards at first."""
        ...

    def build(self, shards: Holdings, threads: dict[str, int], epoch: int) -> list[ActorGroup]:
        """Make shards, and hand them to new actors; raises `WorkerLostError`."""
        ...


class ClusterEngine:
    """Shards on the workers of a dask cluster.

    Parameters
    ----------
    client : the client of the cluster.
    maker : makes shards.
    layout : how the data lies in shards.
    """

    def __init__(self, client: distributed.Client, maker: ShardMaker, layout: Layout) -> None:
        self.layout = layout
        self.rounds = 0
        self.generation = -1  # 0 once the shards are placed
        self._client = client
        self._maker = maker
        self._groups: dict[str, ActorGroup] = {}  # by address, in the order of first shards
        self._whole = False
        self._epoch = 0
        self._prepared: dict[str, tuple[Operation, tuple[Any, ...]]] = {}
        self._stepping = False
        self._budget = Budget()
        self._census = Census(client)
        self._rest_until = 0.0
        try:
            self.step(lambda: None)
        except BaseException:
            self.close()
            raise

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        answers = zip(self._groups.values(), self._call("sum", op, *args), strict=True)
        nodes = itertools.chain.from_iterable(group.by_node(parts) for group, parts in answers)
        return sum_nodes(nodes, self.layout.n_shards)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        results: list[Any] = [None] * self.layout.n_shards
        answers = self._call("each", op, *args)
        for group, answer in zip(self._groups.values(), answers, strict=True):
            for number, result in zip(group.numbers, answer, strict=True):
                results[number] = result
        return results

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

        Groups that are left keep their rows; the shards of the lost one are made again, by
        others. A step within a step is part of it: the outer one starts again as a whole.
        """
        if self._stepping or not (TRANSACTIONS or self.generation < 0):
            return advance()
        self._stepping = True
        try:
            return self._attempt(advance)
        finally:
            self._stepping = False

    def progress(self) -> None:
        """See `Engine.progress`."""
        self._budget.progress()

    def close(self) -> None:
        """See `Engine.close`."""
        groups, self._groups, self._whole = list(self._groups.values()), {}, False
        with contextlib.suppress(Exception):  # whoever is gone has let go
            call_all(self._client, [group.actor for group in groups], "close", (), patience=2.0)
        with contextlib.suppress(Exception):
            self._client.cancel([group.actor.future for group in groups])

    def _attempt(self, advance: Callable[[], T]) -> T:
        while True:
            try:
                if not self._whole:
                    self._settle()
                elif self._census.due():
                    self._welcome()
                result = advance()
            except LineageError:
                raise
            except WorkerLostError as error:
                self._whole = False
                self._budget.spend(error)
            except Exception as error:
                if self._client.status in ("running", None) or isinstance(error, EngineError):
                    raise
                raise SchedulerLostError(
                    f"the connection to the scheduler is lost: {error!r}"
                ) from error
            else:
                self._budget.progress()
                return result

    def _settle(self) -> None:
        """Have all shards placed: all at first, later those that are missing."""
        self._epoch += 1
        self._census.forget()
        self._drop_lost()
        if self.generation < 0:
            self._add_missing(_config.connect_timeout())
        else:
            self._add_to_those_left()
        self._restore()

    def _add_to_those_left(self) -> None:
        """Make what is missing after a loss; where that does not fit, wait for a replacement."""
        patience = _config.replacement_timeout()
        deadline = time.monotonic() + patience
        while True:
            try:
                n_missing = self._add_missing(patience)
            except MemoryShortError:
                if time.monotonic() > deadline:
                    raise
                interrupts.sleep(1.0)
            else:
                logger.warning("%d of %d shards placed again", n_missing, self.layout.n_shards)
                return

    def _add_missing(self, patience: float) -> int:
        """Make the shards that nobody has; returns their number."""
        threads = worker_threads(self._client, self._groups, patience)
        held = self._held()
        missing = sorted(set(range(self.layout.n_shards)).difference(*held.values()))
        if len(missing) == self.layout.n_shards:
            shards = self._maker.assign(threads)
        else:
            shards = hand_out(missing, threads, held)
        if shards:
            self._take_in(self._maker.build(shards, threads, self._epoch))
        return len(missing)

    def _welcome(self) -> None:
        """Move a fair share of the shards to workers that have joined, if that is worth it."""
        threads = self._census.workers()
        joined = [address for address in threads if address not in self._groups]
        if not joined or time.monotonic() < self._rest_until:
            return
        moving = rebalance(threads, self._held())
        if not moving:
            return
        began = time.monotonic()
        try:
            check_versions(self._client, joined)
            fresh = self._maker.build(moving, threads, self._epoch + 1)
        except (VersionMismatchError, MemoryShortError, WorkerLostError) as error:
            logger.warning("workers that joined are not used: %s", error)
            self._rest_until = time.monotonic() + max(60.0, REST * (time.monotonic() - began))
            return
        self._epoch += 1
        self._whole = False  # until all of what follows is done
        lost = self._drop_lost()
        moved = {number for group in fresh for number in group.numbers}
        for group in list(self._groups.values()):
            self._shed(group, [number for number in group.numbers if number in moved])
        self._take_in(fresh)
        if lost:
            raise WorkerLostError(f"worker {lost[0]} was lost while shards moved")
        self._restore()
        self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
        logger.info("%d shards moved to %d workers that joined", len(moved), len(joined))

    def _held(self) -> Holdings:
        return {address: group.numbers for address, group in self._groups.items()}

    def _drop_lost(self) -> list[str]:
        """Begin an epoch: groups that are left forget all row state, others are dropped.

        Returns the addresses of those dropped.
        """
        groups = list(self._groups.values())
        answers = call_each(
            self._client, [group.actor for group in groups], "reset", (self._epoch,)
        )
        lost = [
            group
            for group, answer in zip(groups, answers, strict=True)
            # nor one that was about to change hands, and has other shards than it should
            if isinstance(answer, WorkerLostError) or list(answer) != group.numbers
        ]
        self._let_go(lost)
        return [group.actor.address for group in lost]

    def _let_go(self, groups: list[ActorGroup]) -> None:
        """Let the scheduler forget groups, whoever still holds one."""
        for group in groups:
            self._groups.pop(group.actor.address, None)
        if groups:
            self._client.cancel([group.actor.future for group in groups])

    def _shed(self, group: ActorGroup, numbers: list[int]) -> None:
        """Have a group let go of shards."""
        if not numbers:
            return
        left = sorted(set(group.numbers).difference(numbers))
        if not left:
            call_all(self._client, [group.actor], "close", ())
            self._let_go([group])
            return
        call_all(self._client, [group.actor], "shed", (numbers,))
        group.hold(left)

    def _take_in(self, fresh: list[ActorGroup]) -> None:
        """Add new groups; one on a worker that has a group already becomes part of that."""
        for group in fresh:
            home = self._groups.setdefault(group.actor.address, group)
            if home is not group:
                call_all(self._client, [home.actor], "absorb", ([group.actor.key],))
                home.hold(home.numbers + group.numbers)
                self._client.cancel([group.actor.future])
        order = sorted(self._groups.items(), key=lambda item: item[1].numbers[0])
        self._groups = dict(order)

    def _restore(self) -> None:
        """Put back the row state that lasts, on all shards."""
        for op, args in self._prepared.values():
            self.each(op, *args)
        self.generation += 1
        self._whole = True

    def _call(self, method: str, *args: Any) -> list[Any]:
        self.rounds += 1
        actors = [group.actor for group in self._groups.values()]
        return call_all(self._client, actors, "run", (self._epoch, method, *args))

    def __repr__(self) -> str:
        return f"<ClusterEngine: {self.layout.n_shards} shards on {len(self._groups)} workers>"
