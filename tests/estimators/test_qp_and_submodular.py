"""QPS3VM and SubmodularS3VM: what they find, on input of all kinds, wherever rows are."""

import itertools
import os
import signal

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from clients import two_workers
from distributed import Client, LocalCluster
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC
from transductive_cases import clusters

from dask_s3vm import QPS3VM, SubmodularS3VM, load_model, save_model
from dask_s3vm.datasets import hide_labels, make_g4c, make_moons

BOTH = [QPS3VM, SubmodularS3VM]
both = pytest.mark.parametrize("kind", BOTH)


def same(a, b):
    return (
        np.array_equal(a.coef_, b.coef_)
        and np.array_equal(a.intercept_, b.intercept_)
        and np.array_equal(a.objective_, b.objective_)
        and np.array_equal(np.asarray(a.transduction_), np.asarray(b.transduction_))
    )


# what is found


@both
def test_labels_obey_the_ratio_and_the_objective_is_theirs(kind, small):
    X, truth, y = small
    model = kind(1.0, 0.1, positive_ratio=0.4).fit(X, y)
    free = y < 0
    assert np.array_equal(model.transduction_[~free], y[~free])
    assert model.transduction_[free].sum() == 44
    assert (model.transduction_ == truth)[free].mean() > 0.7
    Z = X - X[free].mean(axis=0)
    P, rest = model.transduction_[free], 1 - model.transduction_[free]
    Y = np.where(y[~free] == 1, 1, -1)
    wanted = 0.5 * 0.1**2 * (rest @ Z[free]) @ (P @ Z[free])
    wanted += 0.1 * (Y @ Z[~free]) @ (rest @ Z[free])
    assert model.objective_ == pytest.approx(wanted, rel=1e-9)
    assert model.positive_ratio_ == 0.4
    assert model.termination_ == "converged"
    assert model.n_rounds_ > 5


@both
def test_the_model_is_the_svm_on_the_labels_found(kind, small):
    X, _, y = small
    model = kind(0.8, 0.05, class_weight={1: 3.0}, tol=1e-12, supervised_part=0.0).fit(X, y)
    weight = np.where(y < 0, 0.05, np.where(y == 1, 3.0, 1.0) * 0.8)
    reference = LinearSVC(C=1.0, dual=False, tol=1e-10, max_iter=10_000, intercept_scaling=1.0)
    reference.fit(X, model.transduction_, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-5)


@both
def test_more_classes_go_one_against_the_rest(kind):
    X, y = dask.compute(*make_g4c(n_rows=400))
    X, y = np.asarray(X), (2 * (np.asarray(X)[:, 0] > 0) + (np.asarray(X)[:, 1] > 0)).astype(int)
    rng = np.random.default_rng(0)
    few = np.where(rng.random(400) < 0.1, y, -1)
    names = np.array(["east", "north", "south", "west"])
    model = kind(unlabeled="?").fit(X, np.where(few >= 0, names[few], "?"))
    assert model.classes_.tolist() == names.tolist()
    assert model.coef_.shape == (4, X.shape[1])
    assert model.objective_.shape == model.positive_ratio_.shape == (4,)
    free = few < 0
    assert np.array_equal(model.transduction_[~free], names[few[~free]])
    assert (model.transduction_ == names[y])[free].mean() > 0.75
    assert (model.predict(X) == names[y])[free].mean() > 0.75


@both
def test_all_rows_as_landmarks_are_the_exact_kernel(kind):
    X, y = dask.compute(*make_moons(n_rows=150))
    few = np.asarray(hide_labels(y, 10))
    model = kind(1.0, 0.05, kernel="rbf", sigma=0.4, n_components=None, center=False).fit(X, few)
    free = few < 0
    K = rbf_kernel(X, gamma=1 / (2 * 0.4**2))
    P, rest = model.transduction_[free], 1 - model.transduction_[free]
    Y = np.where(few[~free] == 1, 1, -1)
    wanted = 0.5 * 0.05**2 * rest @ K[np.ix_(free, free)] @ P
    wanted += 0.05 * Y @ K[np.ix_(~free, free)] @ rest
    assert abs(P.sum() - model.positive_ratio_ * free.sum()) <= 0.5
    if kind is SubmodularS3VM or P.sum() == model.positive_ratio_ * free.sum():
        assert model.objective_ == pytest.approx(wanted, rel=1e-6)
    assert (model.predict(X) == y).mean() > 0.75


