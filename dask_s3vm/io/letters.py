"""Tables of letters, such as windows of a protein's sequence, as indicator columns.

A row has a letter in each of p places; with an alphabet of a letters that makes p * a features, of
which p are 1.
"""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import getitem
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from scipy.sparse import csr_array

from dask_s3vm.features.table_encoder import TableEncoder, as_block, warn_of_unknown
from dask_s3vm.features.table_facts import Facts
from dask_s3vm.io.archive import BROKEN
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.letter_text import letters_of_text
from dask_s3vm.io.sources import TextFile, UrlPath, find_files
from dask_s3vm.io.tables import without_encoder

__all__ = ["read_letters", "read_letters_data"]

# Blocks of a file that one task reads, one after the other.
_GROUP = 8


@dataclass(frozen=True)
class _Facts:
    """What one file holds: rows of each block, places, the largest letter, and labels."""

    rows: tuple[int, ...]
    places: int
    highest: int
    labeled: bool


@dataclass(frozen=True)
class _Part:
    """Letters of some rows as numbers, and their labels."""

    codes: np.ndarray
    labels: np.ndarray | None


def read_letters(
    urlpath: UrlPath,
    *,
    key: str = "T",
    n_letters: int | None = None,
    encoder: TableEncoder | None = None,
    label: Literal[False] | None = None,
    unlabeled: Any = -1,
    block_rows: int = 131_072,
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
) -> tuple[da.Array, da.Array | None, TableEncoder]:
    """Read tables of letters.

    The files are looked through once when this function is called, for the number of rows and of
    letters; rows are made when the arrays are computed. Both go through a file in steps, of which
    eight blocks are held at most; of a compressed one, what is before them is decompressed
    and dropped. Only an array that is stored column by column is held as a whole, a byte or so a
    letter.

    Parameters
    ----------
    urlpath : str, path or list of these
        ``.npz`` with an array `key` of whole numbers, (rows, places), and perhaps labels ``y``;
        ``.npy`` with such an array; or text, one row a line: its letters A-Z without blanks, and
        perhaps, after a blank, a whole number as label.
    key : str
        Name of the array in ``.npz`` files.
    n_letters : int, optional
        Size of the alphabet; by default the largest number in any of the files and one. For text
        it is 26.
    encoder : TableEncoder, optional
        That of another call; a letter beyond its alphabet gets no indicator, with a warning.
    label : False, optional
        Leave labels alone.
    unlabeled : int
        Label of rows of files that have none, where other files have some.
    block_rows : int
        Rows of a block.
    block : {"gcxs", "scipy"}
        Blocks of `X` as ``sparse.GCXS`` or as ``scipy.sparse.csr_array``.
    dtype : {float64, float32}
        Type of the entries.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, places * n_letters)
        Indicators: column ``i * n_letters + k`` is letter k in place i.
    y : dask.array.Array of shape (n_rows,) or None
        Labels; None if no file has any.
    encoder : TableEncoder
        What encodes other files alike.

    Raises
    ------
    TableError
        If a file cannot be read or holds something else, with file and row or line.
    """
    if block not in ("gcxs", "scipy"):
        raise ValueError(f"block is {block!r}, wanted 'gcxs' or 'scipy'")
    if block_rows < 1:
        raise ValueError(f"block_rows is {block_rows}, wanted at least 1")
    files = find_files(urlpath)
    look = dask.delayed(_look, pure=False)
    facts = dask.compute(*(look(file, key, block_rows) for file in files))
    for found in facts:
        if isinstance(found, TableError):
            raise found
    places = facts[0].places
    for file, found in zip(files, facts, strict=True):
        if found.places != places:
            reason = f"has {found.places} letters per row, {files[0].name} has {places}"
            raise TableError(file.name, reason)
    highest = max(found.highest for found in facts)
    if encoder is None:
        encoder = _make_encoder(files, facts, places, n_letters, dtype, block)
    elif encoder.n_features_in_ != places:
        reason = f"has {places} letters per row, wanted {encoder.n_features_in_}"
        raise TableError(files[0].name, reason)
    size = len(encoder.categories_[0] or ())
    if highest >= size:
        beyond = [dask.delayed(_beyond, pure=False)(file, key, block_rows, size) for file in files]
        warn_of_unknown({"letters": int(sum(dask.compute(*beyond)))})
    labeled = label is not False and any(found.labeled for found in facts)
    options = (key, block_rows, labeled, unlabeled, block)
    return *_build(files, facts, encoder, options), encoder


