"""Which blocks of X can stay in the file that they are views of."""

from typing import Any

import numpy as np

from dask_s3vm.engine.checks import check_columns, check_finite, check_indptr
from dask_s3vm.engine.mapped import MappedRows, mapped_array
from dask_s3vm.kernels.rows import CSR

#: Bytes that are looked at before their pages are let go.
_CHECKED_AT_ONCE = 2**24


def mapped_rows(X: Any) -> MappedRows | None:
    """Check rows that are views of a mapped file, and tell where they lie; None for any others.

    CSR rows with 32-bit column numbers, and dense C-ordered ones, of float32 or float64: what
    kernels read as it is. The pages are read once, for the checks, and let go at once.
    """
    if isinstance(X, np.ndarray):
        rows = _dense(X)
    elif getattr(X, "format", "") == "csr" or getattr(X, "compressed_axes", None) == (0,):
        rows = _sparse(X)
    else:
        return None
    if rows is not None:
        _check(rows, X.shape[1])
    return rows


def _dense(X: np.ndarray) -> MappedRows | None:
    values = mapped_array(X) if X.ndim == 2 and X.size and _is_float(X) else None
    return None if values is None else MappedRows(None, None, values)


def _sparse(X: Any) -> MappedRows | None:
    if X.ndim != 2 or not _is_float(X.data) or getattr(X, "fill_value", 0) != 0:
        return None
    if X.indices.dtype not in (np.int32, np.uint32):
        return None
    stored = check_indptr(X.data, X.indices, X.indptr, X.shape)
    if not stored:
        return None
    # a negative column number turns into one beyond the last
    indices = mapped_array(X.indices[:stored].view(np.uint32))
    values = mapped_array(X.data[:stored])
    if indices is None or values is None:
        return None
    indptr = X.indptr.astype(np.uint32)
    indptr.flags.writeable = False
    return MappedRows(indptr, indices, values)


def _is_float(values: np.ndarray) -> bool:
    return values.dtype in (np.float32, np.float64)


def _check(rows: MappedRows, n_features: int) -> None:
    step = max(1, rows.n_rows * _CHECKED_AT_ONCE // rows.nbytes)
    for start in range(0, rows.n_rows, step):
        part = rows.part(start, min(start + step, rows.n_rows))
        found = part.open()
        if isinstance(found, CSR):
            check_columns(found.indices, n_features)
            found = found.values
        check_finite(found)
        part.release()
