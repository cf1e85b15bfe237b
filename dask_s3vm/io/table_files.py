"""Files of tables, cut into pieces that are read one by one: csv, Parquet and Arrow IPC.

Csv text is cut into ranges of bytes, which can be cut into rows if the number of quotes before them
is known; ``pyarrow.csv`` reads their fields. The other files are cut into row groups, or batches.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dask_s3vm.features.table_columns import (
    CellError,
    numbers_of,
    refuse_bytes,
    whole,
)
from dask_s3vm.io.batches import BROKEN, read_batches, read_footer
from dask_s3vm.io.errors import TableError, told
from dask_s3vm.io.sources import (
    DataFile,
    attempt_all,
    row_ends,
    split_evenly,
)  # fmt: skip

__all__ = ["WORDS", "BatchFile", "CsvFile", "Partition", "Span", "TableFile", "Wanted",
           "refuse_twins", "told_table", "wrong_quote"]  # fmt: skip

#: From where to where: bytes of a csv file, row groups or record batches of others.
Span = tuple[int, int]
#: Values of columns in the names of a file's folders, as in ``year=2020/``.
Partition = tuple[tuple[str, Any], ...]


class Wanted(NamedTuple):
    """What is read of a file.

    `types` are those that a csv file's fields are read as; columns without one are looked at, and
    are read as words of a dictionary if these are no more than `most`.
    """

    columns: Sequence[str]
    types: Mapping[str, pa.DataType]
    most: int


#: Words, each stored once.
WORDS = pa.dictionary(pa.int32(), pa.string())

#: Rows of an IPC file that one task reads, at least.
_BATCH_ROWS = 1 << 16
_QUOTE, _FEED, _RETURN = b'"\n\r'
# What Arrow says about a row with another number of fields.
_WRONG_COUNT = re.compile(
    r"CSV parse error: Row #(?P<row>\d+): Expected \d+ columns, got (?P<got>\d+)"
)


@dataclass(frozen=True)
class _File:
    """One file of a table: columns of its own, and those of its folders' names.

    Where both have a column, that of the file counts. Files give `spans`, the parts that they are
    looked through in; by `look`, where the rows of a part are, and their columns; by `read`, the
    columns of such a piece; and by `error`, the error of a cell with its place in the file.
    """

    file: DataFile
    fields: tuple[str, ...]
    partition: Partition

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.file.name

    @property
    def version(self) -> str:
        """Changes when the file is changed."""
        return self.file.version

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.fields, *(name for name, _ in self.partition if name not in self.fields))

    def _whole(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Add the columns of the folders, and put all in order."""
        for name, value in self.partition:
            if name in columns and name not in self.fields:
                table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
        return table.select(list(columns))


def told_table(name: str) -> AbstractContextManager[None]:
    """Say which file of a table it was that could not be read."""
    return told(name, BROKEN, "is damaged or cut short", TableError)


@dataclass(frozen=True)
class BatchFile(_File):
    """An Arrow IPC (Feather) or Parquet file; its pieces are some record batches, or a row group.

    `format` is "arrow" or "parquet"; `rows` are those of its batches or row groups.
    """

    format: str
    schema: pa.Schema
    rows: tuple[int, ...]

    @classmethod
    def open(cls, file: DataFile, partition: Partition, format: str) -> "BatchFile":
        """Read the footer."""
        with told_table(file.name):
            schema, rows = read_footer(format, file)
        try:
            names = schema.names
        except UnicodeDecodeError as error:
            raise TableError(file.name, f"has a column name that is not UTF-8: {error}") from error
        refuse_twins(file, names)
        return cls(file, tuple(names), partition, format, schema, rows)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Types of the columns."""
        folders = {name: pa.scalar(value).type for name, value in self.partition}
        return folders | {field.name: field.type for field in self.schema}

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

    def look(self, span: Span, wanted: Wanted) -> tuple[Span, pa.Table]:
        """Return the columns of a part, which is a piece."""
        return span, self.read(span, wanted)

    def read(self, span: Span, wanted: Wanted) -> pa.Table:
        """Return the columns of a piece; refuse offsets and codes that point outside.

        In Arrow files pyarrow takes all of these on trust, in Parquet files codes of categories.
        """
        own = [name for name in wanted.columns if name in self.fields]
        with told_table(self.name):
            table, _ = read_batches(self.format, self.file, range(*span), own)
            table = table.select(own)
            for name, column in zip(own, table.columns, strict=True):
                if self.format == "arrow" or pa.types.is_dictionary(column.type):
                    self._validate(span, name, column.chunks)
        return self._whole(table, wanted.columns)

    def _validate(self, span: Span, name: str, chunks: list[pa.Array]) -> None:
        rows = 0
        for chunk in chunks:
            try:
                refuse_bytes(chunk, name)
            except CellError as cell:
                raise self.error(span, CellError(rows + cell.row, name, cell.reason)) from None
            chunk.validate(full=True)
            rows += len(chunk)

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell, with its row."""
        row = sum(self.rows[: span[0]]) + cell.row
        return TableError(self.name, f"row {row}, column {cell.column!r}: {cell.reason}")


