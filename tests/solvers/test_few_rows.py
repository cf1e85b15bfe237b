"""l2-SVMs of few rows, by the inner products of the rows."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dask_s3vm.solvers.few_rows import outputs_of_svms


def problem(seed, n=12, d=5):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.3 * y[:, None]
    costs = rng.random((3, n)) * (rng.random((3, n)) < 0.8)
    return X, y, costs / costs.sum(axis=1, keepdims=True)


def objective(w, X, y, costs, lam):
    short = np.maximum(1.0 - y * (X @ w), 0.0)
    gradient = lam * w - X.T @ (costs * y * short)
    return 0.5 * costs @ short**2 + 0.5 * lam * w @ w, gradient


@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", [3, 30])
def test_outputs_are_those_at_the_minimum_over_weights(seed, lam, d):
    X, y, costs = problem(seed, d=d)
    found = outputs_of_svms(X @ X.T, y, costs, lam, 1e-12, 100)
    for own, c in zip(found, costs, strict=True):
        w = minimize(
            objective, np.zeros(d), (X, y, c, lam), "L-BFGS-B", True, tol=1e-15,
            options={"maxiter": 50_000, "maxfun": 100_000, "gtol": 1e-13},
        ).x  # fmt: skip
        least = objective(w, X, y, c, lam)[0]
        # the same rows have the same outputs up to what the gap allows: f is strongly convex in w
        b, *_ = np.linalg.lstsq(X, own, rcond=None)
        assert objective(b, X, y, c, lam)[0] <= least * (1 + 1e-6) + 1e-15


def test_every_problem_ends_by_itself():
    X, y, costs = problem(0)
    together = outputs_of_svms(X @ X.T, y, costs, 0.01, 1e-9, 100)
    alone = [outputs_of_svms(X @ X.T, y, c[None], 0.01, 1e-9, 100)[0] for c in costs]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-12)


def test_rows_that_are_tiny_beside_lam_are_told_apart():
    y = np.array([1.0, 1.0, -1.0])
    X = 1e-8 * np.array([[1.0], [2.0], [-1.0]])
    found = outputs_of_svms(X @ X.T, y, np.full((1, 3), 1 / 3), 1.0, 1e-3, 50)
    assert (np.sign(found[0]) == y).all()
