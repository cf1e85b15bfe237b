"""Checksums of the files that we write: a flipped bit anywhere in one is noticed by its reader.

They are CRC-32, which finds any damage within 32 bits, and other damage but for 1 in 2**32. They
stand where other readers of the formats do not look:

* ``.npz``: in the comment at the end of the archive, over the whole file.
* Arrow IPC: a table before the footer, with one checksum per record batch and one for the rest of
  the file. So a batch can be checked when it is read.

Files without them, written by others, are read as well.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any, cast

import numpy as np

__all__ = [
    "CHECKED",
    "Summing",
    "Table",
    "check_archive",
    "read_table",
    "summed_archive",
    "write_arrays",
]

#: Bytes that are read at once.
_STEP = 2**24

Read = Callable[[int, int], Any]


class Summing:
    """A stream that sums up what is written to it.

    Parameters
    ----------
    stream : file
        Where it is written to.
    """

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._marks = [(0, 0)]
        self._at = 0
        self._sum = 0
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        """Write bytes."""
        view = memoryview(data).cast("B")
        if self._held is None:
            self._stream.write(view)
            self._sum = zlib.crc32(view, self._sum)
        else:
            self._held += view
        self._at += len(view)
        return len(view)

    def flush(self) -> None:
        """Do nothing: the stream below is flushed by its owner."""

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self._at

    @property
    def sum(self) -> int:
        """Checksum of all bytes so far."""
        return self._sum

    def mark(self) -> None:
        """End a part that has a checksum of its own."""
        self._marks.append((self._at, self._sum))
        self._sum = 0

    def hold(self) -> None:
        """Keep in memory what is written from now on."""
        self._held = bytearray()

    def add_table(self) -> None:
        """Write what was held: the end of an Arrow file, with the table before its footer."""
        held = self._held
        assert held is not None
        footer = _TAIL.size + _TAIL.unpack_from(held, len(held) - _TAIL.size)[0]
        entries = b"".join(_ENTRY.pack(*mark) for mark in self._marks[1:])
        head = bytes(held[:-footer]) + entries
        table = _TABLE.pack(len(self._marks) - 1, 0, _MAGIC)
        rest = zlib.crc32(head + table + held[-footer:], self._sum)
        self._stream.write(head + _TABLE.pack(len(self._marks) - 1, rest, _MAGIC) + held[-footer:])


# Archives of arrays -------------------------------------------------------------------------------


_COMMENT = b"dask-s3vm crc32 %08x"
_COMMENT_BYTES = len(_COMMENT % 0)
#: The record that ends an archive: its mark, what we do not look at, and the comment's length.
_END = struct.Struct("<4s16sH")
_END_MARK = b"PK\5\6"


@contextmanager
def summed_archive(stream: Any) -> Iterator[zipfile.ZipFile]:
    """Have an uncompressed archive to write to; its comment becomes the checksum of the file.

    The checksum is that of the archive as it is without a comment.
    """
    summing = Summing(stream)
    with zipfile.ZipFile(cast(IO[bytes], summing), "w") as archive:
        yield archive
    stream.seek(-2, io.SEEK_CUR)
    stream.write(struct.pack("<H", _COMMENT_BYTES) + _COMMENT % summing.sum)


def write_arrays(stream: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an ``.npz`` archive with a checksum."""
    with summed_archive(stream) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def check_archive(file: Any) -> None:
    """Check the checksum of an archive, if it has one; the file is at its start afterwards.

    Raises
    ------
    ValueError
        If the file was damaged.
    """
    size = file.seek(0, io.SEEK_END)
    tail = _range(file, max(0, size - _COMMENT_BYTES - _END.size), size)
    file.seek(0)
    if tail[-_END.size :].startswith(_END_MARK) and tail.endswith(b"\0\0"):
        return  # an archive without a comment
    mark, _, length = _END.unpack_from(tail.ljust(_END.size))
    if mark != _END_MARK or length != _COMMENT_BYTES:
        raise ValueError("is not a zip file, or its end is damaged")
    low = size - _COMMENT_BYTES - 2
    found = zlib.crc32(b"\0\0", _sum(lambda low, high: _range(file, low, high), 0, low))
    file.seek(0)
    if tail[_END.size :] != _COMMENT % found:
        raise ValueError("is damaged: its checksum is not that of its content")


# Arrow files --------------------------------------------------------------------------------------


#: Key of the schema's metadata that announces the table.
CHECKED = b"checksums"

#: The end of a file: length of the footer, and Arrow's mark.
_TAIL = struct.Struct("<i6s")
#: End of a part, and its checksum.
_ENTRY = struct.Struct("<QQ")
#: Number of parts, checksum of the rest of the file, and our mark.
_TABLE = struct.Struct("<QQ8s")
_MAGIC = b"S3VM-CRC"


@dataclass(frozen=True)
class Table:
    """The checksums of an Arrow file.

    Attributes
    ----------
    parts : tuple of (int, int, int)
        Where each part begins and ends, and its checksum: part i is record batch i, with the head
        of the file before the first.
    """

    parts: tuple[tuple[int, int, int], ...]

    def check(self, number: int, read: Read, after: Callable[[], None] = lambda: None) -> None:
        """Check a record batch.

        Parameters
        ----------
        number : int
            Of the batch.
        read : callable
            Returns bytes `low` to `high` of the file.
        after : callable
            Called now and then: to let go of pages that were read.

        Raises
        ------
        ValueError
            If it was damaged.
        """
        low, high, wanted = self.parts[number]
        if _sum(read, low, high, after) != wanted:
            raise ValueError(
                f"record batch {number} is damaged: its checksum is not that of its content"
            )


def read_table(read: Read, size: int) -> Table | None:
    """Read the checksums of an Arrow file, and check all that is not a record batch.

    Parameters
    ----------
    read : callable
        Returns bytes `low` to `high` of the file.
    size : int
        Of the file.

    Returns
    -------
    Table or None
        None if the file has none.

    Raises
    ------
    ValueError
        If the file was damaged.
    """
    if size < _TAIL.size + _TABLE.size:
        return None
    footer, _ = _TAIL.unpack(read(size - _TAIL.size, size))
    end = size - _TAIL.size - footer
    if footer < 0 or end < _TABLE.size:
        return None
    count, wanted, magic = _TABLE.unpack(read(end - _TABLE.size, end))
    first = end - _TABLE.size - count * _ENTRY.size
    if magic != _MAGIC:
        return None
    if first < 0:
        raise ValueError(_DAMAGED)
    marks = [(0, 0), *_ENTRY.iter_unpack(read(first, end - _TABLE.size))]
    after = marks[-1][0]
    blank = _TABLE.pack(count, 0, magic)
    found = zlib.crc32(blank, _sum(read, after, end - _TABLE.size))
    if after > first or _sum(read, end, size, start=found) != wanted:
        raise ValueError(_DAMAGED)
    return Table(tuple((low, high, one) for (low, _), (high, one) in pairwise(marks)))


_DAMAGED = "is damaged: the checksum of its footer is not that of its content"


def _sum(
    read: Read, low: int, high: int, after: Callable[[], None] = lambda: None, start: int = 0
) -> int:
    """Return the checksum of a part of a file."""
    found = start
    for at in range(low, high, _STEP):
        found = zlib.crc32(read(at, min(at + _STEP, high)), found)
        after()
    return found


def _range(file: Any, low: int, high: int) -> bytes:
    file.seek(low)
    content: bytes = file.read(high - low)
    return content
