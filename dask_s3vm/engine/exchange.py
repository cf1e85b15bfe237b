"""Long vectors that go from worker to worker, and only once over the client's link.

In a plain round the client sends a vector of length d to each of W workers and gets one or more
partial sums from each: at least 16 d W bytes over its link. In an *exchange* it sends the k-th slice
of the vector to worker k, and the workers fetch the other slices from each other. After the pass,
worker k fetches the k-th *range* of all partial sums from the others and adds them along the tree
of `tree`; the client gets the W ranges of the total. That is 16 d bytes over its link, and at most
as many over that of a worker. The bits are those of a plain round.

An exchange is transport and nothing else. Every worker keeps its partial sums until the client has
all ranges. If a peer is lost, or cannot be reached, the client takes the partial sums from the
workers that have run, and calls the others as in a plain round: see `ClusterEngine._run`. A worker
waits for its peers until they answer, their connections break, the client says that the round is
given up, or the scheduler releases the group because the client is gone.
"""

import asyncio
import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import distributed
import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine.blocks import frozen
from dask_s3vm.engine.calls import RemoteActor, RemoteGroup, WorkerGroup, called_all, tell_all
from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.tree import Node, Parts, sum_nodes
from dask_s3vm.engine.watch import TICK, in_loop
from dask_s3vm.exceptions import WorkerLostError

logger = logging.getLogger(__name__)

#: Parts of a sum that workers have added among themselves, by their place.
Totals = dict[int, np.ndarray]

#: The answer of a worker that has not run the operation.
NOT_RUN = object()


def _is_large(part: Any, least: float) -> bool:
    """Whether a part is worth an exchange: an array of numbers of at least `least` bytes."""
    return (
        isinstance(part, np.ndarray)
        and part.ndim > 0
        and part.flags.c_contiguous
        and not part.dtype.hasobject
        and part.nbytes >= least
    )


def _range(array: np.ndarray, place: int, count: int) -> np.ndarray:
    """Return range number `place` of `count` of the entries of an array, as a read-only view."""
    low, high = array.size * place // count, array.size * (place + 1) // count
    return frozen(array.reshape(-1)[low:high])


