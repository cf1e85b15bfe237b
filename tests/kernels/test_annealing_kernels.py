"""Loops of deterministic annealing against formulas in numpy."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, expit

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels import passes, smooth
from dask_s3vm.kernels.rows import CSR, load_pair, new_pair, pair_halves, pair_output

SEEDS = st.integers(0, 2**32 - 1)


def rows_of(seed, n=29):
    """Codes, shares, outputs and beliefs of some rows, labeled and not."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 2, n).astype(np.int8)
    share = rng.random(n) * (rng.random(n) < 0.8) / n
    return codes, share, 1.5 * rng.normal(size=n), rng.random(n)


def stored(X, form):
    """Rows for the kernels."""
    if form == "dense":
        return frozen(np.ascontiguousarray(X))
    csr = sp.csr_array(X)
    parts = csr.indptr.astype(np.uint32), csr.indices.astype(np.uint32), csr.data
    return CSR(*(frozen(part) for part in parts))


def expected_p(o, lam_u, temperature, nu):
    g = lam_u * (np.maximum(0, 1 - o) ** 2 - np.maximum(0, 1 + o) ** 2)
    return expit((nu - g) / temperature)


def kept_odds(o, lam_u, temperature, nu):
    odds = np.full(len(o), np.nan)
    smooth.set_odds(o, lam_u, temperature, nu, odds)
    return odds


@given(
    seed=SEEDS,
    lam_u=st.floats(0.01, 10),
    t=st.floats(1e-2, 10),
    nu=st.floats(-2, 2),
    move=st.floats(-2, 2),
)
@settings(deadline=None)
def test_sums_of_beliefs_are_those_of_numpy(seed, lam_u, t, nu, move):
    """For the nu that odds were made for, and for others by a factor."""
    codes, share, o, _ = rows_of(seed)
    odds = kept_odds(o, lam_u, t, nu)
    total, slope = smooth.belief_sums(codes, share, odds, np.exp(-move / t))
    on = codes < 0
    p = expected_p(o, lam_u, t, nu + move)
    assert total == pytest.approx(share[on] @ p[on], rel=1e-9, abs=1e-250)
    # 1 - p is not exact where p rounds to 1
    assert slope == pytest.approx(share[on] @ (p * (1 - p))[on], rel=1e-9, abs=1e-15)


def annealed(rows, codes, cost, w, bias, *at):
    """Sums of a pass, outputs, half gradient and its turn; `at` is lam_u, temperature, nu."""
    target = np.where(codes < 0, 0, 2 * codes - 1).astype(np.int8)
    pair, outputs = new_pair(rows, len(w) - 1), np.full(len(codes), np.nan)
    load_pair(rows, pair, w)
    sums = smooth.annealed_pass(rows, codes, target, cost, *at, pair, bias, outputs, False)
    gradient = pair_output(rows, pair)
    load_pair(rows, pair, 0.0)
    again = smooth.annealed_pass(rows, codes, target, cost, *at, pair, bias, outputs, True)
    assert again == sums
    assert np.array_equal(pair_output(rows, pair), gradient)
    return sums, outputs, gradient, pair_halves(rows, pair)[0].copy()


