"""Finite Newton: it ends at the minimum, and says truly how near."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize

from dask_s3vm.solvers import newton
from dask_s3vm.solvers.newton import finite_newton
from dask_s3vm.solvers.problem import Point


class PlainProblem:
    """The l2-SVM on a dense matrix, with nothing of the package in it."""

    def __init__(self, seed, n=80, d=10, lam=1e-2):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-0.5, 0.5, d)
        self.y = np.sign(self.X @ rng.normal(size=d) + rng.normal(size=n))
        self.lam = lam

    def f(self, w):
        slack = np.maximum(0.0, 1 - self.y * (self.X @ w))
        return 0.5 * np.mean(slack**2) + 0.5 * self.lam * w @ w

    def g(self, w):
        slack = np.maximum(0.0, 1 - self.y * (self.X @ w))
        return self.lam * w - self.X.T @ (self.y * slack) / len(self.y)

    def evaluate(self, w, beside=None):
        active = self.y * (self.X @ w) < 1
        return Point(w, float(self.f(w)), self.g(w), int(active.sum()), 0)

    #: see `NewtonProblem.patience`
    n_patient = None

    def patience(self, point):
        return self.n_patient

    def hessian(self, point):
        return self._hessian(point.w)

    def _hessian(self, w):
        part = self.X[self.y * (self.X @ w) < 1]
        return self.lam * np.eye(self.X.shape[1]) + part.T @ part / len(self.y)

    def hessian_product(self, point, p):
        product = self._hessian(point.w) @ p
        return product, float(p @ product)

    def cg_steps(self, point):
        return None

    def hessian_diagonal(self, point):
        return np.diag(self._hessian(point.w)).copy()

    def slope(self, point, trial):
        move = trial.w - point.w

        def at(step):
            w = point.w + step * move
            return float(self.g(w) @ move), float(move @ self._hessian(w) @ move)

        return at

    def minimum(self):
        found = scipy.optimize.minimize(
            self.f,
            np.zeros(self.X.shape[1]),
            jac=self.g,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-11, "maxiter": 10_000},
        )
        return found.fun


@pytest.fixture(params=range(6))
def problem(request):
    return PlainProblem(request.param, lam=[1e-1, 1e-2, 1e-4][request.param % 3])


def solve(problem, tol=1e-8, max_iter=100, **more):
    start = problem.evaluate(np.zeros(problem.X.shape[1]))
    return finite_newton(problem, start, tol, max_iter, **more)


def test_the_gradient_vanishes(problem):
    result = solve(problem, tol=1e-16)
    assert result.termination in ("converged", "precision")
    assert np.linalg.norm(result.point.gradient) <= 1e-7 * np.linalg.norm(
        problem.g(np.zeros(problem.X.shape[1]))
    )


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_certificate_is_honest(problem, tol):
    result = solve(problem, tol=tol)
    assert result.termination == "converged"
    least = problem.minimum()
    value = problem.f(result.point.w)
    assert value == result.point.value
    assert value - least <= tol * value * (1 + 1e-9)
    assert value >= least * (1 - 1e-9)


def test_the_objective_falls_with_every_step(problem):
    steps = []
    start = problem.f(np.zeros(problem.X.shape[1]))
    result = solve(problem, on_step=steps.append)
    values = [start, *(step.objective for step in steps)]
    assert all(b < a for a, b in itertools.pairwise(values))
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert result.n_iter == len(steps)
    assert result.cg_steps == sum(step.cg_steps for step in steps)
    assert result.point.value == values[-1]
    assert steps[-1].gradient_norm == pytest.approx(np.linalg.norm(result.point.gradient))


def test_starting_at_the_minimum_takes_no_step(problem):
    first = solve(problem)
    again = finite_newton(problem, first.point, 1e-8, 100)
    assert again.n_iter == 0
    assert again.termination == "converged"
    assert again.point is first.point


def test_max_iter_is_obeyed_and_told(problem):
    result = solve(problem, tol=1e-14, max_iter=1)
    assert result.n_iter == 1
    assert result.termination == "max_iter"


def test_an_impossible_tolerance_ends_by_precision(problem):
    result = solve(problem, tol=0.0)
    assert result.termination == "precision"
    assert result.n_iter < 60
    assert result.point.value <= problem.minimum() * (1 + 1e-9)


def test_newton_systems_are_solved_by_where_the_start_is():
    tolerance, (first, later) = newton._inner_tolerance, newton.FAR
    assert tolerance(2.0, math.inf, 0.0, newton.FAR) == 2.0 * first > 0.0
    assert tolerance(2.0, 1.0, 0.0, newton.FAR) == 2.0 * later
    assert tolerance(2.0, 1e4, 0.0, newton.FAR) == 2.0 * 2e-4
    assert tolerance(2.0, math.inf, 1.0, newton.FAR) == 0.5  # half of what is asked for
    assert tolerance(2.0, math.inf, 0.0, newton.NEAR) == 0.0


def test_where_values_are_equal_the_gradient_decides():
    here = Point(np.zeros(1), 1.0, np.array([1e-8]), 1, 0)
    flatter = Point(np.zeros(1), 1.0, np.array([1e-9]), 1, 1)
    steeper = Point(np.zeros(1), 1.0, np.array([2e-8]), 1, 1)
    higher = Point(np.zeros(1), 1.0 + 1e-12, np.array([1e-9]), 1, 1)
    assert newton._is_progress(here, flatter)
    assert not newton._is_progress(here, steeper)
    assert not newton._is_progress(here, higher)


@pytest.mark.parametrize(("n", "wanted"), [(5, newton.FEW), (80, newton.FAR)])
def test_wide_rows_are_solved_exactly_at_first(n, wanted):
    problem = PlainProblem(0, n=n, d=20)
    state = newton.FiniteNewton(problem, 1e-8, 100).start(problem.evaluate(np.zeros(20)))
    assert state.forcing == wanted
    near = newton.FiniteNewton(problem, 1e-8, 100, newton.NEAR)
    assert near.start(problem.evaluate(np.zeros(20))).forcing == newton.NEAR


def graded(n_patient):
    """Columns that depend on each other, and differ in size by nine orders of magnitude."""
    problem = PlainProblem(1, n=400, d=40, lam=1e-5)
    problem.X = problem.X @ np.tril(np.ones((40, 40))) * 10.0 ** np.linspace(-6, 3, 40)
    problem.n_patient = n_patient
    return problem


def test_systems_that_take_long_are_factored():
    steps, factors = {}, {}
    for n_patient in (None, 5):
        problem = graded(n_patient)
        result = solve(problem, tol=1e-4)
        assert result.termination == "converged"
        steps[n_patient], factors[n_patient] = result.cg_steps, result.scale
    assert factors[None].shape == (40,)
    assert factors[5].shape == (40, 40)
    assert steps[5] < 0.1 * steps[None]


def test_a_factor_serves_until_it_takes_long_too():
    problem, made = graded(5), []
    problem.hessian = lambda point: made.append(1) or problem._hessian(point.w)
    result = solve(problem, tol=1e-8)
    assert 0 < len(made) < result.n_iter
    assert result.cg_steps < 10 * result.n_iter
    again = finite_newton(problem, problem.evaluate(result.point.w), 1e-16, 100, scale=result.scale)
    assert again.cg_steps < 10 * max(again.n_iter, 1)


def test_patience_is_not_tried_where_the_limit_is_lower():
    problem = graded(5)
    problem.hessian = lambda point: pytest.fail("asked")
    state = newton.FiniteNewton(problem, 1e-8, 3, max_cg=5).start(problem.evaluate(np.zeros(40)))
    while not state.done:
        state, _ = newton.FiniteNewton(problem, 1e-8, 3, max_cg=5).advance(state)
    assert state.scale.ndim == 1


def images():
    """Rows of numbers up to 255 whose classes can be separated, as photographs have them."""
    rng = np.random.default_rng(0)
    problem = PlainProblem(0, n=300, d=100, lam=1e-5)
    X = rng.random((300, 100)) @ rng.random((100, 100)) ** 4
    problem.X = np.round(255.0 * (X - X.min()) / (X - X.min()).max())
    outputs = (problem.X - problem.X.mean(axis=0)) @ rng.normal(size=100)
    problem.y = np.where(outputs > np.quantile(outputs, 0.8), 1.0, -1.0)
    return problem


def test_short_steps_ease_the_problem(monkeypatch):
    problem, steps = images(), []
    result = solve(problem, tol=1e-6, max_iter=1000, on_step=steps.append)
    assert result.is_eased
    assert result.termination == "converged"
    assert problem.lam == 1e-5
    assert result.point.value == problem.f(result.point.w)
    assert [step.objective for step in steps][-1] == result.point.value
    monkeypatch.setattr(newton, "SHORT", 0.0)
    never = solve(images(), tol=1e-6, max_iter=1000)
    assert not never.is_eased
    assert result.n_iter < 0.3 * never.n_iter
    assert result.point.value == pytest.approx(never.point.value, rel=2e-6)


def test_an_eased_problem_goes_on_from_any_state():
    problem = images()
    whole = solve(problem, tol=1e-6)
    method = newton.FiniteNewton(problem, 1e-6, 100)
    state, falls = method.start(problem.evaluate(np.zeros(100))), []
    while not state.done:
        state, _ = newton.FiniteNewton(problem, 1e-6, 100).advance(state)
        falls.append(state.falls)
    assert max(falls) > 0 == falls[-1]
    assert problem.lam == 1e-5
    assert np.array_equal(state.point.w, whole.point.w)


def test_a_point_of_another_lam(problem):
    w = np.arange(10.0)
    point = problem.evaluate(w)
    problem.lam += 0.5
    moved, there = newton.with_lam(point, 0.5), problem.evaluate(w)
    assert moved.value == pytest.approx(there.value)
    np.testing.assert_allclose(moved.gradient, there.gradient)
    assert newton.with_lam(point, 0.0) is point


def test_weights_of_zero_are_left_even_where_they_are_near_the_minimum():
    problem = PlainProblem(3)
    problem.X *= 1e-7  # the objective is that of no weights, to 14 digits
    start = problem.evaluate(np.zeros(10))
    for forcing in (None, newton.NEAR):
        found = finite_newton(problem, start, 1e-6, 100, forcing=forcing)
        assert found.termination == "converged"
        best = problem.X.T @ problem.y / len(problem.y) / problem.lam
        assert np.allclose(found.point.w, best, rtol=0.02)
    problem.X[:] = 0.0
    found = finite_newton(problem, problem.evaluate(np.zeros(10)), 1e-6, 100)
    assert (found.termination, found.n_iter) == ("converged", 0)
