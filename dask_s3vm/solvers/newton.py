"""Modified finite Newton (Keerthi & DeCoste; Sindhwani & Keerthi, section 1.2).

On the active rows J of a point the function is a quadratic, whose minimum is a regularized least
squares problem (eq. 1.4). It is solved by conjugate gradients from the point itself (seeding),
then an exact line search (eq. 1.5) finds the next point; J settles after finitely many steps.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dask_s3vm.problems.base import NewtonProblem, Point
from dask_s3vm.solvers.cg import conjugate_gradients, dot, norm
from dask_s3vm.solvers.line_search import exact_step

#: A full step is kept as it is when the slope at its end is this small part of that at its start.
FLAT = 0.1


class Forcing(NamedTuple):
    """Residual of the inner solves as a part of the gradient: of the first, and of later ones."""

    first: float
    later: float


#: From a start far from the minimum. In CG steps over text and pixels, lam 1e-3 to 1e-7: 0.1 later
#: takes up to twice as many as 0.01, and an exact first step half as many again.
FAR = Forcing(0.1, 0.01)

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
    seconds: float


@dataclass(frozen=True)
class NewtonState:
    """Between two steps: all that the next ones depend on.

    last_norm : norm of the gradient before the last step.
    floor, scale : see `finite_newton`.
    """

    point: Point
    n_iter: int
    cg_steps: int
    last_norm: float
    floor: float
    scale: np.ndarray


@dataclass(frozen=True)
class NewtonResult:
    """Where the iteration ended, and why: "converged", "precision" or "max_iter"."""

    point: Point
    n_iter: int
    cg_steps: int
    termination: str


def finite_newton(
    problem: NewtonProblem,
    start: Point,
    tol: float,
    max_iter: int,
    on_step: Callable[[NewtonStep], None] = lambda step: None,
    *,
    reduction: float = 0.0,
    scale: np.ndarray | None = None,
    max_cg: int = 10_000,
    forcing: Forcing = FAR,
    on_state: Callable[[NewtonState], None] = lambda state: None,
) -> NewtonResult:
    """Minimize a piecewise quadratic problem from an evaluated point.

    Stops ("converged") when the objective is proven to be within a factor 1 + tol of the
    minimum: f(w) - min f <= |g|^2 / (2 lam) <= tol f(w), by the strong convexity of the
    regularizer. Stops ("precision") when rounding leaves no descent.

    Parameters
    ----------
    problem, start : what to minimize, and from where.
    tol : relative gap of the objective.
    max_iter : most Newton steps.
    on_step : takes a report of each step.
    reduction : stop also when the gradient has become this small a part of that at the start:
        for solves that are only a step of something larger.
    scale : preconditioner; None to make one at the start.
    max_cg : most CG steps per Newton step.
    forcing : how well Newton systems are solved: `FAR` or `NEAR`, by where the start is.
    on_state : takes the state after each step, which `go_on` can start from.
    """
    if scale is None:
        scale = preconditioner(problem, start)
    floor = reduction * norm(start.gradient)
    state = NewtonState(start, 0, 0, math.inf, floor, scale)
    return go_on(
        problem, state, tol, max_iter, on_step, max_cg=max_cg, forcing=forcing, on_state=on_state
    )


def go_on(
    problem: NewtonProblem,
    state: NewtonState,
    tol: float,
    max_iter: int,
    on_step: Callable[[NewtonStep], None] = lambda step: None,
    *,
    max_cg: int = 10_000,
    forcing: Forcing = FAR,
    on_state: Callable[[NewtonState], None] = lambda state: None,
) -> NewtonResult:
    """Minimize from a state; see `finite_newton`."""
    point, cg_steps, last_norm = state.point, state.cg_steps, state.last_norm
    floor, scale = state.floor, state.scale
    for n_iter in range(state.n_iter, max_iter + 1):
        enough = max(floor, _near(problem, point, tol))
        if norm(point.gradient) <= enough:
            return NewtonResult(point, n_iter, cg_steps, "converged")
        if n_iter == max_iter:
            break
        residual = _inner_tolerance(norm(point.gradient), last_norm, enough, forcing)
        moved, report = _advance(problem, point, scale, residual, n_iter + 1, max_cg)
        cg_steps += report.cg_steps
        if not _is_progress(point, moved):
            return NewtonResult(point, n_iter, cg_steps, "precision")
        on_step(report)
        last_norm, point = norm(point.gradient), moved
        on_state(NewtonState(point, n_iter + 1, cg_steps, last_norm, floor, scale))
    return NewtonResult(point, max_iter, cg_steps, "max_iter")


def is_near(problem: NewtonProblem, point: Point, tol: float) -> bool:
    """Whether the objective at a point is proven to be within a factor 1 + tol of the minimum."""
    return norm(point.gradient) <= _near(problem, point, tol)


def _near(problem: NewtonProblem, point: Point, tol: float) -> float:
    """Norm of the gradient that proves it: |g|^2 / (2 lam) <= tol f(w)."""
    return math.sqrt(2.0 * problem.lam * tol * point.value)


def preconditioner(problem: NewtonProblem, start: Point) -> np.ndarray:
    """Square root of the Hessian's diagonal at the start: half-way between none and Jacobi's.

    Measured over text, indicators, pixels and raw tables, lam 1e-3 and 1e-5, in CG steps: at most
    1.5 times the better of the two as a rule, where Jacobi's takes a sixth of the steps of none on
    pixels and 2.7 times as many on text. Made once: with a new one per step the counts were alike.
    """
    return np.sqrt(problem.hessian_diagonal(start))


def _advance(
    problem: NewtonProblem,
    point: Point,
    scale: np.ndarray,
    residual: float,
    iteration: int,
    max_cg: int,
) -> tuple[Point, NewtonStep]:
    """One Newton step, whose system is solved to a residual."""
    began = time.perf_counter()
    # 1 direction: least squares on the active rows
    solve = conjugate_gradients(
        lambda p: problem.hessian_product(point, p),
        -point.gradient,
        residual,
        max_cg,
        scale,
    )
    # 2 the full step, looked at: one pass, and the next gradient if it is kept
    moved = problem.evaluate(point.w + solve.x, beside=point)
    # 3 line search, over outputs only
    at_0, at_1 = dot(point.gradient, solve.x), dot(moved.gradient, solve.x)
    step, rounds = 1.0, 0
    if abs(at_1) > FLAT * abs(at_0) and at_0 < 0:
        trial = moved
        step, rounds = exact_step(lambda s: problem.slope(point, trial, s), at_0, at_1)
        moved = problem.evaluate(point.w + step * solve.x, beside=point)
    report = NewtonStep(
        iteration,
        moved.value,
        norm(moved.gradient),
        moved.n_active,
        solve.n_steps,
        rounds,
        step,
        time.perf_counter() - began,
    )
    return moved, report


def _is_progress(point: Point, moved: Point) -> bool:
    """Whether a step went down; where values are equal but for rounding, the gradient decides."""
    if moved.value < point.value:
        return True
    level = bool(moved.value <= (1.0 + 4.0 * np.finfo(float).eps) * point.value)
    return level and norm(moved.gradient) < 0.5 * norm(point.gradient)


def _inner_tolerance(here: float, last: float, enough: float, forcing: Forcing) -> float:
    """Residual to which a Newton system is solved.

    A part of the gradient that shrinks as the steps converge (Eisenstat & Walker), but not below
    half of what the stopping rule asks for.
    """
    part = forcing.first if math.isinf(last) else min(forcing.later, here / last)
    return max(part * here, 0.5 * enough)
