"""Rows that stay in a file: descriptions that are opened as memory maps where they are used.

A block whose arrays are views of a memory-mapped file (an Arrow IPC file through
`pyarrow.memory_map`, a `numpy.memmap`, a plain `mmap`) need not be copied into memory. But a view
of a map turns into a copy of its bytes as soon as it is pickled: sent to another worker, or
spilled to disk. So the engine keeps *where* the bytes are, a file name and an offset, and maps
the file again in the process that runs over them. Workers on several machines need the files
under the same name: a shared file system, or a copy on each.

Pages that were read count as memory of the process until they are let go (`MappedRows.release`).
The operating system keeps them in its page cache, so that reading them again is cheap.
"""

import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dask_s3vm.kernels.rows import CSR, Rows

_open_maps: "weakref.WeakValueDictionary[MappedFile, mmap.mmap]" = weakref.WeakValueDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class MappedFile:
    """A file as it was when its rows were looked at."""

    path: str
    size: int
    changed: int

    @classmethod
    def at(cls, path: str) -> "MappedFile":
        """Describe the file that is there now."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)

    def map(self) -> mmap.mmap:
        """Map the file, once per process."""
        with _lock:
            held = _open_maps.get(self)
            if held is None:
                held = _open_maps[self] = self._mapped()
            return held

    def _mapped(self) -> mmap.mmap:
        try:
            now = MappedFile.at(self.path)
            if now != self:
                raise OSError(f"{self.path} was changed while its rows were in use")
            with open(self.path, "rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{self.path} is not there on every worker: rows that are memory-mapped need a "
                "file system that all workers share, or `s3vm.mapped: never`"
            ) from error


@dataclass(frozen=True)
class MappedArray:
    """A C-ordered array that lies in a file."""

    file: MappedFile
    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    def open(self) -> np.ndarray:
        """Return a read-only view of the file."""
        if not self.nbytes:
            return np.zeros(self.shape, dtype=self.dtype)
        count = int(np.prod(self.shape))
        flat = np.frombuffer(self.file.map(), self.dtype, count, self.offset)
        return flat.reshape(self.shape)

    def part(self, low: int, high: int) -> "MappedArray":
        """Entries `low` to `high` along the first axis."""
        width = int(np.prod(self.shape[1:])) * np.dtype(self.dtype).itemsize
        shape = (high - low, *self.shape[1:])
        return replace(self, offset=self.offset + low * width, shape=shape)

    def release(self) -> None:
        """Let go of the pages that were read; they are read again when they are needed."""
        with _lock:
            held = _open_maps.get(self.file)
        if held is None or not self.nbytes or not hasattr(mmap, "MADV_DONTNEED"):
            return
        low = self.offset - self.offset % mmap.PAGESIZE
        held.madvise(mmap.MADV_DONTNEED, low, self.offset + self.nbytes - low)


@dataclass(frozen=True)
class MappedRows:
    """Rows whose values, and column numbers if they are sparse, lie in files.

    indptr : as in `CSR`, in memory (4 bytes a row); None for dense rows.
    indices : column numbers; None for dense rows.
    values : the stored values, or the matrix.
    """

    indptr: np.ndarray | None
    indices: MappedArray | None
    values: MappedArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.values.shape[0] if self.indptr is None else len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take, in the files and in memory."""
        held = 0 if self.indptr is None else self.indptr.nbytes
        return held + sum(array.nbytes for array in self._arrays())

    def __sizeof__(self) -> int:
        """Tell dask what is in memory: the map is not."""
        return object.__sizeof__(self) + (0 if self.indptr is None else self.indptr.nbytes)

    def open(self) -> Rows:
        """Return rows for the kernels: views of the map."""
        if self.indptr is None or self.indices is None:
            return self.values.open()
        return CSR(self.indptr, self.indices.open(), self.values.open())

    def part(self, start: int, stop: int) -> "MappedRows":
        """Rows `start` to `stop`."""
        if self.indptr is None or self.indices is None:
            return MappedRows(None, None, self.values.part(start, stop))
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - np.uint32(low)
        indptr.flags.writeable = False
        return MappedRows(indptr, self.indices.part(low, high), self.values.part(low, high))

    def release(self) -> None:
        """Let go of the pages that were read."""
        for array in self._arrays():
            array.release()

    def _arrays(self) -> Iterator[MappedArray]:
        if self.indices is not None:
            yield self.indices
        yield self.values


def mapped_array(array: np.ndarray) -> MappedArray | None:
    """Describe an array that is a view of a mapped file; None if it is anything else.

    Where the memory of a foreign owner (`mmap`, pyarrow) comes from, Linux tells: its table of the
    maps of a process has file and offset by address. Elsewhere rows are copied into memory.
    """
    owner = array.base
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    if owner is None or not array.flags.c_contiguous or not array.flags.aligned:
        return None
    start = array.__array_interface__["data"][0]
    found = _file_at(start, start + array.nbytes)
    if found is None:
        return None
    file, offset = found
    return MappedArray(file, offset, array.dtype.str, array.shape)


def _file_at(low: int, high: int) -> tuple[MappedFile, int] | None:
    """File and offset of the bytes at some addresses, if they are a file's."""
    try:
        table = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    for line in table.splitlines():
        # address range, permissions, offset in the file, device, inode, name
        span, rights, offset, _, inode, *name = line.split(maxsplit=5)
        first, end = (int(edge, 16) for edge in span.split("-"))
        if not first <= low < end:
            continue
        # a private map that may be written to need not hold what the file does
        if not name or high > end or rights[1:4:2] == "wp" or not _is_file(name[0], int(inode)):
            return None
        return MappedFile.at(name[0]), int(offset, 16) + low - first
    return None


def _is_file(path: str, inode: int) -> bool:
    """Whether a name is still the one of the file that was mapped."""
    try:
        return os.path.isfile(path) and os.stat(path).st_ino == inode
    except OSError:
        return False
