"""Least squares on columns of very different sizes, against numpy's least squares."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import RLSC, S2RLSC, MaxMarginClustering
from dask_s3vm.problems.spectrum import decompose, decompose_graded, is_graded

SIZES = [1e5, 1e7, 1.7e9, 1e12]


def good_columns(n=800, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 4)) + 1.3 * (2 * y - 1)[:, None], y, rng.normal(size=n)


def beside(kind, size):
    """Four good columns, and a large one: a time, a large unit, or two times that differ."""
    good, y, noise = good_columns()
    if kind == "time":
        return np.column_stack([good, size + noise]), y
    if kind == "unit":
        return np.column_stack([good, size * noise]), y
    return np.column_stack([good[:, 1:], size + noise, size + noise + good[:, 0]]), y


def least_squares(X, y, lam, intercept=True):
    """The objective and the weights by numpy's lstsq on [A / sqrt(n); sqrt(lam) I]."""
    A = np.column_stack([X, np.ones(len(X))]) if intercept else X
    A, d = A.astype(np.longdouble), A.shape[1]
    system = np.vstack(
        [A / np.sqrt(np.longdouble(len(A))), np.sqrt(np.longdouble(lam)) * np.eye(d)]
    )
    wanted = np.append((2.0 * y - 1) / np.sqrt(np.longdouble(len(A))), np.zeros(d))
    size = np.sqrt((system**2).sum(axis=0))
    found = np.linalg.lstsq((system / size).astype(float), wanted.astype(float), rcond=1e-18)[0]
    residual = wanted - system @ (found / size)
    return float(residual @ residual), (found / size).astype(float)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["time", "unit", "two times"])
@pytest.mark.parametrize("intercept", [True, False])
def test_rlsc_finds_the_least_squares(kind, size, intercept):
    X, y = beside(kind, size)
    model = RLSC(lam=1e-3, fit_intercept=intercept).fit(X, y)
    objective, w = least_squares(X, y, 1e-3, intercept)
    # the data itself is rounded: two times differ in their last digits only
    rtol = 1e-9 if kind != "two times" else max(1e-9, 1e-15 * size)
    assert model.objective_ == pytest.approx(objective, rel=rtol)
    sizes = np.sqrt((X**2).mean(axis=0))
    assert np.allclose(model.coef_[0] * sizes, w[:5] * sizes, rtol=1e3 * rtol, atol=sizes * rtol)
    assert model.score(X, y) > 0.98
    if not intercept:
        assert model.intercept_[0] == 0.0


def test_leave_one_out_is_right_too():
    X, y = beside("time", 1.7e9)
    X, y = X[:60], y[:60]
    model = RLSC(lam=0.1).fit(X, y)
    loss = error = 0.0
    for i in range(60):
        keep = np.arange(60) != i  # the others keep their 1/l
        _, w = least_squares(X[keep], y[keep], 0.1 * 60 / 59)
        output, sign = float(np.append(X[i], 1.0) @ w), 2 * y[i] - 1
        loss, error = loss + (sign - output) ** 2 / 60, error + (output * sign <= 0) / 60
    assert model.loo_losses_[0] == pytest.approx(loss, rel=1e-6)
    assert model.loo_errors_[0] == pytest.approx(error)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
def test_s2rlsc_sees_the_small_columns(center, sharded):
    X, y = beside("time", 1.7e9)
    few = np.where(np.arange(len(y)) < 60, y, -1)
    params = {"n_restarts": 3, "random_state": 0, "supervised_part": 0.0}
    model = S2RLSC(lam=1e-3, positive_ratio=0.5, center=center, sharded=sharded, **params)
    model.fit(X, few)
    assert (model.predict(X) == y).mean() > 0.98
    # the model is the least squares of the labels found
    found = np.where(model.transduction_ == 1, 1.0, -1.0)
    residual = found - model.decision_function(X)
    value = np.mean(residual[:60] ** 2) + np.mean(residual[60:] ** 2)
    bias = float(model.intercept_[0] + (X.mean(axis=0) @ model.coef_[0] if center else 0.0))
    penalty = 1e-3 * (model.coef_[0] @ model.coef_[0] + bias**2)
    if not center:  # else the mean is that of weighted rows
        assert model.objective_ == pytest.approx(value + penalty, rel=1e-6)


def test_clusters_with_a_large_column():
    X, y = beside("time", 1.7e9)
    found = MaxMarginClustering(n_restarts=5, random_state=0).fit_predict(X)
    assert max(np.mean(found == y), np.mean(found != y)) > 0.95


def test_wide_rows_with_a_large_column():
    good, y, noise = good_columns(60)
    rng = np.random.default_rng(1)
    X = np.column_stack([good, rng.normal(size=(60, 90)), 1.7e9 + noise])
    objective, _ = least_squares(X, y, 1e-2)
    for rows in (X, sp.csr_array(X)):
        assert RLSC(lam=1e-2).fit(rows, y).objective_ == pytest.approx(objective, rel=1e-8)


def test_a_large_constant_column_is_a_bias():
    good, y, _ = good_columns()
    X = np.column_stack([good, np.full(len(y), 1.7e9 + 1 / 3)])
    objective, _ = least_squares(X, y, 1e-6)
    assert RLSC(lam=1e-6).fit(X, y).objective_ == pytest.approx(objective, rel=1e-9)


def test_squares_that_overflow_are_an_error():
    good, y, noise = good_columns()
    with pytest.raises(ValueError, match="X has values up to"):
        RLSC().fit(np.column_stack([good, 1e200 * noise]), y)


def test_both_decompositions_agree_on_columns_alike():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 6)) + 2.0
    mean, rows = X.mean(axis=0), np.column_stack([X, np.ones(50)])
    plain = decompose(rows.T @ rows)
    careful = decompose_graded((X - mean).T @ (X - mean), np.append(mean, 1.0), 50.0)
    assert np.allclose(careful.values, plain.values)
    about = np.column_stack([X - mean, np.ones(50)])
    assert np.allclose(np.abs(about @ careful.vectors), np.abs(rows @ plain.vectors))
    assert not is_graded(np.diagonal(rows.T @ rows)[:-1], X.var(axis=0) * 50)


@pytest.mark.parametrize("n_rows", [300, 5000])
def test_wide_rows_with_one_huge_column_are_warned_of(n_rows):
    """Products of rows keep nothing of the others; products of 4,097 columns are too large."""
    rng = np.random.default_rng(0)
    X = sp.random_array((n_rows, 4097), density=0.01, rng=rng, format="lil")
    y = np.arange(n_rows) % 2
    model = RLSC(n_components=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X.tocsr(), y)
    X[:, [7]] = 1.7e9 + rng.normal(size=(n_rows, 1))
    with pytest.warns(UserWarning, match=r"column 7 of X is so large.*UnitScaler"):
        model.fit(X.tocsr(), y)


@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-40])
def test_columns_that_are_tiny_beside_the_bias_are_not_lost(size):
    good, y, _ = good_columns()
    model = RLSC(lam=1e-3 * size**2).fit(size * good, y)
    objective, w = least_squares(size * good, y, 1e-3 * size**2)
    assert model.objective_ == pytest.approx(objective, rel=1e-9)
    assert np.allclose(size * model.coef_[0], size * w[:4], rtol=1e-6)
    assert RLSC().fit(size * good, y).score(size * good, y) > 0.98
