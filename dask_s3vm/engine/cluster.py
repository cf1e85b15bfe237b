"""The engine on a dask cluster: one group of shards per worker, each a dask actor.

A round is one direct call to every actor (see `calls`), without tasks or graphs. Long vectors go
from worker to worker (see `exchange`). An actor dies with its worker. The engine survives that: it
has the lost shards built again on other workers and repeats their part of the round (see
`ClusterEngine._run`).
"""

import contextlib
import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import distributed

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.calls import RemoteGroup, call_all
from dask_s3vm.engine.computing import RetryBudget
from dask_s3vm.engine.exchange import NOT_RUN, Exchange, Totals, merged
from dask_s3vm.engine.operations import Operation, Recipes, uses_of
from dask_s3vm.engine.paces import Paces
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.protocol import RoundTimes
from dask_s3vm.engine.shard import drop_state
from dask_s3vm.engine.tree import Parts, sum_nodes
from dask_s3vm.engine.watch import wait_until_gone
from dask_s3vm.engine.workers import (
    Holdings,
    WorkerList,
    check_versions,
    hand_out,
    rebalance,
    worker_threads,
)
from dask_s3vm.exceptions import (
    EngineError,
    LineageError,
    MemoryShortError,
    SchedulerLostError,
    VersionMismatchError,
    WorkerLostError,
)

logger = logging.getLogger(__name__)

#: After a move of shards, no other one starts for this many times the time that it took.
MOVE_REST = 10.0


class ShardMaker(Protocol):
    """Builds shards on workers from the source of the rows: the same shards on any worker."""

    def assign(self, threads: dict[str, int]) -> Holdings:
        """Choose the first worker of every shard."""
        ...

    def build(self, shards: Holdings, threads: dict[str, int]) -> list[RemoteGroup]:
        """Build shards, and hand them to new actors; raises `WorkerLostError`."""
        ...


#: (group, numbers of the shards that it ran over, result)
Answer = tuple[RemoteGroup, list[int], Any]


