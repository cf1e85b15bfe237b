"""Maximum margin clustering."""

import itertools
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from dask_s3vm import MaxMarginClustering, load_model, save_model
from dask_s3vm.datasets import make_g2c, make_moons


def fitness(X, y, lam):
    """Eq. 16 at its minimum over c, literally."""
    n = len(X)
    K = X @ X.T
    c = np.linalg.solve(K + lam * n * np.eye(n), y)
    return np.mean((y - K @ c) ** 2) + lam * c @ K @ c


@pytest.mark.parametrize("center", [True, False])
def test_the_best_of_all_balanced_partitions_is_found(center):
    X = np.random.default_rng(1).normal(size=(12, 3)) + 0.5
    model = MaxMarginClustering(
        lam=0.1, balance_tol=0.2, center=center, fit_intercept=False, random_state=0
    ).fit(X)
    rows = X - X.mean(axis=0) if center else X
    best = min(
        fitness(rows, np.array(y), 0.1)
        for y in itertools.product((-1.0, 1.0), repeat=12)
        if abs(np.mean(np.array(y) > 0) - 0.5) < 0.2
    )
    assert model.objective_ == pytest.approx(best)
    assert fitness(rows, 2.0 * model.labels_ - 1, 0.1) == pytest.approx(best)
    assert model.labels_[0] == 0


def test_rows_far_from_the_origin_give_the_same_clusters():
    X, _ = (part.compute() for part in make_g2c(100, 5))
    near, far = (
        MaxMarginClustering(n_restarts=5, random_state=0).fit(X + shift) for shift in (0.0, 1e6)
    )
    assert np.array_equal(near.labels_, far.labels_)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-6)


def test_two_gaussians_and_moons():
    X, y = (part.compute() for part in make_g2c(300, 20))
    assert (
        adjusted_rand_score(y, MaxMarginClustering(n_restarts=5, random_state=0).fit_predict(X))
        > 0.9
    )
    X, y = (part.compute() for part in make_moons(200, noise=0.05))
    model = MaxMarginClustering(
        kernel="rbf", sigma=0.3, lam=1e-3, n_restarts=20, random_state=0
    ).fit(X)
    assert (model.predict(X) == model.labels_).mean() > 0.97


@pytest.mark.parametrize("n_clusters", [1, 3, 5])
def test_more_clusters_are_splits_of_the_largest(n_clusters):
    X, y = make_blobs(200, centers=max(n_clusters, 2), n_features=6, random_state=3)
    model = MaxMarginClustering(n_clusters, n_restarts=10, lam=0.01, random_state=0).fit(X)
    assert sorted(set(model.labels_.tolist())) == list(range(n_clusters))
    assert model.coef_.shape == (n_clusters - 1, 6)
    assert model.parents_.shape == (n_clusters - 1,)
    if n_clusters > 1:
        assert adjusted_rand_score(y, model.labels_) > 0.6
        assert adjusted_rand_score(model.predict(X), model.labels_) > 0.9


@pytest.mark.parametrize("sharded", [False, True])
def test_dask_and_sparse_rows(sharded, tiny_shards):
    X, _ = (part.compute() for part in make_g2c(200, 10))
    wanted = MaxMarginClustering(3, n_restarts=3, sharded=sharded, random_state=0).fit(X)
    lazy = da.from_array(X, chunks=(60, 5))
    found = MaxMarginClustering(3, n_restarts=3, sharded=sharded, random_state=0).fit(lazy)
    assert isinstance(found.labels_, da.Array)
    assert np.array_equal(found.labels_.compute(), wanted.labels_)
    assert np.array_equal(found.predict(lazy).compute(), wanted.predict(X))
    sparse = MaxMarginClustering(3, n_restarts=3, sharded=sharded, random_state=0).fit(
        sp.csr_array(X)
    )
    assert np.array_equal(sparse.labels_, wanted.labels_)


def test_balance_holds_and_no_cluster_is_empty():
    X = np.random.default_rng(0).normal(size=(50, 2)) * [5, 1]
    share = MaxMarginClustering(balance=0.3, balance_tol=0.05, random_state=0).fit_predict(X).mean()
    assert min(abs(share - 0.3), abs(1 - share - 0.3)) < 0.05
    two = MaxMarginClustering(balance=0.01, balance_tol=0.0, random_state=0).fit_predict(X[:2])
    assert sorted(two) == [0, 1]


def test_too_few_rows_are_named():
    with pytest.raises(ValueError, match="n_samples=2 is too few for n_clusters=3"):
        MaxMarginClustering(3, random_state=0).fit(np.eye(2))


def test_a_model_file_holds_it(tmp_path):
    X, _ = make_blobs(60, centers=3, random_state=0)
    model = MaxMarginClustering(3, n_restarts=3, random_state=0).fit(X)
    save_model(model, tmp_path / "m.npz")
    assert np.array_equal(load_model(tmp_path / "m.npz").predict(X), model.predict(X))


def test_outputs_of_one_sign_are_told():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-3, 1, (31, 2)), rng.normal(3, 1, (29, 2))])
    model = MaxMarginClustering(random_state=0, n_restarts=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X)
    with pytest.warns(UserWarning, match=r"lam=1 is so large .* of split 1 have one sign"):
        model.fit(1e-4 * X)
    assert np.array_equal(np.bincount(model.predict(1e-4 * X)), np.bincount(model.labels_))
