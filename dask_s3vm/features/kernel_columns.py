"""Columns of an exact kernel matrix, for rows that are all in this process."""

from typing import Any

import dask
import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.features.kernel_map import (
    KernelMap,
    check_ranges,
    is_by_range,
    kernel_values,
    prepared_rows,
    resolved_params,
    sigma_of_range,
)
from dask_s3vm.features.landmarks import narrow_rows, one_column_block, sample
from dask_s3vm.numerics.linalg import one_blas_thread

#: Rows per block when the diagonal is computed.
DIAGONAL_BLOCK = 64


class KernelColumns:
    """Columns of K, K_ij = k(x_i, x_j), computed on demand.

    Parameters
    ----------
    rows : ndarray or csr_array, all rows.
    kernel, params : name or function of the kernel, and its resolved parameters.
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
        """Return the columns of the rows with these numbers, (m, n)."""
        with one_blas_thread():
            return kernel_values(self._rows[numbers], self._rows, self.kernel, self.params)

    def diagonal(self) -> np.ndarray:
        """Return K_ii of all rows."""
        n = self._rows.shape[0]
        parts = []
        with one_blas_thread():
            for low in range(0, n, DIAGONAL_BLOCK):
                block = self._rows[low : low + DIAGONAL_BLOCK]
                values = kernel_values(block, block, self.kernel, self.params)
                parts.append(np.diagonal(values).copy())
        return np.concatenate(parts)

    def weights(self, support: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return w = sum_j c_j x_j, j in `support`, for each row c: the linear kernel only."""
        with one_blas_thread():
            return np.ascontiguousarray((self._rows[support].T @ coefficients.T).T)

    def expansion(self, support: np.ndarray, coefficients: np.ndarray) -> KernelMap:
        """Return the map whose features are the functions sum_j c_j k(x, x_j), j in `support`.

        coefficients : (number of functions, size of support). With unit vectors as weights,
        prediction and model files work for these functions as for any `KernelMap`.
        """
        if not len(support):  # kernels are between rows: one that counts for nothing
            support, coefficients = np.zeros(1, np.intp), np.zeros((len(coefficients), 1))
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
    """Return `KernelColumns` of rows in this process; see `fit_kernel_map` for the parameters."""
    by_range = is_by_range(kernel, sigma, gamma)
    rows, ranges = sample(rows, None, None, by_range)
    if ranges is not None:
        check_ranges(ranges)
        sigma = sigma_of_range(ranges)
    params = resolved_params(kernel, rows.shape[1], sigma, gamma, degree, coef0, kernel_params)
    return KernelColumns(rows, kernel, params)


def block_rows(X: Any) -> tuple[int, ...]:
    """Return the numbers of rows of the blocks of X; computes the blocks if they are unknown."""
    if not is_dask(X):
        return (X.shape[0],)
    if not np.isnan(X.shape[0]):
        return tuple(int(size) for size in X.chunks[0])
    count = dask.delayed(_row_count, pure=False)
    return compute_all([count(block) for block in one_column_block(X).to_delayed().ravel()])


def all_rows(X: Any) -> Any:
    """Gather a dask array in this process, as an ndarray or csr_array; return others unchanged."""
    return sample(X, None, None, False).rows if is_dask(X) else X


def _row_count(block: Any) -> int:
    return int(narrow_rows(block).shape[0])
