"""The dual on kernel columns: its optimum, certificate and warm start."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from dask_s3vm.problems.dual import KernelCache, KernelDual, squared_hinge_expansion


def make(K, y, cost, weights=None):
    return KernelDual(KernelCache(lambda rows: K[rows], np.diag(K).copy()), y, cost, weights)


def values(problem, K):
    """(dual, primal) by the formulas (4) and (5)."""
    ya = problem.target * problem.alpha
    square = ya @ K @ ya
    loss = problem.cost @ np.maximum(0, 1 - problem.target * (K @ ya))
    return problem.alpha.sum() - square / 2, square / 2 + loss


@pytest.fixture(params=[0, 1, 2])
def case(request):
    """Noisy rows, labels, and a cost of its own for each row."""
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(80, 4))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=80) > 0, 1, -1)
    return X, y, 10 ** rng.uniform(-2, 1, 80)


def test_the_optimum_is_that_of_a_general_solver(case):
    X, y, cost = case
    K = rbf_kernel(X, gamma=0.5)
    problem = make(K, y, cost)
    certificate = problem.solve(1e-10, 10_000)
    assert certificate.termination == "converged"
    Q = K * np.outer(y, y)
    found = minimize(
        lambda a: (a @ Q @ a / 2 - a.sum(), Q @ a - 1),
        np.zeros(80),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, c) for c in cost],
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    dual, primal = values(problem, K)
    assert dual == pytest.approx(-found.fun, rel=1e-8)
    assert primal == pytest.approx(-found.fun, rel=1e-8)
    np.testing.assert_allclose(K @ (y * problem.alpha), K @ (y * found.x), atol=1e-4)


def test_the_linear_kernel_is_liblinear_without_intercept(case):
    X, y, cost = case
    problem = make(X @ X.T, y, cost)
    problem.solve(1e-10, 100_000)
    reference = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6)
    reference.fit(X, y, sample_weight=cost)
    np.testing.assert_allclose(X.T @ (y * problem.alpha), reference.coef_[0], atol=1e-4)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_certificate_is_the_gap_and_the_box_is_kept(case, tol):
    X, y, cost = case
    K = rbf_kernel(X, gamma=0.5)
    problem = make(K, y, cost)
    certificate = problem.solve(tol, 10_000)
    dual, primal = values(problem, K)
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert certificate.gap == pytest.approx(primal - dual, rel=1e-6, abs=1e-12 * primal)
    assert certificate.gap <= tol * primal
    assert (problem.alpha >= 0).all()
    assert (problem.alpha <= cost).all()
    np.testing.assert_allclose(problem.outputs, K @ (y * problem.alpha), atol=1e-12)


def test_a_limit_of_steps_is_reported(case):
    X, y, cost = case
    certificate = make(rbf_kernel(X), y, cost).solve(0.0, 1)
    assert certificate.termination in ("max_iter", "precision")
    assert certificate.steps <= 80
    exact = make(rbf_kernel(X), y, cost).solve(0.0, 10_000)
    assert exact.termination in ("converged", "precision")
    assert exact.gap <= 1e-12 * exact.primal


def grown(X, y, cost, n_given, tol=1e-12):
    """Train on the first rows, then label one more: those with the largest and smallest output."""
    K = rbf_kernel(X, gamma=0.5)
    target = np.where(np.arange(len(y)) < n_given, y, 0)
    problem = make(K, target, cost)
    problem.solve(tol, 10_000)
    high, low = problem.score()
    return K, problem, problem.accept(high, low, 0.7, 0.7, 1)


def test_a_warm_start_needs_fewer_steps(case):
    X, y, cost = case
    K, problem, _ = grown(X, y, cost, 40, tol=1e-6)
    warm = problem.solve(1e-6, 10_000)
    cold_problem = make(K, np.where(problem.cost > 0, problem.target, 0), problem.cost)
    cold = cold_problem.solve(1e-6, 10_000)
    assert warm.primal == pytest.approx(cold.primal, rel=2e-6)
    assert warm.steps < cold.steps


def test_theorem_2_bounds_what_is_missing_after_one_step(case):
    X, y, cost = case
    _, problem, new = grown(X, y, cost, 40)
    rows = np.flatnonzero(problem.stage == 1)
    expected = problem.cost[rows] @ np.maximum(0, 1 - problem.target[rows] * problem.outputs[rows])
    assert new.loss == pytest.approx(expected)
    best = problem.solve(1e-12, 10_000)
    optimum = best.primal - best.gap
    K, again, _ = grown(X, y, cost, 40)
    before, _ = values(again, K)
    assert again.solve(0.0, 0).gap == pytest.approx(new.loss, rel=1e-6)  # eq. (15)
    i = rows[0]
    # the best step in that variable alone, and its bound nu <= C_i loss_i, rows summed
    slope = 1 - again.target[i] * again.outputs[i]
    again.alpha[i] = np.clip(slope / K[i, i], 0, again.cost[i])
    after, _ = values(again, K)
    assert after >= before
    assert -1e-9 <= optimum - after <= new.loss + 1e-9


def test_columns_are_made_for_few_rows_only(case):
    X, y, cost = case
    K, asked = rbf_kernel(X, gamma=0.5), []

    def columns(rows):
        asked.extend(rows)
        return K[rows]

    target = np.where(np.arange(80) < 10, y, 0)
    problem = KernelDual(KernelCache(columns, np.ones(80)), target, cost, None)
    problem.solve(1e-6, 1000)
    assert set(asked) <= set(range(10))
    assert len(asked) == len(set(asked))


def test_rows_of_weight_zero_are_left_out(case):
    X, y, cost = case
    weights = np.where(np.arange(80) % 2, 1.0, 0.0)
    target = np.where(np.arange(80) < 20, y, 0)
    problem = make(rbf_kernel(X), target, cost * weights, weights)
    assert problem.n_waiting == 30
    problem.solve(1e-6, 1000)
    problem.accept(-np.inf, np.inf, 1.0, 1.0, 1)
    assert problem.n_waiting == 0
    assert not problem.cost[weights == 0].any()
    assert not problem.target[20:][weights[20:] == 0].any()


def test_the_expansion_with_squared_hinge_loss_is_a_stationary_point():
    rng = np.random.default_rng(0)
    X, lam = rng.normal(size=(60, 3)), 0.01
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    cost = np.where(np.arange(60) < 40, rng.uniform(0.01, 0.05, 60), 0.0)
    K = X @ X.T + 1.0
    cache = KernelCache(lambda rows: K[rows], np.diagonal(K).copy())
    found = squared_hinge_expansion(cache, y, cost, lam)
    assert not found[cost == 0].any()
    slack = np.maximum(0.0, 1.0 - y * (K @ found))
    assert 0 < np.count_nonzero(slack) < 60
    np.testing.assert_allclose(lam * found, cost * y * slack, atol=1e-12)


def test_kernels_beside_which_lam_is_lost_have_the_shortest_expansion():
    """Their equations are singular in floating-point numbers."""
    K = np.full((6, 6), 1e40)
    cache = KernelCache(lambda rows: K[rows], np.diagonal(K).copy())
    y = np.array([1.0, 1.0, 1.0, 1.0, -1.0, 1.0])
    found = squared_hinge_expansion(cache, y, np.ones(6), 1e-3)
    np.testing.assert_allclose(K @ found, 4.0 / 6.0)  # what squared losses of these labels want
    np.testing.assert_allclose(found, found[0])
