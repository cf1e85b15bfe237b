"""STARSVM from outside: what it finds, the same on all input and engines, edge cases."""

import itertools

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from transductive_cases import clusters

from dask_s3vm import L2SVM, STARSVM, load_model, save_model
from dask_s3vm.datasets import hide_labels, make_moons, make_text

SOLVERS = [
    {"kernel": "rbf", "sigma": 1.0},
    {"kernel": "rbf", "sigma": 1.0, "sharded": True},
    {"kernel": "linear"},
]
each = pytest.mark.parametrize("params", SOLVERS, ids=["exact", "features", "linear"])


def parts(model):
    """All that a fit finds, as bytes."""
    names = ["coef_", "transduction_", "ranking_", "labeled_iter_"]
    found = [np.asarray(getattr(model, name)).tobytes() for name in names]
    return [*found, model.objective_, model.gap_]


#: The paper's rule.
PAPER = {"positive_ratio": "labels", "balance": "paper"}

# what it finds


def test_moons_are_found():
    right = []
    for seed in range(4):
        X, y = dask.compute(*make_moons(400, random_state=seed))
        few = hide_labels(y, 14, random_state=seed)
        model = STARSVM(kernel="rbf", sigma=0.3, confidence=0.9, **PAPER).fit(X, few)
        supervised = L2SVM(1e-2, kernel="rbf", sigma=0.3, n_components=None).fit(X, few)
        found = model.transduction_, model.predict(X), supervised.predict(X)
        right.append([(labels == y).mean() for labels in found])
    transduced, predicted, without = np.mean(right, axis=0)
    assert min(transduced, predicted) > 0.95
    assert 1 - transduced < 0.7 * (1 - without)


def test_labels_of_text_are_better_than_the_supervised_ones():
    X, y = make_text(3000, 3000, 40, block="scipy", random_state=2)
    X, y = dask.compute(X, y, scheduler="synchronous")
    few = hide_labels(y, 40, random_state=2)
    hidden = few == -1
    model = STARSVM(kernel="linear", confidence=0.9, min_share=0.02, balance="paper").fit(X, few)
    error = (model.transduction_ != y)[hidden].mean()
    supervised = (L2SVM().fit(X, few).predict(X) != y)[hidden].mean()
    assert error < 0.8 * supervised


def test_the_rare_class_counts_more():
    rng = np.random.default_rng(0)
    scores = {}
    for weighting in ("minority", "none", "printed"):
        found = []
        for _ in range(6):
            y = np.where(np.arange(300) % 12 == 0, 1, 0)
            X = rng.normal(size=(300, 4)) + 1.2 * y[:, None]
            few = hide_labels(y, 24, random_state=1)
            labels = STARSVM(kernel="rbf", sigma=2.0, weighting=weighting).fit(X, few).transduction_
            recall = [(labels == k)[(y == k) & (few < 0)].mean() for k in (0, 1)]
            found.append(np.sqrt(np.prod(recall)))
        scores[weighting] = np.mean(found)
    assert scores["minority"] > scores["none"] + 0.1
    assert scores["none"] >= scores["printed"]


@pytest.mark.slow
def test_imbalanced_sets_of_the_paper(data_dir):
    folder = data_dir / "star15"
    if not folder.exists():
        pytest.skip("the sets are not here")
    for name, wanted in {"ecoli": 0.87, "glass4": 0.82, "shuttle0vs4": 1.0}.items():
        with np.load(folder / f"{name}.npz") as held:
            X, y = held["X"].astype(float), held["y"].astype(int)
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
        found = []
        for seed in range(10):
            few = hide_labels(y, 20, unlabeled=0, random_state=seed)
            labels = STARSVM(kernel="rbf", sigma=1.0, unlabeled=0).fit(X, few).transduction_
            recall = [(labels == k)[(y == k) & (few == 0)].mean() for k in (-1, 1)]
            found.append(np.sqrt(np.prod(recall)))
        assert np.mean(found) > wanted - 0.1


