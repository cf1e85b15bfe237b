"""Rows of letters in text files."""

from collections.abc import Iterator

import numpy as np

from dask_s3vm.io.errors import TableError
from dask_s3vm.io.fields import BadRowError, Fields, cut, missing_words, numbers_of
from dask_s3vm.io.sources import TextFile
from dask_s3vm.io.table_survey import locate_error
from dask_s3vm.io.table_text import blocks_of_stream

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
    n_fields = places = 0
    for start, text in blocks_of_stream(file, block_rows * _BYTES_PER_ROW):
        if not n_fields:
            n_fields = len(text.split(b"\n", 1)[0].split())
            if n_fields not in (1, 2):
                raise TableError(
                    file.name, f"has {n_fields} words, wanted letters and perhaps a label", 1, text
                )
        try:
            fields = cut(text, n_fields, " ")
        except BadRowError as error:
            raise locate_error(file, start + error.start, error.reason) from None
        if not len(fields.starts):
            continue
        places = places or int(fields.stops[0, 0] - fields.starts[0, 0])
        yield _letters(file, fields, places, start), _labels(file, fields, start)


def _letters(file: TextFile, fields: Fields, places: int, start: int) -> np.ndarray:
    starts, lengths = fields.starts[:, 0], fields.stops[:, 0] - fields.starts[:, 0]
    wrong = lengths != places
    if wrong.any():
        row = int(wrong.argmax())
        reason = f"has {int(lengths[row])} letters, wanted {places}"
        raise locate_error(file, start + int(starts[row]), reason)
    letters = fields.text[starts[:, np.newaxis] + np.arange(places)].astype(np.int16)
    codes = letters - np.where(letters >= _FIRST + _CASE, _FIRST + _CASE, _FIRST)
    strange = ((codes < 0) | (codes >= _LETTERS)).any(axis=1)
    if strange.any():
        row = int(strange.argmax())
        raise locate_error(file, start + int(starts[row]), "has a character other than A-Z")
    return codes


def _labels(file: TextFile, fields: Fields, start: int) -> np.ndarray | None:
    if fields.starts.shape[1] == 1:
        return None
    numbers, wrong, gap = numbers_of(fields, 1, missing_words())
    odd = np.flatnonzero(numbers % 1 != 0)
    bad = [row for row in (wrong, gap, *odd[:1].tolist()) if row >= 0]
    if bad:
        place = start + int(fields.starts[min(bad), 0])
        raise locate_error(file, place, "the label is not a whole number")
    return numbers.astype(np.int64)
