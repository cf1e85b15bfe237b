"""Several solves at once on the same rows.

On a cluster a round costs its latency, however little there is to do. There a solve gets a *lane*:
an engine of its own, whose rounds wait until all other lanes have one, too. Then their calls become
one round of the cluster, which runs them one after the other on every shard. Each lane has row
state of its own, under names of its own. So a solve has the bits that it has alone, and recovery
works as it does without lanes.

In one process there is no latency to share. There every thread has solves of its own, see
`thread_lanes`, if passes over the rows take most of their time.

A pass that reads each row once for all lanes was tried for the Gram product over text, with 8 and
16 vectors side by side. Where all rows were active in all lanes it took 0.6 to 1.4 times as long as
a pass for each, depending on how it was compiled, and where a fifth of them were, 1.3 times or
more: lanes have few active rows in common.
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.engine.operations import ALWAYS, Operation, Uses, operation, uses_of
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.protocol import Engine, RoundTimes
from dask_s3vm.engine.shard import Shard, drop_state, shared
from dask_s3vm.engine.thread_lanes import LaneThread, Stopped, run_in_threads
from dask_s3vm.engine.tree import Parts
from dask_s3vm.kernels.rows import CSR

R = TypeVar("R")

#: What one of several solves does with an engine.
Work = Callable[[Engine], R]

#: Every method runs mostly in kernels on rows of so many bytes. Two threads take 0.55 of the time
#: of one on 9 MB of text (TSVM, QN) and 0.8-0.9 on 0.9 MB, but up to 1.25 on 0.8 MB of pixels.
KERNEL_BYTES = 1 << 20

#: Bytes of row state of all lanes, or as many as the rows have if these are more.
LANE_BYTES = 512 << 20

#: Bytes of row state of a lane for each row; see docs/how.md.
BYTES_OF_ROW = 60

#: Largest part of the rows that a lane may have a copy of; see `problems.hinge`.
COPIED = 0.25

#: Vectors of length d that a solve has at the client.
VECTORS = 12


def run_together(engine: Engine, works: Sequence[Work[R]]) -> list[R]:
    """Call each work with an engine over the same rows; return the results in their order.

    The engines have no row state at first, or what another work has left there. An exception of one
    work ends all of them; no thread is left behind.
    """
    most = min(_config.solves_at_once(), len(works))
    if most > 1 and isinstance(engine, LocalEngine):
        row_bytes = sum(map(bytes_of_rows, engine.shared_rows().shards))
        width = min(most, engine.n_threads, _lanes_in_memory(engine.layout, row_bytes))
        all_busy = width >= min(engine.n_threads, engine.layout.n_shards)  # as in a round
        # a file would be read by each thread
        if width > 1 and all_busy and row_bytes >= KERNEL_BYTES and not engine.layout.mapped:
            return run_in_threads(engine, works, width)
    elif most > 1 and not isinstance(engine, Lane):
        row_bytes = sum(engine.each(bytes_of_rows))
        width = min(most, _lanes_in_memory(engine.layout, row_bytes))
        if width > 1:
            return _Lanes(engine, works, width).run()
    return [work(engine) for work in works]


def _lanes_in_memory(layout: Layout, row_bytes: int) -> int:
    """Number of solves for whose row state there is memory."""
    each = BYTES_OF_ROW * layout.n_rows + COPIED * row_bytes + 8 * VECTORS * layout.n_features
    return max(1, int(max(LANE_BYTES, row_bytes) / each))


def bytes_of_rows(shard: Shard) -> int:
    """Bytes of the rows of a shard."""
    rows = shard.rows if isinstance(shard.rows, CSR) else [shard.rows]
    return sum(part.nbytes for part in rows)


# Lanes ----------------------------------------------------------------------------------------


class Lane(Engine):
    """The engine of one solve among several; see `Engine`.

    Parameters
    ----------
    lanes : all of them.
    engine : has the rows.
    number : of the lane.
    """

    def __init__(self, lanes: "_Lanes", engine: Engine, number: int) -> None:
        self.layout = engine.layout
        self._lanes = lanes
        self._engine = engine
        self._number = number

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """Rounds of the engine so far, each of them for all lanes."""
        return self._engine.rounds

    @property
    def times(self) -> RoundTimes:  # type: ignore[override]
        """Times of the rounds of all lanes."""
        return self._engine.times

    @property
    def losses(self) -> int:  # type: ignore[override]
        """See `Engine.losses`."""
        return self._engine.losses

    @property
    def shard_counts(self) -> dict[str, int]:
        """See `Engine.shard_counts`."""
        return self._engine.shard_counts

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        return self._lanes.ask(self._number, ("sum", op, args))

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        return self._lanes.ask(self._number, ("each", op, args))

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.remember`."""
        self._engine.remember(_prefix(self._number) + name, in_lane, self._number, op, *args)

    def forget(self) -> None:
        """See `Engine.forget`."""
        self.each(drop_state)

    def close(self) -> None:
        """See `Engine.close`; the rows belong to all lanes."""


