"""The guard: what it compares, what it decides, and that the answer is one of the two models."""

import json
import pickle
import threading
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import StandardScaler

from dask_s3vm import (
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    S2RLSC,
    S3VM,
    STARSVM,
    TSVM,
    LapSVM,
    SubmodularS3VM,
    load_model,
    save_model,
)
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.estimators import _settled
from dask_s3vm.estimators._trials import _margins
from dask_s3vm.methods import safe
from dask_s3vm.methods.unseen import CLEAR_GAIN
from dask_s3vm.model_selection import S3VMGridSearchCV
from dask_s3vm.prediction import classes_of
from dask_s3vm.problems.folds import assign_folds, content_keys

METHODS = {
    "tsvm": TSVM,
    "da": DAS3VM,
    "qn": QNS3VM,
    "s2rlsc": lambda **more: S2RLSC(n_restarts=3, random_state=0, **more),
    "qp": QPS3VM,
    "sqp": SubmodularS3VM,
    "star": lambda **more: STARSVM(kernel="rbf", sigma=2.0, **more),
    "star, shards": lambda **more: STARSVM(kernel="linear", **more),
}


def helpful(n=500, d=50, n_labeled=28):
    """Two clusters that are the classes, too few labels to find them well by."""
    X, truth = dask.compute(*make_g2c(n_rows=n, n_features=d))
    return X, truth, hide_labels(truth, n_labeled, random_state=1)


@pytest.mark.parametrize("ratio", ["auto", 0.5])
def test_unlabeled_rows_are_used_where_they_help(ratio):
    X, truth, _ = helpful()
    y = hide_labels(truth, 20, random_state=0)
    model = S3VM(lam=1e-2, positive_ratio=ratio).fit(X, y)
    alone = L2SVM(lam=1e-2).fit(X, y)
    assert model.decision_ == "tsvm"
    assert "labeled rows" in model.decision_reason_
    assert model.n_labeled_ == 20
    assert accuracy_score(truth, model.predict(X)) > accuracy_score(truth, alone.predict(X)) + 0.01
    supervised, tsvm = model.candidates_
    assert tsvm["gain"] >= CLEAR_GAIN
    assert [supervised["name"], tsvm["name"]] == ["supervised", "tsvm"]
    assert supervised["fixed"] == supervised["broken"] == 0
    assert tsvm["fixed"] - tsvm["broken"] == pytest.approx(
        20 * (supervised["fold_error"] - tsvm["fold_error"])
    )


#: A share that is far from the truth, by which the methods are led astray.
WRONG = 0.15


def test_they_are_not_where_they_harm():
    X, truth, y = helpful(n_labeled=60)
    plain = TSVM(lam=1e-2, positive_ratio=WRONG).fit(X, y)
    model = S3VM(lam=1e-2, positive_ratio=WRONG).fit(X, y)
    alone = L2SVM(lam=1e-2).fit(X, y)
    assert (plain.predict(X) != truth).mean() > 0.2, "the plain method is led astray"
    assert model.decision_ == "supervised"
    assert model.decision_reason_.startswith("Only the labels were used")
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9, atol=1e-12)
    assert np.array_equal(model.transduction_, np.where(y >= 0, y, alone.predict(X)))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore:.*no unlabeled row:UserWarning")
def test_every_method_falls_back_to_its_own_supervised_model(name):
    X, truth, y = helpful(n=160, d=10, n_labeled=60)
    few = np.flatnonzero(y >= 0)
    model = METHODS[name](safe=True, positive_ratio=WRONG).fit(X, y)
    alone = METHODS[name](positive_ratio=WRONG).fit(X[few], y[few])
    if model.decision_ == "supervised":
        outputs = model.decision_function(X), alone.decision_function(X)
        np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-6)
    right = accuracy_score(truth, model.predict(X)), accuracy_score(truth, alone.predict(X))
    assert right[0] >= right[1] - 0.03
    assert model.candidates_[1]["name"] == model.facts.name