@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@given(seed=SEEDS, lam_u=st.floats(0.01, 10), t=st.floats(1e-2, 10), nu=st.floats(-2, 2))
@settings(deadline=None, max_examples=50)
def test_a_pass_has_the_sums_of_numpy(form, bias, seed, lam_u, t, nu):
    rng = np.random.default_rng(seed)
    codes, cost, _, _ = rows_of(seed)
    cost = np.where(rng.random(29) < 0.5, cost, 0.03)  # equal ones share a logarithm
    X, w = rng.normal(size=(29, 5)) * (rng.random((29, 5)) < 0.5), rng.normal(size=6)
    wide = np.column_stack([X, np.full(29, bias)])
    sums, outputs, gradient, turn = annealed(stored(X, form), codes, cost, w, bias, lam_u, t, nu)
    loss, entropy, own_side, total, slope, n_positive = sums
    o, on = wide @ w, codes < 0
    np.testing.assert_allclose(outputs, o, rtol=1e-9, atol=1e-12)
    p = np.where(on, expected_p(o, lam_u, t, nu), codes == 1)
    up, down = np.maximum(0, 1 - o), np.maximum(0, 1 + o)
    assert loss == pytest.approx(cost @ (p * up**2 + (1 - p) * down**2), rel=1e-8)
    wanted = cost[on] @ (entr(p) + entr(1 - p))[on]
    assert entropy == pytest.approx(wanted, rel=1e-7, abs=1e-12)
    margin = np.where(on, np.abs(o), np.where(codes == 1, o, -o))
    assert own_side == pytest.approx(cost @ np.maximum(0, 1 - margin) ** 2, rel=1e-9)
    assert total == pytest.approx(cost[on] @ p[on], rel=1e-8, abs=1e-15)
    spread = np.where(on, cost * p * (1 - p), 0.0)
    assert slope == pytest.approx(spread.sum(), rel=1e-8, abs=1e-15)
    assert n_positive == np.count_nonzero(on & (o > 0) & (cost > 0))
    pulls = cost * ((1 - p) * down - p * up)
    np.testing.assert_allclose(gradient, wide.T @ pulls, rtol=1e-7, atol=1e-11)
    np.testing.assert_allclose(turn, wide.T @ (spread * (up + down)), rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("n", [1, 999, 1000, 1001, 5000])
def test_many_equal_rows_have_many_times_the_entropy(n):
    rows, codes = stored(np.zeros((n, 1)), "dense"), np.full(n, -1, dtype=np.int8)
    sums, *_ = annealed(rows, codes, np.full(n, 0.5), np.zeros(2), 1.0, 1.0, 1.0, 0.0)
    assert sums[1] == pytest.approx(0.5 * n * np.log(2), rel=1e-12)


@pytest.mark.parametrize("t", [1e-12, 1e-3, 10.0])
def test_extreme_outputs_stay_finite(t):
    codes, cost = np.full(6, -1, dtype=np.int8), np.full(6, 1 / 6)
    o = np.array([-1e6, 1e6, -1e100, 1e100, 1.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        odds = kept_odds(o, 1.0, t, 0.3)
        for factor in (1.0, 1e300, 1e-300):
            assert np.isfinite(smooth.belief_sums(codes, cost, odds, factor)).all()
        rows, w = stored(o[:, None], "dense"), np.array([1.0, 0.0])
        sums, *vectors = annealed(rows, codes, cost, w, 1.0, 1.0, t, 0.3)
    assert np.isfinite(sums).all()
    assert all(np.isfinite(vector).all() for vector in vectors)


@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@given(seed=SEEDS)
@settings(deadline=None, max_examples=40)
def test_rows_are_added(form, bias, seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(0, 25)), int(rng.integers(1, 20))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    pulls = rng.normal(size=n) * (rng.random(n) < 0.5)
    rows = stored(X, form)
    pair = new_pair(rows, d)
    load_pair(rows, pair, 0.0)
    passes.add_rows(rows, pulls, pair, bias)
    wanted = np.column_stack([X, np.full(n, bias)]).T @ pulls
    np.testing.assert_allclose(pair_output(rows, pair), wanted, rtol=1e-11, atol=1e-13)


@given(seed=SEEDS)
@settings(deadline=None)
def test_transductive_loss_takes_the_better_label_of_unlabeled_rows(seed):
    codes, cost, o, _ = rows_of(seed)
    target = np.where(codes < 0, 0, 2 * codes - 1).astype(np.int8)
    both = [cost * np.maximum(0, 1 - y * o) ** 2 for y in (1, -1)]
    wanted = np.where(codes < 0, np.minimum(*both), np.where(codes == 1, *both)).sum()
    assert passes.transductive_loss(codes, target, cost, o) == pytest.approx(wanted, rel=1e-12)
