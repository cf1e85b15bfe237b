"""Searches: scores are those of naive refitting, wherever and in whatever order they run."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from search_cases import (
    CASES,
    FOLDS,
    data_of,
    every_case,
    few_labels,
    naive_scores,
    smooth,
    split_scores,
)
from sklearn.model_selection import ParameterGrid

from dask_s3vm import DAS3VM, L2SVM, S2RLSC, TSVM
from dask_s3vm.methods import l2svm, labeled_rows
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV, _run


def searched(name, X, y, **params):
    estimator, grid = CASES[name]
    params = {"scoring": smooth, "cv": FOLDS, "refit": False, "warm_path": False} | params
    return S3VMGridSearchCV(estimator, grid, **params).fit(X, y)


@every_case
def test_scores_are_those_of_naive_refitting(name):
    X, y = data_of(name)
    estimator, grid = CASES[name]
    wanted = naive_scores(estimator, list(ParameterGrid(grid)), X, y, FOLDS)
    np.testing.assert_allclose(split_scores(searched(name, X, y)), wanted, atol=2e-5)


@pytest.mark.parametrize("name", ["l2svm", "rlsc", "s2rlsc", "tsvm rbf", "three"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_paths_are_scored_as_their_models_score_themselves(name, form):
    """The rows of a path are checked once, where the score is the estimators' own."""
    X, y = data_of(name)
    given = {"scoring": None, "return_train_score": True, "warm_path": True}
    own = searched(name, form(X), y, **given).cv_results_
    each = searched(name, form(X), y, **given | {"scoring": lambda m, X, y: m.score(X, y)})
    for part in ("split0_test_score", "split1_test_score", "mean_train_score"):
        assert np.array_equal(own[part], each.cv_results_[part])


def test_a_path_of_estimators_with_predictions_of_their_own():
    X, y = data_of("l2svm")
    search = S3VMGridSearchCV(Contrary(), {"lam": [0.1, 1.0]}, cv=FOLDS).fit(X, y)
    as_usual = S3VMGridSearchCV(L2SVM(), {"lam": [0.1, 1.0]}, cv=FOLDS).fit(X, y)
    opposite = 1.0 - as_usual.cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], opposite)


class Contrary(L2SVM):
    """Predicts what the weights do not."""

    def predict(self, X):
        """The other class."""
        return self.classes_[(self.decision_function(X) <= 0).astype(int)]


@every_case
def test_placed_shards_one_after_the_other_give_the_same_bits(name, tiny_shards):
    # no byte is small: rows stay in the shards of one engine, which all fits use in turn
    X, y = data_of(name)
    in_turn = split_scores(searched(name, X, y))
    with dask.config.set({"s3vm.local-bytes": 10**9}):
        side_by_side = split_scores(searched(name, X, y))
    assert np.array_equal(in_turn, side_by_side)


def test_the_supervised_part_is_trained_once_for_a_fold_and_lam(monkeypatch):
    X, y = data_of("tsvm")
    grid = {"lam": [0.1, 0.01], "lam_unlabeled": [0.1, 1.0, 10.0]}
    trained = []

    def train_beside(*args, **given):
        trained.append(given["lam"])
        return l2svm.train_beside(*args, **given)

    monkeypatch.setattr(labeled_rows, "train_beside", train_beside)
    params = {"scoring": smooth, "cv": FOLDS, "refit": False, "warm_path": False}
    with dask.config.set({"s3vm.threads": 1}):
        search = S3VMGridSearchCV(TSVM(), grid, **params).fit(X, y)
    n_folds = search.n_splits_
    assert sorted(trained) == sorted(n_folds * grid["lam"])
    wanted = naive_scores(TSVM(), list(ParameterGrid(grid)), X, y, FOLDS)
    np.testing.assert_allclose(split_scores(search), wanted, atol=2e-5)


@pytest.mark.parametrize("name", ["tsvm", "qn"])
def test_fits_in_several_threads_have_the_same_bits(name, monkeypatch):
    X, y = data_of(name)
    one_by_one = split_scores(searched(name, X, y))
    monkeypatch.setattr(_run, "KERNEL_BYTES", 0)
    with dask.config.set({"s3vm.threads": 3}):
        assert np.array_equal(split_scores(searched(name, X, y)), one_by_one)


@pytest.mark.parametrize("name", ["l2svm", "rlsc", "s2rlsc", "tsvm", "da", "qn"])
def test_seeded_paths_give_the_same_bits_everywhere_and_in_any_order(name, tiny_shards):
    X, y = data_of(name)
    estimator, grid = CASES[name]
    wanted = searched(name, X, y, warm_path=True)
    turned = {key: values[::-1] for key, values in grid.items()}
    with dask.config.set({"s3vm.local-bytes": 10**9}):
        other = S3VMGridSearchCV(
            estimator, turned, scoring=smooth, cv=FOLDS, refit=False, warm_path=True
        ).fit(X, y)
    by_params = {
        str(p): s for p, s in zip(other.cv_results_["params"], split_scores(other), strict=True)
    }
    for params, scores in zip(wanted.cv_results_["params"], split_scores(wanted), strict=True):
        assert np.array_equal(by_params[str(params)], scores)


@pytest.mark.parametrize("name", ["l2svm", "s2rlsc", "da", "sqp"])
def test_input_of_any_kind(name):
    X, y = data_of(name)
    X = np.where(np.abs(X) < 0.4, 0.0, X)
    wanted = split_scores(searched(name, X, y))
    chunks = da.from_array(X, chunks=(31, 5))
    for rows in (sp.csr_array(X), chunks, chunks.map_blocks(sp.csr_array)):
        np.testing.assert_allclose(split_scores(searched(name, rows, y)), wanted, atol=2e-5)
    lazy = da.from_array(y, chunks=31)
    assert np.array_equal(split_scores(searched(name, chunks, lazy)), wanted)
    unknown = chunks[chunks[:, 0] < np.inf], lazy[chunks[:, 0] < np.inf]
    assert np.array_equal(split_scores(searched(name, *unknown)), wanted)