def test_restarts_need_a_seed_and_no_more(small):
    X, _, y = small
    one, two = (QPS3VM(1, 1, n_restarts=4, random_state=3).fit(X, y) for _ in range(2))
    assert same(one, two)
    starts = [row["restart"] for row in one.history_ if row["event"] == "rest"]
    assert starts == [0, 1, 2, 3, 4]
    plain = QPS3VM(1, 1).fit(X, y)
    assert one.objective_ <= plain.objective_
    for source in (np.random.default_rng(0), np.random.RandomState(0), None):
        QPS3VM(1, 1, n_restarts=1, random_state=source).fit(X, y)


def test_history_goes_down_and_to_the_callbacks(small):
    X, _, y = small
    seen = []
    model = QPS3VM(1.0, 0.5, callbacks=seen.append).fit(X, y)
    assert seen == model.history_
    values = [row["objective"] for row in seen if row["event"] != "train"]
    assert all(b <= a for a, b in itertools.pairwise(values))
    assert values[-1] == model.objective_
    assert model.n_iter_ == len(values)
    assert seen[-1]["event"] == "train"


def test_what_greedy_reached_is_told(small):
    X, _, y = small
    model = SubmodularS3VM(1.0, 0.5, positive_ratio=0.5).fit(X, y)
    assert 1 - 1 / np.e <= model.proven_share_ <= 1.0
    assert model.sharded_ is False
    row = model.history_[0]
    assert row["set_value"] == model.set_value_
    assert row["proven_share"] == model.proven_share_
    assert row["picks"] == 55
    assert model.n_iter_ == 1


@pytest.mark.parametrize("center", [False, True])
def test_fewer_rows_are_picked_or_the_positive_ones(small, center):
    X, _, y = small
    params = {"C_unlabeled": 0.2, "center": center, "tol": 1e-10}
    few = SubmodularS3VM(**params, positive_ratio=0.8).fit(X, y)
    many = SubmodularS3VM(**params, positive_ratio=0.8, pick="positive").fit(X, y)
    assert (few.history_[0]["picks"], many.history_[0]["picks"]) == (22, 88)
    free = y < 0
    for model in (few, many):
        P, rest = model.transduction_[free], 1 - model.transduction_[free]
        assert P.sum() == 88
        Z = X - center * X[free].mean(axis=0)
        Y = np.where(y[~free] == 1, 1, -1)
        known = X[~free] - center * X[~free].mean(axis=0)
        wanted = 0.5 * 0.2**2 * (rest @ Z[free]) @ (P @ Z[free])
        wanted += 0.2 * (Y @ known) @ (rest @ Z[free])
        assert model.objective_ == pytest.approx(wanted, rel=1e-9)
    # to pick the fewer is to pick the positive rows with classes swapped
    names = np.array([1, 0, -1])[y]
    other = SubmodularS3VM(**params, positive_ratio=0.2, pick="positive").fit(X, names)
    assert np.array_equal(1 - other.transduction_, few.transduction_)
    assert other.set_value_ == pytest.approx(few.set_value_)
    np.testing.assert_allclose(-other.coef_, few.coef_, atol=1e-6)


# Labels of one class mostly


def one_sided(seed, n=2000, n_labeled=10):
    """Classes along the first column; the larger one has two clusters along the second.

    Of its eight labeled rows, six are of the same cluster: the labels' mean is off.
    """
    rng = np.random.default_rng(seed)
    y = np.append(np.repeat([1, 0], [8, 2]), rng.random(n) < 0.8).astype(int)
    X = 0.2 * rng.normal(size=(n + n_labeled, 2))
    X[:, 0] += np.where(y == 1, 0.5, -0.5)
    side = np.where(rng.random(n + n_labeled) < 0.5, 1.0, -1.0)
    side[:8] = [1, 1, 1, 1, 1, 1, -1, -1]
    X[:, 1] += np.where(y == 1, side, 0.0)
    return X, y, np.where(np.arange(n + n_labeled) < n_labeled, y, -1)


