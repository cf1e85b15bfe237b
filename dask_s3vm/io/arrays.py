"""Rows from numpy's files: ``.npz`` archives, sparse or dense, and mapped ``.npy`` matrices."""

import io
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
from scipy.sparse import csr_array, load_npz

from dask_s3vm.io.archive import BROKEN, check_archive, opened_archive, read_header
from dask_s3vm.io.blocks import MOST_FEATURES, Head, Piece, Source, check_options, open_blocks
from dask_s3vm.io.errors import DataFileError, told
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import BROKEN_TEXT, DataFile, UrlPath, find_files
from dask_s3vm.io.store import filesystem

__all__ = ["read_labels", "read_npy", "read_npz"]

_WANTED = "'X' (dense) or 'indices', 'indptr', 'shape' and perhaps 'data' (CSR), and perhaps 'y'"
_CSR = {"indices", "indptr", "shape"}
_LABELS = ".y.npy"
_LONGEST_HEADER = 1 << 16


# Archives -------------------------------------------------------------------------------------


def read_npz(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] | None = None,
) -> tuple[Any, Any]:
    """Read rows and labels of one ``.npz`` file into memory, or of several as lazy blocks.

    Parameters
    ----------
    urlpath : str, path or list of these
        Files, glob patterns or folders; each file is one block. A file has the keys ``X`` (dense),
        or ``indices``, ``indptr``, ``shape`` and ``data`` (CSR; without ``data`` all values are
        one), or was written by `scipy.sparse.save_npz`. In each case ``y`` may hold the labels.
    block : {"gcxs", "scipy"}, optional
        Type of the blocks. By default a single file is read at once into a
        ``scipy.sparse.csr_array``, and several have blocks of type ``sparse.GCXS``.
    n_features
        As in `read_svmlight`.

    Returns
    -------
    X : dask.array.Array or scipy.sparse.csr_array
        The rows: float32 if stored so, else float64. Columns are sorted in each row.
    y : dask.array.Array or ndarray or None
        The labels, ``None`` if no file has any.
    """
    at_once = block is None and len(find_files(urlpath, FORMATS["npz"].fits)) == 1
    X, y = open_blocks(
        NpzSource(),
        urlpath,
        n_features=n_features,
        block="scipy" if at_once else block or "gcxs",
    )
    return dask.compute(X, y, scheduler="sync") if at_once else (X, y)


class NpzSource(Source):
    """Archives; each is one piece."""

    name = "npz"
    broken = BROKEN

    def look(self, file: DataFile, n_features: int | None) -> Head:
        """Read the sizes and types of an archive's arrays, but not the arrays."""
        with _opened(file) as (archive, heads, _):
            if "X" in heads and not heads.keys() >= _CSR:
                shape, dtype = heads["X"]
            elif "shape" in heads and heads["shape"][0] == (2,):
                shape = tuple(int(length) for length in archive["shape"])
                dtype = heads["data"][1] if "data" in heads else np.dtype(np.float64)
            else:
                raise ValueError(f"has the keys {sorted(heads)}, wanted {_WANTED}")
            fits = len(shape) == 2 and min(shape) >= 0 and shape[1] <= MOST_FEATURES
            if not fits or dtype.kind not in "biuf":
                raise ValueError(
                    f"holds a matrix of shape {shape} and type {dtype}, wanted rows and columns of "
                    "real numbers"
                )
            labels_shape, labels = heads.get("y", (shape[:1], None))
            if labels_shape != shape[:1]:
                raise ValueError(f"'y' is of shape {labels_shape}, wanted ({shape[0]},)")
            narrow = np.dtype(np.float32 if dtype == np.float32 else np.float64)
            return Head((shape[0],), shape[1], narrow, labels)

    def read_rows(self, piece: Piece, n_features: int, dtype: np.dtype) -> csr_array:
        """Return all rows."""
        with _opened(piece.file, checked=True) as (archive, keys, stream):
            if "format" in keys:
                stream.seek(0)
                matrix = csr_array(load_npz(stream))
            elif keys.keys() >= _CSR:
                indices = archive["indices"]
                data = archive["data"] if "data" in keys else np.ones(len(indices))
                shape = tuple(archive["shape"].tolist())
                matrix = csr_array((data, indices, archive["indptr"]), shape=shape)
            else:
                matrix = csr_array(archive["X"])
            matrix = matrix.astype(dtype, copy=False)
            matrix.check_format(full_check=True)
            matrix.sum_duplicates()
        parts = (matrix.data, matrix.indices, matrix.indptr)
        return csr_array(parts, shape=(matrix.shape[0], n_features))

    def read_labels(self, piece: Piece, dtype: np.dtype) -> np.ndarray:
        """Return all labels."""
        with _opened(piece.file) as (archive, _, _):
            labels: np.ndarray = archive["y"]
        return labels.astype(dtype, copy=False)


