"""Loops of deterministic annealing against formulas in numpy."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, expit, logit, rel_entr

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels import annealing, line, passes
from dask_s3vm.kernels.rows import CSR, load_pair, new_pair, pair_output

SEEDS = st.integers(0, 2**32 - 1)


def rows_of(seed, n=29):
    """Codes, shares, outputs and beliefs of some rows, labelled and not."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 2, n).astype(np.int8)
    share = rng.random(n) * (rng.random(n) < 0.8) / n
    return codes, share, 1.5 * rng.normal(size=n), rng.random(n)


def expected_p(o, lam_u, temperature, nu):
    g = lam_u * (np.maximum(0, 1 - o) ** 2 - np.maximum(0, 1 + o) ** 2)
    return expit((nu - g) / temperature)


@given(seed=SEEDS, lam_u=st.floats(0.01, 10), t=st.floats(1e-3, 10), nu=st.floats(-20, 20))
@settings(deadline=None)
def test_sums_of_beliefs_are_those_of_numpy(seed, lam_u, t, nu):
    codes, share, o, _ = rows_of(seed)
    total, slope = annealing.belief_sums(codes, share, o, lam_u, t, nu)
    on = codes < 0
    p = expected_p(o, lam_u, t, nu)
    assert total == pytest.approx(share[on] @ p[on], rel=1e-10, abs=1e-300)
    # 1 - p is not exact where p rounds to 1
    assert slope == pytest.approx(share[on] @ (p * (1 - p))[on] / t, rel=1e-9, abs=1e-15 / t)


@given(seed=SEEDS, lam_u=st.floats(0.01, 10), t=st.floats(1e-3, 10), nu=st.floats(-20, 20))
@settings(deadline=None)
def test_divergence_and_entropy_are_those_of_scipy(seed, lam_u, t, nu):
    codes, share, o, q = rows_of(seed)
    belief = q.copy()
    odds = logit(q)
    divergence, entropy = annealing.set_beliefs(codes, share, o, lam_u, t, nu, belief, odds)
    on = codes < 0
    p = expected_p(o, lam_u, t, nu)
    np.testing.assert_allclose(belief[on], p[on], rtol=1e-10, atol=1e-17)
    assert np.array_equal(belief[~on], q[~on])
    p, q, s = p[on], q[on], share[on]
    kl = s @ (rel_entr(p, q) + rel_entr(1 - p, 1 - q))
    assert divergence == pytest.approx(kl, rel=1e-9, abs=1e-12)
    assert entropy == pytest.approx(s @ (entr(p) + entr(1 - p)), rel=1e-9, abs=1e-12)


def test_certain_beliefs_have_no_entropy_and_no_divergence_from_themselves():
    codes, share = np.full(4, -1, dtype=np.int8), np.full(4, 0.25)
    for nu, p in ((np.inf, 1.0), (-np.inf, 0.0)):
        belief, odds = np.full(4, p), np.full(4, np.copysign(annealing.LARGE, nu))
        o = np.array([-1e6, 0.0, 0.5, 1e6])
        sums = annealing.set_beliefs(codes, share, o, 1.0, 0.1, nu, belief, odds)
        assert sums == (0.0, 0.0)
        assert belief.tolist() == [p] * 4
        assert annealing.belief_sums(codes, share, o, 1.0, 0.1, nu) == (p, 0.0)


