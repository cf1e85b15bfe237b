"""How far a long command is: one line that renews itself on a terminal, plain lines in a log."""

import sys
import time
from typing import Any

__all__ = ["ProgressLine"]

_TERMINAL_S, _LOG_S = 0.1, 10.0


class ProgressLine:
    """Shows parts done on standard error.

    Parameters
    ----------
    what : str
        What is going on, such as "converting".
    quiet : bool
        Show remarks only.
    """

    def __init__(self, what: str, quiet: bool = False) -> None:
        self._what = what
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._shown = self._first = -1.0
        self._before = 0
        self._wide = 0

    def __call__(self, line: str, done: int, total: int) -> None:
        """Tell of a part that is done; with a total of 0, pass on a remark."""
        now = time.monotonic()
        if total == 0:
            self.end()
            print(line, file=sys.stderr, flush=True)
            return
        if self._first < 0:
            self._first, self._before = now, done
        wait = _TERMINAL_S if self._terminal else _LOG_S
        if self._quiet or (done < total and 0 <= self._shown > now - wait):
            return
        self._shown = now
        text = f"{self._what}: {done} of {total} parts, {now - self._began:.0f} s"
        if self._before < done < total:
            left = (total - done) * (now - self._first) / (done - self._before)
            text += f", about {left:.0f} s left"
        if self._terminal:
            print("\r" + text.ljust(self._wide), end="", file=sys.stderr, flush=True)
            self._wide = len(text)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line that renews itself."""
        if self._terminal and self._wide:
            print(file=sys.stderr, flush=True)
        self._wide = 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
