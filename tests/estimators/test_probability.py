"""Probabilities of classes: calibrated on folds, the same on every engine and in files."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from dask_s3vm import (
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    S3VM,
    STARSVM,
    TSVM,
    SubmodularS3VM,
    lam_to_C,
    load_model,
    save_model,
)
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.estimators import l2svm_path
from dask_s3vm.io.models import ModelFileError, load_predictor
from dask_s3vm.methods.calibration import calibrate
from dask_s3vm.problems.folds import assign_folds, content_keys

MODELS = {
    "l2svm": L2SVM(lam=1e-2),
    "rlsc": RLSC(lam=[0.1, 1.0]),
    "rlsc, safe": RLSC(safe=True),
    "tsvm": TSVM(lam=1e-2),
    "tsvm, rbf": TSVM(lam=1e-2, kernel="rbf", n_components=40, random_state=0),
    "tsvm, safe": TSVM(lam=1e-2, safe=True),
    "s3vm": S3VM(lam=1e-2),
    "da": DAS3VM(lam=1e-2),
    "qn": QNS3VM(lam=1e-2),
    "s2rlsc": S2RLSC(n_restarts=3, random_state=0),
    "qp": QPS3VM(),
    "sqp": SubmodularS3VM(),
    "star": STARSVM(kernel="linear"),
    "star, exact": STARSVM(kernel="rbf", sigma=4.0),
}
every_model = pytest.mark.parametrize("name", MODELS)


def proba(name):
    return clone(MODELS[name]).set_params(probability=True)


@pytest.fixture(scope="module")
def rows():
    """Classes that overlap; 80 of 500 rows are labeled."""
    X, y = dask.compute(*make_g2c(n_rows=500, n_features=20))
    X = X + np.random.default_rng(0).normal(scale=1.0, size=X.shape)
    return X, y, hide_labels(y, 80, random_state=0)


@every_model
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_probabilities_of_every_method(name, rows):
    X, y, few = rows
    model = proba(name).fit(X, few)
    p = model.predict_proba(X)
    assert p.shape == (500, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), atol=1e-9)
    ((slope, level),) = model.calibration_
    np.testing.assert_allclose(p[:, 1], expit(slope * model.decision_function(X) + level))
    hidden = few < 0
    constant = np.mean(y[hidden]) * (1 - np.mean(y[hidden]))
    assert brier_score_loss(y[hidden], p[hidden, 1]) < 0.6 * constant
    plain = clone(MODELS[name]).fit(X, few)
    assert np.array_equal(plain.coef_, model.coef_), "the model is the same with and without"
    assert plain.history_[-1].keys() == model.history_[-1].keys()
    assert len(plain.history_) == len(model.history_)


def test_outputs_of_folds_are_those_of_fits_without_them(rows):
    X, y, few = rows
    labeled = np.flatnonzero(few >= 0)
    model = L2SVM(lam=1e-2, tol=1e-10, probability=True).fit(X[labeled], few[labeled])
    codes = few[labeled]
    keys = content_keys(X[labeled], None, np.ones(len(codes)))
    folds, outputs = assign_folds(codes, keys)[0], np.empty(len(codes))
    for fold in range(5):
        inside, out = labeled[folds != fold], folds == fold
        C = lam_to_C(1e-2, len(inside))
        other = LinearSVC(C=C, dual=False, tol=1e-8, intercept_scaling=1.0).fit(
            X[inside], y[inside]
        )
        outputs[out] = other.decision_function(X[labeled[out]])
    wanted = calibrate(codes == 1, outputs, np.ones(len(codes)))
    np.testing.assert_allclose(model.calibration_[0], wanted, rtol=0.02, atol=0.02)


def test_they_are_not_worse_than_those_of_scikit_learn(rows):
    X, y, few = rows
    labeled, hidden = few >= 0, few < 0
    other = CalibratedClassifierCV(LinearSVC(C=lam_to_C(1e-2, 80))).fit(X[labeled], y[labeled])
    theirs = brier_score_loss(y[hidden], other.predict_proba(X[hidden])[:, 1])
    for model in (L2SVM(lam=1e-2, probability=True), S3VM(lam=1e-2, probability=True)):
        ours = model.fit(X, few).predict_proba(X[hidden])[:, 1]
        assert brier_score_loss(y[hidden], ours) < theirs + 0.01


def test_the_ratio_moves_them(rows):
    X, _, few = rows
    half, tenth = (
        L2SVM(lam=1e-2, probability=True).fit(X, few),
        TSVM(lam=1e-2, lam_unlabeled=0, positive_ratio=0.1, probability=True).fit(X, few),
    )
    np.testing.assert_allclose(half.coef_, tenth.coef_, rtol=1e-9)
    share = np.mean(few[few >= 0])
    moved = np.log(0.1 / 0.9) - np.log(share / (1 - share))
    assert tenth.calibration_[0, 1] - half.calibration_[0, 1] == pytest.approx(moved, abs=0.05)


def test_several_classes(rng):
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 4)) + 2.0 * np.eye(3, 4)[y]
    words = np.array(["a", "b", "c"])[y]
    few = np.where(np.arange(300) < 90, words, "")
    for model in (L2SVM(lam=1e-2, probability=True), TSVM(lam=1e-2, probability=True)):
        p = model.fit(X, few).predict_proba(X)
        assert p.shape == (300, 3)
        assert model.calibration_.shape == (3, 2)
        assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        assert np.mean((p - np.eye(3)[y]) ** 2) < 0.11  # 0.22 for shares of a third
        lazy = model.predict_proba(da.from_array(X, chunks=(70, 4)))
        assert lazy.chunks == ((70, 70, 70, 70, 20), (3,))
        np.testing.assert_array_equal(lazy.compute(), p)


@pytest.mark.parametrize("name", ["l2svm", "s3vm", "tsvm, rbf"])
def test_the_same_bits_on_any_engine(name, rows, tiny_shards):
    X, _, few = rows
    with dask.config.set({"s3vm.threads": 1}):
        one = proba(name).fit(X, few)
    with dask.config.set({"s3vm.threads": 3}):
        other = proba(name).fit(da.from_array(X, chunks=(77, 20)), few)
    assert one.calibration_.tobytes() == other.calibration_.tobytes()
    lazy = other.predict_proba(da.from_array(X, chunks=(77, 20)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), one.predict_proba(X), rtol=1e-12)


@pytest.mark.cluster
def test_the_same_bits_on_a_cluster(rows, tiny_shards):
    from distributed import Client, LocalCluster

    X, _, few = rows
    here = S3VM(lam=1e-2, probability=True).fit(X, few)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        there = S3VM(lam=1e-2, probability=True).fit(da.from_array(X, chunks=(130, 20)), few)
    assert here.calibration_.tobytes() == there.calibration_.tobytes()


def test_sample_weight_of_zero_is_absence(rows):
    X, _, few = rows
    keep = np.arange(500) % 3 > 0
    weighted = TSVM(lam=1e-2, probability=True).fit(X, few, keep.astype(float))
    without = TSVM(lam=1e-2, probability=True).fit(X[keep], few[keep])
    np.testing.assert_allclose(weighted.calibration_, without.calibration_, rtol=1e-2, atol=1e-2)


def test_without_probability_there_are_none(rows):
    X, _, few = rows
    model = L2SVM(lam=1e-2).fit(X, few)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert "probability=True" in str(caught.value.__cause__ or caught.value)
    assert hasattr(L2SVM(probability=True), "predict_proba"), "known before the fit"
    model.set_params(probability=True)
    with pytest.raises(AttributeError, match="fit it again"):
        model.predict_proba(X)
    model.fit(X, few).set_params(probability=False).fit(X, few)
    assert model.calibration_ is None


def test_a_class_with_one_label_is_refused(rows):
    X, y, _ = rows
    few = np.full(500, -1)
    few[np.flatnonzero(y == 0)[:5]] = 0
    few[np.flatnonzero(y == 1)[:1]] = 1
    with pytest.raises(ValueError, match="class 1 has 1; label more rows"):
        TSVM(probability=True, positive_ratio=0.5).fit(X, few)


def test_two_labels_of_each_class_do(rows):
    X, y, _ = rows
    few = np.full(500, -1)
    for label in (0, 1):
        few[np.flatnonzero(y == label)[:2]] = label
    p = TSVM(lam=1e-2, probability=True, positive_ratio=0.5).fit(X, few).predict_proba(X)
    assert 0.02 < p.min() < p.max() < 0.98, "four labels do not make certain"


@pytest.mark.parametrize("name", ["l2svm", "s3vm", "tsvm, rbf", "star, exact"])
def test_model_files_keep_them(name, rows, tmp_path):
    X, _, few = rows
    model = proba(name).fit(X, few)
    wanted = model.predict_proba(X)
    save_model(model, tmp_path / "model.npz")
    for again in (load_model(tmp_path / "model.npz"), load_predictor(tmp_path / "model.npz")):
        np.testing.assert_array_equal(again.predict_proba(X), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), wanted)


def test_model_files_without_them_say_so(rows, tmp_path):
    X, _, few = rows
    save_model(L2SVM(lam=1e-2).fit(X, few), tmp_path / "model.npz")
    with pytest.raises(AttributeError, match="probability=True"):
        load_predictor(tmp_path / "model.npz").predict_proba(X)


@pytest.mark.parametrize("wrong", [np.ones((2, 2)), np.array([[1.0, np.nan]]), np.ones(2)])
@pytest.mark.parametrize("load", [load_model, load_predictor])
def test_model_files_with_other_numbers_are_refused(wrong, load, rows, tmp_path):
    X, _, few = rows
    model = L2SVM(lam=1e-2).fit(X, few)
    model.calibration_ = wrong
    save_model(model, tmp_path / "model.npz")
    with pytest.raises(ModelFileError, match="calibration_ is not a matrix of 1 x 2 finite"):
        load(tmp_path / "model.npz")


def test_models_of_a_path_have_their_own(rows):
    X, _, few = rows
    path = l2svm_path(X, few, [1e-3, 1e-1], probability=True)
    alone = L2SVM(lam=1e-1, probability=True).fit(X, few)
    np.testing.assert_allclose(path[1].calibration_, alone.calibration_, rtol=1e-2, atol=1e-2)
    assert path[0].calibration_[0, 0] != path[1].calibration_[0, 0]


def test_scikit_learn_uses_them(rows):
    X, y, _ = rows
    model = L2SVM(lam=1e-2, probability=True)
    scores = cross_val_score(model, X, y, scoring="neg_log_loss", cv=3)
    assert scores.min() > -0.4
    both = VotingClassifier([("svm", model), ("lr", LogisticRegression())], voting="soft")
    assert both.fit(X, y).score(X, y) > 0.9


#: Rows are dealt to folds: one that is there twice may be in two of them.
NOT_EQUIVALENT = {
    "check_sample_weight_equivalence_on_dense_data": "folds of repeated rows differ",
    "check_sample_weight_equivalence_on_sparse_data": "folds of repeated rows differ",
}

#: Sigmoids of three classes differ: the likeliest class need not be that of the largest output.
LIKELIER = {"check_classifiers_train": "predict is by outputs, not by probabilities"}


@parametrize_with_checks(
    [L2SVM(probability=True), RLSC(probability=True)],
    expected_failed_checks=lambda estimator: (
        NOT_EQUIVALENT if isinstance(estimator, L2SVM) else NOT_EQUIVALENT | LIKELIER
    ),
)
def test_sklearn_check(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [TSVM(probability=True), S3VM(probability=True)],
    expected_failed_checks=lambda estimator: (
        NOT_EQUIVALENT | {"check_classifiers_classes": "y in {-1, +1} is refused with a way out"}
    ),
)
@pytest.mark.filterwarnings("ignore:.*no unlabeled row:UserWarning")
def test_sklearn_check_without_unlabeled_rows(estimator, check):
    check(estimator)
