"""Files of tables, cut into pieces that are read one by one: Parquet and Arrow IPC.

A `TableFile` knows its columns, its pieces, and how to read one as an Arrow table. `table_csv` has
the csv files. `batch_files` reads footers and batches, for rows in columns of lists (`arrow`) too.
"""

import io
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from dask_s3vm.features.table_columns import CellError
from dask_s3vm.io.checksum import CHECKED, Table, read_table
from dask_s3vm.io.errors import TableError, told
from dask_s3vm.io.sources import BROKEN_TEXT, DataFile

__all__ = [
    "BROKEN",
    "WORDS",
    "BatchFile",
    "Look",
    "Span",
    "TableFile",
    "Types",
    "batch_files",
    "release_pages",
    "told_cell",
    "told_table",
]

#: From where to where: bytes of a csv file, row groups or record batches of others.
Span = tuple[int, int]
#: Where some rows are, and their columns.
Look = tuple[Span, pa.Table]
#: Column -> type that a csv file's fields are read as; columns that are not named are looked at.
Types = Mapping[str, pa.DataType]
#: Words, each stored once.
WORDS = pa.dictionary(pa.int32(), pa.string())
#: How reading a damaged file can end.
BROKEN = (*BROKEN_TEXT, pa.ArrowException, ValueError, LookupError)

#: Rows of an IPC file that one task reads, at least.
_BATCH_ROWS = 1 << 16
#: How an IPC file begins.
_IPC_HEAD = b"ARROW1\0\0"


@dataclass(frozen=True)
class TableFile:
    """One file of a table.

    Attributes
    ----------
    file : DataFile
        Where it is.
    names : tuple of str
        Its columns, those of its folders' names included.
    partition : tuple of (str, object)
        Columns whose values are in the names of its folders, as in ``year=2020/``.
    """

    file: DataFile
    names: tuple[str, ...]
    partition: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.file.name

    def spans(self, length: int, blocksize: int) -> list[Any]:
        """Return the parts that the file, with text of that length, is looked through in."""
        raise NotImplementedError

    def look(self, span: Any, columns: Sequence[str], types: Types, most: int) -> Look:
        """Return where the rows of a part are, and their columns."""
        return span, self.read(span, columns, types, most)

    def read(
        self, span: Span, columns: Sequence[str], types: Types, most: int, pieces: int = 0
    ) -> pa.Table:
        """Return the columns of a piece that `look` gave, one of so many if that is known."""
        raise NotImplementedError

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell of a piece, with its place in the file."""
        raise NotImplementedError

    @property
    def types(self) -> dict[str, pa.DataType] | None:
        """Types of the columns, if the file has them."""
        return None

    def _whole(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Add the columns of the folders, and put all in order."""
        for name, value in self.partition:
            if name in columns:
                table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
        return table.select(list(columns))

    def told(self) -> AbstractContextManager[None]:
        """Say which file it was that could not be read."""
        return told_table(self.name)


@dataclass(frozen=True)
class BatchFile(TableFile):
    """An Arrow IPC (Feather) or Parquet file; its pieces are some record batches, or a row group.

    Attributes
    ----------
    format : {"arrow", "parquet"}
        What it is.
    schema : pyarrow.Schema
        Types of the columns in the file.
    rows : tuple of int
        Rows of its row groups or record batches.
    """

    format: str
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    rows: tuple[int, ...] = ()

    @classmethod
    def open(
        cls, file: DataFile, partition: tuple[tuple[str, Any], ...], format: str
    ) -> "BatchFile":
        """Read the footer; of columns in the names of folders too, those of the file are taken."""
        with told_table(file.name):
            schema, rows = batch_files(format).footer(file)
        try:
            names = schema.names
        except UnicodeDecodeError as error:
            raise TableError(file.name, f"has a column name that is not UTF-8: {error}") from error
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise TableError(
                file.name, f"has more than one column {twice[:5]}, wanted distinct names"
            )
        added = tuple((name, value) for name, value in partition if name not in names)
        return cls(file, (*names, *(name for name, _ in added)), added, format, schema, rows)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Types of the columns."""
        folders = {name: pa.scalar(value).type for name, value in self.partition}
        return {field.name: field.type for field in self.schema} | folders

    def spans(self, length: int, blocksize: int) -> list[Span]:
        """Return row groups, or runs of record batches, that have rows."""
        least = 1 if self.format == "parquet" else _BATCH_ROWS
        found, start, count = [], 0, 0
        for i, rows in enumerate(self.rows):
            count += rows
            if count >= least or (count and i + 1 == len(self.rows)):
                found.append((start, i + 1))
                start, count = i + 1, 0
        return found

    def read(
        self, span: Span, columns: Sequence[str], types: Types, most: int, pieces: int = 0
    ) -> pa.Table:
        """Return the columns of a piece."""
        own = [name for name in columns if name not in dict(self.partition)]
        with self.told():
            table, _ = batch_files(self.format).read(self.file, range(*span), own)
            table = table.select(own)
            _check_buffers(table, self.format)
        return self._whole(table, columns)

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell, with its row."""
        row = sum(self.rows[: span[0]]) + cell.row
        return TableError(self.name, f"row {row}, {told_cell(cell)}")


def _check_buffers(table: pa.Table, format: str) -> None:
    """Refuse lengths, offsets and codes that point outside, where pyarrow takes them on trust.

    In Arrow files these are all that a file holds, in Parquet files the codes of categories.
    """
    for column in table.columns:
        if format == "arrow" or pa.types.is_dictionary(column.type):
            column.validate(full=True)


