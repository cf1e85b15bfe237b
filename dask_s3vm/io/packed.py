"""Pieces of the text of compressed files, in bounded memory.

A compressed file has no byte ranges: what stands before a piece must be decompressed to get at
it, and schedulers ask for pieces in an order of their own. So every process that reads a file
decompresses it once, into a temporary file without a name, only as far as it is needed, and takes
pieces out of that. The temporary file goes when all pieces have been read, when other files are
being read instead, or with the process.
"""

import os
import tempfile
import threading
from collections import OrderedDict
from contextlib import ExitStack
from typing import Any

import dask

from dask_s3vm.io.sources import TextFile

__all__ = ["count_packed_lines", "read_packed"]

_MOST_OPEN = 4
_STEP = 1 << 20

_spools: "OrderedDict[tuple[str, str], _Spool]" = OrderedDict()
_lock = threading.Lock()


class _Spool:
    """The text of a compressed file, as far as it has been decompressed."""

    def __init__(self, file: TextFile) -> None:
        self.lock = threading.Lock()
        self.served: set[int] = set()
        self._file = file
        self._open = ExitStack()
        self._stream: Any = None
        self._text: Any = None
        self._size = 0

    def read(self, start: int, stop: int) -> bytes:
        """Return a piece; too short where the text ends early. The lock must be held."""
        try:
            if self._text is None:
                folder = dask.config.get("temporary-directory", None)
                self._text = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
                self._open.callback(self._text.close)
                self._stream = self._open.enter_context(self._file.decompressed())
            while self._size < stop and (chunk := self._stream.read(_STEP)):
                self._text.write(chunk)
                self._size += len(chunk)
            self._text.flush()
            return os.pread(self._text.fileno(), stop - start, start)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of both files."""
        self._open.close()
        self._text = self._stream = None
        self._size = 0
        self.served.clear()


def read_packed(file: TextFile, start: int, stop: int, pieces: int = 0) -> bytes:
    """Return the bytes from `start` up to `stop` of the decompressed text.

    Parameters
    ----------
    file : TextFile
        A compressed file.
    start, stop : int
        The range.
    pieces : int
        How many pieces there are: when so many have been read, the text is let go.

    Returns
    -------
    bytes
        The text; too short if it ends before.
    """
    key = (file.name, file.version)
    with _lock:
        spool = _spools.setdefault(key, _Spool(file))
        _spools.move_to_end(key)
        for other in list(_spools)[:-_MOST_OPEN]:
            idle = _spools[other]
            if idle.lock.acquire(blocking=False):  # else somebody is reading it
                idle.close()
                idle.lock.release()
                del _spools[other]
    with spool.lock:
        text = spool.read(start, stop)
        spool.served.add(start)
        if len(spool.served) == pieces:
            spool.close()
    return text


def count_packed_lines(file: TextFile, stop: int) -> int:
    """Return the number of line ends before byte `stop` of the decompressed text."""
    count = 0
    with file.decompressed() as stream:
        while stop > 0 and (chunk := stream.read(min(stop, _STEP))):
            count += chunk.count(b"\n")
            stop -= len(chunk)
    return count
