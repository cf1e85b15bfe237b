"""An engine on a dask cluster: one group of shards per worker, each a dask actor.

Rounds are direct calls to the actors (see `calls`), with no task and no graph. Actors die with
their worker; this engine does not: see `ClusterEngine._run`.
"""

import contextlib
import itertools
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import distributed

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.calls import RemoteActor, call_all
from dask_s3vm.engine.census import Census
from dask_s3vm.engine.operations import Operation, Recipes, uses_of
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

#: Shards move to workers that have joined only after this many times the time that it last took.
REST = 10.0


class ActorGroup:
    """Shards of some numbers, in a group that lives on a worker."""

    def __init__(self, actor: RemoteActor, numbers: Sequence[int], n_shards: int) -> None:
        self.actor = actor
        self._n_shards = n_shards
        self.hold(numbers)

    def hold(self, numbers: Iterable[int]) -> None:
        """Have these shards from now on."""
        self.numbers = sorted(numbers)
        self._nodes = cover_all(self.numbers, self._n_shards)

    def by_node(self, parts: Parts, numbers: list[int]) -> Iterator[tuple[Node, Parts]]:
        """Sort the flat answer to `sum`, for some shards, by the nodes of the tree."""
        whole = numbers == self.numbers
        nodes = self._nodes if whole else cover_all(numbers, self._n_shards)
        size = len(parts) // len(nodes)
        for number, node in enumerate(nodes):
            yield node, parts[number * size : (number + 1) * size]


class ShardMaker(Protocol):
    """Makes shards on workers, from their source: the same ones wherever they end up."""

    def assign(self, threads: dict[str, int]) -> Holdings:
        """Say who gets which shards at first."""
        ...

    def build(self, shards: Holdings, threads: dict[str, int]) -> list[ActorGroup]:
        """Make shards, and hand them to new actors; raises `WorkerLostError`."""
        ...


