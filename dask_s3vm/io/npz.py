"""Rows from ``.npz`` files: one into memory, several as the blocks of dask arrays."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import dask
import numpy as np
from dask.base import tokenize
from fsspec.core import url_to_fs  # type: ignore[import-untyped]
from scipy.sparse import csr_array, load_npz

from dask_s3vm.io.archive import BROKEN, read_header
from dask_s3vm.io.blocks import (
    MOST_FEATURES,
    as_block,
    check_known,
    check_options,
    common_type,
    empty_block,
    lazy_array,
    sorted_labels,
)
from dask_s3vm.io.checksum import check_archive
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import TextFile, UrlPath, find_files

__all__ = ["read_npz", "read_npz_data"]

# How reading a broken archive can end.
_WANTED = "'X' (dense) or 'indices', 'indptr', 'shape' and perhaps 'data' (CSR), and perhaps 'y'"


def read_npz(path: str | os.PathLike[str]) -> tuple[csr_array, np.ndarray | None]:
    """Read rows and labels from one ``.npz`` file.

    Parameters
    ----------
    path : str or path
        A file with the keys ``X`` (dense), or ``indices``, ``indptr``, ``shape`` and ``data``
        (CSR; without ``data`` all values are one), or one written by `scipy.sparse.save_npz`.
        In each case ``y`` may hold the labels.

    Returns
    -------
    X : scipy.sparse.csr_array of shape (n_rows, n_features)
        The rows: float32 if stored so, else float64. Columns are sorted in each row.
    y : ndarray of shape (n_rows,) or None
        The labels as stored, or ``None`` if the file has none.

    Raises
    ------
    DataFileError
        If the file cannot be read, or holds something else.
    FileNotFoundError
        If the file does not exist.
    """
    fs, inner = url_to_fs(os.fspath(path))
    if not fs.isfile(inner):
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    return _read(TextFile(fs, inner, None, ""))


def read_npz_data(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] | None = None,
    known_labels: Any = None,
) -> tuple[Any, Any]:
    """Read rows and labels of one ``.npz`` file into memory, or of several as lazy blocks.

    Parameters
    ----------
    urlpath : str, path or list of these
        Files, glob patterns or folders. Each file is one block; see `read_npz`.
    n_features : int, optional
        Number of columns; by default as many as the widest of the files says.
    block : {"gcxs", "scipy"}, optional
        Type of the blocks. By default a single file is read at once into a
        ``scipy.sparse.csr_array``, and several have blocks of type ``sparse.GCXS``.
    known_labels : list, optional
        The labels that may occur, the mark of unlabeled rows included; any other is an error.

    Returns
    -------
    X : dask.array.Array or scipy.sparse.csr_array
        The rows.
    y : dask.array.Array or ndarray or None
        The labels, ``None`` if no file has any.

    Raises
    ------
    DataFileError
        If a file cannot be read, or does not fit the others.
    """
    check_options(n_features=n_features, block=block or "gcxs")
    files = find_files(urlpath, FORMATS["npz"].fits)
    if block is None and len(files) == 1:
        matrix, labels = _read(files[0])
        if labels is not None:
            _check_labels(files[0], labels, sorted_labels(known_labels))
        return _widened(matrix, n_features or matrix.shape[1], files[0].name), labels
    heads = dask.compute(*(dask.delayed(_look, pure=False)(file) for file in files))
    columns = n_features or max(head.n_features for head in heads)
    dtype = np.result_type(np.float32, *(head.dtype for head in heads))
    rows = [head.n_rows for head in heads]
    token = tokenize([(f.name, f.version) for f in files], columns, block)
    tasks = [
        (_read_block, *part, columns, dtype, block or "gcxs")
        for part in zip(files, heads, strict=True)
    ]
    meta = empty_block(dtype, block or "gcxs")
    X = lazy_array(f"npz-X-{token}", tasks, rows, meta, n_features=columns)
    label_type = common_type([f.name for f in files], [head.labels for head in heads])
    if label_type is None:
        return X, None
    known = sorted_labels(known_labels)
    token = tokenize(token, known)
    readings = [(_read_y, *part, label_type, known) for part in zip(files, heads, strict=True)]
    return X, lazy_array(f"npz-y-{token}", readings, rows, np.empty(0, dtype=label_type))


@dataclass(frozen=True)
class _Head:
    """What an archive says about itself."""

    n_rows: int
    n_features: int
    dtype: np.dtype
    labels: np.dtype | None


def _look(file: TextFile) -> _Head:
    """Read the sizes and types of an archive's arrays, but not the arrays."""
    with _opened(file) as (archive, stream):
        keys = set(archive.files)
        heads = {key: _header(stream, key) for key in keys & {"X", "data", "y"}}
        if "X" in heads and not {"indices", "indptr", "shape"} <= keys:
            shape, dtype = heads["X"]
        elif "shape" in keys and _header(stream, "shape")[0] == (2,):
            shape = tuple(int(length) for length in archive["shape"])
            dtype = heads["data"][1] if "data" in heads else np.dtype(np.float64)
        else:
            raise ValueError(f"has the keys {sorted(keys)}, wanted {_WANTED}")
        if len(shape) != 2 or min(shape) < 0 or shape[1] > MOST_FEATURES:
            raise ValueError(f"holds a matrix of shape {shape}, wanted rows and columns")
        narrow = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        return _Head(shape[0], shape[1], narrow, heads["y"][1] if "y" in heads else None)


