"""Stopping long work in order.

Ctrl-C raises `KeyboardInterrupt` between any two bytecodes of the main thread: also inside the
standard library's `with condition:`, whose lock is then held for ever, and everything that needs
it later waits for ever. So long work does not run in the main thread. It runs in a thread of its
own, which no signal touches, and looks at a flag (`check`) in every round and in every wait; the
main thread waits by means of one C function, and sets the flag when it is interrupted.
"""

import contextlib
import contextvars
import functools
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds between two looks at the flag, where somebody waits.
TICK = 0.05

#: Seconds that interrupted work is given to end in order, before it is left to itself.
PATIENCE = 5.0


class Interrupt:
    """The flag that asks one piece of work to stop."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        """Have the work stop where it looks next."""
        self.asked = True

    def error(self) -> KeyboardInterrupt:
        """Make what is raised there."""
        return KeyboardInterrupt()


_current: contextvars.ContextVar[Interrupt | None] = contextvars.ContextVar(
    "dask_s3vm_interrupt", default=None
)

#: The frame that called an interruptible function.
_caller: contextvars.ContextVar[FrameType | None] = contextvars.ContextVar(
    "dask_s3vm_caller", default=None
)


def current() -> Interrupt | None:
    """The flag of the work that this thread does, if it can be stopped."""
    return _current.get()


def check() -> None:
    """Raise `KeyboardInterrupt` if the work that this thread does was asked to stop.

    Once: what is put in order on the way out may wait again.
    """
    interrupt = _current.get()
    if interrupt is not None and interrupt.asked:
        interrupt.asked = False
        raise interrupt.error()


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


class Work:
    """Something done in a thread of its own, which an `Interrupt` can stop.

    Parameters
    ----------
    function : called without arguments, in a copy of the context of the caller.
    interrupt : what `check` looks at there.
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
        """Begin."""
        threading.Thread(target=self._run, name="s3vm-work", daemon=True).start()

    def ended(self, timeout: float) -> bool:
        """Wait for the end, `timeout` seconds at most; tells whether it has come."""
        end = time.monotonic() + timeout
        # in short waits: on some systems, and from some sources, an interrupt reaches only a
        # thread that runs bytecode
        while not self._over:
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            with contextlib.suppress(queue.Empty):
                self._bell.get(timeout=min(left, TICK))
        return True

    def result(self) -> Any:
        """What came of it, once it has ended: returned, or raised."""
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._context.run(self._do)
        except BaseException as error:
            self._error = error
        self._over = True
        self._bell.put(None)

    def _do(self) -> Any:
        _current.set(self._interrupt)
        with _looking_at_tasks():
            return self._function()


@contextlib.contextmanager
def _looking_at_tasks() -> Iterator[None]:
    """Look at the flag before every task that dask's local schedulers run for this thread."""
    from dask.callbacks import Callback

    with Callback(pretask=lambda key, dsk, state: check()):
        yield


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package, whichever thread the work is done in."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "dask_s3vm":
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") == "threading":
        frame = _caller.get() or sys._getframe(1)
    about = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        about.get("__name__"),
        about.setdefault("__warningregistry__", {}),
    )


def interruptible(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function end in order on Ctrl-C, whenever that comes.

    Called in the main thread it runs in another one, with the context and the scikit-learn
    configuration of the caller. Elsewhere, where no signal comes, it is called as it is.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        token = _caller.set(sys._getframe(1))
        try:
            return _supervised(functools.partial(function, *args, **kwargs))
        finally:
            _caller.reset(token)

    return run


def _supervised(function: Callable[[], R]) -> R:
    interrupt = Interrupt()
    work = Work(_configured(function), interrupt)
    try:
        work.start()
        while not work.ended(60.0):
            pass
    except BaseException:
        interrupt.ask()
        work.ended(PATIENCE)  # a second Ctrl-C does not wait
        raise
    return work.result()


def _configured(function: Callable[[], R]) -> Callable[[], R]:
    """Have a function see, in another thread, the scikit-learn configuration of this one."""
    sklearn = sys.modules.get("sklearn")
    if sklearn is None:
        return function
    settings = sklearn.get_config()

    def run() -> R:
        with sklearn.config_context(**settings):
            return function()

    return run
