"""Value, gradient, curvature and slope of the l2-SVM against plain algebra."""

from dataclasses import replace

import numpy as np
import pytest

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems import hinge
from dask_s3vm.problems.hinge import L2SVMProblem

pytestmark = pytest.mark.usefixtures("tiny_shards")

LAM = 0.03


@pytest.fixture(params=["csr", "dense"])
def setting(request, make_rows):
    """An engine with unlabeled rows and weights, and what it stands for as dense algebra."""
    X, y = make_rows(200, 12, seed=1, density=0.5)
    rng = np.random.default_rng(2)
    y = np.where(rng.random(200) < 0.2, -1, y)
    weights = rng.integers(0, 4, 200).astype(float)
    costs = np.array([0.7, 1.3]) / 200
    rows = X if request.param == "csr" else X.toarray()
    engine = ingest(rows, y, weights).place(np.array([0, 1]))
    cost = np.where(y == -1, 0.0, costs[y]) * weights
    yield engine, costs, X.toarray(), np.where(y == 1, 1.0, -1.0), cost
    engine.close()


def plain(setting, bias):
    """f and its dense rows, written down from the formula."""
    _, _, X, target, cost = setting
    wide = np.column_stack([X, np.full(len(X), float(bias))])

    def f(w):
        slack = np.maximum(0.0, 1.0 - target * (wide @ w))
        return 0.5 * cost @ slack**2 + 0.5 * LAM * w @ w

    return f, wide


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def bias(request):
    return request.param


def problem_of(setting, bias):
    engine, costs = setting[:2]
    assert engine.layout.n_shards > 3
    return L2SVMProblem(engine, LAM, 1, costs, bias)


def test_value_is_the_formula(setting, bias, rng):
    problem = problem_of(setting, bias)
    f, wide = plain(setting, bias)
    for w in (np.zeros(13), rng.normal(size=13)):
        point = problem.evaluate(w)
        assert point.value == pytest.approx(f(w), rel=1e-12)
        active = (setting[3] * (wide @ w) < 1) & (setting[4] > 0)
        assert point.n_active == active.sum()


def test_gradient_is_that_of_finite_differences(setting, bias, rng):
    problem = problem_of(setting, bias)
    f, _ = plain(setting, bias)
    w = rng.normal(size=13)
    h = 1e-6
    numeric = [(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(13)]
    np.testing.assert_allclose(problem.evaluate(w).gradient, numeric, rtol=1e-6, atol=1e-8)


def test_hessian_products_are_those_of_dense_algebra(setting, bias, rng):
    problem = problem_of(setting, bias)
    _, wide = plain(setting, bias)
    w, p = rng.normal(size=(2, 13))
    point = problem.evaluate(w)
    on = setting[3] * (wide @ w) < 1
    hessian = LAM * np.eye(13) + wide[on].T @ (setting[4][on, None] * wide[on])
    product, curvature = problem.hessian_product(point, p)
    np.testing.assert_allclose(product, hessian @ p, rtol=1e-11, atol=1e-13)
    assert curvature == pytest.approx(p @ hessian @ p, rel=1e-12)
    np.testing.assert_allclose(problem.hessian_diagonal(point), np.diag(hessian), rtol=1e-12)
    np.testing.assert_allclose(problem.hessian(point), hessian, rtol=1e-11, atol=1e-14)
    columns = np.array([problem.hessian_product(point, e)[0] for e in np.eye(13)])
    np.testing.assert_allclose(columns, columns.T, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("step", [0.0, 0.3, 1.0, 1.7])
def test_slope_is_the_derivative_along_the_line(setting, bias, step, rng):
    problem = problem_of(setting, bias)
    f, _ = plain(setting, bias)
    a, b = rng.normal(size=(2, 13))
    here = problem.evaluate(a)
    there = problem.evaluate(b, beside=here)
    slope, curvature = problem.slope(here, there)(step)
    h = 1e-6
    along = [f(a + (step + k * h) * (b - a)) for k in (-1, 1)]
    assert slope == pytest.approx((along[1] - along[0]) / (2 * h), rel=1e-6, abs=1e-8)
    ahead, behind = (problem.slope(here, there)(step + k * h)[0] for k in (1, -1))
    assert curvature == pytest.approx((ahead - behind) / (2 * h), rel=1e-3)


def test_a_point_stays_usable_beside_another(setting, bias, rng):
    problem = problem_of(setting, bias)
    a, b, p = rng.normal(size=(3, 13))
    here = problem.evaluate(a)
    before = problem.hessian_product(here, p)
    there = problem.evaluate(b, beside=here)
    problem.hessian_product(there, p)
    after = problem.hessian_product(here, p)
    assert np.array_equal(before[0], after[0])
    assert before[1] == after[1]


def test_patience_grows_with_what_the_matrix_costs(setting, monkeypatch):
    problem = problem_of(setting, True)
    some = problem.evaluate(np.zeros(13))
    assert 0 < problem.patience(some) < problem.patience(replace(some, n_active=1))
    monkeypatch.setattr(hinge, "WIDEST", 12)
    assert problem.patience(some) is None


def test_changing_lam_changes_the_regularizer_only(setting, bias, rng):
    problem = problem_of(setting, bias)
    w = rng.normal(size=13)
    before = problem.evaluate(w)
    problem.lam = 2 * LAM
    after = problem.evaluate(w)
    assert after.value - before.value == pytest.approx(0.5 * LAM * w @ w, rel=1e-10)
    np.testing.assert_allclose(after.gradient - before.gradient, LAM * w, rtol=1e-9, atol=1e-12)


def test_packed_rows_give_the_same_bits(setting, bias, rng, monkeypatch):
    problem = problem_of(setting, bias)
    engine = setting[0]
    # outputs large enough that few rows are active
    w, p = 3.0 * rng.normal(size=13), rng.normal(size=13)
    found = []
    for share in (-1.0, 2.0):  # never, always
        monkeypatch.setattr(hinge, "MAX_SHARE", share)
        point = problem.evaluate(w)
        product, curvature = problem.hessian_product(point, p)
        diagonal = problem.hessian_diagonal(point)
        found.append((product.tobytes(), curvature, diagonal.tobytes()))
        same = engine.each(uses_its_own_rows)
        assert all(same) if share < 0 else not any(same)
    assert found[0] == found[1]


def uses_its_own_rows(shard):
    return shard.state["packed0"][0] is shard.rows


def test_only_one_packed_copy_is_kept(setting, bias, rng, monkeypatch):
    monkeypatch.setattr(hinge, "MAX_SHARE", 2.0)
    problem = problem_of(setting, bias)
    a, b, p = rng.normal(size=(3, 13))
    here = problem.evaluate(a)
    problem.hessian_product(here, p)
    there = problem.evaluate(b, beside=here)
    problem.hessian_product(there, p)
    kept = setting[0].each(packed_slots)
    assert max(kept) == 1


def packed_slots(shard):
    return sum(name.startswith("packed") for name in shard.state)


def test_rounds_are_counted_one_per_operation(setting, bias, rng):
    problem = problem_of(setting, bias)
    before = setting[0].rounds
    point = problem.evaluate(rng.normal(size=13))
    problem.hessian_product(point, rng.normal(size=13))
    problem.slope(point, problem.evaluate(rng.normal(size=13), beside=point))(0.5)
    assert setting[0].rounds - before == 4
