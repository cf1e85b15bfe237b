"""Kernels for linear methods: the subset-of-regressors (Nystroem) feature map.

Let R be m landmarks, chosen among the training rows. A function in the span of the kernel at R is
``f(x) = sum_j c_j k(x, r_j) = K_xR c``, with squared norm ``|f|^2 = c^T K_RR c``. Let B be (m, k)
with ``B B^T = pinv(K_RR)``, and ``z(x) = K_xR B`` the features. A linear model w on z is the
function f with ``c = B w``, and ``|w|^2 = w^T B^T K_RR B w = c^T K_RR c = |f|^2``. To train a
linear method on z is therefore to train its kernel form with f restricted to the span. If all rows
are landmarks, nothing is restricted: ``Z Z^T = K pinv(K) K = K``, and by the representer theorem f
is the exact solution.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dask_s3vm import _config
from dask_s3vm.engine.blocks import Block, frozen
from dask_s3vm.engine.column_scale import ColumnScale, Ranges
from dask_s3vm.engine.containers import MAX_VALUE, check_values
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.features.landmarks import narrow_rows, one_column_block, sample
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.parameters.shared import KERNELS

#: sigma="scale" is this part of the range diagonal s: scikit-learn's gamma="scale" for columns that
#: are uniform on their ranges (1 / gamma = d var = s^2 / 12, so sigma = s / sqrt(24)).
SCALE = 0.2

#: Eigenvalues of K_RR below this part of the largest are rounding errors and dropped.
SMALLEST_EIGENVALUE = 1e-12

#: A negative eigenvalue beyond this part of the largest is no rounding error.
INDEFINITE = 1e-8

#: Approximate size of the temporary arrays of a piece of rows, and the most rows of one.
PIECE_BYTES = 8 << 20
MAX_PIECE_ROWS = 240

#: Pieces have a multiple of this many rows: BLAS works on groups of 4, 8, 16 or 24 rows, by the
#: processor, and computes the rows that are left over differently.
TILE = 48
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
        Landmark rows R of X.
    basis : ndarray of shape (m, k)
        B of ``B B^T = pinv(K_RR)``: eigenvectors over roots of the eigenvalues, largest first, the
        largest entry of each positive. k <= m: eigenvalues below 1e-12 of the largest are dropped,
        or below twice the most negative one, which shows how large rounding errors are.
    scale : ColumnScale or None
        What was done to the columns of the landmarks, and is to those of all rows; None: nothing.
    """

    kernel: str | Callable[..., float]
    params: dict[str, Any]
    landmarks: Any
    basis: np.ndarray
    scale: ColumnScale | None = None

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self.landmarks.shape[1]

    @property
    def n_components(self) -> int:
        """Number of features."""
        return self.basis.shape[1]

    @property
    def piece_rows(self) -> int:
        """Number of rows mapped at a time; it depends on the map alone."""
        width = len(self.basis) + self.n_components
        if not sp.issparse(self.landmarks):
            width += self.n_features
        return min(max(1, PIECE_BYTES // (8 * width) // TILE) * TILE, MAX_PIECE_ROWS)

    def transform(self, block: Any, threads: int = 1) -> np.ndarray:
        """Features ``K(block, R) B`` of rows, (n, k); float32 of float32 rows, else float64.

        Computed in float64: B is large where eigenvalues are small, and would amplify the rounding
        errors of a float32 kernel.
        """
        rows = narrow_rows(block)
        return self._times(rows, self.basis, _float_of(rows.dtype), threads)

    def product(self, block: Any, weights: np.ndarray, threads: int = 1) -> np.ndarray:
        """Compute ``transform(block) @ weights`` as ``K(block, R) (B weights)``, without features.

        weights : (k,) or (k, p). Returns (n,) or (n, p) of float64.
        """
        with one_blas_thread():
            coefficients = self.basis @ weights
        return self._times(narrow_rows(block), coefficients, np.float64, threads)

    def _times(self, rows: Any, matrix: np.ndarray, dtype: Any, threads: int) -> np.ndarray:
        """Compute ``K(rows, R) @ matrix`` piece by piece."""
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"X has {rows.shape[1]} columns, but the kernel's landmarks have {self.n_features}"
            )
        answer = np.empty((rows.shape[0], *matrix.shape[1:]), dtype=dtype)
        origin = self._origin(rows)
        landmarks = prepared_rows(self.kernel, self.landmarks, origin)

        def fill(low: int) -> None:
            piece = rows[low : low + size]
            piece = piece if self.scale is None else self.scale.of_rows(piece)
            piece = prepared_rows(self.kernel, piece, origin)
            padded = piece if callable(self.kernel) else _padded(piece, size)
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
        """Return the origin for RBF: |x - z|^2 from inner products is accurate near the origin."""
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
    always: np.ndarray | None = None,
    column_scale: Callable[[Ranges], ColumnScale | None] | None = None,
) -> KernelMap:
    """Choose landmarks among the rows of X and fit the map.

    Parameters
    ----------
    X : array of shape (n, d)
        numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
    kernel : str or callable
        A kernel of `sklearn.metrics.pairwise.pairwise_kernels`: "rbf", "poly", "cosine",
        "laplacian", "chi2", ...; or a function of two rows (slow: called for each pair).
    n_components : int or None
        Number of landmarks, which are distinct rows drawn by their global numbers: the same however
        X is chunked. None, or n and more: all rows, in order, which gives the exact kernel.
    sigma : float or "scale"
        Width of the RBF kernel ``exp(-|x - z|^2 / (2 sigma^2))``. "scale" is s / 5 with the range
        diagonal ``s = sqrt(sum_j (max_j - min_j)^2)`` of Gieseke et al. (footnote 7), which for
        uniform columns is scikit-learn's gamma="scale". Text has wide ranges and short rows: pass a
        number there.
    gamma : float or None
        Parameter of rbf (in place of sigma), poly, sigmoid, laplacian and chi2. None: 1 / d, for
        chi2 1.
    degree, coef0 : float
        Parameters of poly, and coef0 of sigmoid.
    kernel_params : dict or None
        Parameters of a callable.
    random_state : int, numpy Generator or RandomState, or None
        Seed of the choice of landmarks.
    always : array of int or None
        Numbers of rows that are landmarks beside those drawn.
    column_scale : callable or None
        Says how to scale the columns of dense rows, by their ranges.

    Raises
    ------
    ValueError
        If the kernel is not positive semi-definite on the landmarks, or parameters contradict.
    """
    check_kernel(kernel, sigma, gamma, kernel_params)
    by_range = is_by_range(kernel, sigma, gamma)
    measured = by_range or column_scale is not None
    rows, ranges = sample(X, n_components, random_state, measured, always)
    check_values(rows.data if sp.issparse(rows) else rows)
    scale = None
    if ranges is not None:
        check_ranges(ranges)
        if column_scale is not None and not sp.issparse(rows):
            scale = column_scale(ranges)
        if scale is not None:
            rows, ranges = scale.of_rows(rows), Ranges(*scale.of_rows(np.stack(ranges)))
        if by_range:
            sigma = sigma_of_range(ranges)
    params = resolved_params(kernel, rows.shape[1], sigma, gamma, degree, coef0, kernel_params)
    if kernel in _NEED_DENSE and sp.issparse(rows):
        rows = rows.toarray()
    bare = KernelMap(kernel, params, rows, np.empty((rows.shape[0], 0)))
    prepared = prepared_rows(kernel, rows, bare._origin(rows))
    with one_blas_thread():
        basis = _inverse_root(kernel_values(prepared, prepared, kernel, params), kernel)
    return KernelMap(kernel, params, rows, basis, scale)