def _joined(ranges: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    return np.concatenate(ranges).reshape(shape)


@dataclass(frozen=True)
class Outcome:
    """Begins the answer of a worker.

    done : whether it has all that the round wants of it.
    shapes : of the large parts, by their place; of each the worker's range of the total follows,
        after all small parts.
    """

    done: bool
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Kept:
    """Partial sums of one worker: those of its nodes, in a flat tuple, and which are large."""

    nodes: list[Node]
    parts: Parts
    shapes: dict[int, tuple[int, ...]]

    def by_node(self) -> Iterator[tuple[Node, Parts]]:
        size = len(self.parts) // len(self.nodes)
        for number, node in enumerate(self.nodes):
            yield node, self.parts[number * size : (number + 1) * size]

    def large(self, least: float) -> dict[int, tuple[int, ...]]:
        """Return the shapes of the parts that are large and alike in all nodes, by place."""
        found = [
            {place: part.shape for place, part in enumerate(parts) if _is_large(part, least)}
            for _, parts in self.by_node()
        ]
        return found[0] if all(one == found[0] for one in found) else {}

    def small(self) -> Iterator[Any]:
        for _, parts in self.by_node():
            yield from (part for place, part in enumerate(parts) if place not in self.shapes)

    def ranges(self, place: int, count: int) -> Iterator[np.ndarray]:
        for _, parts in self.by_node():
            yield from (_range(parts[large], place, count) for large in self.shapes)


class _Turn:
    """One round at one worker: what peers may ask for; None instead if they ask in vain."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.slices: asyncio.Future[list[np.ndarray] | None] = loop.create_future()
        self.kept: asyncio.Future[_Kept | None] = loop.create_future()
        self.given_up: asyncio.Future[None] = loop.create_future()

    def end(self) -> None:
        """Let nobody wait any longer; what has been kept stays."""
        for future in (self.slices, self.kept, self.given_up):
            if not future.done():
                future.set_result(None)


# The side of a worker -------------------------------------------------------------------------


class PeerGroup(WorkerGroup):
    """The shards of an engine on this worker, with a connection to the groups of its peers.

    Coroutines run in the worker's event loop, beside a pass over the rows.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._peers: list[tuple[str, str]] = []
        self._place = 0
        self._turns: dict[int, _Turn] = {}
        self._passed = -1  # number of the last round whose pass has been made
        self._ended = -1  # number of the last round that has ended

    async def meet(self, peers: list[tuple[str, str]], place: int, patience: float) -> bool:
        """Learn the addresses and keys of all groups; return whether all others can be reached."""
        self._peers, self._place = peers, place
        others = asyncio.gather(*(self._ask(peer, "here") for peer in self._others()))
        try:
            return all(await asyncio.wait_for(others, patience))
        except TimeoutError:
            return False

    async def here(self) -> bool:
        """Answer."""
        return True

    async def exchange(
        self, number: int, method: str, op: Operation, least: float, cut: dict, *args: Any
    ) -> tuple[Any, ...]:
        """Do this worker's part of a round; return an `Outcome`, and parts.

        cut : shapes of the arguments of which only a slice is given, by their place.
        """
        if number <= self._ended:
            return (Outcome(False),)
        turn = self._turn(number) if cut else None
        if turn is not None:
            own = [args[place] for place in cut]
            if not turn.slices.done():
                turn.slices.set_result(own)
            found = await self._fetch(turn, "slices_of", number)
            if found is None:
                turn.end()
                return (Outcome(False),)
            found.insert(self._place, own)
            whole = list(args)
            for place, slices in zip(cut, zip(*found, strict=True), strict=True):
                whole[place] = _joined(slices, cut[place])
            args = tuple(whole)
        kept = await self._keep(number, method, op, least, args)
        if not kept.shapes:
            return (Outcome(True), *kept.parts)
        turn = self._turn(number)
        found = await self._fetch(turn, "ranges_of", number, self._place)
        if found is None or any(shapes != kept.shapes for _, shapes, *_ in found):
            return (Outcome(False),)
        total = await asyncio.get_running_loop().run_in_executor(
            distributed.get_worker().executors["actor"], self._sum, kept, found
        )
        return (Outcome(True, kept.shapes), *kept.small(), *total)

    async def slices_of(self, number: int) -> Any:
        """Return the slices of the arguments that this worker was sent, or None."""
        return await self._wait(self._turn(number).slices)

    async def ranges_of(self, number: int, place: int) -> Any:
        """Return the nodes of this worker, and the ranges of a peer of their sums, or None."""
        turn = self._turn(number)
        if number <= self._passed and not turn.kept.done():
            return None  # there was nothing to keep
        kept = await self._wait(turn.kept)
        return kept and (kept.nodes, kept.shapes, *kept.ranges(place, len(self._peers)))

    async def take(self, number: int) -> Parts | None:
        """Return the partial sums that were kept; None if the operation has not run."""
        turn = self._turns.get(number)
        kept = turn.kept.result() if turn and turn.kept.done() else None
        return kept and kept.parts

    async def give_up(self, number: int) -> None:
        """Wait for no peer any longer in a round."""
        if number > self._ended:
            self._turn(number).end()

    async def end(self, number: int) -> None:
        """Drop all that was kept for a round."""
        self._ended = max(self._ended, number)
        for turn in [self._turns.pop(old) for old in list(self._turns) if old <= number]:
            turn.end()

    def close(self) -> None:
        """Release the rows, the threads, and all that was kept."""
        super().close()
        self._turns.clear()

    def _turn(self, number: int) -> _Turn:
        if number <= self._ended:  # somebody is late
            turn = _Turn()
            turn.end()
            return turn
        if number not in self._turns:
            self._turns[number] = _Turn()
        return self._turns[number]

    def _others(self) -> list[tuple[str, str]]:
        return [peer for place, peer in enumerate(self._peers) if place != self._place]

    async def _keep(
        self, number: int, method: str, op: Operation, least: float, args: tuple[Any, ...]
    ) -> _Kept:
        """Make the pass, and keep its sums for the peers if some are large."""
        key = self._peers[self._place][1]
        nodes = self._nodes
        answer = await distributed.get_worker().actor_execute(
            actor=key, function="run", args=(method, None, op, *args)
        )
        if answer["status"] != "OK":
            await self.give_up(number)  # peers need not wait
            raise answer["exception"].data
        self._passed = number
        kept = _Kept(nodes, answer["result"].data, {})
        if method == "sum":
            kept.shapes.update(kept.large(least))
        if kept.shapes or number in self._turns:
            turn = self._turn(number)
            if turn.kept.done():  # given up meanwhile; but what has run must not run again
                turn.kept = asyncio.get_running_loop().create_future()
            turn.kept.set_result(kept if kept.shapes else None)
        return kept

    def _sum(self, kept: _Kept, found: list[tuple[Any, ...]]) -> Parts:
        """Add this worker's range of all nodes, along the tree."""
        own = (kept.nodes, kept.shapes, *kept.ranges(self._place, len(self._peers)))
        size = len(kept.shapes)
        nodes = (
            (node, ranges[number * size : (number + 1) * size])
            for its_nodes, _, *ranges in (own, *found)
            for number, node in enumerate(its_nodes)
        )
        return sum_nodes(((tuple(node), tuple(parts)) for node, parts in nodes), self._n_shards)

    async def _ask(self, peer: tuple[str, str], method: str, *args: Any) -> Any:
        """Call a method of a peer; return None if that fails."""
        address, key = peer
        rpc = distributed.get_worker().rpc(address)
        try:
            answer = await rpc.actor_execute(actor=key, function=method, args=args, kwargs={})
        except Exception as error:
            logger.debug("worker %s does not answer a peer: %r", address, error)
            return None
        return answer["result"] if answer["status"] == "OK" else None

    async def _fetch(self, turn: _Turn, method: str, *args: Any) -> list[Any] | None:
        """Ask all peers for something; None if one cannot answer, or the round is given up."""
        calls = [asyncio.ensure_future(self._ask(peer, method, *args)) for peer in self._others()]
        pending: set[asyncio.Future[Any]] = {*calls, turn.given_up}
        try:
            while not all(call.done() for call in calls):
                done, pending = await asyncio.wait(
                    pending, timeout=TICK, return_when=asyncio.FIRST_COMPLETED
                )
                if any(future.result() is None for future in done) or self._released():
                    return None
            return [call.result() for call in calls]
        finally:
            for call in calls:
                call.cancel()

    async def _wait(self, future: asyncio.Future[Any]) -> Any:
        while not future.done() and not self._released():
            await asyncio.wait([future], timeout=TICK)
        return future.result() if future.done() else None

    def _released(self) -> bool:
        """Whether the scheduler has released this group: its client is gone."""
        actors = distributed.get_worker().state.actors
        return not any(actor is self for actor in actors.values())


# The side of the client -----------------------------------------------------------------------


class Exchange:
    """The client's side: decides whether workers exchange vectors, and collects the results.

    Parameters
    ----------
    client : the client of the cluster.
    n_features : d; parts of a sum may have this length.
    """

    def __init__(self, client: distributed.Client, n_features: int) -> None:
        self._client = client
        self._n_features = n_features
        self._numbers = itertools.count()
        self._met: list[tuple[str, str]] = []  # groups that have reached each other
        self._off = False  # workers cannot reach each other

    def suits(self, groups: Sequence[RemoteGroup], method: str, args: tuple[Any, ...]) -> bool:
        """Whether the vectors of a round are long enough, and the workers reach each other."""
        least = _config.exchange_bytes()
        if self._off or len(groups) < 2 or math.isinf(least):
            return False
        is_long = method == "sum" and 8 * self._n_features >= least
        if not is_long and not any(_is_large(arg, least) for arg in args):
            return False
        peers = [(group.actor.address, group.actor.key) for group in groups]
        if peers != self._met and not in_loop(self._client, self._meet, groups, peers):
            return False
        self._met = peers
        return True

    def run(
        self, groups: Sequence[RemoteGroup], method: str, op: Operation, args: tuple[Any, ...]
    ) -> tuple[list[Any], Totals]:
        """Run an operation on all shards.

        Returns the answer of each group, without the large parts if these were added: a
        `WorkerLostError` if it is lost, `NOT_RUN` if it has not run; and the large parts of the
        total, by their place.
        """
        return in_loop(self._client, self._run, [group.actor for group in groups], method, op, args)

    async def _meet(self, groups: Sequence[RemoteGroup], peers: list[tuple[str, str]]) -> bool:
        actors = [group.actor for group in groups]
        patience = _config.connect_timeout()
        calls = [(actor, (peers, place, patience)) for place, actor in enumerate(actors)]
        found = await called_all(self._client, calls, "meet")
        if all(answer is True for answer in found):
            return True
        again = await called_all(self._client, [(actor, ()) for actor in actors], "here")
        self._switch_off([*found, *again])
        return False

    async def _run(
        self, actors: list[RemoteActor], method: str, op: Operation, args: tuple[Any, ...]
    ) -> tuple[list[Any], Totals]:
        number, least = next(self._numbers), _config.exchange_bytes()
        cut = {place: arg.shape for place, arg in enumerate(args) if _is_large(arg, least)}
        calls = []
        for worker, actor in enumerate(actors):
            own = list(args)
            for place in cut:
                own[place] = _range(args[place], worker, len(actors))
            calls.append((actor, (number, method, op, least, cut, *own)))
        is_kept = True
        try:
            found = await called_all(
                self._client,
                calls,
                "exchange",
                on_loss=lambda left: tell_all(left, "give_up", (number,)),
            )
            if all(isinstance(one, tuple) and one[0].done for one in found):
                answers, totals = _collected(found)
                is_kept = bool(cut or totals)
                return answers, totals
            return await self._taken(actors, number, found), {}
        finally:
            if is_kept:
                tell_all(actors, "end", (number,))

    async def _taken(self, actors: list[RemoteActor], number: int, found: list[Any]) -> list[Any]:
        """Return what each worker has found by itself, after an exchange that has failed."""
        answers: list[Any] = [
            one[1:] if isinstance(one, tuple) and one[0].done and not one[0].shapes else one
            for one in found
        ]
        asked = [place for place, one in enumerate(found) if answers[place] is one]
        asked = [place for place in asked if not isinstance(found[place], WorkerLostError)]
        calls = [(actors[place], (number,)) for place in asked]
        for place, answer in zip(asked, await called_all(self._client, calls, "take"), strict=True):
            answers[place] = NOT_RUN if answer is None else answer
        self._switch_off(answers)
        return answers

    def _switch_off(self, answers: list[Any]) -> None:
        """Make no more exchanges, unless one has failed because a worker is lost."""
        self._met = []
        if not any(isinstance(answer, WorkerLostError) for answer in answers):
            self._off = True
            logger.info("workers do not reach each other: all vectors go over the client's link")


def _collected(found: list[Any]) -> tuple[list[Any], Totals]:
    """Put the ranges of the large parts together; return the other parts, and these."""
    shapes = found[0][0].shapes
    if any(outcome.shapes != shapes for outcome, *_ in found):
        raise AssertionError("workers disagree about the large parts of a sum")
    count = len(shapes)
    if not count:
        return [one[1:] for one in found], {}
    ranges = zip(*(one[-count:] for one in found), strict=True)
    totals = {
        place: _joined(own, shape)
        for (place, shape), own in zip(shapes.items(), ranges, strict=True)
    }
    return [one[1:-count] for one in found], totals


def merged(rest: Parts, totals: Totals) -> Parts:
    """Put the parts of a sum that workers have added among themselves into their places."""
    others = iter(rest)
    n_parts = len(rest) + len(totals)
    return tuple(totals[i] if i in totals else next(others) for i in range(n_parts))
