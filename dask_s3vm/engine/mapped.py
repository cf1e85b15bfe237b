"""Rows that stay in a memory-mapped file.

A block whose arrays are views of a memory-mapped file (an Arrow IPC file through
`pyarrow.memory_map`, a `numpy.memmap`, a plain `mmap`) need not be copied into memory. But a view
of a map becomes a copy of its bytes as soon as it is pickled, to be sent to another worker or
spilled to disk. The engine therefore keeps a description, file name and offset (`MappedRows`), and
maps the file again in the process that runs over the rows. Workers on several machines need the
files under the same name: a shared file system, or a copy on each.

Pages that were read count as memory of the process until they are released (`MappedRows.release`).
The operating system keeps them in its page cache, so reading them again is cheap.

`mapped_rows` recognizes such blocks and checks them.
"""

import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dask_s3vm.engine.containers import check_columns
from dask_s3vm.kernels.rows import CSR, Rows, check_finite, check_indptr
from dask_s3vm.numerics.ones import is_ones, ones

#: Bytes that are read before their pages are released.
_READ_AT_ONCE = 2**24

#: The maps of this process, for as long as an array uses them.
_open_maps: "weakref.WeakValueDictionary[MappedFile, mmap.mmap]" = weakref.WeakValueDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class MappedFile:
    """A file, identified by its path, size and modification time when its rows were checked."""

    path: str
    size: int
    changed: int

    @classmethod
    def at(cls, path: str) -> "MappedFile":
        """Describe the present file at a path."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)

    def map(self) -> mmap.mmap:
        """Map the file, once per process."""
        with _lock:
            found = _open_maps.get(self)
            if found is None:
                found = _open_maps[self] = self._mapped()
            return found

    def _mapped(self) -> mmap.mmap:
        try:
            now = MappedFile.at(self.path)
            if now != self:
                raise OSError(f"{self.path} was changed while its rows were in use")
            with open(self.path, "rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{self.path} does not exist on every worker: memory-mapped rows need a file "
                "system that all workers share, or `s3vm.mapped: never`"
            ) from error


@dataclass(frozen=True)
class MappedArray:
    """A C-ordered array in a file."""

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
        """Return entries `low` to `high` along the first axis."""
        width = int(np.prod(self.shape[1:])) * np.dtype(self.dtype).itemsize
        shape = (high - low, *self.shape[1:])
        return replace(self, offset=self.offset + low * width, shape=shape)

    def release(self) -> None:
        """Release the pages that were read; the system reads them again on demand."""
        with _lock:
            found = _open_maps.get(self.file)
        if found is None or not self.nbytes or not hasattr(mmap, "MADV_DONTNEED"):
            return
        low = self.offset - self.offset % mmap.PAGESIZE
        found.madvise(mmap.MADV_DONTNEED, low, self.offset + self.nbytes - low)


@dataclass(frozen=True)
class MappedRows:
    """Rows whose values, and column numbers if they are sparse, are in files.

    indptr : as in `CSR`, in memory (4 bytes per row); None for dense rows.
    indices : column numbers; None for dense rows.
    values : the stored values, or the dense matrix; None if all stored values are 1.
    """

    indptr: np.ndarray | None
    indices: MappedArray | None
    values: MappedArray | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.indptr is not None:
            return len(self.indptr) - 1
        assert self.values is not None, "dense rows are values"
        return self.values.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, in files and in memory."""
        pointers = 0 if self.indptr is None else self.indptr.nbytes
        return pointers + sum(array.nbytes for array in self._arrays())

    def __sizeof__(self) -> int:
        """Return the size in memory, for dask; the map does not count."""
        return object.__sizeof__(self) + (0 if self.indptr is None else self.indptr.nbytes)

    def open(self) -> Rows:
        """Return rows for the kernels: views of the map."""
        values = None if self.values is None else self.values.open()
        if self.indptr is not None and self.indices is not None:
            indices = self.indices.open()
            return CSR(self.indptr, indices, ones(len(indices)) if values is None else values)
        assert values is not None, "dense rows are values"
        return values

    def part(self, start: int, stop: int) -> "MappedRows":
        """Return rows `start` to `stop`."""
        if self.indptr is None or self.indices is None:
            return MappedRows(None, None, self.values and self.values.part(start, stop))
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - np.uint32(low)
        indptr.flags.writeable = False
        values = self.values and self.values.part(low, high)
        return MappedRows(indptr, self.indices.part(low, high), values)

    def opened_parts(self) -> Iterator[Rows]:
        """Yield all rows, some at a time, and release the pages of each part after it."""
        step = max(1, self.n_rows * _READ_AT_ONCE // self.nbytes)
        for start in range(0, self.n_rows, step):
            part = self.part(start, min(start + step, self.n_rows))
            yield part.open()
            part.release()

    def release(self) -> None:
        """Release the pages that were read."""
        for array in self._arrays():
            array.release()

    def _arrays(self) -> Iterator[MappedArray]:
        if self.indices is not None:
            yield self.indices
        if self.values is not None:
            yield self.values


def mapped_rows(X: Any) -> MappedRows | None:
    """Describe and check a block whose rows are views of a mapped file; None for any other block.

    Accepts what kernels can read in place: CSR rows with 32-bit column numbers and dense C-ordered
    rows, of float32 or float64. The checks read every page once, and release it at once.
    """
    if isinstance(X, np.ndarray):
        rows = _dense(X)
    elif getattr(X, "format", "") == "csr" or getattr(X, "compressed_axes", None) == (0,):
        rows = _sparse(X)
    else:
        return None
    # entries that are stored twice are added up in a copy, in memory
    return rows if rows is not None and _check(rows, X.shape[1]) else None


def _dense(X: np.ndarray) -> MappedRows | None:
    values = mapped_array(X) if X.ndim == 2 and X.size and _is_float(X) else None
    return None if values is None else MappedRows(None, None, values)


def _sparse(X: Any) -> MappedRows | None:
    if X.ndim != 2 or not _is_float(X.data) or getattr(X, "fill_value", 0) != 0:
        return None
    if X.indices.dtype not in (np.int32, np.uint32):
        return None
    stored = check_indptr(X.data, X.indices, X.indptr, X.shape)
    if not stored:
        return None
    # as unsigned, a negative column number is too large, and `_check` finds it
    indices = mapped_array(X.indices[:stored].view(np.uint32))
    values = None if is_ones(X.data) else mapped_array(X.data[:stored])
    if indices is None or (values is None and not is_ones(X.data)):
        return None
    indptr = X.indptr.astype(np.uint32)
    indptr.flags.writeable = False
    return MappedRows(indptr, indices, values)


def _is_float(values: np.ndarray) -> bool:
    return values.dtype in (np.float32, np.float64)


def _check(rows: MappedRows, n_features: int) -> bool:
    """Check column numbers and values; release the pages as the check proceeds.

    Returns whether column numbers increase within every row.
    """
    canonical = True
    for part in rows.opened_parts():
        if isinstance(part, CSR):
            canonical &= check_columns(part.indptr, part.indices, n_features)
        check_finite(part.values if isinstance(part, CSR) else part)
    return canonical


def mapped_array(array: np.ndarray) -> MappedArray | None:
    """Describe an array that is a view of a mapped file; None for any other array.

    File and offset are looked up by address in Linux's table of the maps of a process, since an
    owner such as `mmap` or pyarrow does not tell them. On other systems the result is None, and the
    rows are copied into memory.
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
    """Return the file and the offset that a range of addresses maps, if it maps a file."""
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
        # a private writable map may differ from the file
        if not name or high > end or rights[1:4:2] == "wp" or not _is_file(name[0], int(inode)):
            return None
        return MappedFile.at(name[0]), int(offset, 16) + low - first
    return None


def _is_file(path: str, inode: int) -> bool:
    """Whether a path still leads to the file that was mapped."""
    try:
        return os.path.isfile(path) and os.stat(path).st_ino == inode
    except OSError:
        return False
