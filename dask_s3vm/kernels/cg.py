"""Steps of conjugate gradients on one block of rows, without a return to Python between them.

On a few thousand rows a product takes 10 or 20 microseconds, and what Python does around it three
times as long. The operations are those of `solvers.newton.conjugate_gradients`, in the same order:
so are the bits.
"""

import math
from typing import Any

import numpy as np
from numba.extending import overload

from dask_s3vm.kernels.passes import gram
from dask_s3vm.kernels.rows import Rows, is_csr
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.linalg import add_multiple, step_along, update_direction


def _load(X: Any, pair: np.ndarray, v: np.ndarray) -> None:
    """Copy v into the input half of a pair buffer, and set the output half to zero."""
    raise NotImplementedError("_load is resolved by numba")


def _take(X: Any, pair: np.ndarray, out: np.ndarray) -> None:
    """Copy the output half of a pair buffer."""
    raise NotImplementedError("_take is resolved by numba")


def _load_csr(X: Any, pair: Any, v: Any) -> Any:
    for j in range(v.size):
        pair[j, 0] = v[j]
        pair[j, 1] = 0.0


def _load_dense(X: Any, pair: Any, v: Any) -> Any:
    for j in range(v.size):
        pair[0, j] = v[j]
        pair[1, j] = 0.0


def _take_csr(X: Any, pair: Any, out: Any) -> Any:
    for j in range(out.size):
        out[j] = pair[j, 1]


def _take_dense(X: Any, pair: Any, out: Any) -> Any:
    for j in range(out.size):
        out[j] = pair[1, j]


@overload(_load)
def _choose_load(X: Any, pair: Any, v: Any) -> Any:
    return _load_csr if is_csr(X) else _load_dense


@overload(_take)
def _choose_take(X: Any, pair: Any, out: Any) -> Any:
    return _take_csr if is_csr(X) else _take_dense


@kernel
def cg_steps(
    X: Rows,
    rows: np.ndarray,
    cost: np.ndarray,
    pair: np.ndarray,
    bias: float,
    lam: float,
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    inverse: np.ndarray,
    rz: float,
    residual: float,
    tol: float,
    most: int,
) -> tuple[int, float, float, bool]:
    """Make up to `most` steps for (lam I + X_J^T C X_J) x = rhs, until the residual is at most tol.

    rows, cost, pair, bias : J, C by row number, a buffer for any content; see `passes.gram`.
    x, r, p : solution, residual and direction, which are moved along.
    inverse : diagonal preconditioner.
    rz, residual : r.z with z = inverse * r, and the norm of r.

    Returns the number of steps, rz, residual, and whether p was 0 to working precision.
    """
    product = np.empty(p.size)
    n_steps = 0
    while residual > tol and n_steps < most:
        _load(X, pair, p)
        curvature = gram(X, rows, cost, pair, bias)
        _take(X, pair, product)
        curvature += lam * add_multiple(product, p, lam)
        n_steps += 1
        if not curvature > 0.0:
            return n_steps, rz, residual, True
        previous = rz
        square, rz = step_along(x, r, p, product, inverse, rz / curvature)
        residual = math.sqrt(square)
        update_direction(p, r, inverse, rz / previous)
    return n_steps, rz, residual, False
