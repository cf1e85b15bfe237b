"""svmlight text files as dask arrays of sparse blocks.

A first pass over the files finds where the rows are, and whether each is in order; a second one
makes arrays of them. Both read the text by `svmlight_parser.read_lines`.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np
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
from dask_s3vm.io.svmlight_parser import BadLineError, parse_line, read_lines

__all__ = ["BadLineError", "Summary", "SvmlightError", "parse", "parse_line", "read_svmlight",
           "summarize"]  # fmt: skip

# From here on not every whole number is a float64: such labels are left as they are.
_LARGEST_INTEGER = 2**53


@dataclass(frozen=True)
class Summary:
    """What a piece of text holds.

    That is: lines with data, pairs of all of them, smallest and largest column number as written
    (None if no row has a column), and whether every label is a whole number.
    """

    rows: int
    entries: int
    low: int | None
    high: int | None
    integral: bool


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
    try:
        summary = summarize(text, first_column, dtype, labeled)
    except BadLineError as error:
        # Line numbers cost a look at all text before, so they are counted for a mistake only.
        line = file.count(b"\n", 0, start) + text.count(b"\n", 0, error.start) + 1
        wrong = text[error.start :].split(b"\n", 1)[0]
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
    piece: _Piece, *, integral: bool, block: str, **form: Any
) -> tuple[Any, np.ndarray]:
    """Return rows and labels of a piece of a file."""
    with _told(piece.file.name):
        text = piece.file.read(*piece.span)
    try:
        matrix, labels = parse(text, piece.summary, **form)
    except ValueError as error:
        reason = f"has changed since it was surveyed: {error}"
        raise SvmlightError(piece.file.name, reason) from error
    matrix.eliminate_zeros()
    return as_block(matrix, block), labels.astype(np.int64) if integral else labels


# Text ---------------------------------------------------------------------------------------------


def summarize(text: bytes, first_column: int, dtype: np.dtype, labeled: bool = True) -> Summary:
    """Return what whole lines hold; BadLineError is of the first that breaks a rule.

    `first_column` is the smallest column number allowed, `dtype` the type that values must fit.
    """
    labels, offsets, columns, _ = read_lines(text, first_column, dtype, labeled)
    low, high = (int(columns.min()), int(columns.max())) if len(columns) else (None, None)
    whole = (labels == np.floor(labels)) & (np.abs(labels) <= _LARGEST_INTEGER)
    return Summary(len(labels), int(offsets[-1]), low, high, bool(whole.all()))


def parse(
    text: bytes,
    expected: Summary,
    first_column: int,
    n_features: int,
    dtype: np.dtype,
    labeled: bool = True,
) -> tuple[csr_array, np.ndarray]:
    """Read whole lines: rows, values of zero included, and labels as float64.

    `expected` is what they held when they were looked through; ValueError if that has changed.
    `first_column` is the column number that stands for column 0 of the result.
    """
    labels, offsets, columns, values = read_lines(text, first_column, dtype, labeled)
    if len(labels) != expected.rows:
        raise ValueError(f"{len(labels)} rows, expected {expected.rows}")
    if len(columns) != expected.entries:
        raise ValueError(f"{len(columns)} entries, expected {expected.entries}")
    if len(columns) and columns.max() - first_column >= n_features:
        raise ValueError(f"column number {columns.max()}, but n_features is {n_features}")
    # Kernels read half as much with the narrow type.
    wide = max(len(labels), n_features, len(columns)) > np.iinfo(np.int32).max
    index = np.dtype(np.int64 if wide else np.int32)
    indices = columns.astype(index) - index.type(first_column)
    shape = (len(labels), n_features)
    return csr_array((values, indices, offsets.astype(index)), shape=shape), labels
