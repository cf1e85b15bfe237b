"""LapSVM: its minimum against a general solver, what the graph does, and where it is left out."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from dask_s3vm import L2SVM, LapSVM
from dask_s3vm.datasets import make_moons
from dask_s3vm.methods import lapsvm
from dask_s3vm.model_selection import S3VMGridSearchCV
from dask_s3vm.problems.manifold import neighbor_edges


@pytest.fixture
def rows(rng):
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 5)) + 0.8 * np.outer(2 * y - 1, np.ones(5))
    return X, np.where(np.arange(90) < 20, y, -1)


def minimum(X, y, positive, lam, lam_manifold, k):
    """Minimize the objective as printed, by L-BFGS."""
    labeled, edges = y >= 0, neighbor_edges(X, k, int)
    sign = np.where(y[labeled] == positive, 1.0, -1.0)
    wide = np.column_stack([X, np.ones(len(X))])
    moves = wide[edges[:, 0]] - wide[edges[:, 1]]

    def f(w):
        slack = np.maximum(0.0, 1.0 - sign * (wide[labeled] @ w))
        rough = moves @ w
        value = np.mean(slack**2) + lam * w @ w + lam_manifold * np.mean(rough**2)
        slope = -(sign * slack) @ wide[labeled] / len(sign) + lam * w
        return 0.5 * value, slope + lam_manifold * rough @ moves / len(rough)

    found = minimize(f, np.zeros(wide.shape[1]), jac=True, method="L-BFGS-B",
                     options={"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-12})  # fmt: skip
    return found.x, found.fun


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_minimum_is_found(kind, rows):
    X, y = rows
    w, value = minimum(X, y, 1, 0.05, 0.7, 4)
    model = LapSVM(0.05, 0.7, n_neighbors=4, tol=1e-14, balance="paper").fit(kind(X), y)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), w, rtol=1e-5, atol=1e-7)
    assert model.objective_ == pytest.approx(value, rel=1e-10)
    far = L2SVM(0.05, tol=1e-14).fit(X, y).coef_
    assert np.linalg.norm(model.coef_ - far) > 0.1 * np.linalg.norm(far)


def test_every_class_has_its_minimum(rows):
    X, y = rows
    y = np.where(y < 0, -1, np.arange(90) % 3)
    model = LapSVM(0.05, tol=1e-14, supervised_part=0.0).fit(X, y)
    for number in range(3):
        w, _ = minimum(X, y, number, 0.05, 1.0, 6)
        np.testing.assert_allclose(model.coef_[number], w[:-1], rtol=1e-4, atol=1e-6)


def test_bits_do_not_depend_on_blocks(rows, tiny_shards):
    X, y = rows
    whole = LapSVM(1e-2).fit(X, y)
    parts = LapSVM(1e-2).fit(da.from_array(X, chunks=(17, -1)), da.from_array(y, chunks=17))
    np.testing.assert_array_equal(whole.coef_, parts.coef_)


def test_without_the_graph_it_is_the_supervised_svm(rows):
    X, y = rows
    plain = L2SVM(1e-2).fit(X, y)
    np.testing.assert_array_equal(LapSVM(1e-2, 0.0).fit(X, y).coef_, plain.coef_)
    with pytest.warns(UserWarning, match="no unlabeled row"):
        alone = LapSVM(1e-2).fit(X[:20], y[:20])
    np.testing.assert_array_equal(alone.coef_, plain.coef_)


def test_rows_of_weight_0_have_no_edges(rows):
    X, y = rows
    weights = np.where(np.arange(90) < 70, 1.0, 0.0)
    make = partial(LapSVM, 1e-2, tol=1e-14, balance="paper")
    part, fewer = make().fit(X, y, sample_weight=weights), make().fit(X[:70], y[:70])
    np.testing.assert_allclose(part.coef_, fewer.coef_, rtol=1e-6)


def test_many_rows_are_drawn_from(rows, monkeypatch):
    X, y = np.tile(rows[0], (5, 1)), np.tile(rows[1], 5)
    seen = []

    def edges(found, *rest):
        seen.append(found.shape[0])
        return neighbor_edges(found, *rest)

    monkeypatch.setattr(lapsvm, "MOST_ROWS", 100)
    monkeypatch.setattr(lapsvm, "neighbor_edges", edges)
    LapSVM(1e-2).fit(X, y)
    assert 60 < seen[0] < 140


def test_one_graph_serves_all_classes_and_all_lam(rows, monkeypatch):
    X, y = rows
    drawn = []

    def draw(*args):
        drawn.append(1)
        return made(*args)

    made = lapsvm.draw_graph
    monkeypatch.setattr("dask_s3vm.estimators._lapsvm.draw_graph", draw)
    y = np.where(y < 0, -1, np.arange(90) % 3)
    LapSVM(1e-2, supervised_part=0.0).fit(X, y)  # folds have graphs of their own
    assert len(drawn) == 1
    S3VMGridSearchCV(LapSVM(), {"lam": [1e-1, 1e-2, 1e-3]}, cv=2, refit=False).fit(X, y)
    assert len(drawn) == 1 + 2


@pytest.mark.parametrize("shape", ["moons", "noise"])
def test_the_guard_keeps_the_graph_where_it_helps(shape, rng):
    X, y = (part.compute() for part in make_moons(300, noise=0.1, random_state=0))
    if shape == "noise":  # neighbors tell nothing of the class, which a plane does
        X = rng.normal(size=(300, 20))
        y = (X.sum(axis=1) > 0).astype(int)
    few = np.where(np.arange(300) < 40, y, -1)
    kernel = {"kernel": "rbf", "sigma": 0.2, "n_components": 100} if shape == "moons" else {}
    model = LapSVM(1e-4, 10.0, **kernel, random_state=0, safe=True).fit(X, few)
    assert model.decision_ == ("lapsvm" if shape == "moons" else "supervised")
    assert model.decision_reason_
    alone = LapSVM(1e-4, 10.0, **kernel, random_state=0).fit(X, few)
    plain = L2SVM(1e-4, **kernel, random_state=0).fit(X, few)
    np.testing.assert_array_equal(model.coef_, (alone if shape == "moons" else plain).coef_)


def test_labels_are_asked_by_default(rng):
    """Neighbors tell nothing of the class, which a plane does."""
    X = rng.normal(size=(400, 20))
    y = (X.sum(axis=1) > 0).astype(int)
    few = np.where(np.arange(400) < 60, y, -1)
    model, plain, bold = LapSVM(), L2SVM(), LapSVM(supervised_part=0.0)
    wrong = [np.mean(one.fit(X, few).predict(X) != y) for one in (model, plain, bold)]
    assert wrong[0] <= wrong[1] + 0.01 < wrong[2]
    assert model.supervised_part_ > 0.0 == bold.supervised_part_
    assert "held out" in model.decision_reason_


def test_labels_of_several_classes_are_asked_by_default(rng):
    X = rng.normal(size=(400, 20))
    X[:, 0] += 6.0 * (np.arange(400) % 2)  # clusters, and classes across them
    y = np.digitize(X[:, 1:].sum(axis=1), [-2.0, 2.0])
    few = np.where(np.arange(400) < 100, y, -1)
    model, plain, bold = LapSVM(), L2SVM(), LapSVM(supervised_part=0.0)
    for one in (model, bold):
        one.set_params(lam_manifold=10.0)
    wrong = [np.mean(one.fit(X, few).predict(X) != y) for one in (model, plain, bold)]
    assert wrong[0] == wrong[1] < wrong[2] - 0.1
    assert model.decision_ == "supervised"
    assert model.candidates_[1]["gain"] <= -1.0


def test_moons_are_followed_where_the_supervised_svm_cuts_them():
    X, y = (part.compute() for part in make_moons(300, noise=0.05, random_state=0))
    few = np.where(np.isin(np.arange(300), [*np.flatnonzero(y == 0)[:2], *np.flatnonzero(y)[:2]]),
                   y, -1)  # fmt: skip
    kernel = {"kernel": "rbf", "sigma": 0.2, "n_components": 100, "random_state": 0}
    right = [np.mean(kind(1e-4, **kernel).fit(X, few).predict(X) == y) for kind in (LapSVM, L2SVM)]
    assert right[0] > 0.99
    assert right[1] < 0.95