def test_without_the_guard_the_model_is_the_plain_one(monkeypatch):
    monkeypatch.setattr(_settled, "FREE_CHANGE", 1.0)  # folds are not asked for other reasons
    X, _, y = helpful()
    params = {"lam": 1e-2, "positive_ratio": 0.5, "supervised_part": 0.0}
    guarded, plain = TSVM(safe=True, **params), TSVM(**params)
    guarded.fit(X, y)
    plain.fit(X, y)
    assert guarded.decision_ == plain.decision_ == "tsvm"
    assert np.array_equal(guarded.coef_, plain.coef_)
    assert plain.candidates_ == []
    assert plain.decision_reason_ == "Nothing was compared: safe=False."


def test_a_guard_of_nothing_is_refused():
    X, _, y = helpful()
    with pytest.raises(ValueError, match="safe=True has no effect with lam_unlabeled=0"):
        TSVM(lam_unlabeled=0, safe=True).fit(X, y)


def test_folds_are_those_of_plain_fits():
    """Against a transcription with public estimators on copies of the rows."""
    X, _, y = helpful(n=160, n_labeled=20)
    model = S3VM(lam=1e-2, positive_ratio=0.5).fit(X, y)
    few = np.flatnonzero(y >= 0)
    folds = assign_folds(y[few], content_keys(X[few], None, np.ones(len(few))))
    margins = np.zeros((2, *folds.shape))
    for repeat, own in enumerate(folds):
        for fold in range(safe.N_FOLDS):
            out, inside = few[own == fold], few[own != fold]
            alone = L2SVM(lam=1e-2, tol=1e-3).fit(X[inside], y[inside])
            train = np.setdiff1d(np.arange(len(y)), out)
            with_all = TSVM(lam=1e-2, tol=1e-3, positive_ratio=0.5, supervised_part=0.0)
            with_all.fit(X[train], y[train])
            for k, one in enumerate((alone, with_all)):
                margins[k, repeat, own == fold] = one.decision_function(X[out]) * (2 * y[out] - 1)
    trials = (safe.Trials(margins, safe.N_FOLDS * (1 + repeat)) for repeat in range(len(folds)))
    wanted = safe.compare(["supervised", "tsvm"], next(one for one in trials if one.done))
    for found, known in zip(map(dict, model.candidates_), wanted, strict=True):
        assert found.pop("name") == known.name
        assert found == pytest.approx({name: getattr(known, name) for name in found}, rel=1e-3)


@pytest.mark.parametrize("method", [S3VM, TSVM])
def test_the_order_of_the_rows_does_not_matter(method):
    """On rows whose gain is near to what decides: dealt by place, folds disagree (5 of 8)."""
    X, truth = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    few = np.full(len(truth), -1)
    chosen = np.random.default_rng(0).choice(len(truth), 40, replace=False)
    few[chosen] = truth[chosen]
    first = method().fit(X, few)
    for seed in range(1, 4):
        order = np.random.default_rng(seed).permutation(len(truth))
        rows = da.from_array(X[order], chunks=(100 * seed, -1))
        other = method().fit(rows, few[order])
        assert other.decision_ == first.decision_
        assert other.positive_ratio_ == pytest.approx(first.positive_ratio_, rel=1e-9)
        for own, known in zip(other.candidates_, first.candidates_, strict=True):
            assert own["gain"] == pytest.approx(known["gain"], abs=0.02)
        outputs = first.decision_function(X)
        scale = np.abs(outputs).max()
        assert np.abs(other.decision_function(X) - outputs).max() < 0.01 * scale


def test_the_same_bits_from_any_chunks(tiny_shards):
    X, _, y = helpful()
    whole = S3VM(lam=1e-2).fit(X, y)
    for chunks in (300, 37):
        lazy = S3VM(lam=1e-2).fit(da.from_array(X, chunks=(chunks, -1)), da.from_array(y))
        assert np.array_equal(lazy.coef_, whole.coef_)
        assert lazy.candidates_ == whole.candidates_
        assert np.array_equal(np.asarray(lazy.transduction_), whole.transduction_)


@pytest.mark.cluster
@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_same_decision_with_folds_at_once(n_threads, tiny_shards, monkeypatch):
    """Five folds are no multiple of two or three: one is left over, several times."""
    monkeypatch.setattr("dask_s3vm.engine.lanes.KERNEL_BYTES", 0)
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X, few = (
        rng.normal(size=(400, 5)) + 0.6 * y[:, None],
        np.where(rng.permutation(400) < 40, y, -1),
    )
    found = []
    for number in (1, n_threads):
        with dask.config.set({"s3vm.threads": number}):
            found.append(LapSVM(safe=True, supervised_part=0.0).fit(X, few))
    one, several = found
    assert "4 times" in one.decision_reason_
    assert several.candidates_ == one.candidates_
    assert several.coef_.tobytes() == one.coef_.tobytes()


