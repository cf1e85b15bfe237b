"""svmlight text files as dask arrays of sparse blocks.

A first pass over the files finds where the rows are, and whether each is in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import parse_bytes
from scipy.sparse import csr_array

from dask_s3vm.io.blocks import as_block, check_known, check_options, sorted_labels
from dask_s3vm.io.errors import SvmlightError
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import TextFile, UrlPath, find_files, read_packed, split_evenly
from dask_s3vm.io.svmlight_text import BadLineError, Summary, parse, parse_line, summarize

__all__ = ["SvmlightError", "read_svmlight"]


@dataclass(frozen=True)
class _Piece:
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


@dataclass(frozen=True)
class _Format:
    """What every block of one data set has in common."""

    n_features: int
    zero_based: bool
    integral: bool
    block: str
    dtype: np.dtype
    known: np.ndarray | None = None


def read_svmlight(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    blocksize: int | str = "32MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
    known_labels: Any = None,
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
    known_labels : list of numbers, optional
        The labels that may occur, the mark of unlabeled rows included. Any other is an error
        when its block is computed.
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

    Raises
    ------
    SvmlightError
        If a line does not fit the format, with file and line number; if a file has no rows.
    FileNotFoundError
        If a file does not exist.
    """
    check_options(n_features=n_features, block=block, dtype=dtype, blocksize=blocksize)
    if not isinstance(zero_based, bool) and zero_based != "auto":
        raise ValueError(f"zero_based is {zero_based!r}, wanted True, False or 'auto'")
    dtype, size = np.dtype(dtype), parse_bytes(blocksize)
    files = find_files(urlpath, FORMATS["svmlight"].fits)
    if not isinstance(has_labels, bool) and has_labels != "auto":
        raise ValueError(f"has_labels is {has_labels!r}, wanted True, False or 'auto'")
    labeled = files[0].starts_with_label() if has_labels == "auto" else has_labels
    if not labeled:
        files = [replace(file, labeled=False) for file in files]
    pieces = _look_through(files, size, int(zero_based is False), dtype)
    every = [piece.summary for group in pieces for piece in group]
    if zero_based == "auto":
        zero_based = any(summary.low == 0 for summary in every)
    form = _Format(
        n_features=_count_features(files, pieces, n_features, zero_based),
        zero_based=zero_based,
        integral=all(summary.integral for summary in every),
        block=block,
        dtype=dtype,
        known=sorted_labels(known_labels),
    )
    X, y = _build_arrays(files, pieces, form)
    return X, y if labeled else None


def _look_through(
    files: list[TextFile], blocksize: int, first_column: int, dtype: np.dtype
) -> list[list[_Piece]]:
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
    list of list of _Piece
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
    pieces: list[list[_Piece]] = [[] for _ in files]
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
) -> list[_Piece] | SvmlightError:
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
) -> _Piece:
    """Summarize whole lines, which begin at byte `start` of the file."""
    lines = file.labeled_lines(text)
    try:
        summary = summarize(lines, first_column, dtype)
    except BadLineError as error:
        # Line numbers cost a look at all text before, so they are counted for a mistake only.
        line = file.count_lines(start) + lines.count(b"\n", 0, error.start) + 1
        wrong = lines[error.start :].split(b"\n", 1)[0]
        raise SvmlightError(file.name, error.reason, line, wrong[:200]) from None
    return _Piece(start, start + len(text), summary)


def _count_features(
    files: list[TextFile], pieces: list[list[_Piece]], wanted: int | None, zero_based: bool
) -> int:
    """Return the number of columns; refuse a wanted number that is too small."""
    highest, name = -1, files[0].name
    for file, group in zip(files, pieces, strict=True):
        for piece in group:
            if piece.summary.high is not None and piece.summary.high > highest:
                highest, name = piece.summary.high, file.name
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


def _build_arrays(
    files: list[TextFile], pieces: list[list[_Piece]], form: _Format
) -> tuple[da.Array, da.Array]:
    """Build the lazy arrays. X and y share one task per block, which parses its lines once."""
    described = [(file.name, file.version, file.size, file.labeled) for file in files]
    token = tokenize(described, pieces, form.__dict__)
    read, x_name, y_name = (
        f"{part}-{token}" for part in ("parse-svmlight", "svmlight-X", "svmlight-y")
    )
    reading: dict[Any, Any] = {}
    rows: list[int] = []
    for file, group in zip(files, pieces, strict=True):
        for piece in group:
            reading[(read, len(rows))] = (_parse, file, piece, form, len(group))
            rows.append(piece.summary.rows)
    count = range(len(rows))
    layers = {
        read: reading,
        x_name: {(x_name, i, 0): (_take, (read, i), 0) for i in count},
        y_name: {(y_name, i): (_take, (read, i), 1) for i in count},
    }
    x_graph = HighLevelGraph({k: layers[k] for k in (read, x_name)}, {read: set(), x_name: {read}})
    y_graph = HighLevelGraph({k: layers[k] for k in (read, y_name)}, {read: set(), y_name: {read}})
    chunks = tuple(rows)
    x_meta = as_block(csr_array((0, 0), dtype=form.dtype), form.block)
    y_meta = np.empty(0, dtype=np.int64 if form.integral else np.float64)
    return (
        da.Array(x_graph, x_name, chunks=(chunks, (form.n_features,)), meta=x_meta),
        da.Array(y_graph, y_name, chunks=(chunks,), meta=y_meta),
    )


def _take(pair: tuple[Any, np.ndarray], which: int) -> Any:
    return pair[which]


def _parse(file: TextFile, piece: _Piece, form: _Format, pieces: int) -> tuple[Any, np.ndarray]:
    """Return rows and labels of one of so many pieces of a file."""
    if file.size is None:
        lines = read_packed(file, piece.start, piece.stop, pieces)
    else:
        lines = file.read_exactly(piece.start, piece.stop)
    lines = file.labeled_lines(lines)
    try:
        matrix, labels = parse(
            lines, piece.summary, int(not form.zero_based), form.n_features, form.dtype
        )
    except ValueError as error:
        reason = f"has changed since it was surveyed: {error}"
        raise SvmlightError(file.name, reason) from error
    strange = check_known(labels, form.known)
    if strange >= 0:
        _tell_of_label(file, piece, form, lines, strange)
    if form.integral:
        labels = labels.astype(np.int64)
    matrix.eliminate_zeros()
    return as_block(matrix, form.block), labels


def _tell_of_label(file: TextFile, piece: _Piece, form: _Format, lines: bytes, row: int) -> None:
    """Find the line of a row whose label is not known, and say so."""
    assert form.known is not None
    left = row
    for number, line in enumerate(lines.split(b"\n")):
        if parse_line(line, 0, form.dtype) is None:
            continue
        if left == 0:
            reason = f"the label is not one of {form.known.tolist()}"
            line_number = file.count_lines(piece.start) + number + 1
            raise SvmlightError(file.name, reason, line_number, line[:200])
        left -= 1
