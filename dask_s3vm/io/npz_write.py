"""Writing rows as ``.npz`` archives and ``.npy`` matrices, which never stand in memory whole."""

import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from dask_s3vm.io.parts import Part, Shape
from dask_s3vm.io.running import is_dense
from dask_s3vm.io.writing import Progress, write_parts

__all__ = ["write_npy", "write_npz"]


def write_npz(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows as ``.npz`` (see `dask_s3vm.io.read_npz`): one file, or a folder of several.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows: numpy or scipy.sparse or `sparse`, or a dask array with blocks of these.
    y : array of shape (n_rows,) or None
        The labels, numbers or strings.
    path : str or path
        The file; with a slash at its end, a folder with one file per block.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        See `dask_s3vm.io.writing.Progress`.
    """
    write_parts(X, y, path, NpzParts(), dense=is_dense(X), overwrite=overwrite, progress=progress)


def write_npy(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows as one dense ``.npy`` matrix, and labels as ``NAME.y.npy`` beside ``NAME.npy``.

    Parameters
    ----------
    X, y, path, overwrite, progress : object
        As in `write_npz`, but without folders. Sparse rows become dense.
    """
    write_parts(X, y, path, NpyParts(), dense=True, overwrite=overwrite, progress=progress)


class NpzParts:
    """``.npz`` archives as a `PartFormat`."""

    typed = True
    ending = ".npz"

    def check(self, shape: Shape, labeled: bool, folder: bool) -> None:
        """Anything can be held."""

    def write(
        self, stream: BinaryIO, rows: Any, labels: np.ndarray | None, shape: Shape
    ) -> dict[str, Any]:
        """Write a whole archive of one block."""
        with zipfile.ZipFile(stream, "w") as archive:
            if isinstance(rows, np.ndarray):
                _put(archive, "X", rows.dtype, rows.shape, [rows])
            else:
                _put(archive, "data", rows.dtype, (rows.nnz,), [rows.data])
                _put(archive, "indices", rows.indices.dtype, (rows.nnz,), [rows.indices])
                _put(archive, "indptr", rows.indptr.dtype, rows.indptr.shape, [rows.indptr])
                _put(archive, "shape", np.dtype(np.int64), (2,), [np.array(rows.shape)])
            if labels is not None:
                _put(archive, "y", labels.dtype, labels.shape, [labels])
        return {}

    def join(self, target: Any, parts: list[Part], staged: Any, shape: Shape) -> None:
        """Put the arrays of all parts behind each other, in one archive."""
        n = sum(part.rows for part in parts)
        values = np.dtype(parts[0].values)
        entries = sum(part.entries for part in parts)
        wide = max(entries, shape.n_features) > np.iinfo(np.int32).max
        index = np.dtype(np.int64 if wide else np.int32)
        with zipfile.ZipFile(target(), "w") as archive:
            if shape.dense:
                size = (n, shape.n_features)
                _put(archive, "X", values, size, _arrays(staged, parts, "X"))
            else:
                _put(archive, "data", values, (entries,), _arrays(staged, parts, "data"))
                _put(archive, "indices", index, (entries,), _arrays(staged, parts, "indices"))
                _put(archive, "indptr", index, (n + 1,), _joined_offsets(staged, parts))
                told = np.array([n, shape.n_features])
                _put(archive, "shape", np.dtype(np.int64), (2,), [told])
            if parts[0].labels is not None:
                kind = np.dtype(parts[0].labels)
                _put(archive, "y", kind, (n,), _arrays(staged, parts, "y"))


class NpyParts(NpzParts):
    """A ``.npy`` matrix as a `PartFormat`; its parts are archives."""

    def check(self, shape: Shape, labeled: bool, folder: bool) -> None:
        """Refuse a folder."""
        if folder:
            raise ValueError("npy is one file of rows and one of labels; for a folder take npz")

    def join(self, target: Any, parts: list[Part], staged: Any, shape: Shape) -> None:
        """Put the matrices of all parts under each other."""
        n = sum(part.rows for part in parts)
        stream = target()
        size = (n, shape.n_features)
        _put_array(stream, np.dtype(parts[0].values), size, _arrays(staged, parts, "X"))
        if parts[0].labels is not None:
            kind = np.dtype(parts[0].labels)
            _put_array(target(".y.npy"), kind, (n,), _arrays(staged, parts, "y"))


def _arrays(staged: Any, parts: list[Part], key: str) -> Iterator[np.ndarray]:
    for part in parts:
        with staged.open(part.name) as stream, np.load(stream, allow_pickle=False) as archive:
            yield archive[key]


def _joined_offsets(staged: Any, parts: list[Part]) -> Iterator[np.ndarray]:
    base = 0
    yield np.zeros(1, dtype=np.int64)
    for own in _arrays(staged, parts, "indptr"):
        yield own[1:].astype(np.int64) + base
        base += int(own[-1])


def _put(
    archive: zipfile.ZipFile,
    name: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    arrays: Iterable[np.ndarray],
) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        _put_array(member, dtype, shape, arrays)


def _put_array(
    stream: Any, dtype: np.dtype, shape: tuple[int, ...], arrays: Iterable[np.ndarray]
) -> None:
    """Write one array that comes in pieces."""
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": tuple(int(k) for k in shape)}
    np.lib.format.write_array_header_1_0(stream, header)
    for array in arrays:
        whole = np.ascontiguousarray(array.astype(dtype, copy=False))
        if whole.size:
            stream.write(whole.reshape(-1).view(np.uint8).data)
