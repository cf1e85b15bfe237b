"""What all readers have in common: options, lazy arrays out of pieces of files, labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral
from operator import getitem
from types import MappingProxyType
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import parse_bytes
from scipy.sparse import csr_array

from dask_s3vm.engine.containers import as_block
from dask_s3vm.io.errors import DataFileError, told
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import DataFile, UrlPath, attempt_all, find_files
from dask_s3vm.io.svmlight_parser import LARGEST_COLUMN

__all__ = ["MOST_FEATURES", "Head", "Piece", "Source", "check_options", "empty_block", "lazy_pair",
           "open_blocks"]  # fmt: skip

#: Column numbers count from 0 and fit an unsigned 32-bit word, with one to spare.
MOST_FEATURES = LARGEST_COLUMN + 1


def check_options(
    *,
    n_features: Any = None,
    block: Any = "gcxs",
    dtype: Any = np.float64,
    blocksize: Any = 1,
) -> int:
    """Refuse options of readers that make no sense, and return the blocksize in bytes."""
    if n_features is not None and (
        not isinstance(n_features, Integral) or not 1 <= int(n_features) <= MOST_FEATURES
    ):
        raise ValueError(
            f"n_features is {n_features!r}, wanted a whole number above 0 or None, "
            f"at most {MOST_FEATURES}"
        )
    if block not in ("gcxs", "scipy"):
        raise ValueError(f"block is {block!r}, wanted 'gcxs' or 'scipy'")
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype is {np.dtype(dtype)}, wanted float32 or float64")
    try:
        size = parse_bytes(blocksize)
    except ValueError:
        size = 0
    if size < 1:
        raise ValueError(f"blocksize is {blocksize!r}, wanted at least one byte, as in '16MiB'")
    return size


def empty_block(dtype: Any, block: str) -> Any:
    """Return a block without rows and columns, which tells dask what the others are."""
    return as_block(csr_array((0, 0), dtype=dtype), block)


def lazy_pair(
    prefix: str,
    pieces: Sequence[Any],
    read: Callable[..., tuple[Any, Any]],
    shared: Any,
    content: Any,
    n_features: int,
    x_meta: Any,
    y_meta: Any,
) -> tuple[da.Array, da.Array | None]:
    """Return lazy rows and labels that share one task per piece, which reads both at once.

    ``read(shared, piece)`` gives rows and labels of a piece of a file; where `shared`, which is
    sent once, is None, it is ``read(piece)``. A piece has `file`, `span` and `rows`; `content`
    tells what else the arrays depend on. Without `y_meta`, an empty block, there are no labels.
    """
    described = [(p.file.name, p.file.version, p.span, p.rows) for p in pieces]
    name, rows = f"{prefix}-{tokenize(described, content)}", [piece.rows for piece in pieces]
    first = {} if shared is None else {(f"shared-{name}", 0): shared}
    below: dict[str, Any] = {name: dict(first)}
    for i, piece in enumerate(pieces):
        below[name][name, i] = (read, *first, piece)
    tasks = [[(getitem, (name, i), place) for i in range(len(rows))] for place in (0, 1)]
    X = _lazy_array(f"X-{name}", tasks[0], rows, (n_features,), x_meta, below)
    if y_meta is None:
        return X, None
    return X, _lazy_array(f"y-{name}", tasks[1], rows, (), y_meta, below)


def _lazy_array(
    name: str,
    tasks: Sequence[Any],
    rows: Sequence[int],
    tail: tuple[int, ...],
    meta: Any,
    below: Mapping[str, Any] = MappingProxyType({}),
) -> da.Array:
    layer = {(name, i, *(0 for _ in tail)): task for i, task in enumerate(tasks)}
    needs: dict[str, set[str]] = {**{key: set() for key in below}, name: set(below)}
    graph = HighLevelGraph({**below, name: layer}, needs)
    return da.Array(graph, name, chunks=(tuple(rows), *((n,) for n in tail)), meta=meta)


# Files whose pieces are known beforehand ----------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """What a file tells without its rows being read.

    That is: rows of its pieces, each of which becomes a block; the number of columns, if it tells;
    types as stored (strings of any length are objects, None: no labels); and whether all columns of
    a row are stored.
    """

    rows: tuple[int, ...]
    n_features: int | None
    values: np.dtype
    labels: np.dtype | None
    dense: bool = False


@dataclass(frozen=True)
class Piece:
    """Some rows of a file: the number of the piece, and its first row and rows."""

    file: DataFile
    number: int
    low: int
    rows: int


class Source:
    """How one format is read, piece by piece.

    `broken` are the ways in which reading a damaged file can end, `refusal` is what is said of it.
    """

    name: str
    broken: tuple[type[BaseException], ...]
    refusal = ""

    def belongs(self, name: str) -> bool:
        """Tell which files of a folder are meant."""
        return FORMATS[self.name].fits(name)

    def look(self, file: DataFile, n_features: int | None) -> Head:
        """Read what a file says of itself; the user may have said `n_features`."""
        raise NotImplementedError

    def read_rows(self, piece: Piece, n_features: int, dtype: np.dtype) -> Any:
        """Return the rows of a piece: a ``csr_array``, or a matrix; they must be in order."""
        raise NotImplementedError

    def read_labels(self, piece: Piece, dtype: np.dtype) -> np.ndarray:
        """Return the labels of a piece."""
        raise NotImplementedError


def open_blocks(
    source: Source,
    urlpath: UrlPath,
    n_features: int | None,
    block: str = "gcxs",
    dtype: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open files as dask arrays, one block per piece. Labels are read without rows.

    Options are those of `dask_s3vm.io.read_arrow`; y is None if there are no labels.
    """
    check_options(n_features=n_features, block=block, dtype=dtype)
    files = find_files(urlpath, source.belongs)
    if all(file.is_local for file in files):  # a millisecond each
        heads = [_look(source, file, n_features) for file in files]
    else:
        heads = attempt_all([(_look, source, file, n_features) for file in files])
    pieces = [
        Piece(file, number, stop - rows, rows)
        for file, head in zip(files, heads, strict=True)
        for number, (rows, stop) in enumerate(zip(head.rows, accumulate(head.rows), strict=True))
    ]
    if not pieces:
        raise DataFileError(files[0].name, "has no rows")
    columns = _count_features(files, heads, n_features)
    stored = np.result_type(np.float32, *(head.values for head in heads))
    dtype = stored if dtype is None else np.dtype(dtype)
    rows = [piece.rows for piece in pieces]
    versions = [(file.name, file.version) for file in files]
    token = tokenize(versions, vars(source), rows, columns, block, dtype)
    meta = np.empty((0, 0), dtype=dtype) if heads[0].dense else empty_block(dtype, block)
    tasks = [(_read_rows, source, piece, columns, dtype, block) for piece in pieces]
    X = _lazy_array(f"{source.name}-X-{token}", tasks, rows, (columns,), meta)
    kind = _common_type([file.name for file in files], [head.labels for head in heads])
    if kind is None:
        return X, None
    more = [(_read_labels, source, piece, kind) for piece in pieces]
    return X, _lazy_array(f"{source.name}-y-{token}", more, rows, (), np.empty(0, dtype=kind))


