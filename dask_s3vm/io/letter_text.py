"""Rows of letters in text files."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dask_s3vm.features.table_columns import CellError, whole
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import TextFile
from dask_s3vm.io.table_csv import CsvFile, Dialect, read_first_row

__all__ = ["letters_of_text"]

_FIRST, _CASE = ord("A"), ord("a") - ord("A")
_LETTERS = 26
_BYTES_PER_ROW = 32


def letters_of_text(
    file: TextFile, block_rows: int
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield letters of text as numbers, A = 0 to Z = 25 in either case, and labels if there are.

    Blocks are cut by bytes, as if rows had 32 of them; all rows have as many letters as the first.
    """
    first, _ = read_first_row(file)
    words = first.split()
    if len(words) not in (1, 2):
        reason = f"has {len(words)} words, wanted letters and perhaps a label"
        raise TableError(file.name, reason, 1, first)
    places = len(words[0])
    fields = ("letters", "label")[: len(words)]
    rows = CsvFile(file, fields, (), fields, 0, Dialect(" "))
    types = {"letters": pa.binary(), "label": pa.int64()}
    for span in rows.spans(block_rows * _BYTES_PER_ROW):
        for where, table in rows.tables(span, fields, types, 0):
            if not table.num_rows:
                continue
            try:
                letters = _letters(whole(table.column("letters")), places)
                labels = _labels(whole(table.column("label"))) if len(fields) == 2 else None
            except CellError as error:
                raise rows.error(where, error) from None
            yield letters, labels


def _letters(column: pa.Array, places: int) -> np.ndarray:
    column = column.fill_null(b"")
    lengths = pc.binary_length(column).to_numpy()
    wrong = lengths != places
    if wrong.any():
        row = int(wrong.argmax())
        raise CellError(row, "letters", f"has {int(lengths[row])} letters, wanted {places}")
    text = b"".join(column.to_pylist())
    letters = np.frombuffer(text, np.uint8).reshape(-1, places).astype(np.int16)
    codes = letters - np.where(letters >= _FIRST + _CASE, _FIRST + _CASE, _FIRST)
    strange = ((codes < 0) | (codes >= _LETTERS)).any(axis=1)
    if strange.any():
        raise CellError(int(strange.argmax()), "letters", "has a character other than A-Z")
    return codes


def _labels(column: pa.Array) -> np.ndarray:
    if column.null_count:
        row = int(np.asarray(column.is_null()).argmax())
        raise CellError(row, "label", "holds nothing, wanted a whole number")
    return column.to_numpy()
