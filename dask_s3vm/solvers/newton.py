"""Modified finite Newton (Keerthi & DeCoste; Sindhwani & Keerthi, section 1.2).

On the active rows J of a point the function is a quadratic, whose minimum is a regularized least
squares problem (eq. 1.4). It is solved by conjugate gradients from the point itself (seeding),
then an exact line search (eq. 1.5) finds the next point; J settles after finitely many steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dask_s3vm.numerics.linalg import (
    dot,
    factored,
    norm,
    solve_factored,
    step_along,
    update_direction,
)
from dask_s3vm.solvers.problem import NewtonProblem, Point, Slope, Steps

#: A full step is kept as it is when the slope at its end is this small part of that at its start.
FLAT = 0.1


class Forcing(NamedTuple):
    """Residual of the inner solves as a part of the gradient: of the first, and of later ones."""

    first: float
    later: float


#: From a start far from the minimum. In CG steps over text and pixels, lam 1e-3 to 1e-7: 0.1 later
#: takes up to twice as many as 0.01, and an exact first step half as many again.
FAR = Forcing(0.1, 0.01)

#: From a start far from it, with at least `WIDE` times as many columns as active rows. Such rows
#: are nearly independent: CG ends after at most as many steps as there are rows, and the first
#: direction often leads to the minimum itself. CG steps over those with `FAR`, lam 1e-2 to 1e-5:
#: 0.25 to 0.9 on text with 60 labels, 0.9 to 1.4 with 600, 0.15 to 1.8 on dense rows with 60.
FEW = Forcing(0.0, 0.01)
WIDE = 4

#: From a start near it, where the first direction is the one that counts.
NEAR = Forcing(0.0, 0.1)


@dataclass(frozen=True)
class NewtonStep:
    """What one Newton step did; a row of `history_`."""

    iteration: int
    objective: float
    gradient_norm: float
    n_active: int
    cg_steps: int
    line_rounds: int
    step_length: float


@dataclass(frozen=True)
class NewtonState:
    """Between two steps: all that the next ones depend on.

    n_iter, cg_steps : steps so far.
    last_norm : norm of the gradient before the last step.
    scale : preconditioner; see `conjugate_gradients`.
    forcing : how well Newton systems are solved.
    termination : why it ended: "converged", "precision" or "max_iter"; "" while it goes on.
    """

    point: Point
    n_iter: int
    cg_steps: int
    last_norm: float
    scale: np.ndarray
    forcing: Forcing
    termination: str

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.termination != ""


@dataclass(frozen=True)
class FiniteNewton:
    """The iteration: `start` at an evaluated point, then `advance` until done.

    Stops ("converged") when the objective is proven to be within a factor 1 + tol of the minimum:
    f(w) - min f <= |g|^2 / (2 lam) <= tol f(w), by the strong convexity of the regularizer. Stops
    ("precision") when rounding leaves no descent. Where rows are tiny beside lam, no weights at all
    are that near; a step is made from there, because only its direction tells the rows apart.

    problem : what to minimize.
    tol : relative gap of the objective.
    max_iter : most Newton steps.
    forcing : how well Newton systems are solved: `NEAR` from a start near the minimum; None for
        `FAR` or `FEW`.
    max_cg : most CG steps per Newton step.
    """

    problem: NewtonProblem
    tol: float
    max_iter: int
    forcing: Forcing | None = None
    max_cg: int = 10_000

    def start(self, point: Point, scale: np.ndarray | None = None) -> NewtonState:
        """Begin at a point; `scale` is a preconditioner, made at the point if it is None."""
        if scale is None:
            scale = preconditioner(self.problem, point)
        forcing = self.forcing
        if forcing is None:
            forcing = FEW if len(point.w) >= WIDE * point.n_active else FAR
        return NewtonState(point, 0, 0, math.inf, scale, forcing, self._ending(point, 0))

    def advance(self, state: NewtonState) -> tuple[NewtonState, NewtonStep | None]:
        """Make a step; it is None where rounding allowed none."""
        point = state.point
        here = norm(point.gradient)
        enough = near_norm(self.problem, point.value, self.tol)
        residual = _inner_tolerance(here, state.last_norm, enough, state.forcing)
        number = state.n_iter + 1
        solve, scale = _direction(self.problem, point, state.scale, residual, self.max_cg)
        moved, step = _line_search(self.problem, point, solve, number)
        cg_steps = state.cg_steps + step.cg_steps
        if not _is_progress(point, moved):
            ending = "converged" if is_near(self.problem, point, self.tol) else "precision"
            return replace(state, cg_steps=cg_steps, termination=ending), None
        ending = self._ending(moved, number)
        return NewtonState(moved, number, cg_steps, here, scale, state.forcing, ending), step

    def _ending(self, point: Point, n_iter: int) -> str:
        is_blank = n_iter == 0 and not point.w.any() and point.gradient.any()
        if not is_blank and is_near(self.problem, point, self.tol):
            return "converged"
        return "max_iter" if n_iter >= self.max_iter else ""


def finite_newton(
    problem: NewtonProblem,
    start: Point,
    tol: float,
    max_iter: int,
    on_step: Callable[[NewtonStep], None] = lambda step: None,
    *,
    scale: np.ndarray | None = None,
    forcing: Forcing | None = None,
) -> NewtonState:
    """Minimize from an evaluated point to the end; see `FiniteNewton`."""
    newton = FiniteNewton(problem, tol, max_iter, forcing)
    state = newton.start(start, scale)
    while not state.done:
        state, step = newton.advance(state)
        if step is not None:
            on_step(step)
    return state


def is_near(problem: NewtonProblem, point: Point, tol: float) -> bool:
    """Whether the objective at a point is proven to be within a factor 1 + tol of the minimum."""
    return norm(point.gradient) <= near_norm(problem, point.value, tol)


def near_norm(problem: NewtonProblem, value: float, tol: float) -> float:
    """Norm of the gradient that proves it: |g|^2 / (2 lam) <= tol f(w), of this value f(w)."""
    return math.sqrt(2.0 * problem.lam * tol * value)


def preconditioner(problem: NewtonProblem, start: Point) -> np.ndarray:
    """Square root of the Hessian's diagonal at the start: half-way between none and Jacobi's.

    Measured over text, indicators, pixels and raw tables, lam 1e-3 and 1e-5, in CG steps: at most
    1.5 times the better of the two as a rule, where Jacobi's takes a sixth of the steps of none on
    pixels and 2.7 times as many on text. Made once: with a new one per step the counts were alike.
    """
    return np.sqrt(problem.hessian_diagonal(start))


def _direction(
    problem: NewtonProblem, point: Point, scale: np.ndarray, residual: float, max_cg: int
) -> tuple["CGResult", np.ndarray]:
    """Solve the Newton system of a point to a residual; returns the preconditioner to go on with.

    Where the system takes so many steps that its matrix would have cost no more, the matrix is made
    and factored. The factor solves this system at once. It serves the next ones, too, whose active
    rows and costs are others, until they take too many steps in their turn: over columns that
    depend on each other, or differ much in size, a tenth of the steps or less in all.
    """

    def solve(scale: np.ndarray, max_steps: int) -> CGResult:
        return conjugate_gradients(
            lambda p: problem.hessian_product(point, p),
            -point.gradient,
            residual,
            max_steps,
            scale,
            problem.cg_steps(point),
        )

    patience = problem.patience(point)
    limit = max_cg if patience is None else min(patience, max_cg)
    found = solve(scale, limit)
    if found.residual <= residual or found.n_steps < limit or limit == max_cg:
        return found, scale
    scale = factored(problem.hessian(point))
    again = solve(scale, max_cg - found.n_steps)
    return replace(again, n_steps=found.n_steps + again.n_steps), scale


def _line_search(
    problem: NewtonProblem, point: Point, solve: "CGResult", iteration: int
) -> tuple[Point, NewtonStep]:
    """Go from a point along a direction, to the minimum on the line or near it."""
    # the full step: one pass, and the next gradient if it is kept
    moved = problem.evaluate(point.w + solve.x, beside=point)
    # the exact step, over outputs only
    at_0, at_1 = dot(point.gradient, solve.x), dot(moved.gradient, solve.x)
    step, rounds = 1.0, 0
    if abs(at_1) > FLAT * abs(at_0) and at_0 < 0:
        step, rounds = exact_step(problem.slope(point, moved), at_0, at_1)
        moved = problem.evaluate(point.w + step * solve.x, beside=point)
    report = NewtonStep(
        iteration,
        moved.value,
        norm(moved.gradient),
        moved.n_active,
        solve.n_steps,
        rounds,
        step,
    )
    return moved, report


def _is_progress(point: Point, moved: Point) -> bool:
    """Whether a step went down; where values are equal but for rounding, the gradient decides."""
    if moved.value < point.value:
        return True
    is_equal = bool(moved.value <= (1.0 + 4.0 * np.finfo(float).eps) * point.value)
    return is_equal and norm(moved.gradient) < 0.5 * norm(point.gradient)


def _inner_tolerance(here: float, last: float, enough: float, forcing: Forcing) -> float:
    """Residual to which a Newton system is solved.

    A part of the gradient that shrinks as the steps converge (Eisenstat & Walker), but not below
    half of what the stopping rule asks for; if that was there before the step, a hundredth.
    """
    part = forcing.first if math.isinf(last) else min(forcing.later, here / last)
    return max(part * here, 0.5 * enough if enough < here else 0.01 * here)


# Conjugate gradients for a positive definite system, one product per step ---------------------


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


# Exact line search on a piecewise quadratic ---------------------------------------------------


def exact_step(
    slope: Slope, slope_at_0: float, slope_at_1: float, tol: float = 1e-9, max_rounds: int = 60
) -> tuple[float, int]:
    """Minimize a strictly convex phi whose phi' is continuous and piecewise linear.

    Newton's method on phi' lands on the root as soon as it starts on the root's own piece;
    kept between points of known sign, it needs a handful of rounds. Sorting all break points,
    as the papers do, costs more than a product with X.

    Parameters
    ----------
    slope : step -> (phi'(step), phi''(step)).
    slope_at_0 : phi'(0) < 0.
    slope_at_1 : phi'(1).
    tol : stop at |phi'(step)| <= tol |phi'(0)|.
    max_rounds : most calls of `slope`.

    Returns
    -------
    step, number of rounds.
    """
    low, high = (0.0, 1.0) if slope_at_1 > 0 else (1.0, float("inf"))
    # start from the secant: exact if phi' is linear between 0 and 1
    step = slope_at_0 / (slope_at_0 - slope_at_1) if slope_at_1 > slope_at_0 else 2.0
    for n_rounds in range(1, max_rounds + 1):
        if not low < step < high:
            step = 2.0 * low if high == float("inf") else 0.5 * (low + high)
        value, curvature = slope(step)
        if abs(value) <= tol * abs(slope_at_0):
            return step, n_rounds
        low, high = (low, step) if value > 0 else (step, high)
        if high < float("inf") and high - low <= 1e-15 * high:
            return step, n_rounds
        step -= value / curvature
    return step, max_rounds
