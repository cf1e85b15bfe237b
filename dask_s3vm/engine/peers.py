"""The worker's side of an exchange: groups of shards that fetch vectors from each other.

See `exchange` for what it is. A worker keeps its partial sums until the client has the total: if a
peer is lost, the client takes them. A worker waits for its peers until they answer, until their
connections break, until the client says that the round is given up, or until the scheduler releases
the group because the client is gone.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import distributed
import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.engine.calls import WorkerGroup
from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.tree import Node, Parts, by_node, sum_nodes
from dask_s3vm.engine.watch import TICK

logger = logging.getLogger(__name__)

#: Shapes of large parts of a sum, or of long arguments, by their place.
Shapes = dict[int, tuple[int, ...]]


class Peer(NamedTuple):
    """A group of another worker: its address, the key of its actor, and the nodes that it sums."""

    address: str
    key: str
    nodes: list[Node]


def is_long(part: Any, least: float) -> bool:
    """Whether a part is worth an exchange: an array of numbers of at least `least` bytes."""
    return (
        type(part) is np.ndarray
        and part.ndim > 0
        and part.flags.c_contiguous
        and not part.dtype.hasobject
        and part.nbytes >= least
    )


def range_of(array: np.ndarray, place: int, count: int) -> np.ndarray:
    """Return range number `place` of `count` of the entries of an array, as a read-only view."""
    low, high = array.size * place // count, array.size * (place + 1) // count
    return frozen(array.reshape(-1)[low:high])


def joined(ranges: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Put all ranges of an array together."""
    return np.concatenate(ranges).reshape(shape)


