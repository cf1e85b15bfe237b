"""Conjugate gradients for a positive definite system, one product per step."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_s3vm.kernels.vectors import dot as dot
from dask_s3vm.kernels.vectors import norm as norm

#: p -> (A p, p.A p)
Product = Callable[[np.ndarray], tuple[np.ndarray, float]]


@dataclass(frozen=True)
class CGResult:
    """Solution, steps taken, and norm of the residual as the recurrence has it."""

    x: np.ndarray
    n_steps: int
    residual: float


def conjugate_gradients(
    product: Product,
    rhs: np.ndarray,
    tol: float,
    max_steps: int,
    scale: np.ndarray | None = None,
) -> CGResult:
    """Solve A x = rhs from x = 0 until |rhs - A x| <= tol.

    Parameters
    ----------
    product : p -> (A p, p.A p); with the second from the rows, it cannot come out negative.
    rhs : right-hand side.
    tol : absolute bound on the norm of the residual.
    max_steps : most products.
    scale : diagonal preconditioner, an approximation of diag(A); None for none.
    """
    x = np.zeros_like(rhs)
    r = rhs.copy()
    residual = norm(r)
    z = r if scale is None else r / scale
    p = z.copy()
    rz = dot(r, z)
    n_steps = 0
    while residual > tol and n_steps < max_steps:
        product_p, curvature = product(p)
        n_steps += 1
        if not curvature > 0.0:  # p = 0 to working precision
            break
        alpha = rz / curvature
        x += alpha * p
        r -= alpha * product_p
        residual = norm(r)
        z = r if scale is None else r / scale
        rz, previous = dot(r, z), rz
        p *= rz / previous
        p += z
    return CGResult(x, n_steps, residual)
