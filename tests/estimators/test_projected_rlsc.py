"""RLSC(safe=True): never worse in quadratic loss, whatever the labels of the other rows are."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from dask_s3vm import RLSC, rlsc_path
from dask_s3vm.methods import projected


def rows(seed=0, n=80, d=8, n_labeled=10, shift=0.6):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d)) + shift * np.outer(2 * y - 1, rng.normal(size=d))
    return X, y, np.where(np.arange(n) < n_labeled, y, -1)


def loss(model, X, labels, lam):
    """J of the class documentation, all rows labeled."""
    size = np.square(model.coef_).sum() + np.square(model.intercept_).sum()
    return np.mean((labels - model.decision_function(X)) ** 2) + lam * size


def worst_labels(model, alone, X, y):
    """Labels for which `model` loses most against `alone`: the difference is linear in them."""
    gap = alone.decision_function(X) - model.decision_function(X)
    return np.where(y >= 0, 2 * y - 1, np.where(gap > 0, 1.0, -1.0))


@pytest.mark.filterwarnings("ignore:.*projection did not converge")  # the claim holds there too
@given(
    st.integers(0, 10_000),
    st.sampled_from([1e-8, 1e-3, 0.1, 1.0, 30.0]),
    st.booleans(),
    st.sampled_from([3, 8, 40]),
    st.sampled_from([4, 10, 30]),
)
def test_the_loss_is_not_larger_for_any_labels(seed, lam, bias, d, n_labeled):
    X, _, y = rows(seed, d=d, n_labeled=n_labeled)
    alone = RLSC(lam, fit_intercept=bias).fit(X, y)
    model = RLSC(lam, fit_intercept=bias, safe=True).fit(X, y)
    labels = worst_labels(model, alone, X, y)
    before, after = loss(alone, X, labels, lam), loss(model, X, labels, lam)
    assert after <= before * (1 + 1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        some = np.where(y >= 0, 2 * y - 1, rng.uniform(-1, 1, len(y)))
        assert loss(model, X, some, lam) <= loss(alone, X, some, lam) * (1 + 1e-9)


@pytest.mark.parametrize("lam", [1e-3, 0.3])
def test_it_is_the_projection(monkeypatch, lam):
    """Against scipy's bounded least squares over the labels themselves."""
    monkeypatch.setattr(projected, "SMALL_GAP", 1e-9)
    monkeypatch.setattr(projected, "MAX_STEPS", 20_000)
    X, _, y = rows()
    alone, model = RLSC(lam).fit(X, y), RLSC(lam, safe=True).fit(X, y)
    Z = np.column_stack([X, np.ones(len(X))])
    G = Z.T @ Z / len(Z) + lam * np.eye(9)
    free = y < 0
    root = np.linalg.cholesky(G)
    own = np.append(alone.coef_[0], alone.intercept_)
    given_part = Z[~free].T @ (2 * y[~free] - 1) / len(Z)
    A = np.linalg.solve(root, Z[free].T / len(Z))
    target = root.T @ own - np.linalg.solve(root, given_part)
    q = lsq_linear(A, target, (-1, 1), tol=1e-14, max_iter=10_000).x
    wanted = np.linalg.solve(G, given_part + Z[free].T @ q / len(Z))
    np.testing.assert_allclose(
        np.append(model.coef_[0], model.intercept_), wanted, atol=1e-4 * np.abs(wanted).max()
    )


def test_it_uses_the_unlabeled_rows():
    X, y, few = rows(n=400, d=20, n_labeled=24)
    alone, model = RLSC(1e-6).fit(X, few), RLSC(1e-6, safe=True).fit(X, few)
    truth = 2 * y - 1
    assert loss(model, X, truth, 0.0) < 0.7 * loss(alone, X, truth, 0.0)
    assert model.n_iter_ > 1


def test_weights_classes_and_sparse_chunks(make_rows, as_dask, tiny_shards):
    X, y = make_rows(300, 12, seed=4)
    y = np.where(np.arange(300) % 3 == 0, 2, y)
    few = np.where(np.arange(300) % 8 == 0, y, -1)
    weights = np.where(np.arange(300) % 5 == 0, 0.0, 1.5)
    model = RLSC(0.1, safe=True).fit(X, few, sample_weight=weights)
    assert model.coef_.shape == (3, 12)
    kept = weights > 0
    same = RLSC(0.1, safe=True).fit(X[np.flatnonzero(kept)], few[kept])
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-7, atol=1e-9)
    lazy = RLSC(0.1, safe=True).fit(
        as_dask(X, (90, 210)), da.from_array(few, chunks=((90, 210),)),
        sample_weight=da.from_array(weights, chunks=((90, 210),)),
    )  # fmt: skip
    assert np.array_equal(lazy.coef_, model.coef_)


def test_the_lam_is_chosen_as_ever():
    X, _, y = rows(n_labeled=40)
    lams = [1e-3, 0.1, 10.0]
    alone, model = RLSC(lams).fit(X, y), RLSC(lams, safe=True).fit(X, y)
    assert model.lam_ == alone.lam_
    assert np.array_equal(model.loo_errors_, alone.loo_errors_)
    one = RLSC(model.lam_, safe=True).fit(X, y)
    assert np.array_equal(model.coef_, one.coef_)
    path = rlsc_path(X, y, lams, safe=True)
    np.testing.assert_allclose(path[lams.index(model.lam_)].coef_, one.coef_, rtol=1e-8)


def test_its_objective_is_that_of_the_labeled_rows():
    X, _, y = rows()
    model = RLSC(0.1, safe=True).fit(X, y)
    few = y >= 0
    size = np.square(model.coef_).sum() + np.square(model.intercept_).sum()
    residual = 2 * y[few] - 1 - model.decision_function(X[few])
    assert model.objective_ == pytest.approx(np.mean(residual**2) + 0.1 * size)


def test_without_unlabeled_rows_it_is_plain():
    X, y, _ = rows()
    model = RLSC(safe=True).fit(X, y)
    assert np.array_equal(model.coef_, RLSC().fit(X, y).coef_)


def test_where_the_claim_was_not_reached_the_supervised_model_stays(monkeypatch):
    monkeypatch.setattr(projected, "MAX_STEPS", 1)
    X, _, y = rows()
    with pytest.warns(UserWarning, match="converge"):
        model = RLSC(1e-6, safe=True).fit(X, y)
    assert np.array_equal(model.coef_, RLSC(1e-6).fit(X, y).coef_)
    assert model.termination_ == "max_iter"
