"""The first pass over svmlight files: where the rows are, and whether each is in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import numpy as np

from dask_s3vm.io.errors import SvmlightError
from dask_s3vm.io.packed import count_packed_lines
from dask_s3vm.io.scan import BadLineError, Summary, summarize
from dask_s3vm.io.sources import TextFile, split_evenly

__all__ = ["Piece", "look_through"]


@dataclass(frozen=True)
class Piece:
    """Whole lines of one file, and what they hold.

    Attributes
    ----------
    start, stop : int
        Where the lines stand in the (decompressed) text of the file.
    summary : Summary
        Rows, columns, kind of labels, entries.
    """

    start: int
    stop: int
    summary: Summary


def look_through(
    files: list[TextFile], blocksize: int, first_column: int, dtype: np.dtype
) -> list[list[Piece]]:
    """Look through all files, in parallel on the user's scheduler.

    Parameters
    ----------
    files : list of TextFile
        The files.
    blocksize : int
        Bytes of text in one piece, at most (but for the end of its last line).
    first_column : int
        The smallest column number allowed, 0 or 1.
    dtype : dtype
        The type that values must fit.

    Returns
    -------
    list of list of Piece
        For each file its pieces that have rows, at least one.

    Raises
    ------
    SvmlightError
        For the first line of the first file that breaks a rule, or if a file has no rows.
    """
    owners: list[int] = []
    tasks = []
    look = dask.delayed(_look, pure=False)
    for number, file in enumerate(files):
        ranges = [(0, 0)] if file.size is None else split_evenly(file.size, blocksize)
        owners += [number] * len(ranges)
        tasks += [look(file, span, blocksize, first_column, dtype) for span in ranges]
    pieces: list[list[Piece]] = [[] for _ in files]
    # Mistakes come back as values: so the first in the files is reported, not the first found.
    for number, found in zip(owners, dask.compute(*tasks), strict=True):
        if isinstance(found, SvmlightError):
            raise found
        pieces[number] += [piece for piece in found if piece.summary.rows]
    for file, group in zip(files, pieces, strict=True):
        if not group:
            raise SvmlightError(file.name, "has no data rows")
    return pieces


def _look(
    file: TextFile, span: tuple[int, int], blocksize: int, first_column: int, dtype: np.dtype
) -> list[Piece] | SvmlightError:
    """Look through a range of a file, or through all of it in steps if ranges are impossible."""
    try:
        if file.size is not None:
            start, text = file.read_lines(*span)
            return [_look_at_lines(file, start, text, first_column, dtype)]
        with file.decompressed() as stream:
            return [
                _look_at_lines(file, start, text, first_column, dtype)
                for start, text in _whole_lines(stream, blocksize)
            ]
    except SvmlightError as error:
        return error


def _whole_lines(stream: Any, size: int) -> Iterator[tuple[int, bytes]]:
    """Cut a stream into whole lines of about `size` bytes together, and say where they start."""
    start, text = 0, b""
    while chunk := stream.read(size):
        text += chunk
        end = text.rfind(b"\n") + 1
        if end and len(text) >= size:
            yield start, text[:end]
            start, text = start + end, text[end:]
    if text:
        yield start, text


def _look_at_lines(
    file: TextFile, start: int, text: bytes, first_column: int, dtype: np.dtype
) -> Piece:
    """Summarize whole lines, which begin at byte `start` of the file."""
    lines = file.labeled_lines(text)
    try:
        summary = summarize(lines, first_column, dtype)
    except BadLineError as error:
        # Line numbers cost a look at all text before, so they are counted for a mistake only.
        before = file.count_lines if file.size is not None else partial(count_packed_lines, file)
        line = before(start) + lines.count(b"\n", 0, error.start) + 1
        wrong = lines[error.start :].split(b"\n", 1)[0]
        raise SvmlightError(file.name, error.reason, line, wrong[:200]) from None
    return Piece(start, start + len(text), summary)