def map_rows(kernel_map: KernelMap, X: Any) -> Any:
    """Features of all rows: lazy for a dask array, else an array made by threads."""
    if is_dask(X):
        X = one_column_block(X)
        dtype = _float_of(X.dtype)
        # the map is one task, shared by all blocks
        return X.map_blocks(
            _features_of_block,
            kernel_map=dask.delayed(kernel_map, traverse=False),
            dtype=dtype,
            chunks=(X.chunks[0], (kernel_map.n_components,)),
            meta=np.empty((0, 0), dtype=dtype),
        )
    return kernel_map.transform(X, _config.local_threads())


class FeatureBlocks:
    """The map on canonical blocks of the engine; see `engine.ingest.BlockMap`."""

    def __init__(self, kernel_map: KernelMap, dtype: Any) -> None:
        self.kernel_map = kernel_map
        self.row_bytes = kernel_map.n_components * (4 if dtype == np.float32 else 8)
        self.piece_rows = kernel_map.piece_rows

    def __call__(self, block: Block, threads: int = 1) -> Block:
        """Return the block of features, with the labels and weights of the block."""
        features = self.kernel_map.transform(_rows_of(block), threads)
        check_values(features)
        return block._replace(rows=frozen(features), n_features=self.kernel_map.n_components)


def _rows_of(block: Block) -> Any:
    if not isinstance(block.rows, CSR):
        return block.rows
    indptr, indices, values = block.rows
    shape = (len(indptr) - 1, block.n_features)
    return sp.csr_array((values, indices.astype(np.int64), indptr.astype(np.int64)), shape)


