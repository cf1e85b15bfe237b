"""L-BFGS against scipy, plain two-loop directions, and functions with known minima."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.numerics.linalg import combine, products
from dask_s3vm.solvers.lbfgs import Memory, Trial, memory_size, minimize, wolfe_step

SEEDS = st.integers(0, 2**32 - 1)


def never(value, gradient):
    return False


def below(bound):
    """Enough when no entry of the gradient is larger."""
    return lambda value, gradient: np.abs(gradient).max() <= bound


class Watched:
    """A function that counts its evaluations and keeps the values."""

    def __init__(self, function):
        self.function, self.values = function, []

    def __call__(self, x):
        value, gradient = self.function(x)
        self.values.append(value)
        return value, gradient


def rosenbrock(x):
    return float(scipy.optimize.rosen(x)), scipy.optimize.rosen_der(x)


def softened(seed, n=30, d=8, lam=1e-2):
    """A logistic regression: strictly convex."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, d)

    def function(x):
        t = A @ x
        p = scipy.special.expit(-t)
        return float(np.logaddexp(0, -t).mean() + lam * x @ x), -A.T @ p / n + 2 * lam * x

    return function, d


# kernels over vectors


@given(seed=SEEDS, n=st.integers(1, 2100), k=st.integers(0, 7))
@settings(deadline=None, max_examples=30)
def test_products_and_combinations_are_those_of_numpy(seed, n, k):
    rng = np.random.default_rng(seed)
    held, a, b = rng.normal(size=(k + 2, n)), rng.normal(size=n), rng.normal(size=n)
    out = np.zeros((k, 2))
    products(held, a, b, out)
    np.testing.assert_allclose(out, held[:k] @ np.column_stack([a, b]), atol=1e-11)
    total = a.copy()
    combine(held, b[:k] if k <= n else np.ones(k), total)
    weights = b[:k] if k <= n else np.ones(k)
    np.testing.assert_allclose(total, a + weights @ held[: len(weights)], atol=1e-11)


# directions


def two_loops(pairs, gradient):
    """The recursion of Nocedal & Wright, Algorithm 7.4."""
    q, alphas = gradient.copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    s, y = pairs[-1]
    q *= s @ y / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - y @ q / (s @ y)) * s
    return -q


@given(seed=SEEDS, size=st.integers(1, 6), steps=st.integers(1, 15))
@settings(deadline=None, max_examples=50)
def test_directions_are_those_of_the_two_loops(seed, size, steps):
    rng = np.random.default_rng(seed)
    d = 9
    root = rng.normal(size=(d, d))
    H = root @ root.T + 0.1 * np.eye(d)
    memory, pairs = Memory(size, d), []
    gradient, slopes = rng.normal(size=d), np.zeros(0)
    for _ in range(steps):
        s = rng.normal(size=d)
        y = H @ s
        after = gradient + y
        both = memory.products_with(after, s)
        slopes = memory.add(s, y, both[:, 1], slopes, both[:, 0].copy(), after)
        gradient = after
        pairs = [*pairs, (s, y)][-size:]
        wanted = two_loops(pairs, gradient)
        found = memory.direction(gradient, slopes)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8 * np.abs(wanted).max())
    assert len(memory) == len(pairs)


def test_a_pair_without_positive_curvature_is_not_kept():
    memory = Memory(3, 2)
    s, y = np.array([1.0, 0.0]), np.array([-1.0, 2.0])
    assert len(memory.add(s, y, np.zeros(0), np.zeros(0), np.zeros(0), y)) == 0
    assert len(memory) == 0
    assert memory.scale is None


@pytest.mark.parametrize(
    ("n", "wanted"), [(1, 50), (5000, 50), (13_000, 20), (10**6, 10), (10**7, 6), (10**9, 3)]
)
def test_fewer_pairs_of_long_vectors_are_kept(n, wanted):
    assert memory_size(n) == wanted


# minima


@given(seed=SEEDS)
@settings(deadline=None, max_examples=20)
def test_convex_functions_end_where_those_of_scipy_do(seed):
    function, d = softened(seed)
    found = minimize(function, np.zeros(d), Memory(5, d), 1e-12, never, 1000)
    theirs = scipy.optimize.minimize(
        function, np.zeros(d), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    assert found.termination in ("converged", "precision")
    assert found.value <= theirs.fun * (1 + 1e-9)


@pytest.mark.parametrize("d", [2, 10])
def test_a_curved_valley_is_followed_to_its_end(d):
    watched = Watched(rosenbrock)
    found = minimize(watched, np.full(d, -1.2), Memory(10, d), 0.0, below(1e-8), 500)
    assert found.termination == "converged"
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)
    assert found.n_evaluations == len(watched.values) < 50 + 15 * d
    assert found.n_iter < found.n_evaluations