@pytest.mark.parametrize("name", ["l2svm", "s2rlsc", "tsvm", "da", "star"])
def test_a_cluster_gives_the_same_bits(name, client, tiny_shards):
    X, y = data_of(name)
    with dask.config.set(scheduler="threads"):
        wanted = split_scores(searched(name, X, y, warm_path=True))
    rows = da.from_array(X, chunks=(40, 5))
    on_shards = split_scores(searched(name, rows, y, warm_path=True))
    with dask.config.set({"s3vm.local-bytes": 10**9}):
        as_tasks = split_scores(searched(name, rows, y, warm_path=True))
    assert np.array_equal(on_shards, wanted)
    assert np.array_equal(as_tasks, wanted)


@pytest.mark.parametrize("name", ["l2svm", "s2rlsc", "tsvm", "da", "qn", "qp", "star exact"])
def test_held_out_labels_have_no_influence(name):
    X, y, _ = few_labels()
    labeled = np.flatnonzero(y >= 0)
    held = labeled[[0, 5, 13, 20]]
    train = np.setdiff1d(np.arange(len(y)), held)
    probe, probe_y, _ = few_labels(seed=9)

    def on_probe(model, rows, labels):
        return smooth(model, probe[probe_y >= 0], probe_y[probe_y >= 0])

    wanted = split_scores(searched(name, X, y, scoring=on_probe, cv=[(train, held)]))
    liar = y.copy()
    liar[held] = 1 - liar[held]
    found = split_scores(searched(name, X, liar, scoring=on_probe, cv=[(train, held)]))
    assert np.array_equal(found, wanted)


def test_sample_weights_train():
    X, y, _ = few_labels()
    weights = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    search = S3VMGridSearchCV(
        TSVM(tol=1e-10), {"lam": [0.1]}, cv=FOLDS, scoring=smooth, refit=False
    ).fit(X, y, weights)
    wanted = [
        smooth(TSVM(0.1, tol=1e-10).fit(X[a], y[a], weights[a]), X[b], y[b])
        for a, b in FOLDS.split(X, y)
    ]
    np.testing.assert_allclose(split_scores(search)[0], wanted, atol=2e-5)


def test_kernel_parameters_in_the_grid():
    X, y, _ = few_labels()
    grid = {"kernel": ["linear", "rbf"], "sigma": [1.0, 3.0], "lam": [0.1, 1.0]}
    estimator = L2SVM(n_components=None, tol=1e-10)
    grid = [{"kernel": ["linear"], "lam": grid["lam"]}, {**grid, "kernel": ["rbf"]}]
    search = S3VMGridSearchCV(estimator, grid, cv=FOLDS, scoring=smooth, refit=False).fit(X, y)
    wanted = naive_scores(estimator, list(ParameterGrid(grid)), X, y, FOLDS)
    np.testing.assert_allclose(split_scores(search), wanted, atol=2e-5)


@pytest.mark.parametrize("kind", [TSVM, DAS3VM, S2RLSC])
def test_the_chosen_model_is_found_as_in_the_search(kind):
    """A fold without held-out rows: trained on all rows, along the same path."""
    X, y, _ = few_labels(n=120, n_labeled=12)
    grid = {"lam": [1.0, 0.1, 1e-2, 1e-3], "lam_unlabeled": [1.0]}
    estimator = kind(n_restarts=3, random_state=0) if kind is S2RLSC else kind()
    labeled = np.flatnonzero(y >= 0)
    everything = [(np.arange(len(y)), labeled)]
    search = S3VMGridSearchCV(
        estimator, grid, cv=everything, scoring=smooth, refit=lambda table: 3
    ).fit(X, y)
    best = search.best_estimator_
    assert best.lam == 1e-3
    assert smooth(best, X[labeled], y[labeled]) == split_scores(search)[3, 0]
    assert np.array_equal(best.transduction_[labeled], y[labeled])
    alone = S3VMGridSearchCV(
        estimator, grid, cv=everything, scoring=smooth, refit=lambda table: 3, warm_path=False
    ).fit(X, y)
    single = kind(**{**estimator.get_params(), "lam": 1e-3}).fit(X, y)
    assert np.array_equal(alone.best_estimator_.coef_, single.coef_)


@pytest.mark.parametrize("kind", [TSVM, DAS3VM, S2RLSC])
def test_seeded_objectives_are_as_good(kind):
    X, y, _ = few_labels(n=200, n_labeled=10, d=20)
    estimator = kind(n_restarts=3) if kind is S2RLSC else kind(positive_ratio=0.5)
    found = {}

    def objective(model, rows, labels):
        return float(np.log(model.objective_))

    for seeded in (True, False):
        search = S3VMGridSearchCV(
            estimator,
            {"lam": 4.0 ** np.arange(-5, 3), "lam_unlabeled": [0.1, 1.0]},
            cv=LabeledKFold(3),
            scoring=objective,
            refit=False,
            warm_path=seeded,
        ).fit(X, y)
        found[seeded] = split_scores(search)
    assert np.mean(found[True] - found[False]) < 0.03
    # TSVM begins with the supervised SVM of the labeled rows, from wherever that was found
    assert np.array_equal(found[True], found[False]) == (kind is TSVM)