@pytest.mark.parametrize("sharded", [False, True])
def test_four_classes(sharded):
    rng = np.random.default_rng(3)
    y = rng.permutation(np.arange(400) % 4)
    X = rng.normal(size=(400, 6))
    X[np.arange(400), y] += 4.0
    few = hide_labels(y, 12, random_state=3)
    model = STARSVM(kernel="rbf", sigma=3.0, sharded=sharded, n_components=None, **PAPER).fit(
        X, few
    )
    assert (model.transduction_ == y).mean() > 0.95
    assert (model.predict(X) == y).mean() > 0.95
    assert model.ranking_.shape == model.labeled_iter_.shape == (400, 4)
    assert model.objective_.shape == model.gap_.shape == (4,)
    assert model.decision_function(X).shape == (400, 4)
    assert {row["class"] for row in model.history_} == {0, 1, 2, 3}
    assert np.array_equal(model.transduction_[few >= 0], few[few >= 0])


@each
def test_labels_that_were_given_or_assigned_are_final(small, params):
    X, _, y = small
    model = STARSVM(**params).fit(X, y)
    given = y >= 0
    assert np.array_equal(model.transduction_[given], y[given])
    assert np.array_equal(model.labeled_iter_ == 0, given)
    assert np.array_equal(np.sign(model.ranking_), 2 * model.transduction_ - 1)
    for k, row in enumerate(model.history_[:-1]):
        waiting = row["n_waiting"]
        assert (np.abs(model.ranking_[model.labeled_iter_ == k + 1]) == waiting).all()
    assert model.gap_ <= 1e-3 * model.objective_


def test_the_model_is_the_expansion_over_support_vectors(small):
    X, _, y = small
    model = STARSVM(2.0, kernel="rbf", sigma=1.0, tol=1e-8, **PAPER).fit(X, y)
    assert model.sharded_ is False
    wanted = rbf_kernel(X, X[model.support_], gamma=0.5) @ model.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(X), wanted, atol=1e-12)
    signs = 2 * model.transduction_[model.support_] - 1
    stages = model.labeled_iter_[model.support_]
    ratio = np.where(signs > 0, 1 - model.positive_ratio_, model.positive_ratio_)
    box = 2.0 * 2 * ratio * 0.7**stages
    alpha = signs * model.dual_coef_[0]
    assert (alpha > 0).all()
    assert (alpha <= box * (1 + 1e-15)).all()  # powers may differ in the last bit
    loss = np.zeros(len(X))
    signs = 2 * model.transduction_ - 1
    loss = np.maximum(0, 1 - signs * wanted)
    cost = 4.0 * np.where(signs > 0, 1 - model.positive_ratio_, model.positive_ratio_)
    square = wanted[model.support_] @ model.dual_coef_[0]
    assert model.objective_ == pytest.approx(square / 2 + cost * 0.7**model.labeled_iter_ @ loss)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_both_solvers_find_the_same(small, kernel):
    X, _, y = small
    params = {"kernel": kernel, "tol": 1e-9, "n_components": None, "positive_ratio": 0.5}
    params |= {"sigma": 2.0} if kernel == "rbf" else {}
    # a stage is left at 1e-2 on shards; a large share makes labels depend on that but little
    exact = STARSVM(sharded=False, min_share=1.0, **params).fit(X, y)
    sharded = STARSVM(sharded=True, min_share=1.0, **params).fit(X, y)
    assert exact.sharded_ is False
    assert sharded.sharded_ is True
    same = exact.transduction_ == sharded.transduction_
    assert same.mean() > 0.97
    if same.all():
        np.testing.assert_allclose(
            exact.decision_function(X), sharded.decision_function(X), atol=1e-3
        )


def test_auto_goes_by_size_and_kernel(small, monkeypatch):
    X, _, y = small
    assert STARSVM(kernel="rbf", sigma=1.0).fit(X, y).sharded_ is False
    assert STARSVM(kernel="linear").fit(X, y).sharded_ is True
    monkeypatch.setattr("dask_s3vm.estimators._star.EXACT_ROWS", 100)
    again = STARSVM(kernel="rbf", sigma=1.0).fit(X, y)
    assert again.sharded_ is True
    assert not hasattr(again, "support_")