def _header(stream: Any, key: str) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and type of one array of an archive."""
    with zipfile.ZipFile(stream) as directory, directory.open(f"{key}.npy") as member:
        return read_header(member)


def _read_block(file: TextFile, head: _Head, columns: int, dtype: np.dtype, block: str) -> Any:
    with _opened(file, checked=True) as (archive, stream):
        matrix = _read_rows(archive, stream)
    _check_same(file, head, matrix.shape[0])
    return as_block(_widened(matrix, columns, file.name).astype(dtype, copy=False), block)


def _read_y(file: TextFile, head: _Head, dtype: np.dtype, known: np.ndarray | None) -> np.ndarray:
    with _opened(file) as (archive, _):
        labels: np.ndarray = archive["y"]
    _check_same(file, head, len(labels))
    _check_labels(file, labels, known)
    return labels.astype(dtype, copy=False)


def _check_labels(file: TextFile, labels: np.ndarray, known: np.ndarray | None) -> None:
    strange = check_known(labels, known)
    if strange >= 0 and known is not None:
        reason = f"label {labels[strange]!r} is not one of {known.tolist()}"
        raise DataFileError(file.name, reason, f"row {strange}")


def _check_same(file: TextFile, head: _Head, rows: int) -> None:
    if rows != head.n_rows:
        raise DataFileError(file.name, f"has {rows} rows, but its header says {head.n_rows}")


def _widened(matrix: csr_array, columns: int, name: str) -> csr_array:
    if columns < matrix.shape[1]:
        raise DataFileError(name, f"has {matrix.shape[1]} columns, but n_features is {columns}")
    if columns > matrix.shape[1]:
        parts = (matrix.data, matrix.indices, matrix.indptr)
        return csr_array(parts, shape=(matrix.shape[0], columns))
    return matrix


def _read(file: TextFile) -> tuple[csr_array, np.ndarray | None]:
    with _opened(file, checked=True) as (archive, stream):
        matrix = _read_rows(archive, stream)
        return matrix, _read_labels(archive, matrix.shape[0])


@contextmanager
def _opened(file: TextFile, checked: bool = False) -> Iterator[tuple[Any, Any]]:
    """Open an archive; say which one it was that could not be read.

    `checked` : whether to read the whole file for its checksum, if it has one.
    """
    try:
        with file.fs.open(file.path, "rb") as stream, _open_archive(stream, checked) as archive:
            yield archive, stream
    except (DataFileError, FileNotFoundError):
        raise
    except BROKEN as error:
        raise DataFileError(file.name, str(error)) from error


def _open_archive(stream: Any, checked: bool) -> Any:
    # np.load reads other kinds of files too; only an archive has keys.
    if not zipfile.is_zipfile(stream):
        raise ValueError("is not an .npz archive")
    if checked:
        check_archive(stream)
    stream.seek(0)
    return np.load(stream, allow_pickle=False)


def _read_rows(archive: Any, stream: Any) -> csr_array:
    keys = set(archive.files)
    if "format" in keys:
        stream.seek(0)
        matrix = csr_array(load_npz(stream))
    elif {"indices", "indptr", "shape"} <= keys:
        matrix = _read_csr(archive, "data" in keys)
    elif "X" in keys:
        matrix = _from_dense(archive["X"])
    else:
        raise ValueError(f"has the keys {sorted(keys)}, wanted {_WANTED}")
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(
            f"holds a matrix of shape {matrix.shape} and type {matrix.dtype}, "
            "wanted rows and columns of real numbers"
        )
    if matrix.dtype != np.float32:
        matrix = matrix.astype(np.float64)
    matrix.check_format(full_check=True)
    matrix.sum_duplicates()
    return matrix


def _read_csr(archive: Any, has_data: bool) -> csr_array:
    indices, indptr = archive["indices"], archive["indptr"]
    shape = tuple(archive["shape"].tolist())
    data = archive["data"] if has_data else np.ones(len(indices))
    return csr_array((data, indices, indptr), shape=shape)


def _from_dense(dense: np.ndarray) -> csr_array:
    if dense.ndim != 2 or dense.dtype.kind not in "biuf":
        raise ValueError(
            f"'X' is of shape {dense.shape} and type {dense.dtype}, "
            "wanted rows and columns of real numbers"
        )
    return csr_array(dense)


def _read_labels(archive: Any, rows: int) -> np.ndarray | None:
    if "y" not in archive.files:
        return None
    labels: np.ndarray = archive["y"]
    if labels.shape != (rows,):
        raise ValueError(f"'y' is of shape {labels.shape}, wanted ({rows},)")
    return labels