#: What a group has answered, for shards of these numbers.
Answer = tuple[ActorGroup, list[int], Any]


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
        self.losses = 0  # of groups of shards, with their workers
        self._client = client
        self._maker = maker
        self._groups: dict[str, ActorGroup] = {}  # by address, in the order of first shards
        self._placed = False  # whether the shards ever were
        self._closed = False
        self._recipes = Recipes()
        self._budget = Budget()
        self._census = Census(client)
        self._rest_until = 0.0
        try:
            with self._told_of_scheduler():
                self._have(())
        except BaseException:
            self.close()
            raise

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        nodes = itertools.chain.from_iterable(
            group.by_node(parts, numbers) for group, numbers, parts in self._run("sum", op, args)
        )
        return sum_nodes(nodes, self.layout.n_shards)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        results: list[Any] = [None] * self.layout.n_shards
        for _, numbers, answer in self._run("each", op, args):
            for number, result in zip(numbers, answer, strict=True):
                results[number] = result
        return results

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.remember`."""
        self._recipes.put(name, op, args, uses_of(op, args).reads)

    def forget(self) -> None:
        """See `Engine.forget`."""
        self._recipes.clear()
        self.each(drop_state)

    def close(self) -> None:
        """See `Engine.close`."""
        self._closed = True
        groups, self._groups = list(self._groups.values()), {}
        with contextlib.suppress(Exception):  # whoever is gone has let go
            call_all(self._client, [(group.actor, ()) for group in groups], "close", patience=2.0)
        with contextlib.suppress(Exception):
            self._client.cancel([group.actor.future for group in groups])

    def _run(self, method: str, op: Operation, args: tuple[Any, ...]) -> list[Answer]:
        """Have every shard carry out one operation, once, whatever becomes of workers meanwhile.

        Answers of groups that are left stand. The shards of a lost one are made again, by others,
        and with them the row state that the operation needs; then they do their part.
        """
        self.rounds += 1
        uses = uses_of(op, args)
        answers: list[Answer] = []
        with self._told_of_scheduler():
            if self._census.due():
                self._welcome()
            waiting: set[int] | None = None  # all of them
            while waiting is None or waiting:
                self._have(uses.needs)
                answers += self._ask(waiting, method, op, args)
                waiting = self._others(numbers for _, numbers, _ in answers)
        self._recipes.note(op, args, uses)
        self._budget.progress()
        copy = self._recipes.copy_of(uses.changes)
        if copy is not None and uses.changes is not None:
            take, put = copy
            self.remember(uses.changes, put, self.each(take))
        return answers

    def _ask(
        self, wanted: set[int] | None, method: str, op: Operation, args: tuple[Any, ...]
    ) -> list[Answer]:
        """Call the groups that hold wanted shards, None for all; lost groups are dropped."""
        calls = []
        for group in self._groups.values():
            numbers = group.numbers
            if wanted is not None:
                numbers = [number for number in numbers if number in wanted]
            if numbers:
                calls.append((group, numbers))
        found = call_all(
            self._client,
            [
                (group.actor, (method, None if numbers == group.numbers else numbers, op, *args))
                for group, numbers in calls
            ],
            "run",
        )
        answers, lost = [], []
        for (group, numbers), answer in zip(calls, found, strict=True):
            if isinstance(answer, WorkerLostError):
                lost.append((group, answer))
            else:
                answers.append((group, numbers, answer))
        if lost:
            self.losses += len(lost)
            self._drop([group for group, _ in lost])
            self._budget.spend(lost[0][1])
        return answers

    def _have(self, names: Iterable[str]) -> None:
        """Have all shards placed, with the row state of these names."""
        while True:
            if self._closed:
                raise EngineError("the engine is closed")
            try:
                self._place_missing()
                if self._make(names):
                    return
            except LineageError:
                raise
            except WorkerLostError as error:
                self._budget.spend(error)

    def _make(self, names: Iterable[str]) -> bool:
        """Make row state on shards that have none of it; False if a worker was lost."""
        for name, calls, numbers in self._recipes.to_make(names):
            for op, args in calls:
                answers = self._ask(set(numbers), "each", op, args)
                if sum(len(own) for _, own, _ in answers) < len(numbers):
                    return False  # those made again have nothing: from the start
            self._recipes.made(name)
        return True

    @contextlib.contextmanager
    def _told_of_scheduler(self) -> Iterator[None]:
        """Say it plainly where an error comes of a scheduler that is gone."""
        try:
            yield
        except Exception as error:
            if self._client.status in ("running", None) or isinstance(error, EngineError):
                raise
            raise SchedulerLostError(
                f"the connection to the scheduler is lost: {error!r}"
            ) from error

    def _others(self, lists: Iterable[list[int]]) -> set[int]:
        """Shards that are in none of some lists, which have no shard in common."""
        lists = list(lists)
        if sum(map(len, lists)) == self.layout.n_shards:
            return set()
        return set(range(self.layout.n_shards)).difference(*lists)

    def _missing(self) -> list[int]:
        """Shards that nobody holds."""
        return sorted(self._others(self._held().values()))

    def _place_missing(self) -> None:
        """Make the shards that nobody has: all at first, later those of lost workers."""
        missing = self._missing()
        if not missing:
            return
        self._census.forget()
        if not self._placed:
            self._build(missing, _config.connect_timeout())
            self._placed = True
            return
        patience = _config.replacement_timeout()
        deadline = time.monotonic() + patience
        while True:  # where they do not fit, wait for a replacement
            try:
                self._build(missing, patience)
            except MemoryShortError:
                if time.monotonic() > deadline:
                    raise
                interrupts.sleep(1.0)
            else:
                logger.warning("%d of %d shards placed again", len(missing), self.layout.n_shards)
                return

    def _build(self, missing: list[int], patience: float) -> None:
        threads = worker_threads(self._client, self._groups, patience)
        if len(missing) == self.layout.n_shards:
            shards = self._maker.assign(threads)
        else:
            shards = hand_out(missing, threads, self._held())
        if shards:
            self._take_in(self._maker.build(shards, threads))

    def _welcome(self) -> None:
        """Move a fair share of the shards to workers that have joined, if that is worth it."""
        threads = self._census.workers()
        joined = [address for address in threads if address not in self._groups]
        if not joined or time.monotonic() < self._rest_until or self._missing():
            return
        moving = rebalance(threads, self._held())
        if not moving:
            return
        began = time.monotonic()
        try:
            check_versions(self._client, joined)
            fresh = self._maker.build(moving, threads)
        except (VersionMismatchError, MemoryShortError, WorkerLostError) as error:
            logger.warning("workers that joined are not used: %s", error)
            self._rest_until = time.monotonic() + max(60.0, REST * (time.monotonic() - began))
            return
        moved = {number for group in fresh for number in group.numbers}
        for group in list(self._groups.values()):
            self._shed(group, [number for number in group.numbers if number in moved])
        self._take_in(fresh)
        self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
        logger.info("%d shards moved to %d workers that joined", len(moved), len(joined))

    def _held(self) -> Holdings:
        return {address: group.numbers for address, group in self._groups.items()}

    def _drop(self, groups: list[ActorGroup]) -> None:
        """Let the scheduler forget groups, whoever still holds one."""
        for group in groups:
            if self._groups.get(group.actor.address) is group:
                del self._groups[group.actor.address]
        if groups:
            with contextlib.suppress(Exception):  # nobody may be there to be told
                self._client.cancel([group.actor.future for group in groups])

    def _shed(self, group: ActorGroup, numbers: list[int]) -> None:
        """Have a group let go of shards; one that is lost is dropped."""
        if not numbers:
            return
        left = sorted(set(group.numbers).difference(numbers))
        what: tuple[str, tuple[Any, ...]] = ("shed", (numbers,)) if left else ("close", ())
        (answer,) = call_all(self._client, [(group.actor, what[1])], what[0])
        if isinstance(answer, WorkerLostError) or not left:
            self._drop([group])
        else:
            group.hold(left)

    def _take_in(self, fresh: list[ActorGroup]) -> None:
        """Add new groups; one on a worker that has a group already becomes part of that."""
        for group in fresh:
            home = self._groups.setdefault(group.actor.address, group)
            if home is not group:
                keys = [group.actor.key]
                (answer,) = call_all(self._client, [(home.actor, (keys,))], "absorb")
                if isinstance(answer, WorkerLostError):
                    self._drop([home, group])
                    continue
                home.hold([*home.numbers, *group.numbers])
                self._client.cancel([group.actor.future])
            self._recipes.rebuilt(group.numbers)
        order = sorted(self._groups.items(), key=lambda item: item[1].numbers[0])
        self._groups = dict(order)

    def __repr__(self) -> str:
        return f"<ClusterEngine: {self.layout.n_shards} shards on {len(self._groups)} workers>"