@dataclass(frozen=True)
class CsvFile(_File):
    """A csv file, plain or compressed.

    `skip` are the bytes before the first row of data, `decimal` is what is before the decimals of
    numbers, and `null_values` are words (besides the empty one) for missing values.
    """

    skip: int
    delimiter: str = ","
    decimal: str = "."
    null_values: tuple[str, ...] = ()

    def spans(self, length: int, blocksize: int) -> list[Any]:
        """Return ranges of bytes, and whether each starts inside quotes.

        Costs: where there are several ranges, the file is read once, to count quotes.
        """
        ranges = split_evenly(length, blocksize)
        counts = attempt_all([(self._count_quotes, span) for span in ranges[:-1]])
        before = np.cumsum([0, *counts]) % 2 == 1
        return [(*span, bool(inside)) for span, inside in zip(ranges, before, strict=False)]

    def _count_quotes(self, span: Span) -> int:
        with told_table(self.name):
            return self.file.count(b'"', *span)

    def look(self, span: Any, wanted: Wanted) -> tuple[Span, pa.Table]:
        """Return the rows that start in a range."""
        with told_table(self.name):
            start, text = self.file.read_rows(*span)
        if start < self.skip:
            text, start = text[self.skip - start :], self.skip
        where = (start, start + len(text))
        return where, self._parse(where, text, wanted)

    def read(self, span: Span, wanted: Wanted) -> pa.Table:
        """Return the rows of a range that holds whole rows."""
        with told_table(self.name):
            text = self.file.read(*span)
        return self._parse(span, text, wanted)

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell, with its line and the text of it."""
        with told_table(self.name):
            starts = _row_starts(self.file.read(*span))
        reason = f"column {cell.column!r}: {cell.reason}"
        return self._error_at(span[0] + int(starts[cell.row]), reason)

    def _error_at(self, offset: int, reason: str) -> TableError:
        """Return an error with the line of a byte; what is before is read again."""
        first = max(offset - 200, 0)
        with told_table(self.name):
            shown = self.file.read(first, offset + 400)
            line = self.file.count(b"\n", 0, offset) + 1
        tail, more = shown[: offset - first], shown[offset - first :]
        shown = tail.rpartition(b"\n")[2] + more.partition(b"\n")[0]
        return TableError(self.name, reason, line, shown[:400])

    # Text to columns

    def _parse(self, span: Span, text: bytes, wanted: Wanted) -> pa.Table:
        """Return columns of whole rows; raise TableError with the line of what is wrong."""
        if wrong := wrong_quote(text, self.delimiter):
            raise self._error_at(span[0] + wrong[0], wrong[1])
        own = wanted._replace(columns=[name for name in wanted.columns if name in self.fields])
        try:
            table = self._fields(span, text, own)
            found = {one.name: one.type for one in table.schema if one.name not in own.types}
            if odd := {name: WORDS for name, type in found.items() if not _is_plain(type)}:
                table = self._fields(span, text, own._replace(types={**own.types, **odd}))
        except pa.ArrowInvalid as error:
            raise self._explained(span, text, own, error) from None
        return self._whole(table, wanted.columns)

    def _fields(self, span: Span, text: bytes, wanted: Wanted) -> pa.Table:
        if not text.lstrip(b"\r\n"):  # which Arrow refuses
            return pa.table({name: pa.nulls(0) for name in wanted.columns})
        try:
            return pyarrow.csv.read_csv(
                pa.BufferReader(text),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.fields,
                    use_threads=False,  # pieces run in parallel
                    block_size=len(text) + 1,
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict(wanted.types),
                    include_columns=wanted.columns,
                    null_values=["", *self.null_values],
                    strings_can_be_null=True,
                    decimal_point=self.decimal,
                    true_values=[],  # booleans are words, as they are written
                    false_values=[],
                    auto_dict_encode=True,
                    auto_dict_max_cardinality=wanted.most,
                ),
            )
        except pa.ArrowInvalid as error:
            # A handler of invalid rows would tell more, but fails on text that is not UTF-8.
            found = _WRONG_COUNT.search(str(error))
            if found is None:
                raise
        starts = _row_starts(text)
        row = min(int(found["row"]), len(starts)) - 1
        fields = "1 field" if found["got"] == "1" else f"{found['got']} fields"
        reason = f"has {fields}, wanted {len(self.fields)}"
        raise self._error_at(span[0] + int(starts[row]), reason)

    def _explained(
        self, span: Span, text: bytes, wanted: Wanted, error: pa.ArrowInvalid
    ) -> TableError:
        """Find the first cell that is not of the type that it has to be."""
        names, cells = wanted.columns, []
        raw = self._fields(span, text, Wanted(names, dict.fromkeys(names, pa.binary()), 0))
        for name in names:
            column, type = whole(raw.column(name)), wanted.types.get(name)
            try:
                _check_cells(column, name, type, self)
            except CellError as cell:
                cells.append(cell)
        if not cells:
            return TableError(self.name, f"cannot be read as csv: {error}")
        return self.error(span, min(cells, key=lambda cell: cell.row))


TableFile = CsvFile | BatchFile


def refuse_twins(file: DataFile, names: Sequence[str], raw: bytes | None = None) -> None:
    """Refuse two columns of one name; `raw` is the first line of a csv file."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        reason = f"has more than one column {twice[:5]}, wanted distinct names"
        raise TableError(file.name, reason, None if raw is None else 1, raw)


