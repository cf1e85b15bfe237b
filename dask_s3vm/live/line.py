"""The progress line: one line on a terminal, a few log lines elsewhere."""

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from dask_s3vm.live.course import Course
from dask_s3vm.methods.run import HistoryRow

#: Seconds between two writings of the line on a terminal.
REDRAW = 0.1

#: Seconds between two log lines, with and without news.
LOG_EVERY = 10.0
LOG_ALIVE = 60.0


class Progress(Course):
    """Shows where a fit is: what it does, objective, switches, active rows, rounds, time.

    On a terminal one line is written over again and again. Elsewhere there are plain lines: the
    first row, then at most one line in 10 s (one a minute where nothing is new), and the last row.

    Parameters
    ----------
    rounds, n_problems, clock : see `Course`.
    stream : where to write; standard error by default.
    """

    _thread_name = "s3vm-progress"

    def __init__(
        self,
        rounds: Callable[[], int] | None = None,
        n_problems: int = 1,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(rounds, n_problems, clock)
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._row: HistoryRow | None = None
        self._shown_at = -float("inf")
        self._news = False

    def add_row(self, row: HistoryRow) -> None:
        """Take in a row of the history, and write the line again if it is time to."""
        with self._lock:
            self._switches += row.get("switches", 0)
            self._row = row
            self._news = True
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

    def _show(self, now: float) -> None:
        self._count_rounds(now)
        logged = LOG_EVERY if self._news else LOG_ALIVE
        wait = REDRAW if self._terminal else logged
        if now - self._shown_at >= wait:
            self._write(now)

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