class ClusterEngine:
    """Shards on the workers of a dask cluster.

    Parameters
    ----------
    client : the client of the cluster.
    maker : builds the shards.
    layout : how the data is divided into shards.

    Attributes
    ----------
    losses : number of groups that were lost with their workers.
    """

    loop = None

    def __init__(self, client: distributed.Client, maker: ShardMaker, layout: Layout) -> None:
        self.layout = layout
        self.rounds = 0
        self.losses = 0
        self.times = RoundTimes()
        self._client = client
        self._maker = maker
        self._groups: dict[str, RemoteGroup] = {}  # by address, in the order of first shards
        self._placed = False  # whether all shards have been placed once
        self._closed = False
        self._recipes = Recipes()
        self._undone: set[int] = set()  # shards rebuilt after they took part in the last round
        self._budget = RetryBudget()
        self._worker_list = WorkerList(client)
        self._exchange = Exchange(client, layout.n_features)
        self._paces = Paces()
        self._no_move_before = 0.0
        try:
            with self._reporting_lost_scheduler():
                self._ensure(())
        except BaseException:
            self.close()
            raise

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        answers, totals = self._run("sum", op, args)
        nodes = itertools.chain.from_iterable(
            group.by_node(parts, numbers) for group, numbers, parts in answers
        )
        return merged(sum_nodes(nodes, self.layout.n_shards), totals)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        results: list[Any] = [None] * self.layout.n_shards
        for _, numbers, answer in self._run("each", op, args)[0]:
            for number, result in zip(numbers, answer, strict=True):
                results[number] = result
        return results

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.remember`."""
        self._recipes.put(name, op, args, uses_of(op, args).reads)
        if self._undone:
            self._recipes.lack(name, self._undone)

    def forget(self) -> None:
        """See `Engine.forget`."""
        self._recipes.clear()
        self.each(drop_state)

    def close(self) -> None:
        """See `Engine.close`."""
        self._closed = True
        groups, self._groups = list(self._groups.values()), {}
        with contextlib.suppress(Exception):  # a lost worker has released its rows
            call_all(self._client, [(group.actor, ()) for group in groups], "close", patience=2.0)
        with contextlib.suppress(Exception):
            actors = [group.actor.future for group in groups]
            self._client.cancel(actors)
            wait_until_gone(self._client, actors, patience=2.0)

    def __repr__(self) -> str:
        return f"<ClusterEngine: {self.layout.n_shards} shards on {len(self._groups)} workers>"

    # Rounds -------------------------------------------------------------------------------------

    def _run(
        self, method: str, op: Operation, args: tuple[Any, ...]
    ) -> tuple[list[Answer], Totals]:
        """Run an operation on every shard; its effect on row state happens exactly once.

        Parts that the workers have added among themselves are not in the answers, but are returned
        besides.

        If a worker is lost meanwhile, the answers of the other groups are kept. The lost shards are
        built again, the row state that the operation needs is restored there, and the operation
        runs on them alone. A worker may also be lost after its answer, while others are waited for:
        the answer stands, and the effect on the row state of its shards is replayed when needed.
        """
        self.rounds += 1
        uses = uses_of(op, args)
        answers: list[Answer] = []
        totals: Totals = {}
        undone: set[int] = set()
        with self._reporting_lost_scheduler():
            if self._worker_list.updated():
                self._move_shards()
            if self.times.wanted:
                calls = [(group.actor, ()) for group in self._groups.values()]
                found = call_all(self._client, calls, "take_seconds")
                self.times.set_mark(self.rounds, dict(zip(self._groups, found, strict=True)))
            waiting: set[int] | None = None  # all shards
            while waiting is None or waiting:
                rebuilt = self._ensure(uses.needs)
                if waiting is not None:
                    undone |= rebuilt - waiting
                found, totals = self._call_groups(waiting, method, op, args)
                answers += found
                waiting = self._others(numbers for _, numbers, _ in answers)
        self._recipes.note(op, args, uses)
        self._undone = undone
        self._recipes.rebuilt(undone)  # what was restored there dates from before the round
        self._budget.progress()
        for name, take, put in self._recipes.to_copy(uses):
            self.remember(name, put, self.each(take))  # a round of its own
        self._undone |= undone
        return answers, totals

    def _call_groups(
        self, wanted: set[int] | None, method: str, op: Operation, args: tuple[Any, ...]
    ) -> tuple[list[Answer], Totals]:
        """Run an operation on all shards (None) or on the wanted ones; drops lost groups."""
        calls: list[tuple[RemoteGroup, list[int]]] = []
        for group in self._groups.values():
            numbers = group.numbers
            if wanted is not None:
                numbers = [number for number in numbers if number in wanted]
            if numbers:
                calls.append((group, numbers))
        began = time.perf_counter()
        totals: Totals = {}
        if wanted is None and self._exchange.suits([group for group, _ in calls], method, args):
            found, totals = self._exchange.run([group for group, _ in calls], method, op, args)
        else:
            found = call_all(
                self._client,
                [
                    (
                        group.actor,
                        (method, None if numbers == group.numbers else numbers, op, *args),
                    )
                    for group, numbers in calls
                ],
                "run",
            )
        self.times.round_seconds += time.perf_counter() - began
        answers, lost = [], []
        for (group, numbers), answer in zip(calls, found, strict=True):
            if isinstance(answer, WorkerLostError):
                lost.append((group, answer))
            elif answer is not NOT_RUN:
                answers.append((group, numbers, answer))
        if lost:
            self.losses += len(lost)
            self._drop([group for group, _ in lost])
            self._budget.spend(lost[0][1])
        return answers, totals

    def _ensure(self, names: Iterable[str]) -> set[int]:
        """Ensure that all shards are placed and have row state `names`; return those rebuilt."""
        rebuilt: set[int] = set()
        while True:
            if self._closed:
                raise EngineError("the engine is closed")
            try:
                if missing := self._unplaced():
                    rebuilt.update(missing)
                    self._place(missing)
                if self._restore(names):
                    return rebuilt
            except LineageError:
                raise
            except WorkerLostError as error:
                self._budget.spend(error)

    def _restore(self, names: Iterable[str]) -> bool:
        """Replay the recipes of row state on shards that lack it; False if a worker was lost."""
        for name, calls, numbers in self._recipes.to_make(names):
            for op, args in calls:
                answers, _ = self._call_groups(set(numbers), "each", op, args)
                if sum(len(own) for _, own, _ in answers) < len(numbers):
                    return False  # shards that are built again start without row state
            self._recipes.made(name)
        return True

    @contextlib.contextmanager
    def _reporting_lost_scheduler(self) -> Iterator[None]:
        """Turn the errors that a lost scheduler causes into `SchedulerLostError`."""
        try:
            yield
        except Exception as error:
            if self._client.status in ("running", None) or isinstance(error, EngineError):
                raise
            raise SchedulerLostError(
                f"the connection to the scheduler is lost: {error!r}"
            ) from error

    # Placement of shards ------------------------------------------------------------------------

    @property
    def shard_counts(self) -> dict[str, int]:
        """See `Engine.shard_counts`."""
        return {address: len(group.numbers) for address, group in self._groups.copy().items()}

    def _held(self) -> Holdings:
        return {address: group.numbers for address, group in self._groups.items()}

    def _unplaced(self) -> list[int]:
        """List the shards that no group holds."""
        if sum(len(group.numbers) for group in self._groups.values()) == self.layout.n_shards:
            return []
        return sorted(self._others(self._held().values()))

    def _others(self, lists: Iterable[list[int]]) -> set[int]:
        """Return the shards that are in none of several disjoint lists."""
        lists = list(lists)
        if sum(map(len, lists)) == self.layout.n_shards:
            return set()
        return set(range(self.layout.n_shards)).difference(*lists)

    def _place(self, missing: list[int]) -> None:
        """Build the shards that no group holds: all at first, later those of lost workers."""
        self._worker_list.forget()
        if not self._placed:
            self._build(missing, _config.replacement_timeout())
            self._placed = True
            return
        patience = _config.replacement_timeout()
        deadline = time.monotonic() + patience
        while True:  # if the remaining workers lack memory, wait for a replacement
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
        """Build missing shards on the workers that there are; wait `patience` s for the first."""
        threads = worker_threads(self._client, patience)
        if len(missing) == self.layout.n_shards:
            shards = self._maker.assign(threads)
        else:
            shards = hand_out(missing, threads, self._held())
        if shards:
            self._add(self._maker.build(shards, threads))

    def _move_shards(self) -> None:
        """Move shards to workers that have joined, and away from slow ones, if that is worth it."""
        threads = self._worker_list.workers()
        joined = [address for address in threads if address not in self._groups]
        self._paces.look(self.times.by_worker, threads, self._held())
        self.times.wanted |= len(threads) > 1
        if not (joined or self._paces.changed):
            return
        if time.monotonic() < self._no_move_before or self._unplaced():
            return
        moving = rebalance(self._paces.weights(threads), self._held())
        if not moving:
            return
        began = time.monotonic()
        try:
            check_versions(self._client, joined)
            fresh = self._maker.build(moving, threads)
        except (VersionMismatchError, MemoryShortError, WorkerLostError) as error:
            logger.warning("shards stay where they are: %s", error)
            rest = max(60.0, MOVE_REST * (time.monotonic() - began))
            self._no_move_before = time.monotonic() + rest
            return
        moved = {number for group in fresh for number in group.numbers}
        for group in list(self._groups.values()):
            self._shed(group, [number for number in group.numbers if number in moved])
        self._add(fresh)
        self._no_move_before = time.monotonic() + MOVE_REST * (time.monotonic() - began)
        logger.info("%d shards moved to %d workers", len(moved), len(fresh))

    def _add(self, fresh: list[RemoteGroup]) -> None:
        """Add new groups; a group on a worker that already has one becomes part of it."""
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

    def _shed(self, group: RemoteGroup, numbers: list[int]) -> None:
        """Have a group release shards; drop a group that is lost or has none left."""
        if not numbers:
            return
        left = sorted(set(group.numbers).difference(numbers))
        method, args = ("shed", (numbers,)) if left else ("close", ())
        (answer,) = call_all(self._client, [(group.actor, args)], method)
        if isinstance(answer, WorkerLostError) or not left:
            self._drop([group])
        else:
            group.hold(left)

    def _drop(self, groups: list[RemoteGroup]) -> None:
        """Forget groups, here and on the scheduler."""
        for group in groups:
            if self._groups.get(group.actor.address) is group:
                del self._groups[group.actor.address]
        if groups:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._client.cancel([group.actor.future for group in groups])
