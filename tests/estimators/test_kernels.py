"""Estimators with a kernel: the answer against independent solutions, and the same on all input."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from dask.distributed import Client, LocalCluster
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from transductive_cases import assert_identical, assert_same, clusters, each, quiet

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, TSVM, l2svm_path
from dask_s3vm.datasets import hide_labels, make_moons

every = pytest.mark.parametrize("kind", [L2SVM, TSVM, DAS3VM, QNS3VM])


def dual_minimum(K, y, lam):
    """Minimize over c and b by the representer theorem: f = K c + b, |f|^2 = c.K.c, b^2 added."""

    def value(v):
        c, b = v[:-1], v[-1]
        slack = np.maximum(0.0, 1.0 - y * (K @ c + b))
        push = -y * slack / len(y)
        gradient = np.append(K @ push + lam * K @ c, push.sum() + lam * b)
        return 0.5 * np.mean(slack**2) + 0.5 * lam * (c @ K @ c + b * b), gradient

    found = minimize(
        value,
        np.zeros(len(y) + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11},
    )
    return found.fun, K @ found.x[:-1] + found.x[-1]


@pytest.mark.parametrize(
    ("kernel", "params"),
    [("rbf", {"gamma": 0.4}), ("laplacian", {"gamma": 0.2}), ("poly", {"gamma": 0.3, "degree": 2})],
)
def test_all_landmarks_give_the_exact_kernel_machine(kernel, params):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = L2SVM(lam=0.05, kernel=kernel, n_components=None, tol=1e-14, **params).fit(X, y)
    if kernel == "poly":
        params = {**params, "coef0": 1.0}
    objective, outputs = dual_minimum(pairwise_kernels(X, metric=kernel, **params), 2 * y - 1, 0.05)
    assert model.objective_ == pytest.approx(objective, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), outputs, atol=2e-4)
    assert model.n_features_in_ == 5
    assert model.coef_.shape == (1, model.kernel_map_.n_components)


@every
def test_kernels_are_the_linear_method_on_features(kind):
    X, _, few = clusters(seed=3)
    more = {} if kind is L2SVM else {"positive_ratio": 0.5}
    model = kind(lam=0.1, kernel="rbf", n_components=30, random_state=1, **more).fit(X, few)
    Z = model.kernel_map_.transform(X)
    linear = kind(lam=0.1, **more).fit(Z, few)
    assert linear.kernel_map_ is None
    assert_same(model, linear)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(Z), atol=1e-8)


@every
def test_a_linear_kernel_by_way_of_landmarks_is_the_linear_method(kind):
    X, _, few = clusters(seed=4)
    # labels that may leave the ratio end in a minimum that depends on the coordinates
    more = {} if kind is L2SVM else {"positive_ratio": 0.5, "balance": "paper"}

    def inner(x, z):
        return x @ z

    linear = kind(lam=0.1, tol=1e-12, **more).fit(X, few)
    by_map = kind(lam=0.1, tol=1e-12, kernel=inner, n_components=40, random_state=0, **more)
    by_map.fit(X, few)
    assert by_map.kernel_map_.n_components == X.shape[1]
    np.testing.assert_allclose(by_map.decision_function(X), linear.decision_function(X), atol=1e-5)


@each
def test_unlabeled_rows_show_where_the_moons_are(kind):
    errors = []
    for seed in range(5):
        X, y = make_moons(n_rows=300, random_state=seed)
        few = hide_labels(y, 6, random_state=seed)
        shared = {"lam": 1e-2, "kernel": "rbf", "sigma": 0.3, "n_components": 80, "random_state": 0}
        models = [L2SVM(**shared), kind(positive_ratio=0.5, **shared)]
        errors.append([float((m.fit(X, few).predict(X) != y).mean()) for m in models])
    supervised, semi = np.mean(errors, axis=0)
    assert supervised > 0.1
    assert semi < 0.5 * supervised


@every
@quiet
def test_input_types_and_chunks_do_not_matter(kind, as_dask):
    X, _, few = clusters(n=90, seed=5)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    csr = sp.csr_array(X)
    make = clone(kind(lam=0.1, kernel="rbf", n_components=25, random_state=2))
    whole = clone(make).fit(X, few)
    outputs = whole.decision_function(X)
    inputs = {
        "csr": csr,
        "sparse": sparse.COO(X),
        "dense chunks": da.from_array(X, chunks=(40, 2)),
        "csr chunks": as_dask(csr, [31, 0, 59]),
        "unknown": as_dask(csr, [50, 40], known=False, convert=sparse.GCXS.from_scipy_sparse),
    }
    for name, data in inputs.items():
        labels = da.from_array(few, chunks=((50, 40),)) if name == "unknown" else few
        model = clone(make).fit(data, labels)
        found = model.decision_function(data)
        assert isinstance(found, da.Array) == isinstance(data, da.Array)
        np.testing.assert_allclose(np.asarray(found), outputs, atol=1e-6, err_msg=name)
        assert model.n_features_in_ == 6
        if kind is not L2SVM:
            assert isinstance(model.transduction_, da.Array) == isinstance(data, da.Array)
            assert np.array_equal(np.asarray(model.transduction_), whole.transduction_)


def test_float32_rows_train_on_float32_features():
    X, _, few = clusters(seed=6)
    wide = L2SVM(lam=0.1, kernel="rbf", random_state=0).fit(X.astype(np.float32), few)
    exact = L2SVM(lam=0.1, kernel="rbf", random_state=0).fit(X, few)
    np.testing.assert_allclose(wide.decision_function(X), exact.decision_function(X), atol=1e-4)


def test_several_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.digitize(np.hypot(*X.T), [0.7, 1.4])
    model = L2SVM(lam=1e-4, kernel="rbf", sigma=0.5, n_components=60, random_state=0).fit(X, y)
    assert model.coef_.shape == (3, model.kernel_map_.n_components)
    assert model.score(X, y) > 0.95
    assert L2SVM().fit(X, y).score(X, y) < 0.7
    lazy = model.decision_function(da.from_array(X, chunks=(70, 2)))
    np.testing.assert_allclose(lazy.compute(), model.decision_function(X), atol=1e-10)


def test_path_has_one_map():
    X, _, few = clusters(seed=7)
    models = l2svm_path(X, few, [0.1, 1.0], kernel="rbf", n_components=20, random_state=1)
    assert models[0].kernel_map_ is models[1].kernel_map_
    alone = L2SVM(1.0, kernel="rbf", n_components=20, random_state=1).fit(X, few)
    outputs = alone.decision_function(X)
    np.testing.assert_allclose(models[1].decision_function(X), outputs, atol=1e-3)


def test_warm_start_keeps_the_landmarks():
    X, _, few = clusters(seed=8)
    model = L2SVM(0.1, kernel="rbf", n_components=20, warm_start=True).fit(X, few)
    before, rounds = model.kernel_map_, model.n_rounds_
    outputs = model.decision_function(X)
    model.fit(X, few)
    assert model.kernel_map_ is before
    assert model.n_rounds_ < rounds
    with pytest.raises(ValueError, match="had kernel='rbf', this one has 'linear'"):
        model.set_params(kernel="linear").fit(X, few)
    model.set_params(kernel="rbf")
    with pytest.raises(ValueError, match=r"6 features, this one has .* and 4"):
        model.fit(X[:, :4], few)
    np.testing.assert_allclose(model.decision_function(X), outputs, atol=1e-3)
    with pytest.raises(ValueError, match="had kernel='linear', this one has 'rbf'"):
        L2SVM(warm_start=True).fit(X, few).set_params(kernel="rbf").fit(X, few)


@every
def test_parameters_are_checked_first(kind):
    X, _, few = clusters()
    for params, words in (
        ({"kernel": "gauss"}, "'kernel' parameter"),
        ({"kernel": "rbf", "n_components": 0}, "'n_components' parameter"),
        ({"kernel": "rbf", "sigma": 0.0}, "'sigma' parameter"),
        ({"kernel": "rbf", "sigma": 1.0, "gamma": 1.0}, "both give a width"),
        ({"kernel": "rbf", "kernel_params": {"a": 1}}, "for a callable kernel"),
        ({"kernel": "sigmoid", "gamma": 2.0, "coef0": -1.0}, "not positive semi-definite"),
    ):
        with pytest.raises(ValueError, match=words):
            kind(**params).fit(X, few)
    with pytest.raises(ValueError, match="NaN"):
        kind(kernel="rbf").fit(np.where(X > 2, np.nan, X), few)
    with pytest.raises(ValueError, match="y does not fit X"):
        kind(kernel="rbf").fit(X, few[:-1])
    model = kind(kernel="rbf", lam=0.1).fit(X, few)
    with pytest.raises(ValueError, match="wanted \\(n, 6\\)"):
        model.predict(da.zeros((4, 3)))


@pytest.mark.cluster
@each
@quiet
def test_the_same_bits_on_workers(kind, tiny_shards, monkeypatch):
    # pieces of 16 rows: the workers get several slices each
    monkeypatch.setattr("dask_s3vm.features.kernel_map.PIECE_BYTES", 1)
    X, _, few = clusters(n=200, seed=9)
    make = kind(lam=0.1, kernel="rbf", n_components=40, random_state=3)
    here = clone(make).fit(X, few)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster),
    ):
        there = clone(make).fit(X, few)
        assert np.array_equal(here.kernel_map_.basis, there.kernel_map_.basis)
        assert_identical(here, there)
        lazy = clone(make).fit(da.from_array(X, chunks=(70, 6)), few)
        np.testing.assert_allclose(lazy.coef_, here.coef_, atol=1e-6)
        predicted = there.predict(da.from_array(X, chunks=(70, 6)))
        assert np.array_equal(predicted.compute(), here.predict(X))