read_letters_data = without_encoder(read_letters)


def _make_encoder(
    files: Sequence[TextFile],
    facts: Sequence[_Facts],
    places: int,
    n_letters: int | None,
    dtype: Any,
    block: str,
) -> TableEncoder:
    highest = max(found.highest for found in facts)
    size = highest + 1 if n_letters is None else n_letters
    for file, found in zip(files, facts, strict=True):
        if found.highest >= size:
            reason = f"has a letter {found.highest}, but n_letters is {size}"
            raise TableError(file.name, reason)
    words = tuple(str(letter) for letter in range(size))
    names = [str(place) for place in range(places)]
    encoder = TableEncoder(categorical=names, dtype=np.dtype(dtype).name, block=block)
    encoder.settle(names, [Facts("category", words=words)] * places)
    encoder.categories_ = [words] * places  # in the order of numbers, not of words
    encoder.reading_ = {"format": "letters", "columns": names}
    return encoder


def _build(
    files: Sequence[TextFile],
    facts: Sequence[_Facts],
    encoder: TableEncoder,
    options: tuple[str, int, bool, Any, str],
) -> tuple[da.Array, da.Array | None]:
    described = [(file.name, file.version) for file in files]
    token = tokenize(described, facts, encoder.categories_, encoder.dtype, options)
    read, shared = f"read-letters-{token}", (f"plan-{token}", 0)
    tasks: dict[Any, Any] = {shared: (encoder, options)}
    rows: list[int] = []
    for number, (file, found) in enumerate(zip(files, facts, strict=True)):
        for low in range(0, len(found.rows), _GROUP):
            count = min(_GROUP, len(found.rows) - low)
            key = (f"letters-{number}-{low}-{token}", 0)
            tasks[key] = (_read, file, low, count, shared)
            for k in range(count):
                tasks[(read, len(rows))] = (getitem, key, k)
                rows.append(found.rows[low + k])
    x_name, y_name = f"letters-X-{token}", f"letters-y-{token}"
    x_layer = {(x_name, i, 0): (getitem, (read, i), 0) for i in range(len(rows))}
    graph = HighLevelGraph({read: tasks, x_name: x_layer}, {read: set(), x_name: {read}})
    meta = as_block(csr_array((0, 0), dtype=np.dtype(encoder.dtype)), options[-1])
    chunks = (tuple(rows), (encoder.n_features_out_,))
    X = da.Array(graph, x_name, chunks=chunks, meta=meta)
    if not options[2]:
        return X, None
    y_layer = {(y_name, i): (getitem, (read, i), 1) for i in range(len(rows))}
    graph = HighLevelGraph({read: tasks, y_name: y_layer}, {read: set(), y_name: {read}})
    return X, da.Array(graph, y_name, chunks=(tuple(rows),), meta=np.empty(0, np.int64))


