"""svmlight text files as dask arrays of sparse blocks.

A first pass over the files finds where the rows are, and whether each is in order; a second one
reads them into arrays of the right size. The compiled parser (`svmlight_parser`) does both for the
lines that it fully understands. Any other line goes to `parse_line`, which knows every rule of the
format, and says which one a line breaks. Arrow rounds the numbers that are too long for the
compiled parser: to the nearest float64, as ``float()`` does.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from dask_s3vm.engine.containers import as_block
from dask_s3vm.io.blocks import check_options, empty_block, lazy_pair
from dask_s3vm.io.errors import SvmlightError, told
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import (
    BROKEN_TEXT,
    DataFile,
    UrlPath,
    find_files,
    look_through,
    split_evenly,
    text_lengths,
)  # fmt: skip
from dask_s3vm.io.svmlight_parser import (
    ENTRIES,
    HIGH,
    INTEGRAL,
    LARGEST_COLUMN,
    LOW,
    MOST_OPEN,
    NO_COLUMN,
    OPEN,
    ROWS,
    largest_power,
    parse_line,
    read_lines,
)  # fmt: skip

__all__ = ["BadLineError", "Summary", "SvmlightError", "parse", "parse_line", "read_svmlight",
           "summarize", "with_labels"]  # fmt: skip

# From here on not every whole number is a float64: such labels are left as they are.
_LARGEST_INTEGER = 2**53


class BadLineError(ValueError):
    """A line breaks a rule of the format; why, and where it starts in the text."""

    def __init__(self, reason: str, start: int) -> None:
        super().__init__(reason)
        self.start = start


@dataclass(frozen=True)
class Summary:
    """What a piece of text holds.

    That is: lines with data, smallest and largest column number as written (None if no row has a
    column), whether every label is a whole number, and pairs of all rows. These tell how much room
    the rows need, not what they are: they do not count when summaries are compared.
    """

    rows: int
    low: int | None
    high: int | None
    integral: bool
    entries: int = field(default=0, compare=False)


@dataclass(frozen=True)
class _Piece:
    """Whole lines of one file, where they stand in its (decompressed) text, and what they hold."""

    file: DataFile
    span: tuple[int, int]
    summary: Summary

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.summary.rows


def read_svmlight(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    blocksize: int | str = "32MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
    has_labels: bool | Literal["auto"] = True,
) -> tuple[da.Array, Any]:
    """Read svmlight (libsvm) text into dask arrays with known chunk sizes.

    The files are looked through once, in parallel, when this function is called: that finds
    the numbers of rows and columns and every mistake. The numbers themselves are read when the
    arrays are computed. Persist `X` and `y` together, then every block is parsed once for both.

    Parameters
    ----------
    urlpath : str, path or list of these
        File, glob pattern, folder, or list of these; anything fsspec can open. A compressed file
        (``.gz``, ``.bz2``, ``.xz``) is decompressed into a temporary file by every process that
        reads blocks of it, once.
    n_features : int, optional
        Number of columns of `X`; by default as many as the largest column number needs.
    zero_based : bool or "auto"
        Whether column numbers start at 0. With ``"auto"`` they do if there is a column 0 in
        any of the files.
    blocksize : int or str
        Text in one block, in bytes or as in ``"32MiB"``.
    block : {"gcxs", "scipy"}
        Blocks of `X` as ``sparse.GCXS`` (rows compressed) or as ``scipy.sparse.csr_array``.
    dtype : dtype
        Type of the values, float64 or float32.
    has_labels : bool or "auto"
        False if rows have no labels in front, as in files of SVMlin; then every line is a row. With
        ``"auto"``, the first row of the first file tells.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows. Values of zero are not stored.
    y : dask.array.Array of shape (n_rows,)
        The labels: int64 if all labels of all files are whole numbers, else float64. ``None`` if
        rows have no labels.
    """
    size = check_options(n_features=n_features, block=block, dtype=dtype, blocksize=blocksize)
    for name, value in {"zero_based": zero_based, "has_labels": has_labels}.items():
        if not isinstance(value, bool) and value != "auto":
            raise ValueError(f"{name} is {value!r}, wanted True, False or 'auto'")
    dtype = np.dtype(dtype)
    files = find_files(urlpath, FORMATS["svmlight"].fits)
    labeled = _starts_with_label(files[0]) if has_labels == "auto" else has_labels
    look = partial(_look, labeled=labeled, first_column=int(zero_based is False), dtype=dtype)
    spans = [split_evenly(length, size) for length in text_lengths(files, _told)]
    groups = look_through(files, spans, look, SvmlightError)
    pieces = [piece for group in groups for piece in group]
    if zero_based == "auto":
        zero_based = any(piece.summary.low == 0 for piece in pieces)
    width = _count_features(pieces, n_features, zero_based)
    integral = all(piece.summary.integral for piece in pieces)
    form = {
        "labeled": labeled,
        "first_column": int(not zero_based),
        "n_features": width,
        "integral": integral,
        "dtype": dtype,
        "block": block,
    }
    x_meta = empty_block(dtype, block)
    y_meta = np.empty(0, dtype=np.int64 if integral else np.float64) if labeled else None
    content = ([piece.summary for piece in pieces], form)
    # not shared: so a block is made by one task alone
    read = partial(_read_piece, **form)
    return lazy_pair("svmlight", pieces, read, None, content, width, x_meta, y_meta)


def _told(name: str) -> AbstractContextManager[None]:
    return told(name, BROKEN_TEXT, "cannot be read", SvmlightError)


def _starts_with_label(file: DataFile) -> bool:
    """Whether the first row begins with a label, rather than with an index:value pair."""
    at = 0
    with _told(file.name):
        while line := file.read_rows(at, at + 1, None)[1]:
            at += len(line)
            if words := line.split(b"#", 1)[0].split(None, 1):
                return b":" not in words[0]
    return True


def _look(
    file: DataFile, span: tuple[int, int], labeled: bool, first_column: int, dtype: np.dtype
) -> _Piece | None:
    """Summarize the lines that begin in a range of a file."""
    with _told(file.name):
        start, text = file.read_rows(*span, None)
    lines = text if labeled else with_labels(text)
    try:
        summary = summarize(lines, first_column, dtype)
    except BadLineError as error:
        # Line numbers cost a look at all text before, so they are counted for a mistake only.
        line = file.count(b"\n", 0, start) + lines.count(b"\n", 0, error.start) + 1
        wrong = lines[error.start :].split(b"\n", 1)[0]
        raise SvmlightError(file.name, str(error), line, wrong[:200]) from None
    return _Piece(file, (start, start + len(text)), summary) if summary.rows else None


def _count_features(pieces: list[_Piece], wanted: int | None, zero_based: bool) -> int:
    """Return the number of columns; refuse a wanted number that is too small."""
    highest, name = -1, pieces[0].file.name
    for piece in pieces:
        if piece.summary.high is not None and piece.summary.high > highest:
            highest, name = piece.summary.high, piece.file.name
    needed = highest + int(zero_based)
    if wanted is None:
        if highest < 0:
            raise SvmlightError(name, "no row has an index:value pair: n_features must be given")
        return needed
    if wanted < needed:
        base = "0" if zero_based else "1"
        raise SvmlightError(
            name,
            f"n_features is {wanted}, but the largest column number is {highest} "
            f"(columns start at {base}): wanted at least {needed}",
        )
    return int(wanted)


def _read_piece(
    piece: _Piece, *, labeled: bool, integral: bool, block: str, **form: Any
) -> tuple[Any, np.ndarray]:
    """Return rows and labels of a piece of a file."""
    with _told(piece.file.name):
        text = piece.file.read(*piece.span)
    try:
        matrix, labels = parse(text if labeled else with_labels(text), piece.summary, **form)
    except ValueError as error:
        reason = f"has changed since it was surveyed: {error}"
        raise SvmlightError(piece.file.name, reason) from error
    matrix.eliminate_zeros()
    return as_block(matrix, block), labels.astype(np.int64) if integral else labels


# Text ---------------------------------------------------------------------------------------------


def with_labels(lines: bytes) -> bytes:
    """Return whole lines without labels, as in files of SVMlin, with a label of 0 each.

    Every line is a row, also an empty one.
    """
    if not lines:
        return lines
    ended = lines.endswith(b"\n")
    body = lines[:-1] if ended else lines
    return b"0 " + body.replace(b"\n", b"\n0 ") + (b"\n" if ended else b"")


def summarize(text: bytes, first_column: int, dtype: np.dtype) -> Summary:
    """Check whole lines and count what they hold; BadLineError is of the first that breaks a rule.

    `first_column` is the smallest column number allowed, `dtype` the type that values must fit.
    """
    room = _Room(0, 0, LARGEST_COLUMN + 1, np.dtype(dtype))
    room.read(text, first_column, keep=False)
    rows, entries, low, high, integral, _ = room.counts.tolist()
    low, high = (None, None) if high < 0 else (low, high)
    return Summary(rows, low, high, bool(integral), entries)


def parse(
    text: bytes, expected: Summary, first_column: int, n_features: int, dtype: np.dtype
) -> tuple[csr_array, np.ndarray]:
    """Read whole lines: rows, values of zero included, and labels as float64.

    `expected` is what they held when they were looked through; ValueError if that has changed.
    `first_column` is the column number that stands for column 0 of the result.
    """
    room = _Room(expected.rows, expected.entries, n_features, np.dtype(dtype))
    if not room.read(text, first_column, keep=True):
        found = summarize(text, first_column, dtype)
        if found.rows != expected.rows:
            raise ValueError(f"{found.rows} rows, expected {expected.rows}")
        raise ValueError(f"{found.entries} entries, expected {expected.entries}")
    shape = (len(room.labels), n_features)
    return csr_array((room.data, room.indices, room.indptr), shape=shape), room.labels


class _Room:
    """Counts of what was read, and arrays of the size that the rows will need."""

    def __init__(self, rows: int, entries: int, n_features: int, dtype: np.dtype) -> None:
        wide = max(rows, n_features, entries) > np.iinfo(np.int32).max and rows > 0
        # Kernels read half as much with the narrow type.
        index = np.dtype(np.int64 if wide else np.int32)
        self.counts = np.array([0, 0, NO_COLUMN, -1, 1, 0], dtype=np.int64)
        self.labels = np.empty(rows)
        self.indptr = np.zeros(rows + 1, dtype=index)
        self.indices = np.empty(entries, dtype=index)
        self.data = np.empty(entries, dtype=dtype)
        self._n_features = n_features

    def read(self, text: bytes, first_column: int, keep: bool) -> bool:
        """Read all lines, and keep them or only count; tell whether they fill the arrays."""
        array = np.frombuffer(text, dtype=np.uint8)
        limit = largest_power(self.data.dtype)
        # Numbers of columns count from 0 in the arrays, and as written when they are counted.
        end = self._n_features + (first_column if keep else 0)
        pending = np.empty((MOST_OPEN if keep else 0, 3), dtype=np.int64)
        position = 0
        while True:
            position = read_lines(
                array, position, first_column, end, limit, keep, self.counts, pending,
                self.labels, self.indptr, self.indices, self.data,
            )  # fmt: skip
            is_open = self._settle(text, pending[: self.counts[OPEN]])
            if position == len(text):
                break
            if is_open:  # there may have been no room for more
                continue
            stop = text.find(b"\n", position) + 1 or len(text)
            try:
                row = parse_line(text[position:stop], first_column, self.data.dtype)
            except ValueError as error:
                raise BadLineError(str(error), position) from None
            if row is not None and not self._add_row(first_column, keep, *row):
                return False
            position = stop
        return not keep or (
            int(self.counts[ROWS]) == len(self.labels)
            and int(self.counts[ENTRIES]) == len(self.data)
        )

    def _settle(self, text: bytes, pending: np.ndarray) -> bool:
        """Fill in numbers that were left open; tell whether there were any."""
        if not len(pending):
            return False
        # every other word is what stands between two numbers
        edges = np.ascontiguousarray(pending[:, :2]).ravel()
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(text)]
        words = pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers)
        own = words.take(pa.array(np.arange(0, len(edges), 2)))
        numbers, slots = own.cast(pa.float64()).to_numpy(), pending[:, 2]
        self.labels[-1 - slots[slots < 0]] = numbers[slots < 0]
        self.data[slots[slots >= 0]] = numbers[slots >= 0]
        return True

    def _add_row(
        self, first_column: int, keep: bool, label: float, columns: list[int], values: list[float]
    ) -> bool:
        """Count one row, and write it behind the others; tell whether there was room for it."""
        counts = self.counts
        row, start = int(counts[ROWS]), int(counts[ENTRIES])
        stop = start + len(columns)
        if keep:
            if row == len(self.labels) or stop > len(self.data):
                return False
            if columns and columns[-1] - first_column >= self._n_features:
                raise ValueError(
                    f"column number {columns[-1]}, but n_features is {self._n_features}"
                )
            self.labels[row] = label
            self.indices[start:stop] = np.array(columns, dtype=np.int64) - first_column
            self.data[start:stop] = values
            self.indptr[row + 1] = stop
        counts[ROWS], counts[ENTRIES] = row + 1, stop
        if columns:
            counts[LOW] = min(counts[LOW], columns[0])
            counts[HIGH] = max(counts[HIGH], columns[-1])
        if not label.is_integer() or abs(label) > _LARGEST_INTEGER:
            counts[INTEGRAL] = 0
        return True