def _is_plain(type: pa.DataType) -> bool:
    """Tell whether a type that Arrow found is one that the encoder takes."""
    types, plain = pa.types, type.value_type if pa.types.is_dictionary(type) else type
    return not (types.is_time(plain) or types.is_binary(plain) or types.is_large_binary(plain))


def _check_cells(column: pa.Array, name: str, type: pa.DataType | None, file: CsvFile) -> None:
    """Raise CellError for the first cell of raw text that is not of a type."""
    words = column.view(pa.string())
    refuse_bytes(words, name)
    if type == pa.float64():
        numbers_of(words, name, file.null_values, decimal=file.decimal)


def wrong_quote(text: bytes, delimiter: str) -> tuple[int, str] | None:
    """Find a quote in a wrong place: with it, nobody can tell where rows end."""
    if b'"' not in text:
        return None
    array = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(array == _QUOTE)
    # every other quote opens a field; a doubled one closes it and opens it again
    opening, closing = quotes[0::2], quotes[1::2]
    edges = np.array([ord(delimiter), _FEED, _RETURN, _QUOTE], np.uint8)
    bad_open = opening[(opening > 0) & ~np.isin(array[opening - 1], edges)]
    after = np.minimum(closing + 1, len(array) - 1)
    bad_close = closing[(closing + 1 < len(array)) & ~np.isin(array[after], edges)]
    if len(bad_open) and (not len(bad_close) or bad_open[0] < bad_close[0]):
        return int(bad_open[0]), "has a quote inside a field that does not start with one"
    if len(bad_close):
        return int(bad_close[0]), "has something behind the closing quote of a field"
    return (int(quotes[-1]), "has a quoted field that does not end") if len(quotes) % 2 else None


def _row_starts(text: bytes) -> np.ndarray:
    """Return where the rows of a text start; lines without anything in them are none.

    To Arrow, a return ends a row even if no line feed follows.
    """
    ends = row_ends(text.replace(b"\r", b"\n"), False)
    starts = np.concatenate([[0], ends])
    stops = np.append(ends, len(text))
    filled = [bool(text[a:b].strip(b"\r\n")) for a, b in zip(starts, stops, strict=True)]
    return starts[filled]