def test_many_rows_have_few_stages(small, monkeypatch):
    X, _, y = small
    paper = STARSVM(kernel="rbf", sigma=1.0).fit(X, y)
    assert parts(STARSVM(kernel="rbf", sigma=1.0, min_share=0.0).fit(X, y)) == parts(paper)
    monkeypatch.setattr("dask_s3vm.methods.star.MANY_ROWS", 100)
    monkeypatch.setattr("dask_s3vm.methods.star.MANY_SHARE", 0.3)
    many = STARSVM(kernel="rbf", sigma=1.0).fit(X, y)
    assert many.n_iter_ <= 4 < paper.n_iter_
    assert parts(STARSVM(kernel="rbf", sigma=1.0, min_share=0.3).fit(X, y)) == parts(many)


# the same on all input and engines


def blocks_of(X, convert):
    edges = [0, 37, 38, 90, 120]
    pieces = [X[low:high] for low, high in itertools.pairwise(edges)]
    lazy = [
        da.from_delayed(dask.delayed(convert)(piece), piece.shape, X.dtype, meta=np.empty((0, 0)))
        for piece in pieces
    ]
    return da.concatenate(lazy)


@each
@pytest.mark.usefixtures("tiny_shards")
def test_chunks_do_not_matter(small, params):
    X, _, y = small
    wanted = parts(STARSVM(**params).fit(X, y))
    for chunks in (120, 50, (30, 1, 89)):
        model = STARSVM(**params).fit(da.from_array(X, chunks=(chunks, 3)), y)
        assert isinstance(model.transduction_, da.Array)
        assert parts(model) == wanted
    unknown = da.from_array(X, chunks=(40, -1))
    unknown = unknown[da.from_array(np.ones(120, bool), chunks=40)]
    assert np.isnan(unknown.shape[0])
    model = STARSVM(**params).fit(unknown, da.from_array(y, chunks=40))
    assert parts(model) == wanted
    assert model.transduction_.chunks == ((40, 40, 40),)


@each
@pytest.mark.usefixtures("tiny_shards")
def test_sparse_rows_of_all_kinds_are_the_same(small, params):
    X, _, y = small
    rows = sp.csr_array(np.where(np.abs(X) > 0.4, X, 0.0))
    wanted = parts(STARSVM(**params).fit(rows, y))
    assert parts(STARSVM(**params).fit(sparse.GCXS.from_scipy_sparse(rows), y)) == wanted
    for convert in (sp.csr_array, sparse.COO.from_scipy_sparse):
        assert parts(STARSVM(**params).fit(blocks_of(rows, convert), y)) == wanted
    dense = STARSVM(**params).fit(rows.toarray(), y)
    assert (dense.transduction_ == STARSVM(**params).fit(rows, y).transduction_).mean() > 0.95


@each
@pytest.mark.usefixtures("tiny_shards")
def test_the_same_bits_on_threads_and_an_in_process_cluster(small, params):
    X, _, y = small
    lazy = da.from_array(X, chunks=(50, -1))
    found = []
    for threads in (1, 2):
        with dask.config.set({"s3vm.threads": threads}):
            found.append(parts(STARSVM(**params).fit(lazy, y)))
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        found.append(parts(STARSVM(**params).fit(lazy, y)))
    assert found[0] == found[1] == found[2]


def test_models_in_files(small, tmp_path):
    X, _, y = small
    for number, params in enumerate(SOLVERS):
        model = STARSVM(**params).fit(X, y)
        save_model(model, tmp_path / f"{number}.npz")
        again = load_model(tmp_path / f"{number}.npz")
        assert np.array_equal(again.decision_function(X), model.decision_function(X))
        assert np.array_equal(again.transduction_, model.transduction_)


# edge cases


def test_without_unlabeled_rows_it_warns_and_is_the_supervised_svm(small):
    X, truth, _ = small
    with pytest.warns(UserWarning, match="no unlabeled row") as caught:
        model = STARSVM(kernel="rbf", sigma=1.0).fit(X, truth)
    assert caught[0].filename == __file__
    assert np.array_equal(model.transduction_, truth)
    assert model.n_iter_ == 1


