"""Who may write to a directory of states, and how long a state is kept."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dask_s3vm.checkpoints.locks import FolderLock
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io.store import Url, address, is_local

logger = logging.getLogger(__name__)

#: Directories that blocks of `held` in this process have.
_held: dict[str, "Hold"] = {}
_mutex = threading.Lock()


class Hold:
    """A directory that one fit has to itself.

    Parameters
    ----------
    directory : its path or URL.
    keeps : whether the state stays when the fit is done; see `held`.

    Raises
    ------
    CheckpointError
        If another fit has it, in this process or any other.
    """

    def __init__(self, directory: Url, keeps: bool = False) -> None:
        self.keeps = keeps
        self.is_fitting = False
        self._remove: Callable[[], None] | None = None
        try:
            self._lock = FolderLock(directory)
        except BlockingIOError as error:
            raise CheckpointError(
                address(directory),
                f"{error.strerror}: two fits cannot save their states in one directory. Wait for "
                "the other one, or give another directory",
            ) from error

    def finish(self, remove: Callable[[], None]) -> None:
        """Remove the state of a fit that is done: now, or when the block of `held` ends."""
        self._remove = remove
        if not self.keeps:
            self.clear()

    def clear(self) -> None:
        """Remove the state, if the fit is done."""
        remove, self._remove = self._remove, None
        if remove is None:
            return
        try:
            remove()
        except OSError as error:  # the model matters more
            logger.warning("the state of a fit that is done could not be removed: %s", error)

    def leave(self) -> None:
        """End a fit: others may have the directory, unless a block of `held` goes on."""
        self.is_fitting = False
        if not self.keeps:
            self.release()

    def release(self) -> None:
        """Let others have the directory."""
        self._lock.release()


@contextmanager
def held(directory: Url) -> Iterator[None]:
    """Have a directory of states to oneself, and keep the state of a fit until the block ends.

    A fit removes its state when it is done. Inside this block the state stays, complete, and is
    removed when the block ends without an error: after the model is on disk. ::

        with held("state"):
            model = TSVM(checkpoint="state").fit(X, y)
            save_model(model, "model.npz")

    Raises
    ------
    CheckpointError
        If another fit has the directory, in this process or any other.
    """
    hold, key = Hold(directory, keeps=True), _key(directory)
    with _mutex:
        _held[key] = hold
    try:
        yield
        hold.clear()
    finally:
        with _mutex:
            _held.pop(key, None)
        hold.release()


def claim(directory: Url) -> Hold:
    """Have a directory for a fit: from the block of `held` that has it, or alone."""
    with _mutex:
        hold = _held.get(_key(directory))
        if hold is not None and not hold.is_fitting:
            hold.is_fitting = True
            return hold
    return Hold(directory)


def _key(directory: Url) -> str:
    return os.path.realpath(address(directory)) if is_local(directory) else os.fspath(directory)
