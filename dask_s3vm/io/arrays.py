"""Rows from numpy's files: ``.npz`` archives, sparse or dense, and mapped ``.npy`` matrices."""

import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

__all__ = ["read_labels", "read_npy", "read_npz"]

_WANTED = "'X' (dense) or 'indices', 'indptr', 'shape' and perhaps 'data' (CSR), and perhaps 'y'"
_CSR = {"indices", "indptr", "shape"}
_LABELS = ".y.npy"


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
    urlpath: UrlPath,
    *,
    y_path: UrlPath | None = None,
    n_features: int | None = None,
    blocksize: int | str = "32MiB",
) -> tuple[da.Array, da.Array | None]:
    """Open matrices in ``.npy`` files as dask arrays; several are put under each other.

    Parameters
    ----------
    urlpath : str, path or list of these
        Files, glob patterns or folders; anything fsspec can open.
    y_path : str, path or list of these, optional
        Files of the labels, as many. By default ``NAME.y.npy`` beside each ``NAME.npy``, if there
        is one.
    blocksize : int or str
        Bytes in one block.
    n_features
        As in `read_svmlight`.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows, float32 or float64. Blocks of a local file of such numbers are views of its map.
    y : dask.array.Array of shape (n_rows,) or None
        The labels.
    """
    source = NpySource(check_options(blocksize=blocksize), {})
    source.labels.update(_find_labels(find_files(urlpath, source.belongs), y_path))
    return open_blocks(source, urlpath, n_features=n_features)


@dataclass(frozen=True)
class _Array:
    """An array in a file: where its numbers start, and what they are."""

    file: DataFile
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype
    order: Literal["C", "F"]

    @classmethod
    def open(cls, file: DataFile, dimensions: int) -> "_Array":
        """Read an array's header, and check that the file is as long as it says."""
        with file.fs.open(file.path, "rb") as stream:
            shape, fortran, dtype = read_header(stream)
            start = stream.tell()
        kinds = "biuf" if dimensions == 2 else "biufU"
        if len(shape) != dimensions or min(shape) < 0 or dtype.kind not in kinds:
            what = "rows and columns of real numbers" if dimensions == 2 else "one label per row"
            raise DataFileError(file.name, f"is of shape {shape} and type {dtype}, wanted {what}")
        size = dtype.itemsize * math.prod(map(int, shape))  # Python numbers do not overflow
        if file.size != start + size:
            reason = f"has {file.size} bytes where shape {shape} of {dtype} needs {start + size}"
            raise DataFileError(file.name, reason)
        if fortran and dimensions == 2 and not file.is_local:
            raise DataFileError(file.name, "is stored by columns, which only a local file may be")
        return cls(file, start, shape, dtype, "F" if fortran else "C")

    def read(self, low: int, high: int) -> np.ndarray:
        """Return some rows: a view of a local file, else a copy."""
        if self.file.is_local:
            whole = np.memmap(self.file.path, self.dtype, "r", self.start, self.shape, self.order)
            return np.asarray(whole[low:high])
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        text = self.file.read(self.start + low * width, self.start + high * width)
        return np.frombuffer(text, dtype=self.dtype).reshape(high - low, *self.shape[1:])


@dataclass(frozen=True)
class NpySource(Source):
    """Matrices, cut into pieces of some bytes; `labels` has the file of them for each of rows."""

    name = "npy"
    broken = (ValueError, EOFError, OSError, TypeError)
    refusal = "is not an .npy file that can be read"

    blocksize: int
    labels: dict[str, DataFile]

    def look(self, file: DataFile, n_features: int | None) -> Head:
        """Read the header, and that of the labels."""
        matrix = _Array.open(file, 2)
        n, columns = matrix.shape
        labels = None
        if self.labels:
            column = _Array.open(self.labels_of(file), 1)
            labels = column.dtype
            if column.shape[0] != n:
                reason = f"has {column.shape[0]} labels for {n} rows"
                raise DataFileError(column.file.name, reason)
        size = n * columns * matrix.dtype.itemsize
        count = min(max(1, -(-size // self.blocksize)), max(n, 1))
        cuts = [(n * i // count, n * (i + 1) // count) for i in range(count)]
        rows = tuple(high - low for low, high in cuts)
        return Head(rows, columns, matrix.dtype, labels, dense=True)

    def belongs(self, name: str) -> bool:
        """Labels lie beside."""
        return super().belongs(name) and not name.lower().endswith(_LABELS)

    def labels_of(self, file: DataFile) -> DataFile:
        """Return the file beside."""
        return self.labels[file.name]

    def read_rows(self, piece: Piece, n_features: int, dtype: np.dtype) -> np.ndarray:
        """Return finite rows."""
        rows = _Array.open(piece.file, 2).read(piece.low, piece.low + piece.rows)
        if not np.all(np.isfinite(rows)):
            row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
            reason = f"value {rows[row, column]} of column {column} is not finite"
            raise DataFileError(piece.file.name, reason, f"row {piece.low + row}")
        return rows.astype(dtype, copy=False)

    def read_labels(self, piece: Piece, dtype: np.dtype) -> np.ndarray:
        """Return labels of the file beside."""
        array = _Array.open(self.labels_of(piece.file), 1)
        return array.read(piece.low, piece.low + piece.rows).astype(dtype)


def _find_labels(files: list[DataFile], y_path: UrlPath | None) -> dict[str, DataFile]:
    """Return the file of labels for each file of rows; none if no file has one beside it."""
    if y_path is None:
        paths = [(file.fs, file.path[: -len(".npy")] + _LABELS) for file in files]
        if not any(fs.exists(path) for fs, path in paths):
            return {}
        y_path = [fs.unstrip_protocol(path) for fs, path in paths]
    beside = find_files(y_path, FORMATS["npy"].fits)
    if len(beside) != len(files):
        raise ValueError(f"y_path has {len(beside)} files, wanted {len(files)} as of rows")
    return {file.name: own for file, own in zip(files, beside, strict=True)}


# Labels in a file of their own, as SVMlin has them ------------------------------------------------


def read_labels(path: str | os.PathLike[str]) -> np.ndarray:
    """Read the labels of rows from a file: an array of int64, float64 or (words) text.

    It is an ``.npy`` file with one number or text per row, or text with one label a line (also
    ``.gz``, ``.bz2`` or ``.xz``). If the first line of a text is a number, all lines must be;
    ValueError has the number of a line that is not, or is empty.
    """
    (file,) = find_files(path)
    name = os.fspath(path)
    with told(name, (*BROKEN_TEXT, *NpySource.broken), "cannot be read as labels"):
        if name.lower().endswith(".npy"):
            array = _Array.open(file, 1)
            labels = np.array(array.read(0, *array.shape))
        else:
            with file.opened() as stream:
                labels = _labels_of(stream.read(), name)
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
    wanted = "a label"
    is_good: Callable[[bytes], bool] = bool
    if lines and _is_number(lines[0]):
        # numpy reads all lines at once; only a file with a mistake is looked at line by line
        with suppress(ValueError):
            numbers = np.array(lines).astype(np.float64)
            if np.isfinite(numbers).all():
                return numbers
        wanted, is_good = "a number, as the first line is", _is_number
    for number, line in enumerate(lines, 1):
        if not is_good(line):
            shown = line[:40].decode(errors="replace")
            raise DataFileError(name, f"got {shown!r}, wanted {wanted}", f"line {number}")
    return np.array([line.decode() for line in lines], dtype=np.str_)


def _is_number(line: bytes) -> bool:
    try:
        return bool(np.isfinite(float(line)))
    except ValueError:
        return False
