"""What a fit tells: its history, the line of progress, and the state that `checkpoint` keeps.

The line of progress is for people: one line on a terminal, a few log lines elsewhere.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from numbers import Integral
from typing import Any, TextIO

from dask_s3vm import _config
from dask_s3vm.checkpoints import FileCheckpoint, check_directory, fingerprint, identity_of
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.run import Checkpoint, HistoryRow, Record

logger = logging.getLogger(__name__)

#: Seconds between two looks at the clock, and between two writings of the line on a terminal.
TICK = 0.5
REDRAW = 0.1

#: Seconds between two log lines, with and without news.
LOG_EVERY = 10.0
LOG_ALIVE = 60.0

#: Shortest time over which rounds per second are counted.
SPAN = 1.0


def check_resumable(estimator: Any) -> None:
    """Refuse a checkpoint that cannot be written, or that another process could not resume."""
    if getattr(estimator, "checkpoint", None) is None:
        return
    draws = estimator.kernel != "linear" or getattr(estimator, "n_restarts", 0) > 0
    if draws and not isinstance(estimator.random_state, Integral):
        raise ValueError(
            "checkpoint: a fit that draws at random can be resumed only if random_state is an int, "
            f"got {estimator.random_state!r}; on the command line: --seed"
        )
    check_directory(estimator.checkpoint)


@contextmanager
def recorded(
    estimator: Any,
    engine: Engine,
    about: dict[str, Any],
    n_problems: int = 1,
    rounds_before: int = 0,
) -> Iterator[Record]:
    """Have a record for the time of a fit, with the state of an interrupted one in it.

    A fit that ends before its time, for whatever reason, leaves its last state behind; one that is
    done leaves none.

    Parameters
    ----------
    estimator : what is fitted.
    engine : the rows.
    about : what tells the fit from others, beside parameters and rows.
    n_problems : number of binary problems, or of splits.
    rounds_before : rounds of the engine that were not made for this fit.
    """
    with closing(_checkpoint_of(estimator, engine, about)) as checkpoint:
        callbacks = callbacks_of(estimator.callbacks)
        progress = Progress(lambda: record.rounds, n_problems) if estimator.verbose else None
        if progress is None:
            record = Record(callbacks, checkpoint, engine, rounds_before)
        else:
            record = Record(
                [*callbacks, progress.add_row], checkpoint, engine, rounds_before, progress.at
            )
            progress.start(record.history)
        try:
            yield record
        except BaseException:
            try:
                checkpoint.flush()
            except OSError as error:  # what ended the fit matters more
                logger.error("the state of the fit could not be saved: %s", error)
            raise
        finally:
            if progress is not None:
                progress.close()
        checkpoint.clear()


def callbacks_of(
    callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None,
) -> list[Any]:
    """List the callbacks of an estimator's parameter."""
    if callable(callbacks):
        return [callbacks]
    return [] if callbacks is None else list(callbacks)


def _checkpoint_of(estimator: Any, engine: Engine, about: dict[str, Any]) -> Checkpoint:
    interval = _config.checkpoint_interval()
    directory = getattr(estimator, "checkpoint", None)
    if directory is None:
        return Checkpoint(interval)
    return FileCheckpoint(directory, identity_of(estimator, fingerprint(engine), about), interval)


# The line of progress -----------------------------------------------------------------------------


class Progress:
    """Shows where a fit is: what it does, objective, switches, active rows, rounds, time.

    On a terminal one line is written over again and again. Elsewhere there are plain lines: the
    first row, then at most one line in 10 s (one a minute where nothing is new), and the last row.

    Parameters
    ----------
    rounds : returns the number of rounds so far; None if there are none to count.
    n_problems : number of binary problems (one-vs-rest), or of splits.
    stream : where to write; standard error by default.
    clock : returns seconds.
    """

    def __init__(
        self,
        rounds: Callable[[], int] | None = None,
        n_problems: int = 1,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rounds = rounds
        self._n_problems = max(1, n_problems)
        self._problems: list[Any] = []
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
        self._counted = (self._began, 0)
        self._rate: float | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, before: Iterable[HistoryRow] = ()) -> None:
        """Keep the line up to date between rows too, which may be minutes apart.

        `before` : rows of a fit that was interrupted: its binary problems have their numbers.
        """
        for row in before:
            self._number(row)
        if self._rounds is not None:
            self._counted = (self._clock(), self._rounds())
        self._thread = threading.Thread(target=self._tick, name="s3vm-progress", daemon=True)
        self._thread.start()

    def at(self, about: HistoryRow, what: str, done: float | None) -> None:
        """Take in where the fit is: see `methods.run.ProgressListener`."""
        with self._lock:
            if self._n_problems > 1:
                number = self._number(about)
                what = f"problem {number + 1} of {self._n_problems}, {what}"
                done = None if done is None else (number + done) / self._n_problems
            if what != self._what:
                self._switches = 0
            self._what = what
            self._pace.passed(self._clock(), done)

    def _number(self, about: HistoryRow) -> int:
        """Number the binary problems in the order in which they turn up."""
        which = about.get("class", about.get("split", 0))
        if which not in self._problems:
            self._problems.append(which)
        return min(self._problems.index(which), self._n_problems - 1)

    def add_row(self, row: HistoryRow) -> None:
        """Take in a row of the history."""
        with self._lock:
            self._switches += row.get("switches", 0)
            self._row, self._news = row, True
            self._show(self._clock())

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
        for name in ("objective", "svm_objective"):
            if name in row:
                facts.append(f"{name.replace('_', ' ')} {row[name]:.6g}")
        if self._switches or row.get("event") == "switch":
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


class Pace:
    """Guesses the time left from the pace of the later half of the time so far.

    Early levels and stages are often quicker than later ones, so what came first tells little of
    what is to come.
    """

    def __init__(self) -> None:
        self._passed: list[tuple[float, float]] = []
        self._known = False

    def passed(self, now: float, done: float | None) -> None:
        """Note that a part `done` of the way was behind us at `now`; None: nobody knows."""
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
