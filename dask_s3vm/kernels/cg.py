"""Steps of conjugate gradients on one block of rows, without a return to Python between them.

On a few thousand rows a product takes 10 or 20 microseconds, and what Python does around it three
times as long. The operations are those of `solvers.conjugate_gradients`, in the same order:
so are the bits.
"""

import math

import numpy as np

from dask_s3vm.kernels.passes import gram
from dask_s3vm.kernels.rows import Rows
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.linalg import add_multiple, step_along, update_direction


@kernel
def cg_steps(
    X: Rows,
    rows: np.ndarray,
    cost: np.ndarray,
    pair: np.ndarray,
    halves: np.ndarray,
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

    rows, cost, pair, bias : J, C by row number, a buffer of any content; see `passes.gram`.
    halves : the input half and the output half of that buffer; see `rows.pair_halves`.
    x, r, p : solution, residual and direction, which are moved along.
    inverse : diagonal preconditioner.
    rz, residual : r.z with z = inverse * r, and the norm of r.

    Returns the number of steps, rz, residual, and whether p was 0 to working precision.
    """
    source, out = halves[0], halves[1]
    product = np.empty(p.size)
    n_steps = 0
    while residual > tol and n_steps < most:
        source[:] = p
        out[:] = 0.0
        curvature = gram(X, rows, cost, pair, bias)
        product[:] = out
        curvature += lam * add_multiple(product, p, lam)
        n_steps += 1
        if not curvature > 0.0:
            return n_steps, rz, residual, True
        previous = rz
        square, rz = step_along(x, r, p, product, inverse, rz / curvature)
        residual = math.sqrt(square)
        update_direction(p, r, inverse, rz / previous)
    return n_steps, rz, residual, False
