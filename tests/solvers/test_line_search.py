"""Exact line search against a search over all break points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dask_s3vm.solvers.newton import exact_step


class Hinges:
    """phi(s) = 1/2 sum_i c_i max(0, a_i - b_i s)^2 + 1/2 q (s - m)^2."""

    def __init__(self, seed, n, spread):
        rng = np.random.default_rng(seed)
        self.c = rng.random(n) * 10.0 ** rng.uniform(-spread, spread, n)
        self.a, self.b = rng.normal(size=n) * 3, rng.normal(size=n)
        self.q, self.m = 10.0 ** rng.uniform(-spread, 0), 0.1 + 3 * rng.random()

    def value(self, s):
        slack = np.maximum(0.0, self.a - self.b * s)
        return 0.5 * self.c @ slack**2 + 0.5 * self.q * (s - self.m) ** 2

    def slope(self, s):
        slack = np.maximum(0.0, self.a - self.b * s)
        first = -(self.c * self.b) @ slack + self.q * (s - self.m)
        second = (self.c * self.b**2)[slack > 0].sum() + self.q
        return float(first), float(second)

    def root(self):
        """The zero of phi', by looking between all break points."""
        breaks = np.sort((self.a / self.b)[self.a / self.b > 0])
        low = 0.0
        for high in [*breaks, np.inf]:
            if high == np.inf or self.slope(high)[0] >= 0:
                middle = low + 1.0 if high == np.inf else 0.5 * (low + high)
                first, second = self.slope(middle)
                return middle - first / second
            low = high
        raise AssertionError


@given(seed=st.integers(0, 10**6), n=st.integers(0, 30), spread=st.sampled_from([0, 1, 3]))
@settings(max_examples=400, deadline=None)
def test_the_step_is_the_minimum(seed, n, spread):
    phi = Hinges(seed, n, spread)
    at_0, at_1 = phi.slope(0.0)[0], phi.slope(1.0)[0]
    if at_0 >= -1e-6:
        return
    step, rounds = exact_step(phi.slope, at_0, at_1)
    assert step > 0
    assert abs(phi.slope(step)[0]) <= 1e-8 * abs(at_0)
    assert step == pytest.approx(phi.root(), rel=1e-5, abs=1e-7)
    assert rounds <= 30


@pytest.mark.parametrize("seed", range(10))
def test_the_step_agrees_with_a_general_minimizer(seed):
    phi = Hinges(seed, 8, 0)
    if phi.slope(0.0)[0] >= 0:
        phi.a, phi.b = np.abs(phi.a), np.abs(phi.b)
    at_0, at_1 = phi.slope(0.0)[0], phi.slope(1.0)[0]
    step, _ = exact_step(phi.slope, at_0, at_1)
    found = minimize_scalar(phi.value, bounds=(0, 50), method="bounded", options={"xatol": 1e-10})
    assert step == pytest.approx(found.x, rel=1e-5)


def test_a_quadratic_needs_one_round():
    calls = []

    def slope(s):
        calls.append(s)
        return 2.0 * (s - 0.4), 2.0

    assert exact_step(slope, -0.8, 1.2) == (pytest.approx(0.4), 1)
    assert len(calls) == 1


def test_a_minimum_far_beyond_the_full_step_is_found():
    def slope(s):  # steep up to 1, then nearly flat: the zero is at 101
        return (-1.0 + 0.5 * s, 0.5) if s < 1 else (-0.5 + 0.005 * (s - 1), 0.005)

    step, _ = exact_step(slope, -1.0, -0.5)
    assert step == pytest.approx(101.0, rel=1e-6)


def test_rounds_are_bounded():
    step, rounds = exact_step(lambda s: (-1.0, 1e-9), -1.0, -1.0, max_rounds=7)
    assert rounds <= 7
    assert step >= 1