def about_one_mean(X, few, cost, n_positive):
    """Descend F with all rows about the mean of the unlabeled ones; returns 0/1 of these."""
    free = few < 0
    Z = X - X[free].mean(axis=0)
    pull = np.where(few[~free] == 1, 1.0, -1.0) @ Z[~free]
    total = np.zeros(X.shape[1])
    for _ in range(100):
        up = np.argsort(-Z[free] @ (cost * total + pull), kind="stable")[:n_positive]
        total = Z[free][up].sum(axis=0)
    return np.isin(np.arange(free.sum()), up).astype(int)


@pytest.mark.parametrize("kind", [QPS3VM, SubmodularS3VM])
@pytest.mark.parametrize(("seed", "part"), [(0, 0.1), (0, 1.0), (0, 8.0), (1, 1.0), (1, 8.0)])
def test_labels_of_one_class_mostly_do_not_pull_it_apart(kind, seed, part):
    X, y, few = one_sided(seed)
    cost, free = part * 10 / 2000, few < 0
    model = kind(C_unlabeled=cost, positive_ratio=0.8).fit(X, few)
    assert (model.transduction_ == y)[free].mean() > 0.95
    other = about_one_mean(X, few, cost, 1600)
    assert (other == y[free]).mean() < 0.8


@pytest.mark.parametrize("kind", [QPS3VM, SubmodularS3VM])
def test_centered_rows_may_be_moved(kind):
    X, _, few = one_sided(0)
    moved = X + np.array([3.0, -7.0])
    params = {"positive_ratio": 0.8, "supervised_part": 0.0}
    here, there = (kind(**params).fit(rows, few) for rows in (X, moved))
    assert np.array_equal(here.transduction_, there.transduction_)
    assert here.objective_ == pytest.approx(there.objective_, rel=1e-9)


# GreeDi


@pytest.mark.usefixtures("tiny_shards")
def test_greedi_picks_as_many_and_nearly_as_well():
    X, _, y = clusters(n=2000, n_labeled=20, d=5)
    params = {"positive_ratio": 0.2, "supervised_part": 0.0}
    exact = SubmodularS3VM(sharded=False, **params).fit(X, y)
    greedi = SubmodularS3VM(sharded=True, **params).fit(X, y)
    assert (exact.sharded_, greedi.sharded_) == (False, True)
    assert greedi.history_[0]["distinct_rows"] < 0.6 * exact.history_[0]["distinct_rows"]
    assert greedi.transduction_[y < 0].sum() == exact.transduction_[y < 0].sum() == 396
    assert (1 - 1 / np.e) / 2 * exact.set_value_ <= greedi.set_value_ <= exact.set_value_
    assert greedi.proven_share_ <= greedi.set_value_ / exact.set_value_
    assert (greedi.transduction_ == exact.transduction_).mean() > 0.9


@pytest.mark.usefixtures("tiny_shards")
def test_size_decides_between_the_schemes(small):
    X, _, y = small
    for limit, sharded in (("1 kB", True), ("1 MB", False)):
        with dask.config.set({"s3vm.greedy-bytes": limit}):
            assert SubmodularS3VM().fit(X, y).sharded_ is sharded


# input


@both
@pytest.mark.parametrize("center", [False, True])
def test_all_kinds_of_input_give_the_same_labels(kind, small, center):
    X, _, y = small
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    params = {"C_unlabeled": 0.1, "positive_ratio": 0.5, "center": center}
    wanted = kind(**params).fit(X, y)
    for rows in (
        sp.csr_array(X),
        sp.csc_matrix(X),
        sparse.COO.from_numpy(X),
        sparse.GCXS.from_numpy(X),
        da.from_array(X, chunks=(50, 4)),
        da.from_array(X, chunks=50).map_blocks(sp.csr_array),
    ):
        model = kind(**params).fit(rows, da.from_array(y, chunks=33))
        assert np.array_equal(np.asarray(model.transduction_), wanted.transduction_)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-5)
        assert isinstance(model.transduction_, da.Array) == isinstance(rows, da.Array)


@both
def test_weights_of_labeled_rows_are_repetitions(kind, small):
    X, _, y = small
    weights = np.where(y >= 0, 1 + np.arange(len(y)) % 3, 1)
    repeated = np.repeat(np.arange(len(y)), weights)
    a = kind(C_unlabeled=0.1, positive_ratio=0.5, tol=1e-12).fit(X, y, weights)
    b = kind(C_unlabeled=0.1, positive_ratio=0.5, tol=1e-12).fit(X[repeated], y[repeated])
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-9)
    assert np.array_equal(a.transduction_[repeated], b.transduction_)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)


