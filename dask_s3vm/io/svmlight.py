"""svmlight text files as dask arrays of sparse blocks.

A first pass over the files finds where the rows are, and whether each is in order.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np

from dask_s3vm.engine.containers import as_block
from dask_s3vm.io.blocks import (
    check_options,
    empty_block,
    lazy_pair,
)  # fmt: skip
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
from dask_s3vm.io.svmlight_text import (
    BadLineError,
    Summary,
    parse,
    summarize,
    with_labels,
)  # fmt: skip

__all__ = ["SvmlightError", "read_svmlight"]


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


@dataclass(frozen=True)
class _Format:
    """What every block of one data set has in common."""

    n_features: int
    zero_based: bool
    integral: bool
    labeled: bool
    block: str
    dtype: np.dtype


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
    if not isinstance(zero_based, bool) and zero_based != "auto":
        raise ValueError(f"zero_based is {zero_based!r}, wanted True, False or 'auto'")
    dtype = np.dtype(dtype)
    files = find_files(urlpath, FORMATS["svmlight"].fits)
    if not isinstance(has_labels, bool) and has_labels != "auto":
        raise ValueError(f"has_labels is {has_labels!r}, wanted True, False or 'auto'")
    labeled = _starts_with_label(files[0]) if has_labels == "auto" else has_labels
    look = partial(_look, labeled=labeled, first_column=int(zero_based is False), dtype=dtype)
    spans = [split_evenly(length, size) for length in text_lengths(files, _told)]
    groups = look_through(files, spans, look, SvmlightError)
    pieces = [piece for group in groups for piece in group]
    if zero_based == "auto":
        zero_based = any(piece.summary.low == 0 for piece in pieces)
    form = _Format(
        n_features=_count_features(pieces, n_features, zero_based),
        zero_based=zero_based,
        integral=all(piece.summary.integral for piece in pieces),
        labeled=labeled,
        block=block,
        dtype=dtype,
    )
    x_meta = empty_block(dtype, block)
    y_meta = np.empty(0, dtype=np.int64 if form.integral else np.float64) if labeled else None
    content = ([piece.summary for piece in pieces], vars(form))
    # not shared: so a block is made by one task alone
    read, width = partial(_parse, form), form.n_features
    return lazy_pair("svmlight", pieces, read, None, content, width, x_meta, y_meta)


def _told(name: str) -> AbstractContextManager[None]:
    return told(name, BROKEN_TEXT, "cannot be read", SvmlightError)


def _starts_with_label(file: DataFile) -> bool:
    """Whether the first row begins with a label, rather than with an index:value pair."""
    with _told(file.name), file.opened() as stream:
        rest, chunk = b"", b"\n"
        while chunk:  # in steps: a line may be long, and not every store reads a part of one
            chunk = bytes(stream.read(1 << 16))
            *lines, rest = (rest + (chunk or b"\n")).split(b"\n")
            for line in (*lines, rest):
                words = line.split(b"#", 1)[0].split(None, 1)
                if len(words) == 2 or (words and line is not rest):
                    return b":" not in words[0]
            rest = b"#" if b"#" in rest else rest
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


def _parse(form: _Format, piece: _Piece, pieces: int) -> tuple[Any, np.ndarray]:
    """Return rows and labels of one of so many pieces of a file."""
    file = piece.file
    with _told(file.name):
        text = file.read_piece(*piece.span, pieces)
    lines = text if form.labeled else with_labels(text)
    try:
        matrix, labels = parse(
            lines, piece.summary, int(not form.zero_based), form.n_features, form.dtype
        )
    except ValueError as error:
        reason = f"has changed since it was surveyed: {error}"
        raise SvmlightError(file.name, reason) from error
    if form.integral:
        labels = labels.astype(np.int64)
    matrix.eliminate_zeros()
    return as_block(matrix, form.block), labels
