"""Columns of an exact kernel matrix, for rows that are in this process as a whole."""

from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.features.blas import one_blas_thread
from dask_s3vm.features.kernel_map import (
    KernelMap,
    is_by_range,
    kernel_values,
    prepared_rows,
    resolved_params,
    sigma_of_range,
)
from dask_s3vm.features.landmarks import one_column_block, plain_rows, sample

#: Rows per block of the diagonal.
DIAGONAL_BLOCK = 64


class KernelColumns:
    """Columns of K, K_ij = k(x_i, x_j), made when asked for.

    Parameters
    ----------
    rows : ndarray or csr_array, all rows.
    kernel, params : kernel by name or function, and its parameters, resolved.
    """

    def __init__(self, rows: Any, kernel: Any, params: dict[str, Any]) -> None:
        self._raw = rows
        self.kernel = kernel
        self.params = params
        origin = None
        if kernel == "rbf" and not sp.issparse(rows):  # for exact distances; see `KernelMap`
            origin = rows.mean(axis=0, dtype=np.float64)
        self._rows = prepared_rows(kernel, rows, origin)

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Columns of the rows with these numbers, (m, n)."""
        with one_blas_thread():
            return kernel_values(self._rows[numbers], self._rows, self.kernel, self.params)

    def diagonal(self) -> np.ndarray:
        """K_ii of all rows."""
        n = self._rows.shape[0]
        parts = []
        with one_blas_thread():
            for low in range(0, n, DIAGONAL_BLOCK):
                block = self._rows[low : low + DIAGONAL_BLOCK]
                values = kernel_values(block, block, self.kernel, self.params)
                parts.append(np.diagonal(values).copy())
        return np.concatenate(parts)

    def weights(self, support: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Sum up c_j x_j, j in `support`, for each row of coefficients: the linear kernel's w."""
        with one_blas_thread():
            return np.ascontiguousarray((self._rows[support].T @ coefficients.T).T)

    def expansion(self, support: np.ndarray, coefficients: np.ndarray) -> KernelMap:
        """Map to features which are the functions sum_j c_j k(x, x_j), j in `support`.

        coefficients : (number of functions, size of support). With weights that are 0 and 1, all
        that a `KernelMap` serves, prediction and files, serves these functions.
        """
        basis = np.ascontiguousarray(coefficients.T)
        return KernelMap(self.kernel, self.params, self._raw[support], basis)


def kernel_columns(
    rows: Any,
    kernel: Any,
    *,
    sigma: float | str,
    gamma: float | None,
    degree: float,
    coef0: float,
    kernel_params: dict[str, Any] | None,
) -> KernelColumns:
    """Make `KernelColumns` of rows in this process; see `fit_kernel_map` for the parameters."""
    by_range = is_by_range(kernel, sigma, gamma)
    rows, low, high = sample(rows, None, None, by_range)
    if by_range:
        sigma = sigma_of_range(low, high)
    params = resolved_params(kernel, rows.shape[1], sigma, gamma, degree, coef0, kernel_params)
    return KernelColumns(rows, kernel, params)


def block_rows(X: Any) -> tuple[int, ...]:
    """Rows of each block of X; computes the blocks if dask does not know."""
    if not is_dask(X):
        return (X.shape[0],)
    if not np.isnan(X.shape[0]):
        return tuple(int(size) for size in X.chunks[0])
    count = dask.delayed(_row_count, pure=False)
    return compute_all([count(block) for block in one_column_block(X).to_delayed().ravel()])


def all_rows(X: Any) -> Any:
    """Return all rows of a dask array in this process, an ndarray or csr_array; leave others."""
    return sample(X, None, None, False).rows if is_dask(X) else X


def beside(X: Any, values: np.ndarray, sizes: tuple[int, ...]) -> Any:
    """Values that have one entry per row, as a dask array in the blocks of X if X is one."""
    if not is_dask(X):
        return values
    return da.from_array(values, chunks=(sizes, *values.shape[1:]))


def _row_count(block: Any) -> int:
    return int(plain_rows(block).shape[0])
