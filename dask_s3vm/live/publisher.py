"""Messages about a fit, one in a second: for the live page.

A thread of its own makes them, so that the fit never waits for a network: it only leaves its rows
for that thread. What goes wrong there ends the messages, never the fit.
"""

import contextlib
import contextvars
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from dask_s3vm import _config
from dask_s3vm.engine.computing import current_client
from dask_s3vm.engine.protocol import Engine, Mark
from dask_s3vm.live.charts import as_message, charts_of, sums_of
from dask_s3vm.live.course import Course
from dask_s3vm.methods.run import HistoryRow

logger = logging.getLogger(__name__)

#: Seconds until the first message: fits that end sooner send none.
FIRST = 0.25

#: Seconds between two messages. One takes client and scheduler together two milliseconds of CPU.
EVERY = 1.0

#: Seconds that the end of a fit waits for its last message.
LAST = 1.0

#: Shortest time over which the shares of the time are taken. Asking the workers for their part is
#: a call to each of them, for which the next round waits.
SPAN = 3.0

#: Points in a message.
MOST_POINTS = 40

#: Parameters that say nothing of the model, or name places.
NOT_SHOWN = ("callbacks", "verbose", "checkpoint", "warm_start")

#: Takes a message; an exception ends the messages of the fit.
Sink = Callable[[dict[str, Any]], None]

_sinks: contextvars.ContextVar[tuple[Sink, ...]] = contextvars.ContextVar(
    "dask_s3vm_live_sinks", default=()
)
_inside: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "dask_s3vm_live_inside", default=False
)


class Fitted(Protocol):
    """What the page needs of an estimator."""

    facts: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""
        ...


@contextlib.contextmanager
def watched_by(sink: Sink) -> Iterator[None]:
    """Have the fits of this thread send their messages to `sink` too."""
    token = _sinks.set((*_sinks.get(), sink))
    try:
        yield
    finally:
        _sinks.reset(token)


@contextlib.contextmanager
def published(
    estimator: Fitted, engine: Engine, rounds: Callable[[], int], n_problems: int
) -> Iterator["Publisher | None"]:
    """Have a publisher for the time of a fit; None where nobody looks, and within another fit."""
    publisher = None
    with _harmless():
        sinks = () if _inside.get() else _find_sinks()
        if sinks:
            publisher = Publisher(estimator, engine, sinks, rounds, n_problems)
    if publisher is None:
        yield None
        return
    token = _inside.set(True)
    try:
        yield publisher
    except BaseException as error:
        publisher.close(error)
        raise
    else:
        publisher.close()
    finally:
        _inside.reset(token)


@contextlib.contextmanager
def _harmless() -> Iterator[None]:
    """Have nothing that goes wrong here reach the fit."""
    try:
        yield
    except Exception as error:
        logger.debug("the live page is not told of a fit: %r", error)


def _find_sinks() -> tuple[Sink, ...]:
    client = current_client() if _config.live() else None
    if client is None:
        return _sinks.get()
    from dask_s3vm.live.plugin import EventLog

    return (*_sinks.get(), EventLog(client))


def about_fit(estimator: Fitted, engine: Engine) -> dict[str, Any]:
    """What is said of a fit once: its method, parameters, rows and charts."""
    layout, facts = engine.layout, estimator.facts
    return {
        "method": type(estimator).__name__,
        "title": facts.title,
        "parameters": _parameters(estimator),
        "facts": [
            ["rows", f"{layout.n_rows:,}"],
            ["columns", f"{layout.n_features_in:,}"],
            ["shards", f"{layout.n_shards:,}"],
        ],
        "charts": [as_message(chart) for chart in charts_of(facts)],
    }


def _parameters(estimator: Fitted) -> list[list[str]]:
    """(name, value, whether it was chosen) of the parameters that are numbers or words."""
    try:
        defaults = type(estimator)().get_params(deep=False)
    except TypeError:  # an estimator of somebody else that has no defaults
        defaults = {}
    return [
        [name, str(value), "chosen" if repr(value) != repr(defaults.get(name)) else ""]
        for name, value in estimator.get_params(deep=False).items()
        if name not in NOT_SHOWN and isinstance(value, str | int | float | None)
    ]


