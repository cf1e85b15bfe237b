"""The fitness of labels: G against the formula of the paper, flips against scratch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels.flips import add_factor_rows, change_of, flip_row, row_lengths, square_norm
from dask_s3vm.problems.spectrum import decompose


def literal_fitness(K, square, y, lam):
    """J_2 of eq. 10 at c* of eq. 12, as printed."""
    D = np.diag(np.sqrt(square))
    G = np.linalg.inv(D @ K @ D + lam * np.eye(len(K)))
    c = D @ G @ D @ y
    residual = D @ y - D @ K @ c
    return residual @ residual + lam * c @ K @ c


def case(seed, n, d, known, lam_u):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) * rng.uniform(0.1, 2.0, d)
    square = np.where(np.arange(n) < known, 1.0 / max(known, 1), lam_u / (n - known))
    y = rng.choice([-1.0, 1.0], n)
    return Z, square, y, rng


def factor_of(Z, square, lam):
    spectrum = decompose(Z.T @ (square[:, None] * Z))
    return frozen(square[:, None] * (Z @ spectrum.factor(lam)))


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 25),
    d=st.integers(1, 30),
    lam=st.sampled_from([2.0**-10, 0.1, 1.0, 2.0**10]),
    lam_u=st.sampled_from([0.1, 1.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_fitness_is_the_literal_formula_after_any_flips(seed, n, d, lam, lam_u):
    known = n // 3
    Z, square, y, rng = case(seed, n, d, known, lam_u)
    G = factor_of(Z, square, lam)
    lengths = frozen(row_lengths(G))
    total = square.sum()
    labels = y.astype(np.int8)
    z = np.zeros(G.shape[1])
    add_factor_rows(G, labels, z)
    K = Z @ Z.T
    fitness = total - square_norm(z)
    assert fitness == pytest.approx(literal_fitness(K, square, labels, lam), abs=1e-8)
    for _ in range(12):
        j = int(rng.integers(known, n))
        opposite = np.flatnonzero(labels[known:] != labels[j]) + known
        i = int(rng.choice(opposite)) if len(opposite) and rng.random() < 0.5 else -1
        change = change_of(G, lengths, labels, z, j, i)
        flip_row(G, labels, z, j)
        if i >= 0:
            flip_row(G, labels, z, i)
        assert total - square_norm(z) == pytest.approx(fitness + change, abs=1e-10)
        fitness = total - square_norm(z)
    assert np.allclose(z, G.T @ labels, atol=1e-10)
    assert fitness == pytest.approx(literal_fitness(K, square, labels, lam), abs=1e-8)


@pytest.mark.parametrize("lam", [1e-3, 1.0, 50.0])
def test_closed_forms_of_the_spectrum(lam):
    Z, square, y, _ = case(3, 40, 7, 13, 0.5)
    H, b = Z.T @ (square[:, None] * Z), Z.T @ (square * y)
    spectrum = decompose(H)
    w = spectrum.weights(b, lam)
    assert np.allclose(w, np.linalg.solve(H + lam * np.eye(7), b))
    value = square @ (y - Z @ w) ** 2 + lam * w @ w
    side = spectrum.coordinates(b, lam)
    assert value == pytest.approx(square.sum() - side @ side)
    assert np.allclose(spectrum.factor(lam).T @ b, side)


def test_directions_that_are_not_there_are_dropped():
    Z, square, _, _ = case(3, 10, 30, 3, 0.5)
    spectrum = decompose(Z.T @ (square[:, None] * Z))
    assert len(spectrum.values) == 10
    assert (spectrum.values > 0).all()
    assert spectrum.factor(1e9).shape[1] <= 10
    assert decompose(np.zeros((3, 3))).values.tolist() == [0.0]


@pytest.mark.parametrize("distinct", [10, 4, 0])
def test_few_rows_of_many_columns(distinct):
    """The eigenvalues that are not 0, and their vectors, without those that are."""
    Z, square, y, _ = case(3, 10, 31, 3, 0.5)
    Z[distinct:] = Z[0] if distinct else 0.0
    H, b = Z.T @ (square[:, None] * Z), Z.T @ (square * y)
    plain, few = decompose(H), decompose(H, 10)
    assert few.vectors.shape == (31, max(distinct, 1))
    np.testing.assert_allclose(few.values, plain.values, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(few.vectors, plain.vectors, atol=1e-12)
    np.testing.assert_allclose(few.weights(b, 1e-3), plain.weights(b, 1e-3), atol=1e-12)
    same = decompose(H, 11)  # not so few
    assert same.vectors.tobytes() == plain.vectors.tobytes()
