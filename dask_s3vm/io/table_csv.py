"""Files of csv text, cut into pieces of whole rows; ``pyarrow.csv`` reads their fields.

A range of bytes can be cut into rows if the number of quotes before it is known.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dask_s3vm.features.table_columns import CellError, numbers_of, whole
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import (
    LONGEST_ROW,
    DataFile,
    attempt_all,
    first_end,
    row_ends,
    split_evenly,
)
from dask_s3vm.io.table_files import WORDS, Look, Span, TableFile, Types, told_cell, told_table

__all__ = ["CsvFile", "read_fields", "read_first_row"]

_QUOTE, _FEED, _RETURN = b'"\n\r'
# What Arrow says about a row with another number of fields.
_WRONG_COUNT = re.compile(
    r"CSV parse error: Row #(?P<row>\d+): Expected \d+ columns, got (?P<got>\d+)"
)
_MARK = b"\xef\xbb\xbf"  # some editors start a file with it


@dataclass(frozen=True)
class CsvFile(TableFile):
    """A csv file, plain or compressed.

    Attributes
    ----------
    fields : tuple of str
        Columns of the file itself, one for each field of a row.
    skip : int
        Bytes before the first row of data.
    delimiter : str
        One character.
    null_values : tuple of str
        Words, besides the empty one, for missing values.
    """

    fields: tuple[str, ...]
    skip: int
    delimiter: str = ","
    null_values: tuple[str, ...] = ()

    def spans(self, length: int, blocksize: int) -> list[Any]:
        """Return ranges of bytes, and whether each starts inside quotes.

        Costs: where there are several ranges, the file is read once, to count quotes.
        """
        ranges = split_evenly(length, blocksize)
        counts = attempt_all([(self.count_quotes, span) for span in ranges[:-1]])
        before = np.cumsum([0, *counts]) % 2 == 1
        return [(*span, bool(inside)) for span, inside in zip(ranges, before, strict=False)]

    def count_quotes(self, span: Span) -> int:
        """Return the number of quotes in a range."""
        with self.told():
            return self.file.count(b'"', *span)

    def look(self, span: Any, columns: Sequence[str], types: Types, most: int) -> Look:
        """Return the rows that start in a range."""
        with self.told():
            start, text = self.file.read_rows(*span)
        if start < self.skip:
            text, start = text[self.skip - start :], self.skip
        where = (start, start + len(text))
        return where, self._parse(where, text, columns, types, most)

    def read(
        self, span: Span, columns: Sequence[str], types: Types, most: int, pieces: int = 0
    ) -> pa.Table:
        """Return the rows of a range that holds whole rows."""
        with self.told():
            text = self.file.read_piece(*span, pieces)
        return self._parse(span, text, columns, types, most)

    def error(self, span: Span, cell: CellError) -> TableError:
        """Return the error of a cell, with its line and the text of it."""
        with self.told():
            starts = _row_starts(self.file.read(*span))
        return self._error_at(span[0] + int(starts[cell.row]), told_cell(cell))

    def _error_at(self, offset: int, reason: str) -> TableError:
        """Return an error with the line of a byte; what is before is read again."""
        first = max(offset - 200, 0)
        with self.told():
            shown = self.file.read(first, offset + 400)
            line = self.file.count(b"\n", 0, offset) + 1
        tail, more = shown[: offset - first], shown[offset - first :]
        shown = tail.rpartition(b"\n")[2] + more.partition(b"\n")[0]
        return TableError(self.name, reason, line, shown[:400])

    # Text to columns

    def _parse(
        self, span: Span, text: bytes, columns: Sequence[str], types: Types, most: int
    ) -> pa.Table:
        """Return columns of whole rows; raise TableError with the line of what is wrong."""
        if (wrong := _wrong_quote(text, self.delimiter)) is not None:
            offset, reason = wrong
            raise self._error_at(span[0] + offset, reason)
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
        self, span: Span, text: bytes, wanted: list[str], types: Types, most: int
    ) -> pa.Table:
        if not text.lstrip(b"\r\n"):  # which Arrow refuses
            return pa.table({name: pa.nulls(0) for name in wanted})
        try:
            return pyarrow.csv.read_csv(
                pa.BufferReader(text),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.fields,
                    use_threads=False,  # pieces run in parallel
                    block_size=len(text) + 1,
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=True,
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict(types),
                    include_columns=wanted,
                    null_values=["", *self.null_values],
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
                _check_cells(column, name, types.get(name), self.null_values)
            except CellError as cell:
                cells.append(cell)
        if not cells:
            return TableError(self.name, f"cannot be read as csv: {error}")
        return self.error(span, min(cells, key=lambda cell: cell.row))


def read_first_row(file: DataFile) -> tuple[bytes, int]:
    """Return the first row of a csv file that is not empty, and where it starts."""
    head = b""
    with told_table(file.name), file.opened() as stream:
        while len(head) < LONGEST_ROW and first_end(head.lstrip(b"\r\n"), False) == len(
            head.lstrip(b"\r\n")
        ):
            chunk = stream.read(1 << 16)
            if not chunk:
                break
            head += bytes(chunk)
    start = len(_MARK) if head.startswith(_MARK) else 0
    start += len(head[start:]) - len(head[start:].lstrip(b"\r\n"))
    stop = first_end(head[start:], False)
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
        cells = [raw or b"" for raw in column.to_pylist()]
        row = next(i for i, raw in enumerate(cells) if raw != raw.decode(errors="ignore").encode())
        shown = repr(cells[row][:40])[1:]
        raise CellError(row, name, f"holds {shown}, wanted text in UTF-8") from None
    if type == pa.float64():
        numbers_of(words, name, null_values)
    elif type is not None and pa.types.is_timestamp(type):
        numbers_of(words, name, null_values, "date")


def _wrong_quote(text: bytes, delimiter: str) -> tuple[int, str] | None:
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