#: What a lane asks for: "sum" or "each", operation, arguments.
Request = tuple[str, Operation, tuple[Any, ...]]

#: The answer to a lane that is to end.
_STOP = object()


class _End(NamedTuple):
    """Says that the work of a lane has ended, and how."""

    error: BaseException | None


class _Lanes:
    """Runs works in lanes, each in a thread, and makes one round of the rounds of all lanes.

    Between two rounds the lanes run at the same time. A round begins when all of them wait for one,
    and its calls are in the order of the lanes: what a lane has found depends on nothing else.
    """

    def __init__(self, engine: Engine, works: Sequence[Work[Any]], width: int) -> None:
        self._engine = engine
        self._waiting = iter(enumerate(works))
        self._results: list[Any] = [None] * len(works)
        self._inbox: queue.SimpleQueue[tuple[int, Request | _End]] = queue.SimpleQueue()
        self._answers: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(width)]
        self._free = list(range(width))
        self._parked: dict[int, Request] = {}
        self._threads: dict[int, LaneThread] = {}  # by lane
        self._n_running = 0
        self._stopping = False

    def run(self) -> list[Any]:
        """Run all works to their ends."""
        try:
            self._begin()
            while self._parked:
                for lane, answer in self._round():
                    del self._parked[lane]
                    self._n_running += 1
                    self._answers[lane].put(answer)
                self._gather()
                self._begin()
            self._engine.each(drop_lanes)
            return self._results
        except BaseException:
            self._stop()
            raise
        finally:
            for thread in self._threads.values():
                thread.join()

    def ask(self, lane: int, request: Request) -> Any:
        """Called by a lane: wait for a round, and return its answer."""
        if not self._stopping:
            self._inbox.put((lane, request))
            answer = self._answers[lane].get()
            if answer is not _STOP:
                return answer
        raise Stopped

    def _begin(self) -> None:
        """Start works in free lanes, as long as there are any."""
        while started := list(zip(self._free, self._waiting, strict=False)):
            del self._free[: len(started)]
            for lane, (number, work) in started:
                self._n_running += 1
                self._threads[lane] = LaneThread(partial(self._body, lane, number, work))
            self._gather()

    def _body(self, lane: int, number: int, work: Work[Any]) -> None:
        try:
            self._results[number] = work(Lane(self, self._engine, lane))
        except BaseException as error:
            self._inbox.put((lane, _End(error)))
        else:
            self._inbox.put((lane, _End(None)))

    def _gather(self) -> None:
        """Wait until every lane waits for a round or has ended."""
        while self._n_running:
            lane, message = interrupts.take(self._inbox)
            self._n_running -= 1
            if not isinstance(message, _End):
                self._parked[lane] = message
            elif message.error is not None:
                raise message.error
            else:
                self._free.append(lane)
        self._free.sort()

    def _round(self) -> Iterator[tuple[int, Any]]:
        """Make one round of the calls of all lanes; yield (lane, answer)."""
        calls = sorted(self._parked.items())
        if len(calls) == 1:
            ((lane, (method, op, args)),) = calls
            yield lane, getattr(self._engine, method)(in_lane, lane, op, *args)
            return
        heads = tuple((lane, method, op, len(args)) for lane, (method, op, args) in calls)
        flat = (arg for _, (_, _, args) in calls for arg in args)
        (counts, *_), *parts = self._engine.sum(in_lanes, heads, *flat)
        place = 0
        for (lane, (method, _, _)), count in zip(calls, counts, strict=True):
            own = tuple(parts[place : place + count])
            place += count
            yield lane, own[0] if method == "each" else own

    def _stop(self) -> None:
        """End all lanes, and wait for that."""
        self._stopping = True
        for thread in self._threads.values():
            thread.stop.ask()
        for lane in self._parked:
            self._answers[lane].put(_STOP)
        n_left = self._n_running + len(self._parked)
        while n_left:
            lane, message = self._inbox.get()
            if isinstance(message, _End):
                n_left -= 1
            else:
                self._answers[lane].put(_STOP)


