"""Signals that batch systems and people stop a run with."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

#: Batch systems send the one, people at a terminal the other.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(KeyboardInterrupt):
    """A signal asked this run to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def name(self) -> str:
        """Name of the signal."""
        return signal.Signals(self.number).name


class Stopper:
    """Turns the first signal into `Stopped`, raised where the main thread is.

    Further signals are ignored: what is being written down by then is to be finished.
    """

    def __init__(self) -> None:
        self._held = False
        self._received: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self._received is not None:
            return
        self._received = number
        if not self._held:
            raise Stopped(number)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Finish what is inside; a signal that came meanwhile takes effect afterwards."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._received is not None:
            raise Stopped(self._received)


@contextlib.contextmanager
def stopping() -> Iterator[Stopper]:
    """Have signals raise `Stopped` for a while; in the main thread only, as Python has it."""
    stopper = Stopper()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stopper.receive) for number in SIGNALS}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
