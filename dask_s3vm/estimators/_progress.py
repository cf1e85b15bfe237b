"""Progress of a fit, for people."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from dask_s3vm.methods.base import Callback, HistoryRow


def callbacks_of(
    callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None, verbose: bool | int
) -> list[Callback]:
    """List the callbacks of an estimator's parameters."""
    listed: list[Any] = []
    if callable(callbacks):
        listed = [callbacks]
    elif callbacks is not None:
        listed = list(callbacks)
    return [*listed, ProgressLine()] if verbose else listed


class ProgressLine:
    """Shows the last row of the history: one line that is written over on a terminal, log lines
    elsewhere.
    """  # noqa: D205

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._began = time.perf_counter()
        self._overwrite = self._stream.isatty()

    def __call__(self, row: HistoryRow) -> None:
        """Show a row."""
        elapsed = time.perf_counter() - self._began
        facts = "  ".join(f"{name} {_short(value)}" for name, value in row.items())
        line = f"[{elapsed:7.1f} s] {facts}"
        if self._overwrite:
            self._stream.write(f"\r\x1b[2K{line}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        """End the line."""
        if self._overwrite:
            self._stream.write("\n")


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
