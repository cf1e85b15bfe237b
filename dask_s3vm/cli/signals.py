"""Signals that batch systems and people stop a command with.

A command runs in a thread of its own (see `interrupts`). The main thread waits, and takes signals:
the first one asks the command to stop, which it does at the next round or wait; a second one, or a
command that takes too long to stop, ends the process at once.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from dask_s3vm.cli.errors import Interrupted
from dask_s3vm.interrupts import Interrupt, Work, current

#: Batch systems send the one, people at a terminal the other.
SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: EX_TEMPFAIL of sysexits.h: run again. Batch systems can be told to requeue on it.
TEMPORARY = 75

#: Seconds that a command is given to stop in order.
GRACE = 2.5

#: Signals that come within so many seconds are one: wrappers and batch systems pass them on twice.
BURST = 0.2


class Stopped(KeyboardInterrupt):
    """A signal asked this run to stop."""


class Stop(Interrupt):
    """Takes signals, and asks a command to stop at the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.number: int | None = None
        #: what the command has kept to go on from, if anything, and how to go on
        self.kept: Callable[[], bool] = lambda: False
        self.hint = ""
        self._since = 0.0

    def receive(self, number: int, frame: FrameType | None = None) -> None:
        """Take a signal."""
        now = time.monotonic()
        if self.number is None:
            self.number, self._since = number, now
            logging.disable(logging.WARNING)  # dask's, of connections that end now
            self.ask()
        elif now - self._since > BURST:
            self.end()

    def error(self) -> Stopped:
        """See `Interrupt.error`."""
        return Stopped()

    def overdue(self) -> bool:
        """Whether the command has been asked to stop, and should have by now."""
        return self.number is not None and time.monotonic() - self._since > GRACE

    def ending(self) -> Interrupted:
        """What to say, and the exit code: 75 if something was kept, else 128 + signal."""
        assert self.number is not None
        message = f"stopped by {signal.Signals(self.number).name}"
        if self.kept():
            return Interrupted(f"{message}; {self.hint}", TEMPORARY)
        return Interrupted(message, 128 + self.number)

    def end(self) -> NoReturn:
        """End this process now, and those that it has started."""
        ending = self.ending()
        with contextlib.suppress(Exception):
            ending.show()
        end_process(ending.exit_code)


def supervised(command: Callable[[], Any]) -> Any:
    """Run a command such that signals stop it; in the main thread only, as Python has it."""
    if threading.current_thread() is not threading.main_thread():
        return command()
    stop = Stop()
    work = Work(command, stop)
    disabled = logging.root.manager.disable
    before = {number: signal.signal(number, stop.receive) for number in SIGNALS}
    try:
        work.start()
        while not work.ended(GRACE / 10.0):
            if stop.overdue():
                stop.end()
        return work.result()
    except Interrupted:
        raise
    except (Stopped, Exception):
        if stop.number is None:
            raise
        # whatever fails now fails because of the signal, which workers may have got too
        raise stop.ending() from None
    finally:
        logging.disable(disabled)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def resumable(kept: Callable[[], bool], hint: str) -> Iterator[None]:
    """Have a stop by a signal end with code 75 and a hint, if something was kept to go on from."""
    stop = current()
    if not isinstance(stop, Stop):  # nobody takes signals here
        yield
        return
    stop.kept, stop.hint = kept, hint
    try:
        yield
    except Stopped:
        raise stop.ending() from None


def end_process(code: int) -> NoReturn:
    """End this process without waiting for anything, and its children with it."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
