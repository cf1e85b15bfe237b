"""Kernel maps in model files: names, numbers and arrays, checked when they are read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.features.kernel_map import KERNELS, KernelMap

__all__ = ["map_from_plain", "plain_from_map"]

_FIELDS = {"kernel", "params", "landmarks", "basis"}
_SPARSE_FIELDS = {"data", "indices", "indptr", "n_columns"}


def plain_from_map(kernel_map: KernelMap) -> dict[str, Any]:
    """Return a map as a dict of text, numbers and arrays.

    Raises
    ------
    TypeError
        If its kernel is a function: a file without code cannot hold that.
    """
    if not isinstance(kernel_map.kernel, str):
        raise TypeError(
            f"kernel is the function {kernel_map.kernel!r}, which a model file cannot hold; wanted "
            "a kernel by name"
        )
    landmarks = kernel_map.landmarks
    if sp.issparse(landmarks):
        landmarks = {
            "data": landmarks.data,
            "indices": landmarks.indices,
            "indptr": landmarks.indptr,
            "n_columns": int(landmarks.shape[1]),
        }
    return {
        "kernel": kernel_map.kernel,
        "params": kernel_map.params,
        "landmarks": landmarks,
        "basis": kernel_map.basis,
    }


def map_from_plain(plain: Any) -> KernelMap:
    """Return the map of a dict; the file that it is from is not trusted."""
    if not isinstance(plain, Mapping) or set(plain) != _FIELDS:
        raise ValueError("kernel_map_ is not a kernel map")
    kernel, params, basis = plain["kernel"], plain["params"], plain["basis"]
    if kernel not in KERNELS:
        raise ValueError(f"kernel_map_ has the unknown kernel {kernel!r:.80}")
    if not isinstance(params, dict) or not all(
        isinstance(v, int | float) and np.isfinite(v) for v in params.values()
    ):
        raise ValueError("kernel_map_ has parameters that are not numbers")
    landmarks = _landmarks(plain["landmarks"])
    stored = landmarks.data if sp.issparse(landmarks) else landmarks
    if not np.isfinite(stored).all():
        raise ValueError("kernel_map_ has landmarks that are not finite numbers")
    if not _is_matrix(basis) or len(basis) != landmarks.shape[0]:
        raise ValueError("kernel_map_ has a basis that does not fit its landmarks")
    return KernelMap(kernel, params, landmarks, basis)


def _landmarks(plain: Any) -> Any:
    if isinstance(plain, np.ndarray) and plain.ndim == 2 and plain.dtype.kind in "iuf":
        return plain
    if not isinstance(plain, Mapping) or set(plain) != _SPARSE_FIELDS:
        raise ValueError("kernel_map_ has no landmarks")
    data, indices, indptr = (plain[name] for name in ("data", "indices", "indptr"))
    shape = (len(indptr) - 1, int(plain["n_columns"]))
    rows = sp.csr_array((data, indices, indptr), shape)
    rows.check_format(full_check=True)  # compiled code would read beyond its end
    return rows


def _is_matrix(array: Any) -> bool:
    is_matrix = isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind == "f"
    return is_matrix and bool(np.isfinite(array).all())
