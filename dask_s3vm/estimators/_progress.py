"""Progress of a fit, for people: one line on a terminal, a few log lines elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from dask_s3vm.estimators._course import Course, Pace
from dask_s3vm.methods.base import HistoryRow

#: Seconds between two looks at the clock, and between two writings of the line on a terminal.
TICK = 0.5
REDRAW = 0.1

#: Seconds between two log lines, with and without news.
LOG_EVERY = 10.0
LOG_ALIVE = 60.0

#: Shortest time over which rounds per second are counted.
SPAN = 1.0


def callbacks_of(
    callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None,
) -> list[Any]:
    """List the callbacks of an estimator's parameter."""
    if callable(callbacks):
        return [callbacks]
    return [] if callbacks is None else list(callbacks)


def progress_of(
    estimator: Any, rounds: Callable[[], int] | None, problems: int
) -> "list[Progress]":
    """Make the line of progress that `verbose` asks for, in a list; an empty one without.

    Parameters
    ----------
    estimator : what is being fitted.
    rounds : returns the number of rounds so far; None if there are none to count.
    problems : number of binary problems.
    """
    if not estimator.verbose:
        return []
    return [Progress(Course(estimator.get_params(deep=False), problems), rounds)]


class Progress:
    """Shows where a fit is: what it does, objective, switches, active rows, rounds, time.

    On a terminal one line is written over again and again. Elsewhere there are plain lines: the
    first row, then at most one line in 10 s (one a minute where nothing is new), and the last row.

    Parameters
    ----------
    course : tells how far the fit is.
    rounds : returns the number of rounds so far; None if there are none to count.
    stream : where to write; standard error by default.
    clock : returns seconds.
    """

    def __init__(
        self,
        course: Course,
        rounds: Callable[[], int] | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._course = course
        self._rounds = rounds
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._pace = Pace()
        self._began = clock()
        self._row: HistoryRow | None = None
        self._what = ""
        self._switches = 0
        self._shown_at = -float("inf")
        self._news = False
        self._counted = (self._began, 0 if rounds is None else rounds())
        self._rate: float | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, before: Iterable[HistoryRow] = ()) -> None:
        """Keep the line up to date between rows too, which may be minutes apart.

        `before` : rows of an earlier process, where a fit goes on from a state.
        """
        for row in before:
            self._course.place(row)
        if self._rounds is not None:
            self._counted = (self._clock(), self._rounds())
        self._thread = threading.Thread(target=self._tick, name="s3vm-progress", daemon=True)
        self._thread.start()

    def __call__(self, row: HistoryRow) -> None:
        """Take in a row of the history."""
        with self._lock:
            now = self._clock()
            what, done = self._course.place(row)
            switched = row.get("switches", 0)
            self._switches = switched + (self._switches if what == self._what else 0)
            self._row, self._what, self._news = row, what, True
            self._pace.passed(now, done)
            self._show(now)

    def refresh(self) -> None:
        """Write the line again if it is time to."""
        with self._lock:
            if self._row is not None:
                self._show(self._clock())

    def close(self) -> None:
        """Show the last row, if that has not been done, and end the line."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._row is None:
                return
            now = self._clock()
            if self._news:
                self._write(now)
            if self._terminal:
                self._stream.write("\n")
                self._stream.flush()
            self._row = None

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            self.refresh()

    def _show(self, now: float) -> None:
        self._count_rounds(now)
        logged = LOG_EVERY if self._news else LOG_ALIVE
        wait = REDRAW if self._terminal else logged
        if now - self._shown_at >= wait:
            self._write(now)

    def _count_rounds(self, now: float) -> None:
        if self._rounds is None:
            return
        then, before = self._counted
        if now - then >= SPAN:
            rounds = self._rounds()
            self._rate = (rounds - before) / (now - then)
            self._counted = (now, rounds)

    def _write(self, now: float) -> None:
        self._shown_at, self._news = now, False
        line = "  ".join(self._facts(now))
        if self._terminal:
            self._stream.write(f"\r\x1b[2K{_fit(line, self._stream)}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def _facts(self, now: float) -> list[str]:
        row = self._row
        assert row is not None, "there is a row to show"
        facts = [f"[{duration(now - self._began)}]", self._what]
        for name in ("objective", "svm_objective", "fitness"):
            if name in row:
                facts.append(f"{name.replace('_', ' ')} {row[name]:.6g}")
        if "switches" in row and row.get("event") != "anneal":
            facts.append(f"switches {self._switches:,}")
        for name, words in (("n_active", "active rows"), ("n_waiting", "unlabeled rows left")):
            if name in row:
                facts.append(f"{words} {row[name]:,}")
        if self._rate is not None:
            facts.append(f"{self._rate:.3g} rounds/s")
        left = self._pace.left(now)
        if left is not None:
            facts.append(f"about {duration(left)} left")
        return facts


def duration(seconds: float) -> str:
    """Write a time as people do: 12 s, 3:05 min, 2:07 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _fit(line: str, stream: TextIO) -> str:
    """Cut a line to the width of the terminal: one that wraps cannot be written over."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return line
    return line if width <= 0 else line[: width - 1]
