"""Errors and warnings of the package, and `warn`, which attributes a warning to the user's code."""

import contextlib
import contextvars
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = [
    "CheckpointError",
    "EngineError",
    "LineageError",
    "MemoryShortError",
    "MemoryShortWarning",
    "RatioWarning",
    "SchedulerLostError",
    "VersionMismatchError",
    "WorkerLostError",
]


class RatioWarning(UserWarning):
    """The share of positive rows was estimated from too few labels to be reliable."""


class CheckpointError(ValueError):
    """A directory holds no state that a fit can resume from.

    Parameters
    ----------
    path : the file or directory.
    reason : what is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)  # both: unpickling calls the class with `args`
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class EngineError(RuntimeError):
    """A round over the rows could not be carried out."""


class WorkerLostError(EngineError):
    """A worker that held rows of this fit is gone."""


class LineageError(WorkerLostError):
    """Rows were lost with a worker, and dask does not know how to compute them again."""


class MemoryShortError(EngineError):
    """The rows do not fit into the memory of the workers."""


class MemoryShortWarning(UserWarning):
    """The rows may not fit into the memory of the workers."""


class SchedulerLostError(EngineError):
    """The scheduler does not answer."""


class VersionMismatchError(EngineError):
    """A worker runs another version of this package than the client."""


#: The frame of the user's code that started the work of this context; see `warnings_at`.
_user_frame: contextvars.ContextVar[FrameType | None] = contextvars.ContextVar(
    "dask_s3vm_user_frame", default=None
)


@contextlib.contextmanager
def warnings_at(frame: FrameType) -> Iterator[None]:
    """Attribute warnings to `frame` where the work runs in a thread whose stack lacks it."""
    token = _user_frame.set(frame)
    try:
        yield
    finally:
        _user_frame.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the line that called this package.

    As `warnings.warn` with the right `stacklevel`, at any depth of calls and in any thread: the
    caller is the innermost frame outside this package, or the frame given to `warnings_at` if the
    stack of this thread ends before one is found.
    """
    frame: FrameType | None = sys._getframe(1)
    inside = ("dask_s3vm", "contextlib")  # the latter enters context managers of this package
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in inside:
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") == "threading":
        frame = _user_frame.get() or sys._getframe(1)
    module = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module.get("__name__"),
        module.setdefault("__warningregistry__", {}),
    )


#: State of `quiet`: the filters to restore, then one entry for each thread inside.
_silenced: list[Any] = []
_lock = threading.Lock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warnings of fits in all threads, while at least one thread is inside.

    The warnings of hundreds of fits are of no use; the final fit warns. `warnings.catch_warnings`
    alone is not thread-safe: the filters belong to the process, and the first thread to leave would
    restore them for all.
    """
    with _lock:
        if not _silenced:
            _silenced.append(warnings.catch_warnings())
            _silenced[0].__enter__()
            warnings.simplefilter("ignore", UserWarning)
        _silenced.append(None)
    try:
        yield
    finally:
        with _lock:
            _silenced.pop()
            if len(_silenced) == 1:
                _silenced.pop().__exit__(None, None, None)
