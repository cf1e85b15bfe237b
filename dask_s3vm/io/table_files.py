"""Files of tables, cut into pieces that are read one by one: Parquet and Arrow IPC.

A `TableFile` knows its columns, its pieces, and how to read one as an Arrow table. `table_csv` has
the csv files.
"""

import lzma
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import dask.threaded
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from dask_s3vm.engine.computing import current_client
from dask_s3vm.features.table_columns import CellError
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import TextFile

__all__ = [
    "BROKEN",
    "WORDS",
    "ArrowFile",
    "ParquetFile",
    "Span",
    "TableFile",
    "Types",
    "compute_now",
    "told_cell",
]

#: From where to where: bytes of a csv file, row groups or record batches of others.
Span = tuple[int, int]
#: Column -> type that a csv file's fields are read as; columns that are not named are looked at.
Types = Mapping[str, pa.DataType]
#: Words, each stored once.
WORDS = pa.dictionary(pa.int32(), pa.string())
#: How reading a damaged file can end.
BROKEN = (pa.ArrowException, OSError, EOFError, zlib.error, lzma.LZMAError)

#: Rows of an IPC file that one task reads, at least.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TableFile:
    """One file of a table.

    Attributes
    ----------
    file : TextFile
        Where it is.
    names : tuple of str
        Its columns, those of its folders' names included.
    partition : tuple of (str, object)
        Columns whose values are in the names of its folders, as in ``year=2020/``.
    """

    file: TextFile
    names: tuple[str, ...]
    partition: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.file.name

    def spans(self, blocksize: int) -> list[Any]:
        """Return what `tables` is to be called with, for each task that looks through the file."""
        raise NotImplementedError

    def tables(
        self, span: Any, columns: Sequence[str], types: Types, most: int
    ) -> Iterator[tuple[Span, pa.Table]]:
        """Yield pieces of the file and their columns."""
        yield span, next(self.read([span], columns, types, most))

    def read(
        self, spans: Sequence[Span], columns: Sequence[str], types: Types, most: int
    ) -> Iterator[pa.Table]:
        """Yield the columns of pieces that `tables` gave, in their order."""
        for span in spans:
            with self.told():
                table = self._read(span, [c for c in columns if c not in dict(self.partition)])
            yield self._whole(table, columns)

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell of a piece, with its place in the file."""
        return TableError(self.name, f"row {self._row(span, cell.row)}, {told_cell(cell)}")

    @property
    def joined(self) -> int:
        """How many pieces one task had better read."""
        return 1

    @property
    def types(self) -> dict[str, pa.DataType] | None:
        """Types of the columns, if the file has them."""
        return None

    def _read(self, span: Span, columns: list[str]) -> pa.Table:
        raise NotImplementedError

    def _row(self, span: Span, row: int) -> int:
        raise NotImplementedError

    def _whole(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Add the columns of the folders, and put all in order."""
        for name, value in self.partition:
            if name in columns:
                table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
        return table.select(list(columns))

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say which file it was that could not be read."""
        try:
            yield
        except (TableError, FileNotFoundError):
            raise
        except (*BROKEN, ValueError, KeyError) as error:
            raise TableError(
                self.name, f"is damaged or cut short: {str(error) or type(error).__name__}"
            ) from error


# Parquet and Arrow ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _TypedFile(TableFile):
    """A file that knows the types of its columns, and its rows.

    Attributes
    ----------
    schema : pyarrow.Schema
        Types of the columns in the file.
    rows : tuple of int
        Rows of its row groups or record batches.
    """

    schema: pa.Schema
    rows: tuple[int, ...]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Types of the columns."""
        folders = {name: pa.scalar(value).type for name, value in self.partition}
        return {field.name: field.type for field in self.schema} | folders

    def _row(self, span: Span, row: int) -> int:
        return sum(self.rows[: span[0]]) + row


class ParquetFile(_TypedFile):
    """A Parquet file; its pieces are row groups."""

    @classmethod
    def open(cls, file: TextFile, partition: tuple[tuple[str, Any], ...]) -> "ParquetFile":
        """Read the footer."""
        bare = cls(file, (), (), pa.schema([]), ())
        with bare.told(), file.fs.open(file.path, "rb") as stream:
            found = pyarrow.parquet.ParquetFile(stream)
            rows = [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)]
            schema = found.schema_arrow
        return cls(file, *_all_names(file, schema, partition), schema, tuple(rows))

    def spans(self, blocksize: int) -> list[Span]:
        """Return the row groups that have rows."""
        return [(i, i + 1) for i, rows in enumerate(self.rows) if rows]

    def _read(self, span: Span, columns: list[str]) -> pa.Table:
        with self.file.fs.open(self.file.path, "rb") as stream:
            # one thread: pieces are what runs in parallel
            return pyarrow.parquet.ParquetFile(stream).read_row_groups(
                range(*span), columns=columns, use_threads=False
            )


class ArrowFile(_TypedFile):
    """An Arrow IPC (Feather) file; its pieces are some record batches."""

    @classmethod
    def open(cls, file: TextFile, partition: tuple[tuple[str, Any], ...]) -> "ArrowFile":
        """Read the footer, and the sizes of the batches."""
        bare = cls(file, (), (), pa.schema([]), ())
        with bare.told(), bare._reader() as reader:
            schema = reader.schema
            batches = range(reader.num_record_batches)
            rows = tuple(reader.get_batch(i).num_rows for i in batches)
        return cls(file, *_all_names(file, schema, partition), schema, rows)

    def spans(self, blocksize: int) -> list[Span]:
        """Return runs of record batches."""
        found, start, count = [], 0, 0
        for i, rows in enumerate(self.rows):
            count += rows
            if count >= _BATCH_ROWS or (count and i + 1 == len(self.rows)):
                found.append((start, i + 1))
                start, count = i + 1, 0
        return found

    def _read(self, span: Span, columns: list[str]) -> pa.Table:
        with self._reader() as reader:
            batches = [reader.get_batch(i) for i in range(*span)]
            for batch in batches:
                batch.validate(full=True)  # lengths and offsets are as anybody wrote them
            return pa.Table.from_batches(batches, reader.schema).select(columns)

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        if self.file.is_local and self.file.size:
            with pa.memory_map(self.file.path) as mapped:
                yield pyarrow.ipc.open_file(mapped)
            return
        with self.file.fs.open(self.file.path, "rb") as stream:
            yield pyarrow.ipc.open_file(pa.PythonFile(stream, mode="r"))


def _all_names(
    file: TextFile, schema: pa.Schema, partition: tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]:
    """Return the columns of a file and of its folders; the file's own take precedence."""
    try:
        names = schema.names
    except UnicodeDecodeError as error:
        raise TableError(file.name, f"has a column name that is not UTF-8: {error}") from error
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TableError(file.name, f"has more than one column {twice[:5]}")
    added = tuple((name, value) for name, value in partition if name not in names)
    return (*names, *(name for name, _ in added)), added


def compute_now(lazy: Sequence[Any]) -> tuple[Any, ...]:
    """As `dask.compute` on the user's scheduler.

    Without one it runs threads, as dask would import `distributed` to find out: that takes longer
    than reading a small table.
    """
    alone = current_client() is None and dask.config.get("scheduler", None) is None
    return dask.compute(*lazy, scheduler=dask.threaded.get) if alone else dask.compute(*lazy)


def told_cell(cell: CellError) -> str:
    """Return what is wrong with a cell, without its row."""
    return f"column {cell.column!r}: {cell.reason}"
