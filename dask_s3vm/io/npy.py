"""Dense rows from ``.npy`` files: mapped if they are local, block by block."""

import os
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.utils import parse_bytes

from dask_s3vm.io.blocks import check_known, check_options, common_type, lazy_array, sorted_labels
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import TextFile, UrlPath, find_files

__all__ = ["read_npy"]

_LABELS = ".y.npy"


def read_npy(
    urlpath: UrlPath,
    *,
    y_path: UrlPath | None = None,
    n_features: int | None = None,
    blocksize: int | str = "32MiB",
    known_labels: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open matrices in ``.npy`` files as dask arrays; several are put under each other.

    Parameters
    ----------
    urlpath : str, path or list of these
        Files, glob patterns or folders; anything fsspec can open.
    y_path : str, path or list of these, optional
        Files of the labels, as many. By default ``NAME.y.npy`` beside each ``NAME.npy``, if there
        is one.
    n_features : int, optional
        Number of columns, to make sure of it.
    blocksize : int or str
        Bytes in one block.
    known_labels : list, optional
        The labels that may occur, the mark of unlabeled rows included; any other is an error.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows, float32 or float64. Blocks of a local file of such numbers are views of its map.
    y : dask.array.Array of shape (n_rows,) or None
        The labels.

    Raises
    ------
    DataFileError
        If a file is cut short, or is something else.
    """
    check_options(n_features=n_features, blocksize=blocksize)
    known = sorted_labels(known_labels)
    found = find_files(urlpath, lambda name: FORMATS["npy"].fits(name) and not _is_labels(name))
    matrices = [_look(file, 2) for file in found]
    columns = matrices[0].shape[1]
    for matrix in matrices:
        if matrix.shape[1] != (n_features or columns):
            reason = f"has {matrix.shape[1]} columns, wanted {n_features or columns}"
            raise DataFileError(matrix.file.name, reason)
    dtype = np.result_type(np.float32, *(matrix.dtype for matrix in matrices))
    size = parse_bytes(blocksize)
    places = [(m, low, high) for m in matrices for low, high in _ranges(m, size)]
    rows = [high - low for _, low, high in places]
    token = tokenize([(m.file.name, m.file.version) for m in matrices], rows)
    X = lazy_array(
        f"npy-X-{token}",
        [(_read_rows, *place, dtype) for place in places],
        rows,
        np.empty((0, 0), dtype=dtype),
        n_features=columns,
    )
    beside = _find_labels(found, y_path)
    if beside is None:
        return X, None
    columns_y = [_look(file, 1) for file in beside]
    for matrix, column in zip(matrices, columns_y, strict=True):
        if column.shape[0] != matrix.shape[0]:
            reason = f"has {column.shape[0]} labels for {matrix.shape[0]} rows"
            raise DataFileError(column.file.name, reason)
    kind = common_type([c.file.name for c in columns_y], [c.dtype for c in columns_y])
    own = dict(zip(matrices, columns_y, strict=True))
    tasks = [(_read_labels, own[m], low, high, kind, known) for m, low, high in places]
    token = tokenize(token, [(c.file.name, c.file.version) for c in columns_y], known)
    return X, lazy_array(f"npy-y-{token}", tasks, rows, np.empty(0, dtype=kind))


@dataclass(frozen=True)
class _Array:
    """An array in a file: where its numbers start, and what they are."""

    file: TextFile
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype
    order: str

    def rows(self, low: int, high: int) -> np.ndarray:
        """Return some rows: a view of a local file, else a copy."""
        if self.file.is_local:
            whole = np.memmap(
                self.file.path,
                self.dtype,
                "r",
                self.start,
                self.shape,
                self.order,  # type: ignore[call-overload]
            )
            return np.asarray(whole[low:high])
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        text = self.file.read_exactly(self.start + low * width, self.start + high * width)
        return np.frombuffer(text, dtype=self.dtype).reshape(high - low, *self.shape[1:])


def _look(file: TextFile, dimensions: int) -> _Array:
    """Read an array's header, and check that the file is as long as it says."""
    try:
        with file.fs.open(file.path, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"is of format {version}")
            read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            shape, fortran, dtype = read(stream)
            start = stream.tell()
    except FileNotFoundError:
        raise
    except (ValueError, EOFError, OSError, TypeError) as error:
        raise DataFileError(file.name, f"is not an .npy file that can be read: {error}") from error
    kinds = "biuf" if dimensions == 2 else "biufU"
    if len(shape) != dimensions or min(shape) < 0 or dtype.kind not in kinds:
        what = "rows and columns of real numbers" if dimensions == 2 else "one label per row"
        raise DataFileError(file.name, f"is of shape {shape} and type {dtype}, wanted {what}")
    size = dtype.itemsize
    for length in shape:  # in Python numbers, which do not overflow
        size *= int(length)
    if file.size != start + size:
        reason = f"has {file.size} bytes where shape {shape} of {dtype} needs {start + size}"
        raise DataFileError(file.name, reason)
    if fortran and dimensions == 2 and not file.is_local:
        raise DataFileError(file.name, "is stored by columns, which only a local file may be")
    return _Array(file, start, shape, dtype, "F" if fortran else "C")


def _ranges(matrix: _Array, blocksize: int) -> list[tuple[int, int]]:
    n = matrix.shape[0]
    size = n * matrix.shape[1] * matrix.dtype.itemsize
    count = min(max(1, -(-size // blocksize)), max(n, 1))
    return [(n * i // count, n * (i + 1) // count) for i in range(count)]


def _find_labels(files: list[TextFile], y_path: UrlPath | None) -> list[TextFile] | None:
    if y_path is not None:
        beside = find_files(y_path, FORMATS["npy"].fits)
        if len(beside) != len(files):
            raise ValueError(f"y_path has {len(beside)} files, wanted {len(files)} as of rows")
        return beside
    paths = [file.path[: -len(".npy")] + _LABELS for file in files]
    there = [path for file, path in zip(files, paths, strict=True) if file.fs.exists(path)]
    if not there:
        return None
    if len(there) < len(files):
        missing = next(path for path in paths if path not in there)
        raise FileNotFoundError(f"there is no file {missing!r}, but other rows have labels")
    names = [f.fs.unstrip_protocol(path) for f, path in zip(files, paths, strict=True)]
    return find_files(names)


def _is_labels(name: str) -> bool:
    return os.fspath(name).lower().endswith(_LABELS)


def _read_rows(matrix: _Array, low: int, high: int, dtype: np.dtype) -> np.ndarray:
    rows = matrix.rows(low, high)
    if not np.all(np.isfinite(rows)):
        row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        reason = f"value {rows[row, column]} of column {column} is not finite"
        raise DataFileError(matrix.file.name, reason, f"row {low + row}")
    return rows.astype(dtype, copy=False)


def _read_labels(
    column: _Array, low: int, high: int, dtype: np.dtype, known: np.ndarray | None
) -> np.ndarray:
    labels = column.rows(low, high).astype(dtype)
    strange = check_known(labels, known)
    if strange >= 0:
        reason = f"label {labels[strange]!r} is not one of {known.tolist()}"  # type: ignore[union-attr]
        raise DataFileError(column.file.name, reason, f"row {low + strange}")
    return labels
