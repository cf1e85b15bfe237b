"""A folder for one writer at a time.

The lock is `flock` on a hidden file in the folder. The system drops it when its holder ends,
however it ends: no stale lock is left behind by ``kill -9``. Object stores know no locks.
"""

import contextlib
import logging
import os
import socket
from types import ModuleType

from dask_s3vm.io.store import Url, is_local, join_url, make_folder

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    fcntl: ModuleType | None = None
else:
    fcntl = _fcntl

__all__ = ["LOCK_NAME", "FolderLock"]

#: The file that is locked; it is there only while somebody holds the lock.
LOCK_NAME = ".lock"

logger = logging.getLogger(__name__)


class FolderLock:
    """The lock of a folder, held from construction until `release`.

    Also fits in one process exclude each other. Without effect for URLs of stores, and on file
    systems without locks.

    Parameters
    ----------
    folder : str or path
        Path or URL; it is made if it is not there.

    Raises
    ------
    BlockingIOError
        If somebody else holds it; the message says who.
    """

    def __init__(self, folder: Url) -> None:
        self._file: int | None = None
        if fcntl is None or not is_local(folder):
            return
        make_folder(folder)
        self._path = join_url(folder, LOCK_NAME)
        while self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                self._take(file)
            except BaseException:
                os.close(file)
                raise

    def _take(self, file: int) -> None:
        assert fcntl is not None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(file, 200).decode(errors="replace") or "another process"
            raise BlockingIOError(error.errno, f"is in use by {holder}") from error
        except OSError as error:
            logger.warning("%s cannot be locked: %s", self._path, error)
            self._file = file
            return
        if not _is_at(file, self._path):  # its holder removed it after we had opened it
            os.close(file)
            return
        os.truncate(file, 0)
        with contextlib.suppress(OSError):  # no room: then the holder has no name
            os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        self._file = file

    def release(self) -> None:
        """Let others in."""
        file, self._file = self._file, None
        if file is None:
            return
        with contextlib.suppress(OSError):
            os.remove(self._path)  # before the lock is dropped: nobody else can hold it yet
        os.close(file)


def _is_at(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