@each
def test_unlabeled_rows_of_weight_zero_are_predicted_only(small, params):
    X, _, y = small
    weight = np.ones(120)
    weight[np.flatnonzero(y < 0)[::3]] = 0.0
    if not params.get("kernel"):
        params = {**params, "n_components": None}
    model = STARSVM(**params, tol=1e-8).fit(X, y, weight)
    left = STARSVM(**params, tol=1e-8).fit(X[weight > 0], y[weight > 0])
    assert np.array_equal(model.transduction_[weight > 0], left.transduction_)
    out = weight == 0
    assert np.array_equal(model.transduction_[out], model.predict(X)[out])
    assert (model.labeled_iter_[out] < 0).all()
    assert not model.ranking_[out].any()


@each
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_any_ratio_is_legal(small, params, ratio):
    X, _, y = small
    model = STARSVM(positive_ratio=ratio, **params).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.positive_ratio_ == ratio


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_no_and_full_confidence(small, confidence):
    X, _, y = small
    model = STARSVM(confidence=confidence, kernel="rbf", sigma=1.0).fit(X, y)
    assert (model.labeled_iter_ >= 0).all()
    if confidence == 0.0:  # then only given labels count
        assert set(model.support_) <= set(np.flatnonzero(y >= 0))


def test_empty_rows_have_output_zero_and_get_a_label():
    X, _, y = clusters(60)
    X[40:] = 0.0
    y[40:] = -1
    for sharded in (False, True):
        model = STARSVM(kernel="linear", sharded=sharded, balance="paper").fit(sp.csr_array(X), y)
        assert (model.labeled_iter_ >= 0).all()
        assert (model.transduction_[40:] == 0).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_without_support_vectors_predicts():
    """Steps that rounding undoes leave every weight at 0."""
    X = 1000.0 + np.random.default_rng(0).normal(size=(8, 3))
    y = np.array([0, 1, -1, -1, -1, -1, -1, -1])
    with pytest.warns(ConvergenceWarning):
        model = STARSVM(10.0, kernel="poly").fit(X, y)
    assert len(model.support_) == 0
    assert not model.decision_function(X).any()
    assert np.array_equal(model.to_sklearn().predict(X), model.predict(X))


def test_one_unlabeled_row_and_limits(small):
    X, truth, y = small
    few = truth.copy()
    few[5] = -1
    model = STARSVM(kernel="rbf", sigma=1.0, unlabeled=-1).fit(X, few)
    assert model.labeled_iter_[5] == 1
    short = STARSVM(kernel="rbf", sigma=1.0, max_stages=2).fit(X, y)
    assert short.n_iter_ == 2
    assert short.termination_ == "max_stages"
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        STARSVM(kernel="linear", tol=0.0, max_iter=1).fit(X, y)


def test_callbacks_and_a_second_fit(small):
    X, _, y = small
    rows = []
    model = STARSVM(kernel="rbf", sigma=1.0, callbacks=rows.append).fit(X, y)
    assert rows == model.history_
    first = parts(model)
    assert parts(model.fit(X, y)) == first
    assert parts(clone(model).fit(X, y)) == first


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"confidence": 1.5}, "'confidence' parameter"),
        ({"sharded": "fast"}, "'sharded' parameter"),
        ({"weighting": "other"}, "'weighting' parameter"),
        ({"min_share": 2.0}, "'min_share' parameter"),
        ({"kernel": "rbf", "sigma": 1.0, "gamma": 1.0}, "both give a width"),
    ],
)
def test_bad_parameters_are_named(small, params, match):
    X, _, y = small
    with pytest.raises(ValueError, match=match):
        STARSVM(**params).fit(X, y)


def test_a_ratio_is_for_two_classes(small):
    X, _, y = small
    y = y.copy()
    y[:3] = 2
    with pytest.raises(ValueError, match="is for two classes"):
        STARSVM(positive_ratio=0.5).fit(X, y)