def told_table(name: str) -> AbstractContextManager[None]:
    """Say which file of a table it was that could not be read."""
    return told(name, BROKEN, "is damaged or cut short", TableError)


def told_cell(cell: CellError) -> str:
    """Return what is wrong with a cell, without its row."""
    return f"column {cell.column!r}: {cell.reason}"


# Batches ------------------------------------------------------------------------------------------


def batch_files(name: str) -> "type[IpcFiles | ParquetFiles]":
    """Return what reads files of a format, "arrow" or "parquet"."""
    return IpcFiles if name == "arrow" else ParquetFiles


class IpcFiles:
    """Arrow IPC (Feather) files, which are mapped if they are local."""

    unit = "record batch"

    @staticmethod
    def footer(file: DataFile) -> tuple[pa.Schema, tuple[int, ...]]:
        """Return the schema, and the rows of each batch."""
        with _open_ipc(file, []) as found:
            batches = range(found.reader.num_record_batches)
            return found.schema, tuple(found.reader.get_batch(i).num_rows for i in batches)

    @staticmethod
    def read(
        file: DataFile, numbers: Sequence[int], columns: Sequence[str]
    ) -> tuple[pa.Table, np.ndarray | None]:
        """Return batches with at least those of the columns that are there, and the file's map.

        Checksums are those of whole batches. Labels are read without: whoever reads the rows too
        has them checked.
        """
        with _open_ipc(file, columns) as found:
            read = found.reader.get_batch if list(columns) == ["label"] else found.batch
            return pa.Table.from_batches([read(i) for i in numbers]), found.mapped


class ParquetFiles:
    """Parquet files."""

    unit = "row group"

    @staticmethod
    def footer(file: DataFile) -> tuple[pa.Schema, tuple[int, ...]]:
        """Return the schema, and the rows of each row group."""
        with file.fs.open(file.path, "rb") as stream:
            found = parquet.ParquetFile(stream)
            groups = range(found.num_row_groups)
            rows = tuple(found.metadata.row_group(i).num_rows for i in groups)
            return found.schema_arrow, rows

    @staticmethod
    def read(
        file: DataFile, numbers: Sequence[int], columns: Sequence[str]
    ) -> tuple[pa.Table, None]:
        """Return those of the columns that are there; there is no map."""
        with file.fs.open(file.path, "rb") as stream:
            found = parquet.ParquetFile(stream, page_checksum_verification=True)
            own = [name for name in columns if name in found.schema_arrow.names]
            # One thread: pieces are what runs in parallel.
            return found.read_row_groups(numbers, columns=own, use_threads=False), None


class _Ipc(NamedTuple):
    """An IPC file that is open.

    mapped : the whole file, if it is local.
    read : returns bytes of the file.
    sums : its checksums, if it has some.
    """

    reader: Any
    schema: pa.Schema
    mapped: np.ndarray | None
    read: Callable[[int, int], Any]
    sums: Table | None

    def batch(self, number: int) -> Any:
        """Return a record batch; its bytes are those that were written, if that can be told."""
        if self.sums is None:
            return self.reader.get_batch(number)
        if self.mapped is not None:
            self.sums.check(number, self.read, lambda: release_pages(self.mapped))
            return self.reader.get_batch(number)
        # fetched once, for its checksum and for its rows
        low, high, _ = self.sums.parts[number]
        content = self.read(low, high)
        self.sums.check(number, lambda start, stop: content[start - low : stop - low])
        head = len(_IPC_HEAD) if number == 0 else 0
        *_, message = ipc.MessageReader.open_stream(pa.py_buffer(content).slice(head))
        return ipc.read_record_batch(message, self.schema)


@contextmanager
def _open_ipc(file: DataFile, columns: Sequence[str]) -> Iterator[_Ipc]:
    """Open a file: mapped if it is local, else with a reader for these columns alone."""
    if file.is_local:
        # An empty file cannot be mapped.
        mapped = np.asarray(np.memmap(file.path, mode="r")) if file.size else np.zeros(0, "u1")
        sums = read_table(lambda low, high: mapped[low:high], len(mapped))
        reader = ipc.open_file(pa.BufferReader(pa.py_buffer(mapped)))
        _check_announced(reader.schema, sums)
        yield _Ipc(reader, reader.schema, mapped, lambda low, high: mapped[low:high], sums)
        return
    with file.fs.open(file.path, "rb") as stream:

        def read(low: int, high: int) -> bytes:
            stream.seek(low)
            return bytes(stream.read(high - low))

        sums = read_table(read, stream.seek(0, io.SEEK_END))
        stream.seek(0)
        schema = ipc.open_file(pa.PythonFile(stream, mode="r")).schema
        _check_announced(schema, sums)
        chosen = [i for i, name in enumerate(schema.names) if name in columns]
        options = ipc.IpcReadOptions(included_fields=chosen or [0])
        reader = ipc.open_file(pa.PythonFile(stream, mode="r"), options=options)
        yield _Ipc(reader, schema, None, read, sums)


def _check_announced(schema: pa.Schema, sums: Table | None) -> None:
    if sums is None and CHECKED in (schema.metadata or {}):
        raise ValueError("is damaged: the checksums that its schema announces are not there")


def release_pages(mapped: np.ndarray | None) -> None:
    """Let go of the pages of a map that were read; they stay in the system's cache."""
    owner: Any = mapped
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = getattr(owner, "base", None)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)
