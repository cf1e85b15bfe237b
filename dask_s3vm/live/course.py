"""Where a fit is: kept up to date by its record, and told again and again while it runs."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from dask_s3vm.methods.run import HistoryRow

#: Seconds between two looks at the clock.
TICK = 0.5

#: Shortest time over which rounds per second are counted.
SPAN = 1.0


class Course:
    """Base of what tells people where a fit is: the progress line, and the live page.

    The record of the fit calls `at` and `add_row`. A thread calls `refresh` between rows too, which
    may be minutes apart.

    Parameters
    ----------
    rounds : returns the number of rounds so far; None if there are none to count.
    n_problems : number of binary problems (one-vs-rest), or of splits.
    clock : returns seconds.
    """

    _thread_name = "s3vm-course"

    def __init__(
        self,
        rounds: Callable[[], int] | None = None,
        n_problems: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rounds = rounds
        self._n_problems = max(1, n_problems)
        self._done: dict[int, float] = {}  # by number of the problem
        self._problems: list[Any] = []
        self._clock = clock
        self._pace = Pace()
        self._began = clock()
        self._what = ""
        self._switches = 0
        self._counted = (self._began, 0)
        self._rate: float | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, before: Iterable[HistoryRow] = ()) -> None:
        """Start the thread.

        `before` : rows of a fit that was interrupted: its binary problems have their numbers.
        """
        for row in before:
            self._number(row)
        if self._rounds is not None:
            self._counted = (self._clock(), self._rounds())
        self._thread = threading.Thread(target=self._tick, name=self._thread_name, daemon=True)
        self._thread.start()

    def at(self, tags: HistoryRow, what: str, done: float | None) -> None:
        """Take in where the fit is: see `methods.run.ProgressListener`."""
        with self._lock:
            if self._n_problems > 1 and tags:
                number = self._number(tags)
                done = self._part_done(number, done)
                what = what and f"problem {number + 1} of {self._n_problems}, {what}"
            if what and what != self._what:
                self._switches = 0
                self._what = what
            self._pace.passed(self._clock(), done)

    def _part_done(self, number: int, done: float | None) -> float | None:
        """Return the part of all problems that is done, of which several may be under way."""
        if done is None:
            return None
        self._done[number] = done
        return sum(self._done.values()) / self._n_problems

    def add_row(self, row: HistoryRow) -> None:
        """Take in a row of the history."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Tell again, if it is time to."""
        raise NotImplementedError

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            self.refresh()

    def _number(self, tags: HistoryRow) -> int:
        """Number the binary problems in the order in which they turn up."""
        which = tags.get("class", tags.get("split", 0))
        if which not in self._problems:
            self._problems.append(which)
        return min(self._problems.index(which), self._n_problems - 1)

    def _count_rounds(self, now: float) -> None:
        if self._rounds is None:
            return
        then, before = self._counted
        if now - then >= SPAN:
            rounds = self._rounds()
            self._rate = (rounds - before) / (now - then)
            self._counted = (now, rounds)


class Pace:
    """Guesses the time left from the pace of the later half of the time so far.

    Early levels and stages are often quicker than later ones, so what came first tells little of
    what is to come.
    """

    def __init__(self) -> None:
        self._passed: list[tuple[float, float]] = []
        self._known = False

    @property
    def done(self) -> float | None:
        """The fraction that is done; None if it is unknown."""
        return self._passed[-1][1] if self._known and self._passed else None

    def passed(self, now: float, done: float | None) -> None:
        """Note that the fraction `done` was done at `now`; None if it is unknown."""
        self._known = done is not None
        if done is not None and (not self._passed or done > self._passed[-1][1]):
            self._passed.append((now, done))

    def left(self, now: float) -> float | None:
        """Seconds left; None where nothing, or too little, is known."""
        if not self._known or len(self._passed) < 3:
            return None
        half = 0.5 * (self._passed[0][0] + self._passed[-1][0])
        early = [place for place in self._passed[:-1] if place[0] <= half]
        (then, behind), (last, done) = early[-1], self._passed[-1]
        if last <= then:
            return None
        # what has gone by since the last mark belongs to what was left there
        return max(0.0, (1.0 - done) * (last - then) / (done - behind) - (now - last))