def _read(file: TextFile, first: int, count: int, plan: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    """Read some blocks of a file, one after the other."""
    encoder, (key, block_rows, labeled, unlabeled, block) = plan
    size = len(encoder.categories_[0])
    made = []
    for number, part in enumerate(_parts(file, key, block_rows)):
        if number < first:
            continue
        codes = part.codes.astype(np.int32)
        codes[codes >= size] = -1
        rows = as_block(encoder.assemble(list(codes.T)), block)
        labels = part.labels
        if labeled and labels is None:
            labels = np.full(len(codes), unlabeled, dtype=np.int64)
        made.append((rows, labels))
        if len(made) == count:
            break
    return made


def _look(file: TextFile, key: str, block_rows: int) -> _Facts | TableError:
    rows, places, highest, labeled = [], 0, -1, False
    try:
        for part in _parts(file, key, block_rows):
            rows.append(len(part.codes))
            places = part.codes.shape[1]
            highest = max(highest, int(part.codes.max(initial=0)))
            labeled = part.labels is not None
    except TableError as error:
        return error
    if sum(rows) == 0:
        return TableError(file.name, "has no data rows")
    return _Facts(tuple(rows), places, highest, labeled)


def _beyond(file: TextFile, key: str, block_rows: int, size: int) -> int:
    """Count the letters that an alphabet has not."""
    return sum(int(np.sum(part.codes >= size)) for part in _parts(file, key, block_rows))


def _parts(file: TextFile, key: str, block_rows: int) -> Iterator[_Part]:
    """Yield the rows of a file, block by block."""
    lower = file.path.lower()
    if not lower.endswith((".npz", ".npy")):
        for codes, labels in letters_of_text(file, block_rows):
            yield _Part(codes, labels)
        return
    try:
        with _open_array(file, key) as (stream, labels):
            shape, by_columns, dtype = _shape_of(stream)
            whole = _read_block(stream, shape[1], shape[0], dtype).T if by_columns else None
            for low in range(0, shape[0], block_rows):
                count = min(block_rows, shape[0] - low)
                if whole is None:
                    codes = _read_block(stream, count, shape[1], dtype)
                else:
                    codes = np.ascontiguousarray(whole[low : low + count])
                if dtype.kind == "i" and (codes < 0).any():
                    row = low + int((codes < 0).any(axis=1).argmax())
                    raise TableError(file.name, f"row {row} has a negative number for a letter")
                given = None if labels is None else labels[low : low + count]
                if labels is not None and len(labels) != shape[0]:
                    raise ValueError(f"'y' has {len(labels)} labels for {shape[0]} rows")
                yield _Part(codes, given)
    except TableError:
        raise
    except FileNotFoundError:
        raise
    except BROKEN as error:
        raise TableError(file.name, f"cannot be read: {error}") from error


@contextmanager
def _open_array(file: TextFile, key: str) -> Iterator[tuple[Any, np.ndarray | None]]:
    """Open the array of letters as a stream; beside it, the labels if there are any."""
    with file.fs.open(file.path, "rb") as raw:
        if file.path.lower().endswith(".npy"):
            yield raw, None
            return
        with zipfile.ZipFile(raw) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            if key not in names:
                raise ValueError(f"has the arrays {sorted(names)}, wanted {key!r}")
            labels = None
            if "y" in names:
                with archive.open("y.npy") as stream:
                    labels = np.lib.format.read_array(stream, allow_pickle=False)
                if labels.ndim != 1 or labels.dtype.kind not in "iuf" or (labels % 1 != 0).any():
                    raise ValueError("'y' does not hold one integer per row")
                labels = labels.astype(np.int64)
            with archive.open(f"{key}.npy") as stream:
                yield stream, labels


def _shape_of(stream: Any) -> tuple[tuple[int, int], bool, np.dtype]:
    """Return rows and places, whether the array is stored by columns, and its type."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    if len(shape) != 2 or dtype.kind not in "iu":
        raise ValueError(
            f"holds an array of shape {shape} and type {dtype}, wanted rows and places of "
            "whole numbers"
        )
    return (int(shape[0]), int(shape[1])), bool(fortran), dtype


def _read_block(stream: Any, rows: int, places: int, dtype: np.dtype) -> np.ndarray:
    wanted = rows * places * dtype.itemsize
    raw = stream.read(wanted)
    while len(raw) < wanted and (more := stream.read(wanted - len(raw))):
        raw += more
    if len(raw) < wanted:
        raise ValueError("the array is cut short")
    return np.frombuffer(raw, dtype=dtype).reshape(rows, places)
