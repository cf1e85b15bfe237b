"""Record batches of Arrow IPC (Feather) files and row groups of Parquet files, and checksums.

The pages of Parquet files have checksums of their own. An Arrow file that we write has a table of
CRC-32 before its footer: one for each record batch, so that a batch can be checked when it is
read, and one for the rest of the file. Other readers do not look there.
"""

import io
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from dask_s3vm.io.archive import STEP, Summing, sum_range
from dask_s3vm.io.sources import BROKEN_TEXT, DataFile

__all__ = ["BROKEN", "CHECKED", "UNITS", "read_batches", "read_footer", "read_sums",
           "release_pages", "write_ipc"]  # fmt: skip

#: How reading a damaged file can end.
BROKEN = (*BROKEN_TEXT, pa.ArrowException, ValueError, LookupError)
#: What a piece of a file is called.
UNITS = {"arrow": "record batch", "parquet": "row group"}

#: Returns bytes of a file, from where to where.
Read = Callable[[int, int], Any]
#: Where a record batch begins (the first at the start of the file) and ends, and its checksum.
Sums = list[tuple[int, int, int]]


def read_footer(format: str, file: DataFile) -> tuple[pa.Schema, tuple[int, ...]]:
    """Return the schema, and the rows of each record batch or row group."""
    if format == "arrow":
        with _open_ipc(file, []) as found:
            batches = range(found.reader.num_record_batches)
            return found.schema, tuple(found.reader.get_batch(i).num_rows for i in batches)
    with file.fs.open(file.path, "rb") as stream:
        footer = parquet.ParquetFile(stream)
        groups = range(footer.num_row_groups)
        rows = tuple(footer.metadata.row_group(i).num_rows for i in groups)
        return footer.schema_arrow, rows


def read_batches(
    format: str, file: DataFile, numbers: Sequence[int], columns: Sequence[str]
) -> tuple[pa.Table, np.ndarray | None]:
    """Return batches with at least those of the columns that are there, and the map of the file.

    Local Arrow files are mapped, others have no map. Checksums are those of whole batches: labels
    are read without, whoever reads the rows too has them checked.
    """
    if format == "arrow":
        with _open_ipc(file, columns) as found:
            checked = list(columns) != ["label"]
            batches = [found.batch(i, checked) for i in numbers]
            return pa.Table.from_batches(batches), found.mapped
    with file.fs.open(file.path, "rb") as stream:
        groups = parquet.ParquetFile(stream, page_checksum_verification=True)
        own = [name for name in columns if name in groups.schema_arrow.names]
        # One thread: pieces are what runs in parallel.
        return groups.read_row_groups(numbers, columns=own, use_threads=False), None


def release_pages(mapped: np.ndarray | None) -> None:
    """Let go of the pages of a map that were read; they stay in the system's cache."""
    owner: Any = mapped
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = getattr(owner, "base", None)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


class _Ipc(NamedTuple):
    """An IPC file that is open; `mapped` is the whole file, if it is local."""

    reader: Any
    schema: pa.Schema
    mapped: np.ndarray | None
    read: Read
    sums: Sums | None

    def batch(self, number: int, checked: bool) -> Any:
        """Return a record batch; its bytes are those that were written, if that can be told."""
        if self.sums is None or not checked:
            return self.reader.get_batch(number)
        low, high, wanted = self.sums[number]
        content = self.read(low, high)  # of a map nothing is copied
        found = 0
        for at in range(0, len(content), STEP):
            found = zlib.crc32(content.slice(at, min(STEP, len(content) - at)), found)
            release_pages(self.mapped)
        if found != wanted:
            raise ValueError(
                f"record batch {number} is damaged: its checksum is not that of its content"
            )
        head = 0 if number else len(_HEAD)
        *_, message = ipc.MessageReader.open_stream(content.slice(head))
        return ipc.read_record_batch(message, self.schema)


@contextmanager
def _open_ipc(file: DataFile, columns: Sequence[str]) -> Iterator[_Ipc]:
    """Open a file, mapped if it is local, for these columns."""
    with ExitStack() as stack:
        mapped = None
        if file.is_local:
            # An empty file cannot be mapped.
            mapped = np.asarray(np.memmap(file.path, mode="r")) if file.size else np.zeros(0, "u1")
            stream: Any = pa.BufferReader(pa.py_buffer(mapped))
        else:
            stream = pa.PythonFile(stack.enter_context(file.fs.open(file.path, "rb")), mode="r")

        def read(low: int, high: int) -> Any:
            stream.seek(low)
            return stream.read_buffer(high - low)

        sums = read_sums(read, stream.size())
        stream.seek(0)
        schema = ipc.open_file(stream).schema
        if sums is None and CHECKED in (schema.metadata or {}):
            raise ValueError("is damaged: the checksums that its schema announces are not there")
        chosen = [i for i, name in enumerate(schema.names) if name in columns]
        options = ipc.IpcReadOptions(included_fields=chosen or [0])
        yield _Ipc(ipc.open_file(stream, options=options), schema, mapped, read, sums)


# Checksums ----------------------------------------------------------------------------------------

#: Key of the schema's metadata that announces the table.
CHECKED = b"checksums"

#: How a file begins, and how it ends: length of the footer, and Arrow's mark.
_HEAD, _TAIL = b"ARROW1\0\0", struct.Struct("<i6s")
#: End of a part, and its checksum.
_ENTRY = struct.Struct("<QQ")
#: Number of parts, checksum of the rest of the file, and our mark.
_TABLE = struct.Struct("<QQ8s")
_MAGIC = b"S3VM-CRC"
_DAMAGED = "is damaged: the checksum of its footer is not that of its content"


def read_sums(read: Read, size: int) -> Sums | None:
    """Return the checksums of an Arrow file, None if it has none; check all but the batches."""
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
    found = sum_range(read, after, end - _TABLE.size)
    found = zlib.crc32(_TABLE.pack(count, 0, magic), found)
    if after > first or sum_range(read, end, size, start=found) != wanted:
        raise ValueError(_DAMAGED)
    return [(low, high, one) for (low, _), (high, one) in pairwise(marks)]


@contextmanager
def write_ipc(stream: Any, schema: pa.Schema) -> Iterator[Callable[[Any], None]]:
    """Have a function that writes a record batch to an Arrow file with checksums."""
    summing, entries = Summing(stream), []
    announced = schema.with_metadata({**(schema.metadata or {}), CHECKED: b"crc32"})
    with ipc.new_file(summing, announced) as writer:

        def write(batch: Any) -> None:
            writer.write_batch(batch)
            entries.append(_ENTRY.pack(summing.at, summing.sum))
            summing.sum = 0

        yield write
        start, summing.stream = summing.sum, io.BytesIO()  # the end waits for the table
    held = summing.stream.getvalue()
    footer = len(held) - _TAIL.size - _TAIL.unpack(held[-_TAIL.size :])[0]
    head, tail = held[:footer] + b"".join(entries), held[footer:]
    rest = zlib.crc32(head + _TABLE.pack(len(entries), 0, _MAGIC) + tail, start)
    stream.write(head + _TABLE.pack(len(entries), rest, _MAGIC) + tail)
