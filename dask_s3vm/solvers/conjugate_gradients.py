"""Conjugate gradients for a positive definite system, one product per step."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_s3vm.numerics.linalg import dot, norm, solve_factored, step_along, update_direction
from dask_s3vm.solvers.problem import Steps

#: p -> (A p, p.A p)
Product = Callable[[np.ndarray], tuple[np.ndarray, float]]

#: Most steps of one call of `Steps`: an interrupt waits for them.
AT_ONCE = 32


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
    steps: Steps | None = None,
) -> CGResult:
    """Solve A x = rhs from x = 0 until |rhs - A x| <= tol.

    Parameters
    ----------
    product : p -> (A p, p.A p); with the second from the rows, it cannot come out negative.
    rhs : right-hand side.
    tol : absolute bound on the norm of the residual.
    max_steps : most products.
    scale : preconditioner: a positive diagonal, or a triangular factor of a matrix like A (see
        `factored`); None for none.
    steps : makes several steps at once, in place of the product, where the preconditioner is
        diagonal; see `NewtonProblem.cg_steps`.
    """
    factor = scale if scale is not None and scale.ndim == 2 else None
    inverse = np.ones_like(rhs) if scale is None or factor is not None else 1.0 / scale
    x = np.zeros_like(rhs)
    r = rhs.copy()
    residual = norm(r)
    p = inverse * r if factor is None else solve_factored(factor, r)
    rz = dot(r, p)
    n_steps = 0
    while residual > tol and n_steps < max_steps:
        if steps is not None and factor is None:
            most = min(AT_ONCE, max_steps - n_steps)
            made, rz, residual, is_zero = steps(x, r, p, inverse, rz, residual, tol, most)
            n_steps += made
            if is_zero:
                break
            continue
        product_p, curvature = product(p)
        n_steps += 1
        if not curvature > 0.0:  # p = 0 to working precision
            break
        previous = rz
        square, rz = step_along(x, r, p, product_p, inverse, rz / curvature)
        residual = math.sqrt(square)
        z = r
        if factor is not None:
            z = solve_factored(factor, r)
            rz = dot(r, z)
        update_direction(p, z, inverse, rz / previous)
    return CGResult(x, n_steps, residual)