def test_values_of_accepted_points_never_rise():
    seen = []

    class Noting(Memory):
        def add(self, s, y, *others):
            seen.append(others[-1].copy())
            return super().add(s, y, *others)

    found = minimize(rosenbrock, np.full(4, -1.2), Noting(5, 4), 0.0, below(1e-8), 500)
    points = {gradient.tobytes() for gradient in seen}
    watched = Watched(rosenbrock)
    values = []

    def replay(x):
        value, gradient = watched(x)
        if gradient.tobytes() in points:
            values.append(value)
        return value, gradient

    minimize(replay, np.full(4, -1.2), Memory(5, 4), 0.0, below(1e-8), 500)
    assert len(values) == found.n_iter
    assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize("seed", range(6))
def test_it_goes_on_to_the_last_bits_of_the_gradient(seed):
    function, d = softened(seed, lam=0.1)
    found = minimize(function, np.zeros(d), Memory(10, d), 0.0, never, 1000)
    assert found.termination == "precision"
    assert np.abs(found.gradient).max() < 1e-13


@pytest.mark.parametrize("most", [1, 2, 7])
def test_it_stops_after_so_many_evaluations(most):
    watched = Watched(rosenbrock)
    found = minimize(watched, np.full(6, -1.2), Memory(5, 6), 0.0, never, most)
    assert found.termination == "max_iter"
    assert found.n_evaluations == len(watched.values) == most
    assert found.value == min(watched.values) or most == 1


def test_a_start_at_the_minimum_takes_one_evaluation():
    found = minimize(rosenbrock, np.ones(3), Memory(5, 3), 0.0, below(1e-12), 100)
    assert (found.n_evaluations, found.n_iter, found.termination) == (1, 0, "converged")


def test_a_start_that_is_known_is_not_evaluated():
    x, watched = np.full(3, -1.2), Watched(rosenbrock)
    found = minimize(watched, x, Memory(5, 3), 0.0, below(1e-8), 300, known=rosenbrock(x))
    wanted = minimize(rosenbrock, x, Memory(5, 3), 0.0, below(1e-8), 300)
    assert np.array_equal(found.x, wanted.x)
    assert found.n_evaluations == wanted.n_evaluations == len(watched.values) + 1


def test_values_that_are_no_numbers_are_stepped_back_from():
    def walled(x):
        if x[0] < -0.5:
            return np.inf, np.full(1, np.nan)
        return float(np.exp(3 * x[0])), 3 * np.exp(3 * x)

    found = minimize(walled, np.array([2.0]), Memory(5, 1), 1e-9, never, 200)
    assert -0.5 <= found.x[0] < -0.2
    assert np.isfinite(found.value)


def test_the_scale_is_taken_along_and_the_pairs_are_not():
    function, d = softened(5)
    memory = Memory(10, d)
    first = minimize(function, np.zeros(d), memory, 1e-8, never, 500)
    assert memory.scale is not None
    again = minimize(function, first.x, memory, 1e-4, never, 500)
    assert (again.n_evaluations, again.termination) == (1, "converged")
    again = minimize(function, first.x, memory, 1e-4, never, 500, least_steps=2)
    assert (again.n_iter, again.termination) == (2, "converged")
    moved = minimize(lambda x: function(x - 0.1), first.x, memory, 1e-8, never, 500)
    assert moved.value == pytest.approx(first.value, rel=1e-6)


def test_a_step_that_goes_down_is_not_wasted_when_trials_run_out():
    """On a long slope every step is too short for the second condition of Wolfe."""

    def slope(x):
        return -float(x[0]), np.array([-1.0])

    start = Trial(0.0, 0.0, np.array([-1.0]), -1.0)
    found, trials = wolfe_step(slope, np.zeros(1), start, np.ones(1), -1.0, 3)
    assert trials == 3
    assert found.t == 16.0
    assert found.value == -16.0


def test_no_step_is_accepted_where_nothing_goes_down():
    def hill(x):
        return float(x[0]), np.array([-1.0])

    start = Trial(0.0, 0.0, np.array([-1.0]), -1.0)
    assert wolfe_step(hill, np.zeros(1), start, np.ones(1), -1.0, 4) == (None, 4)
