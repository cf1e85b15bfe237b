"""Kernels for linear methods: the subset-of-regressors (Nystroem) feature map.

With landmarks R, m of the training rows, a function of the span of the kernel there is
``f(x) = sum_j c_j k(x, r_j) = K_xR c``, of squared norm ``|f|^2 = c^T K_RR c``. Let B be (m, k)
with ``B B^T = pinv(K_RR)`` and features ``z(x) = K_xR B``. A linear model w of z is that f with
``c = B w``, and ``|w|^2 = w^T B^T K_RR B w = c^T K_RR c = |f|^2``: to train a linear method on z
is to train its kernel form with f restricted to the span. If all rows are landmarks nothing is
restricted: ``Z Z^T = K pinv(K) K = K``, and by the representer theorem f is the exact solution.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

from dask_s3vm import _config
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.features.blas import one_blas_thread
from dask_s3vm.features.landmarks import one_column_block, plain_rows, sample

#: Names of kernels.
KERNELS = tuple(sorted(KERNEL_PARAMS))

#: sigma="scale" is this part of the range diagonal: scikit-learn's gamma="scale" where columns are
#: uniform over their ranges (there 1 / gamma = d var = s^2 / 12, so sigma = s / sqrt(24)).
SCALE = 0.2

#: Eigenvalues of K_RR below this part of the largest are rounding errors, and dropped.
SMALLEST_EIGENVALUE = 1e-12

#: A negative eigenvalue beyond this part of the largest is none of rounding.
INDEFINITE = 1e-8

#: Temporary arrays of a piece of rows have about this size.
PIECE_BYTES = 8 << 20

#: Pieces are a multiple of this: BLAS computes the last few rows of an odd number in another way.
TILE = 16

_NEED_DENSE = ("additive_chi2", "chi2")


@dataclass(frozen=True, eq=False)
class KernelMap:
    """A fitted map from rows to features whose inner products are (nearly) a kernel.

    Attributes
    ----------
    kernel : str or callable
        Kernel, as for `sklearn.metrics.pairwise.pairwise_kernels`.
    params : dict
        Parameters of the kernel, all of them resolved.
    landmarks : ndarray or scipy.sparse.csr_array of shape (m, d)
        Rows of X.
    basis : ndarray of shape (m, k)
        B of ``B B^T = pinv(K_RR)``: eigenvectors over roots of the eigenvalues, largest first, the
        largest entry of each positive. k <= m: eigenvalues below 1e-12 of the largest are dropped,
        or below twice the most negative one, which shows how large rounding errors are.
    """

    kernel: str | Callable[..., float]
    params: dict[str, Any]
    landmarks: Any
    basis: np.ndarray

    @property
    def n_features(self) -> int:
        """Columns of the rows that are mapped."""
        return self.landmarks.shape[1]

    @property
    def n_components(self) -> int:
        """Columns of the features."""
        return self.basis.shape[1]

    @property
    def piece_rows(self) -> int:
        """Rows that are mapped at a time; it follows from the map alone."""
        width = len(self.basis) + self.n_components
        if not sp.issparse(self.landmarks):
            width += self.n_features
        return max(1, PIECE_BYTES // (8 * width) // TILE) * TILE

    def transform(self, block: Any, threads: int = 1) -> np.ndarray:
        """Features ``K(block, R) B`` of rows, (n, k); float32 of float32 rows, else float64.

        All is computed in float64: B is large where eigenvalues are small, and would enlarge the
        rounding errors of a float32 kernel.
        """
        rows = plain_rows(block)
        return self._times(rows, self.basis, _float_of(rows.dtype), threads)

    def product(self, block: Any, weights: np.ndarray, threads: int = 1) -> np.ndarray:
        """Compute ``transform(block) @ weights`` as ``K(block, R) (B weights)``, with no features.

        weights : (k,) or (k, p). Returns (n,) or (n, p) of float64.
        """
        with one_blas_thread():
            coefficients = self.basis @ weights
        return self._times(plain_rows(block), coefficients, np.float64, threads)

    def _times(self, rows: Any, matrix: np.ndarray, dtype: Any, threads: int) -> np.ndarray:
        """Compute ``K(rows, R) @ matrix`` piece by piece."""
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"X has {rows.shape[1]} columns, but the kernel's landmarks have {self.n_features}"
            )
        answer = np.empty((rows.shape[0], *matrix.shape[1:]), dtype=dtype)
        origin = self._origin(rows)
        landmarks = _prepared(self.kernel, self.landmarks, origin)

        def fill(low: int) -> None:
            piece = _prepared(self.kernel, rows[low : low + size], origin)
            padded = piece if callable(self.kernel) else _padded(piece)
            values = kernel_values(padded, landmarks, self.kernel, self.params) @ matrix
            answer[low : low + size] = values[: piece.shape[0]]

        size = self.piece_rows
        starts = range(0, rows.shape[0], size)
        with one_blas_thread():
            if threads == 1 or len(starts) == 1:
                for low in starts:
                    fill(low)
            else:
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(fill, starts))
        return answer

    def _origin(self, rows: Any) -> np.ndarray | None:
        """Where to put the origin: |x - z|^2 from inner products needs rows not far from it."""
        if self.kernel != "rbf" or sp.issparse(rows) or sp.issparse(self.landmarks):
            return None
        return self.landmarks.mean(axis=0, dtype=np.float64)


def fit_kernel_map(
    X: Any,
    kernel: str | Callable[..., float] = "rbf",
    *,
    n_components: int | None = 500,
    sigma: float | str = "scale",
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    kernel_params: dict[str, Any] | None = None,
    random_state: Any = None,
) -> KernelMap:
    """Choose landmarks among the rows of X and make the map.

    Parameters
    ----------
    X : array of shape (n, d)
        numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
    kernel : str or callable
        A kernel of `sklearn.metrics.pairwise.pairwise_kernels`: "rbf", "poly", "cosine",
        "laplacian", "chi2", ...; or a function of two rows (slow: called for each pair).
    n_components : int or None
        Landmarks, distinct rows drawn by their global numbers: the same however X is chunked. None,
        or n and more: all rows, in order, which is the exact kernel.
    sigma : float or "scale"
        Width of the RBF kernel ``exp(-|x - z|^2 / (2 sigma^2))``. "scale" is s / 5 with the range
        diagonal ``s = sqrt(sum_j (max_j - min_j)^2)`` of Gieseke et al. (footnote 7), which for
        uniform columns is scikit-learn's gamma="scale". Text has wide ranges and short rows: give
        a number there.
    gamma : float or None
        Parameter of rbf (in place of sigma), poly, sigmoid, laplacian and chi2. None: 1 / d, for
        chi2 1.
    degree, coef0 : float
        Parameters of poly, and coef0 of sigmoid.
    kernel_params : dict or None
        Parameters of a callable.
    random_state : int, numpy Generator or RandomState, or None
        Draws the landmarks.

    Raises
    ------
    ValueError
        If the kernel is not positive semi-definite on the landmarks, or parameters do not fit.
    """
    check_kernel(kernel, sigma, gamma, kernel_params)
    by_range = kernel == "rbf" and gamma is None and sigma == "scale"
    rows, low, high = sample(X, n_components, random_state, by_range)
    if callable(kernel):
        params = dict(kernel_params or {})
    else:
        if kernel == "rbf" and gamma is None:
            if by_range:
                sigma = _sigma_of_range(low, high)
            gamma = 1.0 / (2.0 * float(sigma) ** 2)
        if gamma is None:
            gamma = 1.0 if kernel == "chi2" else 1.0 / rows.shape[1]
        given = {"gamma": float(gamma), "degree": degree, "coef0": coef0}
        params = {name: given[name] for name in sorted(KERNEL_PARAMS[kernel])}
        if kernel in _NEED_DENSE and sp.issparse(rows):
            rows = rows.toarray()
    bare = KernelMap(kernel, params, rows, np.empty((rows.shape[0], 0)))
    prepared = _prepared(kernel, rows, bare._origin(rows))
    with one_blas_thread():
        basis = _inverse_root(kernel_values(prepared, prepared, kernel, params), kernel)
    return KernelMap(kernel, params, rows, basis)


def check_kernel(kernel: Any, sigma: Any, gamma: Any, kernel_params: Any) -> None:
    """Refuse parameters that do not go together."""
    if callable(kernel):
        if gamma is not None:
            raise ValueError(f"gamma={gamma!r} is not for a callable kernel; use kernel_params")
        return
    if kernel not in KERNELS:
        raise ValueError(
            f"kernel must be a callable or one of {', '.join(KERNELS)}; got {kernel!r}"
        )
    if kernel_params:
        raise ValueError(
            f"kernel_params={kernel_params!r} is for a callable kernel, got kernel={kernel!r}; "
            "use sigma, gamma, degree and coef0"
        )
    if sigma != "scale" and gamma is not None:
        raise ValueError(f"sigma={sigma!r} and gamma={gamma!r} both give a width; wanted one")
    for name, value in (("sigma", sigma), ("gamma", gamma)):
        if value is not None and value != "scale" and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be finite and > 0, got {value!r}")


def map_rows(kernel_map: KernelMap, X: Any) -> Any:
    """Features of all rows: lazy for a dask array, else an array made by threads."""
    if is_dask(X):
        X = one_column_block(X)
        dtype = _float_of(X.dtype)
        # one task holds the map, and is shared by all blocks
        return X.map_blocks(
            _features_of_block,
            kernel_map=dask.delayed(kernel_map, traverse=False),
            dtype=dtype,
            chunks=(X.chunks[0], (kernel_map.n_components,)),
            meta=np.empty((0, 0), dtype=dtype),
        )
    return kernel_map.transform(X, _config.local_threads())


def kernel_values(
    X: Any, Y: Any, kernel: str | Callable[..., float], params: dict[str, Any]
) -> np.ndarray:
    """Kernel between rows of X and rows of Y, dense."""
    values = pairwise_kernels(X, Y, metric=kernel, **params)
    return values.toarray() if sp.issparse(values) else np.asarray(values, dtype=np.float64)


def _features_of_block(block: Any, kernel_map: KernelMap) -> np.ndarray:
    return kernel_map.transform(block)


def _inverse_root(gram: np.ndarray, kernel: Any) -> np.ndarray:
    """B with ``B B^T = pinv(gram)``; see `KernelMap`."""
    name = repr(kernel)
    if not np.all(np.isfinite(gram)):
        raise ValueError(f"kernel {name} is infinite or NaN between some rows")
    values, vectors = scipy.linalg.eigh((gram + gram.T) / 2.0)
    largest, smallest = values[-1], values[0]
    if smallest < -INDEFINITE * max(largest, 0.0):
        raise ValueError(
            f"kernel {name} is not positive semi-definite: between {len(gram)} rows of X it has "
            f"eigenvalues from {smallest:.3g} to {largest:.3g}; choose other parameters or another "
            "kernel"
        )
    if not largest > 0:
        raise ValueError(f"kernel {name} is zero between all {len(gram)} landmarks")
    keep = np.flatnonzero(values > max(SMALLEST_EIGENVALUE * largest, -2.0 * smallest))[::-1]
    vectors = vectors[:, keep]
    extreme = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(keep))]
    return np.ascontiguousarray(vectors * (np.sign(extreme) / np.sqrt(values[keep])))


def _sigma_of_range(low: np.ndarray | None, high: np.ndarray | None) -> float:
    assert low is not None
    assert high is not None
    diagonal = float(np.sqrt(np.sum((high - low) ** 2)))
    if not np.isfinite(diagonal):
        raise ValueError("Input X contains NaN or infinity")
    return SCALE * diagonal or 1.0  # all rows alike: any width does


def _prepared(kernel: Any, rows: Any, origin: np.ndarray | None) -> Any:
    """Rows in float64, in the form that the kernel wants."""
    if sp.issparse(rows):
        if kernel in _NEED_DENSE:
            return rows.toarray().astype(np.float64)
        return rows.astype(np.float64)
    rows = np.asarray(rows, dtype=np.float64)
    return rows if origin is None else rows - origin


def _padded(rows: Any) -> Any:
    """Rows, and empty ones up to a multiple of `TILE`: so the bits of a row are always the same."""
    missing = -rows.shape[0] % TILE
    if not missing:
        return rows
    if not sp.issparse(rows):
        return np.concatenate([rows, np.zeros((missing, rows.shape[1]))])
    indptr = np.append(rows.indptr, np.full(missing, rows.indptr[-1], rows.indptr.dtype))
    return sp.csr_array((rows.data, rows.indices, indptr), (len(indptr) - 1, rows.shape[1]))


def _float_of(dtype: Any) -> Any:
    return np.float32 if dtype == np.float32 else np.float64