# Operations on one shard ----------------------------------------------------------------------


#: What names of the row state of lanes begin with.
_PREFIX = "lane "


def _prefix(lane: int) -> str:
    return f"{_PREFIX}{lane}: "


def _uses_in_lane(lane: int, op: Operation, *args: Any) -> Uses:
    prefix = _prefix(lane)
    if op is drop_state:
        return Uses(forgets=(prefix,))
    own = uses_of(op, args)
    always = [name for name in ALWAYS if name != own.sets]
    return Uses(
        None if own.sets is None else prefix + own.sets,
        None if own.changes is None else prefix + own.changes,
        tuple(prefix + name for name in (*always, *own.reads)),
        tuple(prefix + name for name in own.forgets),
        None
        if own.copies is None
        else (_InLane(lane, own.copies[0]), _InLane(lane, own.copies[1])),
    )


def _calls(heads: Sequence[tuple[Any, ...]], flat: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield (lane, method, op, arguments) of each call."""
    place = 0
    for lane, method, op, count in heads:
        yield lane, method, op, tuple(flat[place : place + count])
        place += count


def _uses_in_lanes(heads: Sequence[tuple[Any, ...]], *flat: Any) -> Uses:
    calls = ((lane, op, *args) for lane, _, op, args in _calls(heads, flat))
    return Uses(calls=tuple((in_lane, call, _uses_in_lane(*call)) for call in calls))


def _seen_from(shard: Shard, lane: int) -> Shard:
    """Return the shard with the row state of a lane; rows and labels are those of all lanes."""
    name = _prefix(lane)
    if name not in shard.state:
        shard.state[name] = shared(shard)
    return shard.state[name]


@operation(uses=_uses_in_lane)
def in_lane(shard: Shard, lane: int, op: Operation, *args: Any) -> Any:
    """Run an operation on the row state of a lane."""
    return op(_seen_from(shard, lane), *args)


@dataclass(frozen=True)
class _InLane:
    """An operation on the row state of a lane."""

    lane: int
    op: Operation

    @property
    def row_state(self) -> tuple[Callable[..., Uses], list[str]]:
        """What it uses; see `operations.operation`."""
        return partial(_uses_in_lane, self.lane, self.op), []

    def __call__(self, shard: Shard, *args: Any) -> Any:
        """Run it."""
        return in_lane(shard, self.lane, self.op, *args)


@operation(uses=lambda: Uses(forgets=(_PREFIX,)))
def drop_lanes(shard: Shard) -> None:
    """Drop the row state of all lanes."""
    for name in [name for name in shard.state if name.startswith(_PREFIX)]:
        del shard.state[name]


@operation(uses=_uses_in_lanes)
def in_lanes(shard: Shard, heads: Sequence[tuple[Any, ...]], *flat: Any) -> tuple[Any, ...]:
    """Run the calls of several lanes, in their order.

    heads : (lane, method, operation, number of arguments) of each call; `flat` has the arguments.

    Returns, in a list, the number of parts of each result, followed by all parts; a result of an
    "each" is a part, in a list: the sum of lists is their concatenation.
    """
    counts: list[int] = []
    parts: list[Any] = []
    for lane, method, op, args in _calls(heads, flat):
        result = op(_seen_from(shard, lane), *args)
        own = ([result],) if method == "each" else result
        counts.append(len(own))
        parts += own
    return [tuple(counts)], *parts