def _look(source: Source, file: DataFile, n_features: int | None) -> Head:
    with told(file.name, source.broken, source.refusal):
        return source.look(file, n_features)


def _count_features(files: list[DataFile], heads: Sequence[Head], wanted: int | None) -> int:
    """Agree on a number of columns: that of the option, or the largest that a file needs."""
    needed, name = 0, files[0].name
    dense, first = heads[0].dense, heads[0].n_features
    for file, head in zip(files, heads, strict=True):
        if head.dense != dense:
            kinds = ("sparse", "dense")
            reason = f"has {kinds[not dense]} rows, but {files[0].name} has {kinds[dense]} ones"
            raise DataFileError(file.name, reason)
        told = head.n_features
        if dense and told != first:
            raise DataFileError(file.name, f"has {told} columns, but {name} has {first}")
        if told is not None and told > needed:
            needed, name = told, file.name
    if wanted is None and needed == 0:
        raise DataFileError(name, "no row has an entry: n_features must be given")
    if wanted is not None and (wanted < needed or (dense and wanted != needed)):
        raise DataFileError(name, f"has {needed} columns, but n_features is {wanted}")
    check_options(n_features=wanted or needed)
    return int(wanted or needed)


def _read_rows(source: Source, piece: Piece, n_features: int, dtype: np.dtype, block: str) -> Any:
    with told(piece.file.name, source.broken, source.refusal):
        matrix = source.read_rows(piece, n_features, dtype)
    _check_length(piece.file, piece, matrix.shape[0])
    return as_block(matrix, block) if sp.issparse(matrix) else matrix


def _read_labels(source: Source, piece: Piece, dtype: np.dtype) -> np.ndarray:
    with told(piece.file.name, source.broken, source.refusal):
        labels = source.read_labels(piece, dtype)
    _check_length(piece.file, piece, len(labels))
    return labels


def _check_length(file: DataFile, piece: Piece, rows: int) -> None:
    if rows != piece.rows:
        reason = f"has {rows} rows in piece {piece.number}, but its header says {piece.rows}"
        raise DataFileError(file.name, reason)


# Labels -------------------------------------------------------------------------------------------


def _common_type(names: Sequence[str], types: Sequence[np.dtype | None]) -> np.dtype | None:
    """Return a type for the labels of all files; None if no file has labels."""
    held = [kind for kind in types if kind is not None]
    for name, kind in zip(names, types, strict=True):
        if held and kind is None:
            raise DataFileError(name, "has no labels, but other files have")
        if kind is not None and _is_text(kind) != _is_text(held[0]):
            raise DataFileError(name, f"has labels of type {kind}, but {names[0]} of {held[0]}")
    return np.result_type(*held) if held else None


def _is_text(kind: np.dtype) -> bool:
    return kind.kind in "USO"
