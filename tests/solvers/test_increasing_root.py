"""Roots of increasing functions: exact, and in few calls."""

import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dask_s3vm.problems.annealed import increasing_root


class Counted:
    """Mean of logistic functions less a level, and its derivative; counts its calls."""

    def __init__(self, centers, width, level):
        self.centers, self.width, self.level = np.asarray(centers, dtype=float), width, level
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        p = expit((x - self.centers) / self.width)
        return float(p.mean()) - self.level, float((p * (1 - p)).mean()) / self.width


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 200),
    width=st.floats(-5, 1).map(lambda e: 10**e),
    level=st.floats(0.001, 0.999),
    start=st.floats(-1e3, 1e3),
)
@settings(deadline=None, max_examples=300)
def test_it_is_the_root_of_brentq_and_takes_few_calls(seed, n, width, level, start):
    rng = np.random.default_rng(seed)
    f = Counted(rng.normal(size=n) * rng.choice([0.1, 1.0, 4.0]), width, level)
    tol = 1e-9 * min(level, 1 - level)
    x = increasing_root(f, start, width, tol)
    calls = f.calls
    spread = 50 * width
    bounds = f.centers.min() - spread, f.centers.max() + spread
    theirs = scipy.optimize.brentq(lambda z: f(z)[0], *bounds, xtol=1e-13, rtol=1e-14)
    # a steep step cannot be met closer than the spacing of numbers allows
    grain = f(x)[1] * 4e-15 * max(1.0, abs(x), *np.abs(f.centers))
    assert abs(f(x)[0]) <= tol + grain
    assert abs(f(x)[0]) <= abs(f(theirs)[0]) + tol + grain
    assert calls <= 60


@pytest.mark.parametrize(("start", "most"), [(0.0, 40), (-1e3, 50), (1e6, 70), (-1e12, 120)])
def test_a_far_start_costs_little(start, most):
    f = Counted([3.0], 1e-3, 0.3)
    x = increasing_root(f, start, 1e-3, 1e-12)
    assert abs(f(x)[0]) <= 1e-9
    assert f.calls <= most


@pytest.mark.parametrize("level", [1e-12, 1e-6, 0.5, 1 - 1e-6])
def test_extreme_levels(level):
    f = Counted(np.linspace(-4, 4, 50), 0.01, level)
    tol = 1e-9 * min(level, 1 - level)
    x = increasing_root(f, 0.0, 0.01, tol)
    assert abs(f(x)[0]) <= tol + 2e-16
    assert f.calls <= 61


def test_a_root_at_the_start_takes_one_call():
    f = Counted([-1.0, 1.0], 0.1, 0.5)
    assert increasing_root(f, 0.0, 0.1, 1e-12) == 0.0
    assert f.calls == 1


def test_a_line_is_solved_at_once():
    calls = []

    def line(x):
        calls.append(x)
        return 2.0 * x - 7.0, 2.0

    assert increasing_root(line, 0.0, 10.0, 0.0) == 3.5
    assert len(calls) == 2


@pytest.mark.parametrize("place", [2.5, -1e-3, 1e6])
def test_a_jump_is_located_although_no_slope_is_given(place):
    calls = []

    def jump(x):
        calls.append(x)
        return (1.0 if x >= place else -1.0), 0.0

    x = increasing_root(jump, 0.0, 1.0, 1e-9)
    assert x == pytest.approx(place, rel=1e-14)
    assert len(calls) <= 90


def test_a_jump_at_zero_ends():
    calls = []

    def jump(x):
        calls.append(x)
        return math.copysign(1.0, x), 0.0

    assert abs(increasing_root(jump, 1.0, 1.0, 1e-9)) <= 1e-15
    assert len(calls) <= 200


def test_the_bound_on_rounds_is_kept():
    f = Counted([3.0], 1e-6, 0.3)
    increasing_root(f, 1e9, 1e-6, 0.0, max_rounds=7)
    assert f.calls == 7
