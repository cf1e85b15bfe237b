"""Files of csv text, cut into pieces of whole rows; ``pyarrow.csv`` reads their fields.

A row ends at a line end before which the number of quotes is even (a doubled quote inside a field
counts two). So a range of bytes can be cut into rows if the number of quotes before it is known.
Plain files are read in ranges; compressed ones as a stream, of which never more than some blocks
are held.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
import pyarrow as pa
import pyarrow.csv
from fsspec.core import OpenFile  # type: ignore[import-untyped]

from dask_s3vm.features.table_columns import CellError, numbers_of, whole
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import TextFile, split_evenly
from dask_s3vm.io.table_files import (
    BROKEN,
    WORDS,
    Span,
    TableFile,
    Types,
    compute_now,
    told_cell,
)

__all__ = ["CsvFile", "Dialect", "read_fields", "read_first_row"]

_STEP = 1 << 20
# A longer row is a quote that was never closed: reading on would bring in the whole file.
_LONGEST_ROW = 1 << 26
_QUOTE, _FEED, _RETURN = b'"\n\r'
# What Arrow says about a row with another number of fields.
_WRONG_COUNT = re.compile(
    r"CSV parse error: (Row #(?P<row>\d+): )?Expected \d+ columns, got (?P<got>\d+)"
)
_MARK = b"\xef\xbb\xbf"  # some editors start a file with it


@dataclass(frozen=True)
class Dialect:
    """How csv text is read.

    Attributes
    ----------
    delimiter : str
        One character.
    null_values : tuple of str
        Words, besides the empty one, for missing values.
    """

    delimiter: str = ","
    null_values: tuple[str, ...] = ()


class _BadTextError(ValueError):
    """Text breaks a rule of csv at a byte."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason


@dataclass(frozen=True)
class CsvFile(TableFile):
    """A csv file, plain or compressed.

    Attributes
    ----------
    fields : tuple of str
        Columns of the file itself, one for each field of a row.
    skip : int
        Bytes before the first row of data.
    dialect : Dialect
        How it is read.
    """

    fields: tuple[str, ...]
    skip: int
    dialect: Dialect

    @property
    def _packed(self) -> bool:
        return self.file.size is None or self.file.path.lower().endswith(".zst")

    @property
    def joined(self) -> int:
        """Of a compressed file, which is read from its start each time, more than one."""
        return 8 if self._packed else 1

    def spans(self, blocksize: int) -> list[Any]:
        """Return ranges of bytes, and whether each starts inside quotes; one for a compressed file.

        Costs: the file is read once, to count quotes.
        """
        if self._packed or self.file.size is None:
            return [blocksize]
        ranges = split_evenly(self.file.size, blocksize)
        count = dask.delayed(self._count_quotes, pure=False)
        counts = compute_now([count(*span) for span in ranges])
        before = np.cumsum([0, *counts])[:-1] % 2 == 1
        return [(*span, bool(inside)) for span, inside in zip(ranges, before, strict=True)]

    def tables(
        self, span: Any, columns: Sequence[str], types: Types, most: int
    ) -> Iterator[tuple[Span, pa.Table]]:
        """Yield whole rows of a range, or of the whole file in steps if it is compressed."""
        texts = self._stream(span) if isinstance(span, int) else [self._rows_in_range(*span)]
        for start, text in texts:
            if start < self.skip:
                text, start = text[self.skip - start :], self.skip
            where = (start, start + len(text))
            yield where, self._parse(where, text, columns, types, most)

    def read(
        self, spans: Sequence[Span], columns: Sequence[str], types: Types, most: int
    ) -> Iterator[pa.Table]:
        """Yield the rows of ranges of bytes."""
        for span, text in zip(spans, self._texts(spans), strict=True):
            yield self._parse(span, text, columns, types, most)

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell, with its line and the text of it."""
        (text,) = self._texts([span])
        return self._error_at(span[0] + int(_row_starts(text)[cell.row]), told_cell(cell))

    def _error_at(self, offset: int, reason: str) -> TableError:
        """Return an error with the line of a byte; what is before is read again."""
        line, tail, position = 1, b"", 0
        with self._open() as stream:
            while position < offset and (chunk := stream.read(min(_STEP, offset - position))):
                line += chunk.count(b"\n")
                position += len(chunk)
                tail = (tail + chunk)[-200:]
            more = stream.read(400)
        shown = tail.rpartition(b"\n")[2] + more.partition(b"\n")[0]
        return TableError(self.name, reason, line, shown[:400])

    # Text of the file: whole rows

    @contextmanager
    def _open(self) -> Iterator[Any]:
        if self.file.path.lower().endswith(".zst"):  # fsspec may not know it, Arrow does
            with self.file.fs.open(self.file.path, "rb") as raw:
                yield pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
            return
        with OpenFile(self.file.fs, self.file.path, compression="infer") as stream:
            yield stream

    def _count_quotes(self, start: int, stop: int) -> int:
        count = 0
        with self.file.fs.open(self.file.path, "rb") as stream:
            stream.seek(start)
            while start < stop and (chunk := stream.read(min(_STEP, stop - start))):
                count += chunk.count(b'"')
                start += len(chunk)
        return count

    def _rows_in_range(self, start: int, stop: int, quoted: bool) -> tuple[int, bytes]:
        """Return the rows that start in a range, each to its end, and where the first starts."""
        base = max(start - 1, 0)
        with self.file.fs.open(self.file.path, "rb") as stream:
            stream.seek(base)
            text = bytes(stream.read(stop - base))
            inside = quoted ^ (text.count(b'"', start - base) % 2 == 1)
            # the byte before the range tells whether a row starts right at its border
            before = quoted ^ (text[: start - base] == b'"')
            skipped = 0 if start == 0 else _first_end(text, before)
            text = text[skipped:]
            if text and (inside or not text.endswith(b"\n")):
                text += _rest_of_row(stream, inside)
        return base + skipped, text

    def _stream(self, blocksize: int) -> Iterator[tuple[int, bytes]]:
        """Yield whole rows of a compressed file, about `blocksize` bytes at a time."""
        position, held, lines = 0, b"", 0
        parts: list[bytes] = []
        size = 0
        try:
            with self._open() as stream:
                while chunk := stream.read(min(blocksize, _STEP)):
                    parts.append(chunk)
                    size += len(chunk)
                    lines += chunk.count(b"\n")
                    if len(held) + size < blocksize:
                        continue
                    held = b"".join([held, *parts])
                    parts, size = [], 0
                    if stop := _last_end(held):
                        yield position, held[:stop]
                        position, held = position + stop, held[stop:]
                    elif len(held) > blocksize + _LONGEST_ROW:
                        break
        except FileNotFoundError:
            raise
        except BROKEN as error:
            told = str(error) or type(error).__name__
            reason = f"is damaged or cut short after line {lines}: {told}"
            raise TableError(self.name, reason) from error
        if held := b"".join([held, *parts]):
            yield position, held

    def _texts(self, spans: Sequence[Span]) -> Iterator[bytes]:
        """Yield the text of ranges of bytes, in rising order."""
        if not self._packed:
            for span in spans:
                yield self.file.read_exactly(*span)
            return
        position = 0
        with self.told(), self._open() as stream:
            for start, stop in spans:
                while position < start and (chunk := stream.read(min(_STEP, start - position))):
                    position += len(chunk)
                parts: list[bytes] = []
                while position < stop and (chunk := stream.read(stop - position)):
                    parts.append(chunk)
                    position += len(chunk)
                yield b"".join(parts)

    # Text to columns

    def _parse(
        self, span: Span, text: bytes, columns: Sequence[str], types: Types, most: int
    ) -> pa.Table:
        """Return columns of whole rows; raise TableError with the line of what is wrong."""
        try:
            _check_quotes(text, self.dialect.delimiter)
        except _BadTextError as error:
            raise self._error_at(span[0] + error.offset, error.reason) from None
        wanted = [name for name in columns if name in self.fields]
        try:
            table = self._fields(span, text, wanted, types, most)
            found = {field.name: field.type for field in table.schema if field.name not in types}
            if odd := {name: WORDS for name, type in found.items() if not _is_plain(type)}:
                table = self._fields(span, text, wanted, {**types, **odd}, most)
        except pa.ArrowInvalid as error:
            raise self._explained(span, text, wanted, types, error) from None
        return self._whole(table, columns)

    def _fields(
        self,
        span: Span,
        text: bytes,
        wanted: list[str],
        types: Types,
        most: int,
        use_threads: bool = True,
    ) -> pa.Table:
        if not text.lstrip(b"\r\n"):  # which Arrow refuses
            return pa.table({name: pa.nulls(0) for name in wanted})
        try:
            return pyarrow.csv.read_csv(
                pa.BufferReader(text),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.fields,
                    use_threads=use_threads and self._packed,  # else pieces run in parallel
                    block_size=len(text) + 1,
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    newlines_in_values=True,
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict(types),
                    include_columns=wanted,
                    null_values=["", *self.dialect.null_values],
                    strings_can_be_null=True,
                    true_values=[],  # booleans are words, as they are written
                    false_values=[],
                    auto_dict_encode=True,
                    auto_dict_max_cardinality=most,
                ),
            )
        except pa.ArrowInvalid as error:
            # A handler of invalid rows would tell more, but fails on text that is not UTF-8.
            found = _WRONG_COUNT.search(str(error))
            if found is None:
                raise
        if found["row"] is None:  # as threads do not number rows
            return self._fields(span, text, wanted, types, most, use_threads=False)
        starts = _row_starts(text)
        row = min(int(found["row"]), len(starts)) - 1
        reason = f"has {found['got']} fields, wanted {len(self.fields)}"
        raise self._error_at(span[0] + int(starts[row]), reason)

    def _explained(
        self, span: Span, text: bytes, wanted: list[str], types: Types, error: pa.ArrowInvalid
    ) -> TableError:
        """Find the first cell that is not of the type that it has to be."""
        raw = self._fields(span, text, wanted, dict.fromkeys(wanted, pa.binary()), 0)
        cells: list[CellError] = []
        for name in wanted:
            column = whole(raw.column(name))
            try:
                _check_cells(column, name, types.get(name), self.dialect.null_values)
            except CellError as cell:
                cells.append(cell)
        if not cells:
            return TableError(self.name, f"cannot be read as csv: {error}")
        return self.error(span, min(cells, key=lambda cell: cell.row))


def read_first_row(file: TextFile) -> tuple[bytes, int]:
    """Return the first row of a csv file that is not empty, and where it starts."""
    csv_file = CsvFile(file, (), (), (), 0, Dialect())
    head = b""
    with csv_file.told(), csv_file._open() as stream:
        while len(head) < _LONGEST_ROW and _first_end(head.lstrip(b"\r\n"), False) == len(
            head.lstrip(b"\r\n")
        ):
            chunk = stream.read(1 << 16)
            if not chunk:
                break
            head += bytes(chunk)
    start = len(_MARK) if head.startswith(_MARK) else 0
    start += len(head[start:]) - len(head[start:].lstrip(b"\r\n"))
    stop = _first_end(head[start:], False)
    if stop == 0:
        raise TableError(file.name, "has no data rows")
    return head[start : start + stop], start


def read_fields(row: str, delimiter: str) -> list[str]:
    """Return the fields of one row."""
    return next(csv.reader(io.StringIO(row, newline=""), delimiter=delimiter, strict=True), [])


def _is_plain(type: pa.DataType) -> bool:
    """Tell whether a type that Arrow found is one that the encoder takes."""
    types = pa.types
    if types.is_dictionary(type):
        type = type.value_type
    return not (types.is_time(type) or types.is_binary(type) or types.is_large_binary(type))


def _check_cells(
    column: pa.Array, name: str, type: pa.DataType | None, null_values: Sequence[str]
) -> None:
    """Raise CellError for the first cell of raw text that is not of a type."""
    try:
        words = column.cast(pa.string())
    except pa.ArrowInvalid:
        row = next(i for i, raw in enumerate(column.to_pylist()) if raw and not _is_utf8(raw))
        shown = repr(column[row].as_py()[:40])[1:]
        raise CellError(row, name, f"holds {shown}, wanted text in UTF-8") from None
    if type == pa.float64():
        numbers_of(words, name, null_values)
    elif type is not None and pa.types.is_timestamp(type):
        numbers_of(words, name, null_values, "date")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check_quotes(text: bytes, delimiter: str) -> None:
    """Refuse quotes in wrong places: with them, nobody can tell where rows end."""
    if b'"' not in text:
        return
    array = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(array == _QUOTE)
    # every other quote opens a field; a doubled one closes it and opens it again
    opening, closing = quotes[0::2], quotes[1::2]
    edges = np.array([ord(delimiter), _FEED, _RETURN, _QUOTE], np.uint8)
    bad_open = opening[(opening > 0) & ~np.isin(array[opening - 1], edges)]
    after = np.minimum(closing + 1, len(array) - 1)
    bad_close = closing[(closing + 1 < len(array)) & ~np.isin(array[after], edges)]
    if len(bad_open) and (not len(bad_close) or bad_open[0] < bad_close[0]):
        raise _BadTextError(
            int(bad_open[0]), "has a quote inside a field that does not start with one"
        )
    if len(bad_close):
        raise _BadTextError(int(bad_close[0]), "has something behind the closing quote of a field")
    if len(quotes) % 2:
        raise _BadTextError(int(quotes[-1]), "has a quoted field that does not end")


def _row_ends(text: bytes, quoted: bool) -> np.ndarray:
    """Return where the rows of a text end, their line ends included."""
    array = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(array == _FEED) + 1
    if quoted or b'"' in text:
        quotes = np.flatnonzero(array == _QUOTE)
        ends = ends[np.searchsorted(quotes, ends) % 2 == int(quoted)]
    return ends


def _row_starts(text: bytes) -> np.ndarray:
    """Return where the rows of a text start; lines without anything in them are none.

    To Arrow, a return ends a row even if no line feed follows.
    """
    ends = _row_ends(text.replace(b"\r", b"\n"), False)
    starts = np.concatenate([[0], ends])
    stops = np.append(ends, len(text))
    filled = [bool(text[a:b].strip(b"\r\n")) for a, b in zip(starts, stops, strict=True)]
    return starts[filled]


def _first_end(text: bytes, quoted: bool) -> int:
    """Return where the first row of a text ends; its end if no row does."""
    if not quoted and b'"' not in text:
        return text.find(b"\n") + 1 or len(text)
    ends = _row_ends(text, quoted)
    return int(ends[0]) if len(ends) else len(text)


def _last_end(text: bytes) -> int:
    """Return where the last whole row of a text ends; 0 if it holds none."""
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    ends = _row_ends(text, False)
    return int(ends[-1]) if len(ends) else 0


def _rest_of_row(stream: Any, quoted: bool) -> bytes:
    """Read on to the end of the row (included) or of the file."""
    parts: list[bytes] = []
    while len(parts) << 16 < _LONGEST_ROW and (chunk := stream.read(1 << 16)):
        ends = _row_ends(chunk, quoted)
        if len(ends):
            parts.append(chunk[: int(ends[0])])
            break
        parts.append(chunk)
        quoted ^= chunk.count(b'"') % 2 == 1
    return b"".join(parts)