@contextmanager
def _opened(file: DataFile, checked: bool = False) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """Open an archive, with its checksum if it has one and `checked`; that reads the whole file."""
    with told(file.name, BROKEN), file.fs.open(file.path, "rb") as stream:
        if checked and zipfile.is_zipfile(stream):
            check_archive(stream)
        with opened_archive(stream) as (archive, heads):
            yield archive, heads, stream


# Matrices -------------------------------------------------------------------------------------


def read_npy(
    urlpath: UrlPath, *, n_features: int | None = None, blocksize: int | str = "32MiB"
) -> tuple[da.Array, da.Array | None]:
    """Open matrices in ``.npy`` files as dask arrays; several are put under each other.

    Parameters
    ----------
    urlpath : str, path or list of these
        Files, glob patterns or folders; anything fsspec can open. Labels are read from
        ``NAME.y.npy`` beside each ``NAME.npy``, if there is one.
    blocksize : int or str
        Bytes in one block of a local file; others are one block each.
    n_features
        As in `read_svmlight`.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows, float32 or float64. Blocks of a local file of such numbers are views of its map.
    y : dask.array.Array of shape (n_rows,) or None
        The labels.
    """
    return open_blocks(NpySource(check_options(blocksize=blocksize)), urlpath, n_features)