class Publisher(Course):
    """Sends messages about a fit; see `board` for their fields.

    Parameters
    ----------
    estimator : what is fitted.
    engine : tells shards, losses and times.
    sinks : what messages are sent to.
    rounds, n_problems, clock : see `Course`.
    """

    _thread_name = "s3vm-live"

    def __init__(
        self,
        estimator: Fitted,
        engine: Engine,
        sinks: tuple[Sink, ...],
        rounds: Callable[[], int],
        n_problems: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(rounds, n_problems, clock)
        self._id = uuid.uuid4().hex[:12]
        self._about = about_fit(estimator, engine)
        charts = charts_of(estimator.facts)
        self._columns = [name for chart in charts for name in chart.columns]
        self._sums = dict.fromkeys(sums_of(charts), 0)
        self._objective: Any = None
        self._engine = engine
        self._sinks = list(sinks)
        self._new: deque[tuple[float, HistoryRow]] = deque()
        times = engine.times
        self._start = Mark(
            time.perf_counter(), engine.rounds, times.round_seconds, times.pass_seconds
        )
        self._mark = self._start
        self._shards = engine.shard_counts
        self._short_since: float | None = None
        lost = engine.losses
        self._remarks: list[list[Any]] = (
            [[0.0, f"{lost} lost before the fit began"]] if lost else []
        )
        self._ending = ("running", "")

    def at(self, tags: HistoryRow, what: str, done: float | None) -> None:
        """Take in where the fit is."""
        with _harmless():
            super().at(tags, what, done)

    def add_row(self, row: HistoryRow) -> None:
        """Leave a row of the history for the next message."""
        self._new.append((self._clock(), row))

    def refresh(self) -> None:
        """Send a message; a sink that fails gets no other one."""
        sinks, self._sinks = self._sinks, []
        if not sinks:
            return
        with _harmless():
            with self._lock:
                message = self._message(self._clock() - self._began)
            for sink in sinks:
                with _harmless():
                    sink(message)
                    self._sinks.append(sink)

    def close(self, error: BaseException | None = None) -> None:
        """Send the last message: the fit is over, or an error has ended it."""
        with self._lock:
            if isinstance(error, Exception):
                self._ending = ("failed", type(error).__name__)
            else:
                self._ending = ("done", "") if error is None else ("stopped", "")
        self._over.set()
        if self._thread is not None:
            self._thread.join(LAST)

    def _tick(self) -> None:
        wait = FIRST
        while not self._over.wait(wait):
            self.refresh()
            wait = EVERY
        if wait == EVERY:
            self.refresh()

    def _points(self) -> list[dict[str, Any]]:
        """Points of the rows since the last message: every k-th one, and the last."""
        n = len(self._new)  # others may come in meanwhile
        step = -(-n // MOST_POINTS)
        points: list[dict[str, Any]] = []
        with _harmless():
            for left in reversed(range(n)):
                when, row = self._new.popleft()
                for name in self._sums:
                    self._sums[name] += row.get(name) or 0
                if left % step == 0:
                    values = {**row, **self._sums}
                    point = {name: _plain(values[name]) for name in self._columns if name in row}
                    points.append(point | {"t": when - self._began, "p": self._number(row)})
                    self._objective = point.get("objective", self._objective)
        return points

    def _message(self, seconds: float) -> dict[str, Any]:
        engine, points = self._engine, self._points()
        state, ending = self._ending
        self._look_at_shards(seconds)
        remarks, self._remarks = self._remarks, []
        assert self._rounds is not None, "a fit has rounds"
        return {
            "id": self._id,
            "about": self._about,
            "state": state,
            "ending": ending,
            "seconds": seconds,
            "what": self._what,
            "done": 1.0 if state == "done" else self._pace.done,
            # 0 means that it takes longer than was thought
            "left": (self._pace.left(self._clock()) or None) if state == "running" else None,
            "rounds": self._rounds(),
            "objective": self._objective,
            "losses": engine.losses,
            "points": points,
            "pace": self._shares(seconds),
            "totals": self._totals(seconds),
            "shards": [
                [name, n, engine.times.by_worker.get(name)] for name, n in self._shards.items()
            ],
            "remarks": remarks,
        }

    def _shares(self, seconds: float) -> list[float] | None:
        """Where the time since the last mark of the engine went; None until there is a new one."""
        times, last = self._engine.times, self._mark
        new = times.mark
        if new is None or new.clock - last.clock < SPAN or new.n_rounds == last.n_rounds:
            times.wanted = time.perf_counter() - last.clock >= SPAN
            return None
        self._mark = new
        span = new.clock - last.clock
        passes = min((new.pass_seconds - last.pass_seconds) / span, 1.0)
        transport = min(
            max((new.round_seconds - last.round_seconds) / span - passes, 0.0), 1.0 - passes
        )
        rate = (new.n_rounds - last.n_rounds) / span
        return [seconds, rate, passes, transport, 1.0 - passes - transport]

    def _totals(self, seconds: float) -> dict[str, float]:
        """Seconds in passes, transport and client since the fit began."""
        times, start = self._engine.times, self._start
        passes = times.pass_seconds - start.pass_seconds
        transport = max(times.round_seconds - start.round_seconds - passes, 0.0)
        return {
            "passes": passes,
            "transport": transport,
            "client": max(seconds - passes - transport, 0.0),
        }

    def _look_at_shards(self, seconds: float) -> None:
        """Note workers that have come or gone, and shards that were placed again."""
        before, now = self._shards, self._engine.shard_counts
        for name in before.keys() - now.keys():
            self._remarks.append([seconds, f"{name} is gone, and {_shards(before[name])} with it"])
        for name in now.keys() - before.keys():
            self._remarks.append([seconds, f"{name} has come in with {_shards(now[name])}"])
        short = sum(now.values()) < self._engine.layout.n_shards
        if short and self._short_since is None:
            self._short_since = seconds
        elif not short and (self._short_since is not None or before.keys() - now.keys()):
            since = seconds if self._short_since is None else self._short_since
            within = max(seconds - since, EVERY)
            self._remarks.append([seconds, f"all shards are placed again, within {within:.1f} s"])
            self._short_since = None
        if self._ending[0] == "running":
            self._shards = now


def _shards(n: int) -> str:
    return f"{n} shard{'' if n == 1 else 's'}"


def _plain(value: Any) -> Any:
    """A number of Python, which dask can send."""
    return value.item() if hasattr(value, "item") else value
