"""The first pass over tables: rows, kinds of columns, categories, ranges, and every mistake."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dask
import numpy as np

from dask_s3vm.features.table_columns import MISSING, Moments, moments_of
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.fields import (
    BadRowError,
    Fields,
    Words,
    cut,
    find_distinct,
    look_up,
    make_words,
    missing_words,
    numbers_of,
)
from dask_s3vm.io.sources import TextFile, split_evenly
from dask_s3vm.io.table_text import blocks_of_stream, count_quotes, line_at, rows_in_range

__all__ = ["Column", "Note", "Piece", "Shape", "first_place", "locate_error", "look_through"]


@dataclass(frozen=True)
class Column:
    """One column of a file, and what it is looked at for.

    Attributes
    ----------
    name : str
        What errors call it.
    position : int
        Its number among the fields of a row.
    role : {"any", "number", "words"}
        "number": anything else is a mistake; "words": categories; "any": to be found out.
    known : tuple of str or None
        All words that are known; others are counted, not kept.
    optional : bool
        Whether a file may be without it; its position is -1 there.
    """

    name: str
    position: int
    role: str
    known: tuple[str, ...] | None = None
    optional: bool = False


@dataclass(frozen=True)
class Shape:
    """What all rows of one file have in common.

    Attributes
    ----------
    n_fields : int
        Fields of a row.
    delimiter : str
        What stands between them.
    skip : int
        Bytes before the first row: a header, and the mark that some editors put first.
    columns : tuple of Column
        The columns to look at.
    most : int
        Most words to keep of a column.
    """

    n_fields: int
    delimiter: str
    skip: int
    columns: tuple[Column, ...]
    most: int


@dataclass(frozen=True)
class Note:
    """What one column of some rows holds.

    Attributes
    ----------
    moments : Moments or None
        Of its numbers; None if some field is no number.
    words : tuple of str or None
        Its distinct fields, missing ones left out; None if there are too many.
    wrong : int or None
        Where the row starts whose field is the first that is no number, or not known.
    gap : int or None
        Where the row starts whose field is the first missing one.
    unknown : int
        Fields that are not among the known words.
    """

    moments: Moments | None = None
    words: tuple[str, ...] | None = None
    wrong: int | None = None
    gap: int | None = None
    unknown: int = 0


@dataclass(frozen=True)
class Piece:
    """Whole rows of one file, and what they hold."""

    start: int
    stop: int
    rows: int
    notes: tuple[Note, ...] = field(compare=False, repr=False)


def locate_error(file: TextFile, offset: int, reason: str) -> TableError:
    """Return an error with the line number and the text of the row at byte `offset` of a file."""
    line, text = line_at(file, offset)
    return TableError(file.name, reason, line, text)


def look_through(
    files: Sequence[TextFile], shapes: Sequence[Shape], blocksize: int
) -> list[list[Piece]]:
    """Look through all files, in parallel on the user's scheduler.

    Returns
    -------
    list of list of Piece
        For each file its pieces that have rows, at least one.

    Raises
    ------
    TableError
        For the first row of the first file that cannot be cut into fields; if a file has no rows.
    """
    owners: list[int] = []
    tasks = []
    look = dask.delayed(_look, pure=False)
    for number, (file, shape) in enumerate(zip(files, shapes, strict=True)):
        spans = [(0, 0, False)] if file.size is None else _spans(file, blocksize)
        owners += [number] * len(spans)
        tasks += [look(file, span, shape, blocksize) for span in spans]
    pieces: list[list[Piece]] = [[] for _ in files]
    # Mistakes come back as values: so the first in the files is reported, not the first found.
    for number, found in zip(owners, dask.compute(*tasks), strict=True):
        if isinstance(found, TableError):
            raise found
        pieces[number] += [piece for piece in found if piece.rows]
    for file, group in zip(files, pieces, strict=True):
        if not group:
            raise TableError(file.name, "has no data rows")
    return pieces


def _spans(file: TextFile, blocksize: int) -> list[tuple[int, int, bool]]:
    """Ranges of a plain file, and whether each starts inside quotes."""
    assert file.size is not None, "only plain files are read in ranges"
    ranges = split_evenly(file.size, blocksize)
    count = dask.delayed(count_quotes, pure=False)
    counts = dask.compute(*(count(file, *span) for span in ranges))
    before = np.cumsum([0, *counts])[:-1] % 2 == 1
    return [(*span, bool(inside)) for span, inside in zip(ranges, before, strict=True)]


def _look(
    file: TextFile, span: tuple[int, int, bool], shape: Shape, blocksize: int
) -> list[Piece] | TableError:
    """Look through a range of a file, or through all of it in steps if ranges are impossible."""
    try:
        return [_look_at(file, start, text, shape) for start, text in _texts(file, span, blocksize)]
    except TableError as error:
        return error


def _texts(
    file: TextFile, span: tuple[int, int, bool], blocksize: int
) -> Iterator[tuple[int, bytes]]:
    if file.size is None:
        yield from blocks_of_stream(file, blocksize)
    else:
        yield rows_in_range(file, *span)


def _look_at(file: TextFile, start: int, text: bytes, shape: Shape) -> Piece:
    """Note what the rows of `text` hold, which begins at byte `start` of the file."""
    if start < shape.skip:
        text, start = text[shape.skip - start :], shape.skip
    try:
        fields = cut(text, shape.n_fields, shape.delimiter)
    except BadRowError as error:
        raise locate_error(file, start + error.start, error.reason) from None
    missing = missing_words()
    notes = tuple(_note(fields, column, missing, shape.most, start) for column in shape.columns)
    return Piece(start, start + len(text), len(fields.starts), notes)


def _note(fields: Fields, column: Column, missing: Words, most: int, base: int) -> Note:
    def place(row: int) -> int | None:
        return None if row < 0 else base + int(fields.starts[row, 0])

    where = column.position
    if where < 0:
        return Note(words=())
    starts, stops = fields.starts[:, where], fields.stops[:, where]
    if column.known is not None:
        codes = look_up(fields.text, starts, stops, make_words(column.known))
        gaps = look_up(fields.text, starts, stops, missing) >= 0
        strange = (codes < 0) & ~gaps
        wrong, gap = _first(strange), _first(gaps)
        return Note(wrong=place(wrong), gap=place(gap), unknown=int(strange.sum()))
    moments, wrong, gap = None, -1, -1
    if column.role != "words":
        values, wrong, gap = numbers_of(fields, where, missing)
        moments = moments_of(values) if wrong < 0 else None
    if column.role == "number":
        return Note(moments, wrong=place(wrong), gap=place(gap))
    rows = find_distinct(fields.text, starts, stops, most + len(MISSING))
    held = [fields.word(row, where) for row in rows.tolist()]
    words = tuple(word for word in held if word not in MISSING)
    if column.role == "words":
        first = [row for row, word in zip(rows.tolist(), held, strict=True) if word in MISSING]
        gap = min(first, default=-1)
    return Note(moments, words if len(words) <= most else None, place(wrong), place(gap))


def _first(flags: np.ndarray) -> int:
    return int(flags.argmax()) if flags.any() else -1


def first_place(
    pieces: Sequence[Sequence[Piece]], column: int, which: Callable[[Note], Any]
) -> tuple[int, int] | None:
    """Return file and byte of the first row for which a column's note names one."""
    for number, group in enumerate(pieces):
        for piece in group:
            if (offset := which(piece.notes[column])) is not None:
                return number, offset
    return None