@dataclass(frozen=True)
class NpySource(Source):
    """Matrices, cut into pieces of some bytes; labels lie beside."""

    name = "npy"
    broken = (ValueError, EOFError, OSError, TypeError)
    refusal = "is not an .npy file that can be read"

    blocksize: int

    def belongs(self, name: str) -> bool:
        """Labels are no rows."""
        return super().belongs(name) and not name.lower().endswith(_LABELS)

    def look(self, file: DataFile, n_features: int | None) -> Head:
        """Read the header, and that of the labels."""
        matrix, beside = _load(file, 2), _beside(file)
        n, columns = matrix.shape
        labels = None if beside is None else _load(beside, 1)
        if beside is not None and labels is not None and len(labels) != n:
            raise DataFileError(beside.name, f"has {len(labels)} labels for {n} rows")
        count = -(-matrix.nbytes // self.blocksize) if file.is_local else 1
        count = min(max(1, count), max(n, 1))
        rows = tuple(n * (i + 1) // count - n * i // count for i in range(count))
        kind = None if labels is None else labels.dtype
        return Head(rows, columns, matrix.dtype, kind, dense=True)

    def read_rows(self, piece: Piece, n_features: int, dtype: np.dtype) -> np.ndarray:
        """Return finite rows."""
        rows = _load(piece.file, 2)[piece.low : piece.low + piece.rows]
        if not np.all(np.isfinite(rows)):
            row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
            reason = f"value {rows[row, column]} of column {column} is not finite"
            raise DataFileError(piece.file.name, reason, f"row {piece.low + row}")
        return rows.astype(dtype, copy=False)

    def read_labels(self, piece: Piece, dtype: np.dtype) -> np.ndarray:
        """Return labels of the file beside."""
        beside = _beside(piece.file)
        if beside is None:
            raise DataFileError(piece.file.name, f"has no {_LABELS} file beside it any more")
        return _load(beside, 1)[piece.low : piece.low + piece.rows].astype(dtype)


def _load(file: DataFile, dimensions: int) -> np.ndarray:
    """Return the array of a file, whose header is checked: a local file is mapped."""
    raw: Any = np.memmap(file.path, mode="r") if file.is_local and file.size else b""
    raw = raw if file.is_local else file.fs.cat_file(file.path)
    stream = io.BytesIO(raw[:_LONGEST_HEADER])
    shape, fortran, dtype = read_header(stream)
    kinds = "biuf" if dimensions == 2 else "biufU"
    if len(shape) != dimensions or min(shape) < 0 or dtype.kind not in kinds:
        what = "rows and columns of real numbers" if dimensions == 2 else "one label per row"
        raise DataFileError(file.name, f"is of shape {shape} and type {dtype}, wanted {what}")
    size = stream.tell() + dtype.itemsize * math.prod(map(int, shape))  # these do not overflow
    if len(raw) != size:
        reason = f"has {len(raw)} bytes where shape {shape} of {dtype} needs {size}"
        raise DataFileError(file.name, reason)
    return np.ndarray(shape, dtype, raw, stream.tell(), order="F" if fortran else "C")


def _beside(file: DataFile) -> DataFile | None:
    """Return the file of the labels, if there is one."""
    path = file.path[: -len(".npy")] + _LABELS
    return find_files(file.fs.unstrip_protocol(path))[0] if file.fs.exists(path) else None


# Labels in a file of their own, as SVMlin has them ------------------------------------------------


def read_labels(path: str | os.PathLike[str]) -> np.ndarray:
    """Read the labels of rows from a file: an array of int64, float64 or (words) text.

    It is an ``.npy`` file with one number or text per row, or text with one label a line (also
    ``.gz``, ``.bz2`` or ``.xz``). If the first line of a text is a number, all lines must be;
    ValueError has the number of a line that is not, or is empty.
    """
    file, *others = find_files(path)
    name = os.fspath(path)
    if others or file.fs.isdir(filesystem(path)[1]):
        raise ValueError(f"{name} is not one file, wanted a file of labels")
    with told(name, (*BROKEN_TEXT, *NpySource.broken), "cannot be read as labels"):
        if name.lower().endswith(".npy"):
            labels = np.array(_load(file, 1))
        else:
            with file.opened() as stream:
                labels = _labels_of(bytes(stream.read()), name)
    if len(labels) == 0:
        raise ValueError(f"{name} has no labels")
    if labels.dtype.kind == "U":
        return labels
    labels = labels.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(labels))
    if len(bad):
        reason = f"label {bad[0] + 1} is {labels[bad[0]]}, wanted a finite number"
        raise DataFileError(name, reason)
    whole = np.equal(np.floor(labels), labels).all() and np.abs(labels).max() < 2**53
    return labels.astype(np.int64) if whole else labels


def _labels_of(text: bytes, name: str) -> np.ndarray:
    lines = [line.strip() for line in text.rstrip().split(b"\n")] if text.strip() else []
    numeric = bool(lines) and _is_number(lines[0])
    wanted = "a number, as the first line is" if numeric else "a label"
    for number, line in enumerate(lines, 1):
        if not line or (numeric and not _is_number(line)):
            shown = line[:40].decode(errors="replace")
            raise DataFileError(name, f"got {shown!r}, wanted {wanted}", f"line {number}")
    return np.array(lines).astype(np.float64) if numeric else np.array([*map(bytes.decode, lines)])


def _is_number(line: bytes) -> bool:
    try:
        return math.isfinite(float(line))
    except ValueError:
        return False
