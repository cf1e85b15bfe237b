"""Orderly interruption of long work.

Ctrl-C raises `KeyboardInterrupt` between any two bytecodes of the main thread. If that happens
inside the standard library's ``with condition:``, the lock stays held, and every later user of it
deadlocks. Long work therefore runs in a thread of its own, which no signal reaches. It polls a flag
(`check`) in every round and during every wait. The main thread waits in a single C function and
sets the flag when it is interrupted.
"""

import contextlib
import contextvars
import functools
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from dask_s3vm.exceptions import warnings_at

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds between two looks at the flag during a wait.
TICK = 0.05

#: Seconds that interrupted work has to finish in order before it is abandoned.
PATIENCE = 5.0


class Interrupt:
    """The flag that asks one piece of work to stop."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        """Ask the work to stop at its next `check`."""
        self.asked = True

    def error(self) -> KeyboardInterrupt:
        """Create the exception that `check` raises."""
        return KeyboardInterrupt()


_current: contextvars.ContextVar[Interrupt | None] = contextvars.ContextVar(
    "dask_s3vm_interrupt", default=None
)


def current() -> Interrupt | None:
    """Return the flag of the work that this thread does; None if it cannot be interrupted."""
    return _current.get()


def check() -> None:
    """Raise `KeyboardInterrupt` if the work that this thread does was asked to stop.

    Raises once per request, so that cleanup on the way out can wait again.
    """
    interrupt = _current.get()
    if interrupt is not None and interrupt.asked:
        interrupt.asked = False
        raise interrupt.error()


def call_under(interrupt: Interrupt, function: Callable[[], R]) -> R:
    """Call a function that stops when another flag than that of this work asks for it.

    For a thread that is part of a piece of work, in a context of its own.
    """
    _current.set(interrupt)
    return function()


def sleep(seconds: float) -> None:
    """As `time.sleep`, but an interrupt ends it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0.0:
        check()
        time.sleep(min(left, TICK))
    check()


def take(box: "queue.SimpleQueue[R]", timeout: float | None = None) -> R:
    """Wait for an item, or for an interrupt; raises `queue.Empty` after `timeout` seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        check()
        left = TICK if end is None else min(TICK, end - time.monotonic())
        try:
            return box.get(timeout=max(left, 0.0))
        except queue.Empty:
            if end is not None and time.monotonic() >= end:
                raise


def interruptible(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that Ctrl-C ends it in order, at whatever moment it comes.

    Called in the main thread, the function runs in another thread, with the context variables and
    the scikit-learn configuration of the caller. Called in any other thread, which no signal
    reaches, it runs right there.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        with warnings_at(sys._getframe(1)):
            return _supervised(functools.partial(function, *args, **kwargs))

    return run


def _supervised(function: Callable[[], R]) -> R:
    """Run a function in a thread of its own; interrupt it when this thread is interrupted."""
    interrupt = Interrupt()
    work = Work(_with_sklearn_config(function), interrupt)
    try:
        work.start()
        while not work.ended(60.0):
            pass
    except BaseException:
        interrupt.ask()
        work.ended(PATIENCE)  # a second Ctrl-C ends this wait
        raise
    return work.result()


def _with_sklearn_config(function: Callable[[], R]) -> Callable[[], R]:
    """Carry the scikit-learn configuration of this thread over to the one that runs `function`."""
    sklearn = sys.modules.get("sklearn")
    if sklearn is None:
        return function
    settings = sklearn.get_config()

    def run() -> R:
        with sklearn.config_context(**settings):
            return function()

    return run


class Work:
    """A function that runs in a thread of its own and that an `Interrupt` can stop.

    Parameters
    ----------
    function : called without arguments, in a copy of the caller's context.
    interrupt : the flag that `check` looks at in that thread.
    """

    def __init__(self, function: Callable[[], Any], interrupt: Interrupt) -> None:
        self._function = function
        self._interrupt = interrupt
        self._context = contextvars.copy_context()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._over = False
        self._result: Any = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="s3vm-work", daemon=True).start()

    def ended(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the work to end; return whether it has."""
        end = time.monotonic() + timeout
        # short waits: on some platforms, and from some sources, an interrupt only reaches a thread
        # that runs bytecode
        while not self._over:
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            with contextlib.suppress(queue.Empty):
                self._bell.get(timeout=min(left, TICK))
        return True

    def result(self) -> Any:
        """Return what the function returned, or raise what it raised; call it after the end."""
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._context.run(self._call)
        except BaseException as error:
            self._error = error
        self._over = True
        self._bell.put(None)

    def _call(self) -> Any:
        _current.set(self._interrupt)
        with _checking_before_tasks():
            return self._function()


@contextlib.contextmanager
def _checking_before_tasks() -> Iterator[None]:
    """Call `check` before every task that dask's local schedulers run for this thread."""
    from dask.callbacks import Callback

    with Callback(pretask=lambda key, dsk, state: check()):
        yield