def packed(arrays: Sequence[np.ndarray]) -> Any:
    """Return what dask sends fastest: a single array by itself, several in a flat tuple."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def unpacked(found: Any) -> tuple[np.ndarray, ...]:
    """Return the arrays that `packed` has packed."""
    return found if isinstance(found, tuple) else (found,)


@dataclass(frozen=True)
class Outcome:
    """Begins the answer of a worker.

    done : whether it has all that the round wants of it.
    shapes : of the large parts, by their place; of each the worker's range of the total follows,
        after all small parts.
    """

    done: bool
    shapes: Shapes = field(default_factory=dict)


@dataclass(frozen=True)
class _Kept:
    """Partial sums of one worker: those of its nodes, in a flat tuple, and which are large."""

    nodes: list[Node]
    parts: Parts
    shapes: Shapes

    def large(self, least: float) -> Shapes:
        """Return the shapes of the parts that are large and alike in all nodes, by place."""
        found = [
            {place: part.shape for place, part in enumerate(parts) if is_long(part, least)}
            for _, parts in by_node(self.nodes, self.parts)
        ]
        return found[0] if all(one == found[0] for one in found) else {}

    def small(self) -> Iterator[Any]:
        for _, parts in by_node(self.nodes, self.parts):
            yield from (part for place, part in enumerate(parts) if place not in self.shapes)

    def ranges(self, place: int, count: int) -> list[np.ndarray]:
        return [
            range_of(parts[large], place, count)
            for _, parts in by_node(self.nodes, self.parts)
            for large in self.shapes
        ]


class _PeerRound:
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


class PeerGroup(WorkerGroup):
    """The shards of an engine on this worker, with a connection to the groups of its peers.

    Coroutines run in the worker's event loop, beside a pass over the rows.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._peers: list[Peer] = []
        self._place = 0
        self._turns: dict[int, _PeerRound] = {}
        self._passed = -1  # number of the last round whose pass has been made
        self._ended = -1  # number of the last round that has ended

    async def meet(self, peers: list[Peer], place: int, patience: float) -> bool:
        """Learn of all groups, this one included; return whether all others can be reached."""
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
        self, number: int, method: str, op: Operation, least: float, cut: Shapes, *args: Any
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
            found.insert(self._place, tuple(own))
            whole = list(args)
            for place, slices in zip(cut, zip(*found, strict=True), strict=True):
                whole[place] = joined(slices, cut[place])
            args = tuple(whole)
        kept = await self._keep(number, method, op, least, args)
        if not kept.shapes:
            return (Outcome(True), *kept.parts)
        turn = self._turn(number)
        found = await self._fetch(turn, "ranges_of", number, self._place)
        if found is None:
            return (Outcome(False),)
        total = await asyncio.get_running_loop().run_in_executor(
            distributed.get_worker().executors["actor"], self._sum, kept, found
        )
        if total is None:
            return (Outcome(False),)
        return (Outcome(True, kept.shapes), *kept.small(), *total)

    async def slices_of(self, number: int) -> Any:
        """Return the slices of the arguments that this worker was sent, or None."""
        slices = await self._wait(self._turn(number).slices)
        return None if slices is None else packed(slices)

    async def ranges_of(self, number: int, place: int) -> Any:
        """Return the ranges of a peer of the large parts of all nodes of this worker, or None."""
        turn = self._turn(number)
        if number <= self._passed and not turn.kept.done():
            return None  # there was nothing to keep
        kept = await self._wait(turn.kept)
        if kept is None:
            return None
        return packed(kept.ranges(place, len(self._peers)))

    async def take(self, number: int) -> Parts | None:
        """Return the partial sums that were kept; None if the operation has not run."""
        turn = self._turns.get(number)
        kept = turn.kept.result() if turn and turn.kept.done() else None
        return None if kept is None else kept.parts

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

    def _turn(self, number: int) -> _PeerRound:
        if number <= self._ended:  # somebody is late
            turn = _PeerRound()
            turn.end()
            return turn
        if number not in self._turns:
            self._turns[number] = _PeerRound()
        return self._turns[number]

    def _others(self) -> list[Peer]:
        return [peer for place, peer in enumerate(self._peers) if place != self._place]

    async def _keep(
        self, number: int, method: str, op: Operation, least: float, args: tuple[Any, ...]
    ) -> _Kept:
        """Make the pass, and keep its sums for the peers if some are large."""
        key = self._peers[self._place].key
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

    def _sum(self, kept: _Kept, found: list[tuple[np.ndarray, ...]]) -> Parts | None:
        """Add this worker's range of all nodes, along the tree; None if they do not fit."""
        own = kept.ranges(self._place, len(self._peers))
        found.insert(self._place, tuple(own))
        nodes: list[tuple[Node, Parts]] = []
        for peer, ranges in zip(self._peers, found, strict=True):
            if len(ranges) != len(peer.nodes) * len(kept.shapes):
                return None
            nodes += by_node(peer.nodes, ranges)
        sizes = [part.size for part in own[: len(kept.shapes)]]
        if any([part.size for part in parts] != sizes for _, parts in nodes):
            return None
        return sum_nodes(nodes, self._n_shards)

    async def _ask(self, peer: Peer, method: str, *args: Any) -> Any:
        """Call a method of a peer; return None if that fails."""
        rpc = distributed.get_worker().rpc(peer.address)
        try:
            answer = await rpc.actor_execute(actor=peer.key, function=method, args=args, kwargs={})
        except Exception as error:
            logger.debug("worker %s does not answer a peer: %r", peer.address, error)
            return None
        return answer["result"] if answer["status"] == "OK" else None

    async def _fetch(
        self, turn: _PeerRound, method: str, *args: Any
    ) -> list[tuple[np.ndarray, ...]] | None:
        """Ask all peers for arrays; None if one cannot answer, or the round is given up."""
        calls = [asyncio.ensure_future(self._ask(peer, method, *args)) for peer in self._others()]
        pending: set[asyncio.Future[Any]] = {*calls, turn.given_up}
        try:
            while not all(call.done() for call in calls):
                done, pending = await asyncio.wait(
                    pending, timeout=TICK, return_when=asyncio.FIRST_COMPLETED
                )
                if any(future.result() is None for future in done) or self._released():
                    return None
            return [unpacked(call.result()) for call in calls]
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
