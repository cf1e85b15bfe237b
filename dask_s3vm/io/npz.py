"""Rows from ``.npz`` files, and the choice of a reader by the ending of a file's name."""

import os
import zipfile
import zlib
from typing import Any

import numpy as np
from fsspec.core import url_to_fs  # type: ignore[import-untyped]
from scipy.sparse import csr_array, load_npz

from dask_s3vm.io.sources import UrlPath
from dask_s3vm.io.svmlight import read_svmlight

__all__ = ["read_data", "read_npz"]

_TEXT_ENDINGS = (".svm", ".svmlight", ".libsvm", ".txt", ".dat")
_COMPRESSED_ENDINGS = (".gz", ".bz2")
# How reading a broken archive can end.
_BROKEN = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
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
    ValueError
        If the file cannot be read, or holds something else.
    FileNotFoundError
        If the file does not exist.
    """
    name = os.fspath(path)
    fs, inner = url_to_fs(name)
    if not fs.isfile(inner):
        raise FileNotFoundError(f"there is no file {name!r}")
    try:
        with fs.open(inner, "rb") as stream, _open_archive(stream) as archive:
            matrix = _read_rows(archive, stream)
            labels = _read_labels(archive, matrix.shape[0])
    except _BROKEN as error:
        raise ValueError(f"{name}: {error}") from error
    return matrix, labels


def read_data(urlpath: UrlPath, **options: Any) -> tuple[Any, Any]:
    """Read rows and labels, with the reader that fits the ending of the file's name.

    Parameters
    ----------
    urlpath : str, path or list of these
        The file or files: ``.npz`` (one file), or ``.svm``, ``.svmlight``, ``.libsvm``,
        ``.txt`` or ``.dat``, each also with ``.gz`` or ``.bz2`` behind it.
    **options : object
        Options of the reader; see `read_svmlight`. `read_npz` has none.

    Returns
    -------
    X : dask.array.Array or scipy.sparse.csr_array
        The rows, from `read_svmlight` or `read_npz`.
    y : dask.array.Array or ndarray or None
        The labels.

    Raises
    ------
    ValueError
        If the ending is not known.
    """
    urls = [urlpath] if isinstance(urlpath, str | os.PathLike) else urlpath
    paths = [os.fspath(url) for url in urls]
    kinds = {_kind(path) for path in paths}
    if kinds == {"svmlight"}:
        return read_svmlight(urlpath, **options)
    if kinds != {"npz"} or len(paths) > 1:
        raise ValueError(f"urlpath is {paths}, wanted svmlight files only, or one .npz file")
    if options:
        raise ValueError(f"options {sorted(options)} are not for .npz files: {paths[0]!r}")
    return read_npz(paths[0])


def _kind(path: str) -> str:
    lower = path.lower()
    if lower.endswith(".npz"):
        return "npz"
    for ending in _COMPRESSED_ENDINGS:
        lower = lower.removesuffix(ending)
    if lower.endswith(_TEXT_ENDINGS):
        return "svmlight"
    text, compressed = ", ".join(_TEXT_ENDINGS), " or ".join(_COMPRESSED_ENDINGS)
    raise ValueError(
        f"the ending of {path!r} is not known, wanted .npz, or one of {text} "
        f"(and perhaps {compressed} behind it)"
    )


def _open_archive(stream: Any) -> Any:
    # np.load reads other kinds of files too; only an archive has keys.
    if not zipfile.is_zipfile(stream):
        raise ValueError("is not an .npz archive")
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