@both
def test_one_weight_of_unlabeled_rows_multiplies_their_cost(kind, small):
    X, _, y = small
    a = kind(C_unlabeled=0.1, tol=1e-12).fit(X, y, np.where(y < 0, 3.0, 1.0))
    b = kind(C_unlabeled=0.3, tol=1e-12).fit(X, y)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-9)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)
    with pytest.raises(ValueError, match="sample_weight of unlabeled rows"):
        kind().fit(X, y, np.arange(1.0, len(y) + 1))


@both
def test_rows_of_weight_zero_are_left_out_but_get_a_label(kind, small):
    X, truth, y = small
    out = (y < 0) & (np.arange(len(y)) % 4 == 0)
    a = kind(C_unlabeled=0.1).fit(X, y, np.where(out, 0.0, 1.0))
    b = kind(C_unlabeled=0.1).fit(X[~out], y[~out])
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-9)
    assert np.array_equal(a.transduction_[~out], b.transduction_)
    assert (a.transduction_ == truth)[out].mean() > 0.7


@both
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"C": 0.0}, "C"),
        ({"C_unlabeled": -1.0}, "C_unlabeled"),
        ({"positive_ratio": 1.5}, "positive_ratio"),
        ({"center": "yes"}, "center"),
        ({"kernel": "rbf", "sigma": 1.0, "gamma": 1.0}, "gamma"),
    ],
)
def test_wrong_parameters_are_named(kind, params, words, small):
    X, _, y = small
    with pytest.raises(ValueError, match=words):
        kind(**params).fit(X, y)


@both
def test_models_can_be_saved(kind, small, tmp_path):
    X, _, y = small
    model = kind(kernel="rbf", sigma=3.0, n_components=20, random_state=0).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.transduction_, model.transduction_)


# the same bits


def everything(X, y):
    """Fits of all kinds, to be compared bit by bit."""
    params = {"C_unlabeled": 0.2, "positive_ratio": 0.43}
    return [
        QPS3VM(**params, n_restarts=2, random_state=0).fit(X, y),
        SubmodularS3VM(**params).fit(X, y),
        SubmodularS3VM(**params, sharded=True).fit(X, y),
    ]


@pytest.fixture(scope="module")
def sparse_case(sparse_data):
    X, y = sparse_data
    return X, np.where(np.arange(600) % 30 == 1, y, -1)


@pytest.fixture(scope="module")
def wanted(sparse_case):
    alone = {"scheduler": "synchronous", "s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}
    with dask.config.set(alone):
        return everything(*sparse_case)


@pytest.mark.usefixtures("tiny_shards")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("chunks", [(600,), (100, 1, 250, 249)])
def test_chunks_and_threads_change_no_bit(sparse_case, wanted, as_dask, threads, chunks):
    X, y = sparse_case
    with dask.config.set({"scheduler": "threads", "s3vm.threads": threads}):
        found = everything(as_dask(X, chunks, known=threads == 1), y)
    assert all(same(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.usefixtures("tiny_shards")
@pytest.mark.parametrize(
    ("processes", "workers"),
    [(False, 2), pytest.param(True, 2, marks=pytest.mark.cluster)],
)
def test_a_cluster_changes_no_bit(sparse_case, wanted, as_dask, processes, workers):
    X, y = sparse_case
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        found = everything(as_dask(X, (100, 1, 250, 249)), y)
        assert all(same(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.usefixtures("tiny_shards")
def test_a_killed_worker_changes_no_bit(sparse_case, wanted, as_dask):
    X, y = sparse_case
    with two_workers(processes=True) as client:
        pids = list(client.run(os.getpid).values())

        def kill(row):
            if pids and row["event"] == "vertex":
                os.kill(pids.pop(), signal.SIGKILL)

        params = {"C_unlabeled": 0.2, "positive_ratio": 0.43}
        model = QPS3VM(**params, n_restarts=2, random_state=0, callbacks=kill)
        model.fit(as_dask(X, (100, 1, 250, 249)), y)
    assert same(model, wanted[0])