def test_the_same_bits_on_a_cluster(tiny_shards):
    from distributed import Client, LocalCluster

    X, _, y = helpful()
    whole = S3VM(lam=1e-2).fit(X, y)
    with (
        LocalCluster(2, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        spread = S3VM(lam=1e-2).fit(da.from_array(X, chunks=(50, -1)), da.from_array(y, chunks=50))
    assert np.array_equal(spread.coef_, whole.coef_)
    assert spread.candidates_ == whole.candidates_


def test_a_sample_does_for_many_rows(monkeypatch):
    X, _, y = helpful(n=1000)
    monkeypatch.setattr(safe, "MOST_UNLABELED", 200)
    monkeypatch.setattr(safe, "MOST_LABELED", 16)
    model = S3VM(lam=1e-2).fit(X, y)
    assert model.decision_ in ("tsvm", "supervised")
    assert "of 28" not in model.decision_reason_


def test_more_classes_are_decided_as_one():
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 3
    X = rng.normal(size=(240, 12))
    X[np.arange(240), truth] += 4.0
    model = S3VM(lam=1e-2).fit(X, np.where(np.arange(240) < 24, truth, -1))
    assert model.coef_.shape == (3, 12)
    assert accuracy_score(truth, model.predict(X)) > 0.85


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_margin_is_positive_where_the_prediction_is_right(n_classes):
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(50, n_classes)) if n_classes > 2 else rng.normal(size=50)
    codes = rng.integers(0, n_classes, 50)
    predicted = classes_of(outputs, np.arange(n_classes))
    margins = _margins(outputs, codes)
    assert np.array_equal(margins > 0, predicted == codes)
    if n_classes > 2:
        runner_up = [max(np.delete(row, code)) for row, code in zip(outputs, codes, strict=True)]
        assert np.array_equal(margins, outputs[np.arange(50), codes] - runner_up)


def test_a_class_of_one_label_is_no_reason_to_fail():
    X, _, y = helpful()
    y[y >= 0] = 0
    y[np.flatnonzero(y == 0)[0]] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = S3VM(lam=1e-2).fit(X, y)
    assert len(model.candidates_) == 2


@pytest.mark.filterwarnings("ignore:.*no unlabeled row:UserWarning")
def test_without_unlabeled_rows_there_is_nothing_to_decide():
    X, truth, _ = helpful()
    model = S3VM().fit(X, truth)
    assert model.decision_ == "supervised"
    assert model.candidates_ == []


def test_a_kernel(rng):
    X, truth, y = helpful()
    model = S3VM(lam=1e-2, kernel="rbf", sigma=4.0, n_components=40, random_state=0).fit(X, y)
    assert accuracy_score(truth, model.predict(X)) > 0.8


def test_held_out_rows_of_a_search_stay_held_out():
    X, _, y = helpful()
    search = S3VMGridSearchCV(S3VM(), {"lam": [1e-2, 1.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8


def test_a_model_file_and_a_pickle_hold_the_decision(tmp_path):
    X, _, y = helpful()
    model = S3VM(lam=1e-2, positive_ratio=0.5).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    for copy in (load_model(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert copy.decision_ == "tsvm"
        assert copy.candidates_ == model.candidates_
        assert np.array_equal(copy.predict(X), model.predict(X))
    json.dumps(model.candidates_)


class Holder:
    """A callback that cannot be copied."""

    def __init__(self):
        self.lock, self.rows = threading.Lock(), []

    def __call__(self, row):
        self.rows.append(row)


@pytest.mark.parametrize("make", [S3VM, lambda **more: TSVM(safe=True, **more)])
def test_callbacks_are_not_copied(make):
    X, _, y = helpful(n=200, d=5)
    held = Holder()
    model = make(callbacks=held, positive_ratio=0.5).fit(X, y)
    assert len(held.rows) >= len(model.history_) > 0
    assert clone(model).callbacks is held