@pytest.mark.parametrize("t", [1e-12, 1e-3, 10.0])
def test_extreme_outputs_stay_finite(t):
    codes, share = np.full(6, -1, dtype=np.int8), np.full(6, 1 / 6)
    o = np.array([-1e6, 1e6, -1e100, 1e100, 1.0, -1.0])
    belief = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])  # wrong, and certain of it
    odds = np.where(belief == 1, annealing.LARGE, -annealing.LARGE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums = annealing.belief_sums(codes, share, o, 1.0, t, 0.3)
        found = annealing.set_beliefs(codes, share, o, 1.0, t, 0.3, belief, odds)
    assert np.isfinite([*sums, *found]).all()
    assert belief[:4].tolist() == pytest.approx([0, 1, 0, 1], abs=1e-300)


@given(seed=SEEDS, t=st.floats(1e-3, 0.1), before=st.floats(-3, 3), nu=st.floats(-3, 3))
@settings(deadline=None)
def test_beliefs_do_not_depend_on_those_before(seed, t, before, nu):
    """Else they could not be put back bit for bit after the loss of a worker."""
    codes, share, o, _ = rows_of(seed)
    found = []
    for path in ([nu], [before, nu]):
        belief, odds = np.full(len(o), 0.5), np.zeros(len(o))
        for place in path:
            annealing.set_beliefs(codes, share, o, 1.0, t, place, belief, odds)
        found.append(belief.tobytes())
    assert found[0] == found[1]


@given(z=st.floats(-1e300, 1e300))
def test_logistic_is_that_of_scipy(z):
    assert annealing.logistic(z) == pytest.approx(expit(z), rel=1e-14, abs=1e-307)


@given(o=st.floats(-1e6, 1e6), lam_u=st.floats(0, 10))
def test_preference_is_odd_and_falls_with_the_output(o, lam_u):
    g = annealing.preference(o, lam_u)
    assert g == -annealing.preference(-o, lam_u)
    assert annealing.preference(o + 1e-3 * (1 + abs(o)), lam_u) <= g


@given(seed=SEEDS, step=st.floats(-2, 3))
@settings(deadline=None)
def test_annealed_slope_is_that_of_the_doubled_rows(seed, step):
    """A row of p counts as two: one labelled +1 of cost c p, one labelled -1 of c (1 - p)."""
    rng = np.random.default_rng(seed)
    target = rng.integers(-1, 2, 17).astype(np.int8)
    cost, belief = rng.random(17) * (rng.random(17) < 0.8), rng.random(17)
    here, there = 2 * rng.normal(size=(2, 17))
    p = np.where(target == 0, belief, (1.0 + target) / 2)
    found = line.annealed_slope(target, cost, belief, here, there, step)
    twice = np.tile(here, 2), np.tile(there, 2)
    labels = np.repeat([1, -1], 17).astype(np.int8)
    wanted = line.hinge_slope(labels, np.append(cost * p, cost * (1 - p)), *twice, step)
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@given(seed=SEEDS, negligible=st.sampled_from([0.0, 1e-4, 0.3]))
@settings(deadline=None, max_examples=40)
def test_annealed_hinge_is_that_of_the_doubled_rows(form, bias, seed, negligible):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(0, 25)), int(rng.integers(1, 20))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    target = rng.integers(-1, 2, n).astype(np.int8)
    cost = rng.random(n) * (rng.random(n) < 0.8)
    belief = rng.choice([0.0, 1.0, 0.5, 1e-5, rng.random()], n)
    v = rng.normal(size=d + 1)
    rows = frozen(np.ascontiguousarray(X))
    if form == "csr":
        csr = sp.csr_array(X)
        parts = csr.indptr.astype(np.uint32), csr.indices.astype(np.uint32), csr.data
        rows = CSR(*(frozen(part) for part in parts))
    pair = new_pair(rows, d)
    load_pair(rows, pair, v)
    outputs, active, weight = np.full(n, np.nan), np.zeros(n, dtype=np.uint32), np.full(n, np.nan)
    loss, n_active = passes.annealed_hinge(
        rows, target, cost, belief, pair, bias, negligible, outputs, active, weight
    )
    wide = np.column_stack([X, np.full(n, bias)])
    o = wide @ v
    p = np.where(target == 0, belief, (1.0 + target) / 2)
    up, down = np.maximum(0, 1 - o), np.maximum(0, 1 + o)
    assert loss == pytest.approx(cost @ (p * up**2 + (1 - p) * down**2), rel=1e-11, abs=1e-13)
    half_gradient = wide.T @ (cost * ((1 - p) * down - p * up))
    np.testing.assert_allclose(pair_output(rows, pair), half_gradient, rtol=1e-11, atol=1e-12)
    h = cost * (p * (o < 1) + (1 - p) * (o > -1))
    listed = active[:n_active]
    assert listed.tolist() == np.flatnonzero(h > negligible * cost).tolist()
    np.testing.assert_allclose(weight[listed], h[listed], rtol=1e-12)
    np.testing.assert_allclose(outputs[cost > 0], o[cost > 0], rtol=1e-12, atol=1e-12)


@given(seed=SEEDS)
@settings(deadline=None)
def test_transductive_loss_takes_the_better_label_of_unlabelled_rows(seed):
    codes, cost, o, _ = rows_of(seed)
    target = np.where(codes < 0, 0, 2 * codes - 1).astype(np.int8)
    both = [cost * np.maximum(0, 1 - y * o) ** 2 for y in (1, -1)]
    wanted = np.where(codes < 0, np.minimum(*both), np.where(codes == 1, *both)).sum()
    assert line.transductive_loss(codes, target, cost, o) == pytest.approx(wanted, rel=1e-12)
