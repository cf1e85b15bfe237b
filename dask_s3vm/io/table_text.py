"""Whole rows out of text files in which a quoted field may hold line ends.

A line end ends a row where the number of quotes before it is even (a doubled quote inside a field
counts two). So a range of a file can be cut into rows if it is known whether it starts inside
quotes. Plain files are read in ranges; compressed ones as a stream, of which never more than a
block is held.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from fsspec.core import OpenFile  # type: ignore[import-untyped]

from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import TextFile
from dask_s3vm.numerics.compiler import kernel

__all__ = [
    "BROKEN",
    "blocks_of_stream",
    "count_quotes",
    "first_row",
    "line_at",
    "read_spans",
    "rows_in_range",
]

_STEP = 1 << 20
# A longer row is a quote that was never closed: reading on would bring in the whole file.
_LONGEST_ROW = 1 << 26
_QUOTE, _FEED = 34, 10
#: How reading a damaged file can end.
BROKEN = (OSError, EOFError, zlib.error)


def count_quotes(file: TextFile, start: int, stop: int) -> int:
    """Return the number of quotes in a range of a plain file."""
    count = 0
    with file.fs.open(file.path, "rb") as stream:
        stream.seek(start)
        while start < stop and (chunk := stream.read(min(_STEP, stop - start))):
            count += chunk.count(b'"')
            start += len(chunk)
    return count


def rows_in_range(file: TextFile, start: int, stop: int, quoted: bool) -> tuple[int, bytes]:
    """Return the rows that start in a range of a plain file, each of them to its end.

    Parameters
    ----------
    file : TextFile
        The file.
    start, stop : int
        The range of bytes.
    quoted : bool
        Whether the range starts inside quotes.

    Returns
    -------
    first : int
        Where the first of the rows starts.
    text : bytes
        The rows; empty if none starts in the range.
    """
    base = max(start - 1, 0)
    with file.fs.open(file.path, "rb") as stream:
        stream.seek(base)
        text = bytes(stream.read(stop - base))
        flips = text.count(b'"', start - base) % 2 == 1
        # The byte before the range tells whether a row starts right at its border.
        before = quoted ^ (text[: start - base] == b'"')
        skipped = 0 if start == 0 else _after_row(np.frombuffer(text, np.uint8), 0, before)
        text = text[skipped:]
        inside = quoted ^ flips
        if text and (inside or not text.endswith(b"\n")):
            text += _rest_of_row(stream, inside)
    return base + skipped, text


def blocks_of_stream(file: TextFile, blocksize: int) -> Iterator[tuple[int, bytes]]:
    """Yield whole rows of a compressed file, about `blocksize` bytes at a time, and their start."""
    position, held = 0, b""
    lines = 0
    try:
        with OpenFile(file.fs, file.path, compression="infer") as stream:
            while chunk := stream.read(min(blocksize, _STEP)):
                held += chunk
                lines += chunk.count(b"\n")
                if len(held) < blocksize:
                    continue
                stop = _last_row_end(np.frombuffer(held, np.uint8))
                if stop:
                    yield position, held[:stop]
                    position, held = position + stop, held[stop:]
                elif len(held) > blocksize + _LONGEST_ROW:
                    break
    except BROKEN as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise TableError(
            file.name, f"is damaged or cut short after line {lines}: {_told(error)}"
        ) from error
    if held:
        yield position, held


def read_spans(file: TextFile, spans: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Yield ranges of a compressed file's text, in rising order; what is before is not kept."""
    position = 0
    try:
        with OpenFile(file.fs, file.path, compression="infer") as stream:
            for start, stop in spans:
                while position < start and (chunk := stream.read(min(_STEP, start - position))):
                    position += len(chunk)
                parts: list[bytes] = []
                while position < stop and (chunk := stream.read(stop - position)):
                    parts.append(chunk)
                    position += len(chunk)
                yield b"".join(parts)
    except BROKEN as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise TableError(file.name, f"cannot be read: {_told(error)}") from error


def first_row(text: bytes) -> int:
    """Return where the first row of a text ends, its line end included; the end if it does not."""
    return int(_after_row(np.frombuffer(text, np.uint8), 0, False))


def line_at(file: TextFile, offset: int) -> tuple[int, bytes]:
    """Return the number of the line that byte `offset` of the text is in, and its text.

    The text before is read again: for a mistake only.
    """
    line, tail = 1, b""
    position = 0
    with OpenFile(file.fs, file.path, compression="infer") as stream:
        while position < offset and (chunk := stream.read(min(_STEP, offset - position))):
            line += chunk.count(b"\n")
            position += len(chunk)
            tail = (tail + chunk)[-200:]
        try:
            more = stream.read(400)
        except BROKEN:
            more = b""
    before = tail.rpartition(b"\n")[2]
    return line, (before + more.partition(b"\n")[0])[:400]


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _rest_of_row(stream: Any, quoted: bool) -> bytes:
    """Read on to the end of the row (included) or of the file."""
    parts: list[bytes] = []
    while len(parts) << 16 < _LONGEST_ROW and (chunk := stream.read(1 << 16)):
        array = np.frombuffer(chunk, np.uint8)
        end = _after_row(array, 0, quoted)
        parts.append(chunk[:end])
        if end < len(chunk) or _ends_row(array, quoted):
            break
        quoted ^= chunk.count(b'"') % 2 == 1
    return b"".join(parts)


@kernel
def _after_row(text: Any, pos: int, quoted: bool) -> int:
    """Return where the first row starts that starts behind `pos`; the end if none does."""
    while pos < text.size:
        if text[pos] == _QUOTE:
            quoted = not quoted
        elif text[pos] == _FEED and not quoted:
            return pos + 1
        pos += 1
    return text.size


@kernel
def _ends_row(text: Any, quoted: bool) -> bool:
    """Tell whether the last byte of a text that starts `quoted` is the end of a row."""
    for letter in text:
        if letter == _QUOTE:
            quoted = not quoted
    return text[text.size - 1] == _FEED and not quoted


@kernel
def _last_row_end(text: Any) -> int:
    """Return where the last whole row of a text ends; 0 if it holds none."""
    quoted, end = False, 0
    for pos in range(text.size):
        if text[pos] == _QUOTE:
            quoted = not quoted
        elif text[pos] == _FEED and not quoted:
            end = pos + 1
    return end