def _features_of_block(block: Any, kernel_map: KernelMap) -> np.ndarray:
    return kernel_map.transform(block)


# Parameters of kernels ------------------------------------------------------------------------


def check_kernel(kernel: Any, sigma: Any, gamma: Any, kernel_params: Any) -> None:
    """Raise ValueError for parameters that are inconsistent."""
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


def is_by_range(kernel: Any, sigma: Any, gamma: Any) -> bool:
    """Whether the width of the kernel follows from the ranges of the columns."""
    return bool(kernel == "rbf" and gamma is None and sigma == "scale")


def check_ranges(ranges: Ranges) -> None:
    """Refuse columns with NaN, infinity, or values that kernels would overflow with."""
    if not np.isfinite(ranges).all():
        raise ValueError("Input X contains NaN or infinity")
    check_values(np.stack(ranges))


def sigma_of_range(ranges: Ranges) -> float:
    """Return the value of sigma="scale" for columns of these ranges."""
    diagonal = float(np.sqrt(np.sum(ranges.widths**2)))
    return SCALE * diagonal or 1.0  # all rows equal: any width will do


def resolved_params(
    kernel: str | Callable[..., float],
    n_features: int,
    sigma: float | str,
    gamma: float | None,
    degree: float,
    coef0: float,
    kernel_params: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the parameters for `pairwise_kernels`; sigma must be a number where it is used."""
    if callable(kernel):
        return dict(kernel_params or {})
    from sklearn.metrics.pairwise import KERNEL_PARAMS  # no linear model needs it

    if kernel == "rbf" and gamma is None:
        gamma = 1.0 / (2.0 * float(sigma) ** 2)
    if gamma is None:
        gamma = 1.0 if kernel == "chi2" else 1.0 / n_features
    given = {"gamma": float(gamma), "degree": degree, "coef0": coef0}
    return {name: given[name] for name in sorted(KERNEL_PARAMS[kernel])}


# Kernel values --------------------------------------------------------------------------------


def kernel_values(
    X: Any, Y: Any, kernel: str | Callable[..., float], params: dict[str, Any]
) -> np.ndarray:
    """Return the kernel between rows of X and rows of Y, dense."""
    from sklearn.metrics.pairwise import pairwise_kernels

    values = pairwise_kernels(X, Y, metric=kernel, **params)
    return values.toarray() if sp.issparse(values) else np.asarray(values, dtype=np.float64)


def prepared_rows(kernel: Any, rows: Any, origin: np.ndarray | None) -> Any:
    """Return the rows in float64, relative to `origin`, dense and writable if the kernel needs it.

    Scikit-learn's loops over dense rows take no read-only memory, which blocks of the engine are.
    """
    if sp.issparse(rows):
        if kernel in _NEED_DENSE:
            return rows.toarray().astype(np.float64)
        return rows.astype(np.float64)
    rows = np.asarray(rows, dtype=np.float64)
    if kernel in _NEED_DENSE and not rows.flags.writeable:
        return rows.copy()
    return rows if origin is None else rows - origin


def _padded(rows: Any, n_rows: int) -> Any:
    """Pad with zero rows: BLAS has other code for small products, with other last bits."""
    missing = n_rows - rows.shape[0]
    if not missing:
        return rows
    if not sp.issparse(rows):
        return np.concatenate([rows, np.zeros((missing, rows.shape[1]))])
    indptr = np.append(rows.indptr, np.full(missing, rows.indptr[-1], rows.indptr.dtype))
    return sp.csr_array((rows.data, rows.indices, indptr), (len(indptr) - 1, rows.shape[1]))


def _inverse_root(gram: np.ndarray, kernel: Any) -> np.ndarray:
    """Return B with ``B B^T = pinv(gram)``; see `KernelMap`."""
    name = repr(kernel)
    if not np.all(np.isfinite(gram)):
        raise ValueError(f"kernel {name} is infinite or NaN between some rows")
    most = float(np.abs(gram).max())
    if most > MAX_VALUE**2:  # features are roots of it
        raise ValueError(
            f"kernel {name} is up to {most:.3g} between rows of X; wanted at most "
            f"{MAX_VALUE**2:.0e}: divide the columns of X by their ranges, for example by "
            "dask_s3vm.features.UnitScaler, or choose other parameters"
        )
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


def _float_of(dtype: Any) -> Any:
    return np.float32 if dtype == np.float32 else np.float64
