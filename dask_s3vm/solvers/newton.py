"""Modified finite Newton (Keerthi & DeCoste; Sindhwani & Keerthi, section 1.2).

On the active rows J of a point the function is a quadratic, whose minimum is a regularized least
squares problem (eq. 1.4). It is solved by conjugate gradients from the point itself (seeding),
then an exact line search (eq. 1.5) finds the next point; J settles after finitely many steps.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dask_s3vm.numerics.linalg import dot, factored, norm
from dask_s3vm.solvers.conjugate_gradients import CGResult, conjugate_gradients
from dask_s3vm.solvers.problem import NewtonProblem, Point, Slope

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


#: A step that the line search cuts below `SHORT` tells that active rows change all along the line:
#: hundreds of such steps would follow. Where the curvature of the losses, in all directions
#: together, is beyond `STEEP` times lam, the problem is then eased once: lam grows by as many
#: powers of `FALL` as bring that ratio to `GENTLE`, and falls by one at each minimum. Rows with
#: entries up to 255 are the case, or a lam near 0. Minima on the way are solved to a gap of `EXACT`
#: at most: loose ones (0.1 to 1e-3) took up to 20 times the CG steps.
#: L2SVM on eight sets as they are, all labels, lam 1e-3, 1e-4, 1e-5: the 12 fits that took 88 to
#: 795 steps, 15 s of CPU at most, take 39 to 61, at most 0.6 s; the other 12 are as they were.
SHORT = 0.02
STEEP = 1e7
GENTLE = 1e5
FALL = 30.0
EXACT = 1e-5


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

    is_eased, falls : whether lam has been raised, and how often it is still to fall; see `SHORT`.
    n_iter, cg_steps : steps so far.
    last_norm : norm of the gradient before the last step.
    scale : preconditioner; see `conjugate_gradients`.
    forcing : how well Newton systems are solved.
    termination : why it ended: "converged", "precision" or "max_iter"; "" while it goes on.
    """

    point: Point
    is_eased: bool
    falls: int
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
        return self._ended(NewtonState(point, False, 0, 0, 0, math.inf, scale, forcing, ""))

    def advance(self, state: NewtonState) -> tuple[NewtonState, NewtonStep | None]:
        """Make a step; it is None where rounding allowed none."""
        problem, lam = self.problem, self.problem.lam
        with self._raised_lam(state) as (point, gap):
            here, enough = norm(point.gradient), near_norm(problem, point.value, gap)
            residual = _inner_tolerance(here, state.last_norm, enough, state.forcing)
            solve, scale = _direction(problem, point, state.scale, residual, self.max_cg)
            moved, step_length, line_rounds = _line_search(problem, point, solve.x)
            change = lam - problem.lam
        state = replace(state, cg_steps=state.cg_steps + solve.n_steps)
        if not _is_progress(point, moved):
            return self._stuck(state), None
        moved = with_lam(moved, change)
        number = state.n_iter + 1
        step = NewtonStep(
            number,
            moved.value,
            norm(moved.gradient),
            moved.n_active,
            solve.n_steps,
            line_rounds,
            step_length,
        )
        state = replace(state, point=moved, n_iter=number, last_norm=here, scale=scale)
        if step_length < SHORT and not state.is_eased:
            state = self._eased(state)
        return self._ended(state), step

    def _eased(self, state: NewtonState) -> NewtonState:
        """Let lam begin anew with a larger value, where it is small enough to be the cause."""
        problem = self.problem
        curvature = float(np.add.reduce(problem.hessian_diagonal(state.point)))
        ratio = curvature / problem.lam
        falls = math.ceil(math.log(ratio / GENTLE, FALL)) if ratio > STEEP else 0
        return replace(_fallen(state), is_eased=True, falls=falls)

    @contextmanager
    def _raised_lam(self, state: NewtonState) -> Iterator[tuple[Point, float]]:
        """Give the problem the lam of a state; yields the point with it, and the gap to reach."""
        problem, lam = self.problem, self.problem.lam
        if not state.falls:
            yield state.point, self.tol
            return
        problem.lam = lam * FALL**state.falls
        try:
            yield with_lam(state.point, problem.lam - lam), min(EXACT, self.tol)
        finally:
            problem.lam = lam

    def _ended(self, state: NewtonState) -> NewtonState:
        """Let lam fall while the point is near the minimum; at the last lam, that is the end."""
        problem, point = self.problem, state.point
        while state.falls:
            with self._raised_lam(state) as (raised, gap):
                if not is_near(problem, raised, gap):
                    break
            state = _fallen(state)
        is_blank = state.n_iter == 0 and not point.w.any() and point.gradient.any()
        if not state.falls and not is_blank and is_near(problem, point, self.tol):
            return replace(state, termination="converged")
        return replace(state, termination="max_iter" if state.n_iter >= self.max_iter else "")

    def _stuck(self, state: NewtonState) -> NewtonState:
        """Let lam fall where rounding leaves no descent; at the last lam, that is the end."""
        if state.falls:
            return _fallen(state)
        is_there = is_near(self.problem, state.point, self.tol)
        return replace(state, termination="converged" if is_there else "precision")


def _fallen(state: NewtonState) -> NewtonState:
    """Return the state with the next smaller lam, whose minimum is near."""
    return replace(state, falls=max(state.falls - 1, 0), forcing=NEAR, last_norm=math.inf)


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


def with_lam(point: Point, change: float) -> Point:
    """Return the point as a problem sees it whose lam differs by a change."""
    if change == 0.0:
        return point
    w = point.w
    value = point.value + 0.5 * change * dot(w, w)
    return replace(point, value=value, gradient=point.gradient + change * w)


def preconditioner(problem: NewtonProblem, start: Point) -> np.ndarray:
    """Square root of the Hessian's diagonal at the start: half-way between none and Jacobi's.

    Measured over text, indicators, pixels and raw tables, lam 1e-3 and 1e-5, in CG steps: at most
    1.5 times the better of the two as a rule, where Jacobi's takes a sixth of the steps of none on
    pixels and 2.7 times as many on text. Made once: with a new one per step the counts were alike.
    """
    return np.sqrt(problem.hessian_diagonal(start))


def _direction(
    problem: NewtonProblem, point: Point, scale: np.ndarray, residual: float, max_cg: int
) -> tuple[CGResult, np.ndarray]:
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
    problem: NewtonProblem, point: Point, direction: np.ndarray
) -> tuple[Point, float, int]:
    """Go from a point along a direction, to the minimum on the line or near it.

    Returns the point there, the step length, and the rounds of the line search.
    """
    # the full step: one pass, and the next gradient if it is kept
    moved = problem.evaluate(point.w + direction, beside=point)
    # the exact step, over outputs only
    at_0, at_1 = dot(point.gradient, direction), dot(moved.gradient, direction)
    if not (abs(at_1) > FLAT * abs(at_0) and at_0 < 0):
        return moved, 1.0, 0
    step, rounds = exact_step(problem.slope(point, moved), at_0, at_1)
    return problem.evaluate(point.w + step * direction, beside=point), step, rounds


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
