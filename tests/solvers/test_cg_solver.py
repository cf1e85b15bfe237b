"""Conjugate gradients against a direct solve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_s3vm.numerics.linalg import dot, factored, norm, solve_factored
from dask_s3vm.solvers.conjugate_gradients import conjugate_gradients


def system(seed, n):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-1, 1, n)
    matrix = half.T @ half + 0.5 * np.eye(n)
    return matrix, rng.normal(size=n)


def product_of(matrix):
    return lambda p: (matrix @ p, float(p @ matrix @ p))


@pytest.mark.parametrize("scaled", [False, True])
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12))
def test_solution_is_that_of_a_direct_solve(scaled, seed, n):
    matrix, rhs = system(seed, n)
    scale = np.diag(matrix).copy() if scaled else None
    found = conjugate_gradients(product_of(matrix), rhs, 1e-9 * norm(rhs), 2000, scale)
    assert np.linalg.norm(rhs - matrix @ found.x) <= 1e-7 * np.linalg.norm(rhs)
    np.testing.assert_allclose(found.x, np.linalg.solve(matrix, rhs), rtol=1e-5, atol=1e-6)


def test_scaling_with_the_diagonal_solves_a_diagonal_system_at_once():
    diagonal = 10.0 ** np.arange(-4.0, 4.0)
    found = conjugate_gradients(product_of(np.diag(diagonal)), np.ones(8), 1e-10, 100, diagonal)
    assert found.n_steps == 1
    np.testing.assert_allclose(found.x, 1 / diagonal)


def test_the_factor_of_the_matrix_solves_it_at_once():
    matrix, rhs = system(3, 12)
    found = conjugate_gradients(product_of(matrix), rhs, 1e-8 * norm(rhs), 100, factored(matrix))
    assert found.n_steps == 1
    np.testing.assert_allclose(found.x, np.linalg.solve(matrix, rhs), rtol=1e-6)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), spread=st.floats(0.0, 8.0))
def test_a_factor_solves_systems_of_columns_of_all_sizes(seed, n, spread):
    matrix, rhs = system(seed, n)
    sizes = 10.0 ** np.random.default_rng(seed).uniform(-spread, spread, n)
    factor = factored(matrix * sizes[:, None] * sizes)
    assert np.array_equal(factor, np.tril(factor))
    x = solve_factored(factor, rhs * sizes)
    np.testing.assert_allclose(x * sizes, np.linalg.solve(matrix, rhs), rtol=1e-6, atol=1e-8)


def test_a_matrix_that_rounding_has_made_singular_has_a_factor():
    factor = factored(np.ones((20, 20)))
    assert np.all(np.isfinite(factor))
    assert np.all(np.diagonal(factor) > 0.0)


def test_it_stops_at_the_tolerance_and_reports_the_residual():
    matrix, rhs = system(0, 12)
    loose = conjugate_gradients(product_of(matrix), rhs, 0.3, 1000)
    tight = conjugate_gradients(product_of(matrix), rhs, 1e-8, 1000)
    assert loose.n_steps < tight.n_steps
    assert loose.residual <= 0.3
    assert np.linalg.norm(rhs - matrix @ loose.x) == pytest.approx(loose.residual, rel=1e-8)


def test_it_makes_one_product_a_step_and_no_more_than_allowed():
    matrix, rhs = system(1, 12)
    calls = []

    def product(p):
        calls.append(1)
        return matrix @ p, float(p @ matrix @ p)

    found = conjugate_gradients(product, rhs, 0.0, 5)
    assert found.n_steps == len(calls) == 5


def test_a_right_hand_side_of_zero_needs_no_product():
    found = conjugate_gradients(lambda p: pytest.fail("asked"), np.zeros(3), 0.0, 10)
    assert found.x.tolist() == [0, 0, 0]
    assert found.n_steps == 0


def test_no_curvature_ends_the_iteration():
    found = conjugate_gradients(lambda p: (np.zeros(2), 0.0), np.ones(2), 0.0, 10)
    assert found.n_steps == 1
    assert np.isfinite(found.x).all()


def test_the_right_hand_side_is_left_alone():
    matrix, rhs = system(2, 6)
    kept = rhs.copy()
    conjugate_gradients(product_of(matrix), rhs, 1e-9, 100)
    assert np.array_equal(rhs, kept)


def test_dot_and_norm():
    a, b = np.array([3.0, 4.0]), np.array([1.0, -2.0])
    assert dot(a, b) == -5.0
    assert norm(a) == 5.0
