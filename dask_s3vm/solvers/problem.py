"""What solvers see of a problem, and the mathematical names used throughout.

w      weights, (d + 1,): features in internal order, then the bias
o      outputs, o_i = w.x_i (+ bias), one per row; kept in the shards
y      labels inside the package: +1 and -1; rows without a label must have cost 0
c      cost of a row's loss
lam    weight of the regularizer; lam_u, r, T: see the methods that use them
J      active rows: those with y_i o_i < 1
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Point:
    """A place w that has been evaluated, with what solvers need to know there.

    `slot` tells a problem where the shards keep the outputs of this point.
    """

    w: np.ndarray
    value: float
    gradient: np.ndarray
    n_active: int
    slot: int


#: Steps of conjugate gradients: (x, r, p, inverse, r.z, residual, tol, most) -> (number of steps,
#: r.z, residual, whether p is 0); x, r and p are moved along. See `kernels.cg`.
Steps = Callable[..., tuple[int, float, float, bool]]


#: step -> (phi'(step), phi''(step)) of a function phi along a line.
Slope = Callable[[float], tuple[float, float]]


class NewtonProblem(Protocol):
    """A strictly convex, piecewise quadratic function of w.

    f(w) - min f <= |gradient|^2 / (2 lam), because the regularizer lam/2 |w|^2 is part of f.
    """

    lam: float

    def evaluate(self, w: np.ndarray, beside: Point | None = None) -> Point:
        """Value, gradient and active rows at w; `beside` stays usable."""
        ...

    def hessian_product(self, point: Point, p: np.ndarray) -> tuple[np.ndarray, float]:
        """H p and p.H p, with the generalized Hessian H at the point."""
        ...

    def cg_steps(self, point: Point) -> Steps | None:
        """What makes several steps of conjugate gradients with H at once; None if nothing does."""
        ...

    def hessian_diagonal(self, point: Point) -> np.ndarray:
        """Diagonal of H."""
        ...

    def hessian(self, point: Point) -> np.ndarray:
        """H as a matrix."""
        ...

    def patience(self, point: Point) -> int | None:
        """Number of CG steps that cost as much as `hessian`; None where it is not to be had."""
        ...

    def slope(self, point: Point, trial: Point) -> Slope:
        """First and second derivative of step -> f(w + step (trial.w - w))."""
        ...
