"""What folds of the labels decide: whether a method is believed, and how rare a class may be."""

import dask
import dask.array as da
import numpy as np
import pytest
from clients import two_workers
from sklearn.datasets import make_classification

from dask_s3vm import (
    CCCPS3VM,
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    S2RLSC,
    S3VM,
    STARSVM,
    TSVM,
)
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.estimators import _settled
from dask_s3vm.methods.unseen import Mistakes

KINDS = {
    "tsvm": TSVM,
    "da": DAS3VM,
    "cccp": CCCPS3VM,
    "qn": QNS3VM,
    "qp": QPS3VM,
    "s2rlsc": lambda **more: S2RLSC(n_restarts=4, random_state=0, **more),
    "star": lambda **more: STARSVM(kernel="linear", **more),
    "s3vm": S3VM,
    "tsvm, safe": lambda **more: TSVM(safe=True, **more),
}


def rare_rows(seed=2, n=300, distance=0.0):
    """One row in six is of the rare class, `distance` away from the others."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 6 == 0).astype(int)
    X = rng.normal(size=(n, 10)) + distance * y[:, None]
    return X, y, np.where(np.arange(n) < 60, y, -1)


def mistakes_out_of_fold(X, y, lam=1e-3):
    """Of the supervised SVM on labeled rows, dealt to folds class by class."""
    folds = np.empty(len(y), dtype=int)
    folds[np.argsort(y, kind="stable")] = np.arange(len(y)) % 5
    wrong = [
        np.sum(L2SVM(lam).fit(X[folds != f], y[folds != f]).predict(X[folds == f]) != y[folds == f])
        for f in range(5)
    ]
    return sum(wrong)


def n_positive(model, X, few):
    return np.count_nonzero(model.predict(X)[few < 0] == 1)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_few_rows_are_of_a_rare_class_that_nothing_tells(name, swapped):
    X, y, few = rare_rows()
    assert mistakes_out_of_fold(X[few >= 0], y[few >= 0]) > np.sum(few == 1)
    if swapped:
        y, few = 1 - y, np.where(few < 0, -1, 1 - few)
    model = KINDS[name]().fit(X, few)
    low, high = model.positive_ratio_interval_
    u = np.sum(few < 0)
    wanted = np.floor(high * u) if swapped else np.ceil(low * u)
    assert 0 < low < high < 1
    assert n_positive(model, X, few) == wanted
    error = np.mean((model.predict(X) != y)[few < 0])
    assert error < np.mean((L2SVM().fit(X, few).predict(X) != y)[few < 0])


@pytest.mark.parametrize("name", ["tsvm", "qn", "s3vm"])
def test_a_rare_class_that_the_labels_tell_is_predicted(name):
    X, y, few = rare_rows(distance=1.5)
    assert mistakes_out_of_fold(X[few >= 0], y[few >= 0]) < np.sum(few == 1)
    model = KINDS[name]().fit(X, few)
    assert n_positive(model, X, few) > np.ceil(model.positive_ratio_interval_[0] * 240)
    assert np.mean((model.predict(X) != y)[few < 0]) < 0.1


@pytest.mark.parametrize("name", ["tsvm", "s3vm"])
@pytest.mark.parametrize(
    "params", [{"positive_ratio": 1 / 6}, {"class_weight": {0: 1.0, 1: 5.0}}], ids=str
)
def test_what_users_say_stands(name, params):
    X, _, few = rare_rows()
    model = KINDS[name](**params).fit(X, few)
    # a ratio that is given holds, and mistakes on the rare class may be dear
    assert n_positive(model, X, few) > n_positive(KINDS[name]().fit(X, few), X, few)
    assert "as few are" not in model.decision_reason_


def test_a_part_that_is_given_leaves_the_bias_alone():
    X, _, few = rare_rows()
    alone = TSVM(supervised_part=0.0).fit(X, few)
    low = alone.positive_ratio_interval_[0]
    assert n_positive(alone, X, few) > np.ceil(low * np.sum(few < 0))


def test_s3vm_says_what_it_did():
    X, _, few = rare_rows()
    model = S3VM().fit(X, few)
    assert "of class 1: as few are as the ratio allows" in model.decision_reason_
    labels_alone = L2SVM().fit(X, few)
    if model.decision_ == "supervised":  # the bias alone was moved
        np.testing.assert_allclose(model.coef_, labels_alone.coef_, rtol=1e-3, atol=1e-6)
    assert model.intercept_ < labels_alone.intercept_


@pytest.mark.parametrize("name", ["qn", "cccp"])
def test_a_method_that_fails_on_its_own_labels_is_not_believed(name):
    rng = np.random.default_rng(0)
    cluster, y = np.arange(400) % 2, rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 2)) * [0.3, 1.0] + np.outer(2 * cluster - 1, [3.0, 0.0])
    X[:, 1] += 0.8 * (2 * y - 1)  # the classes lie across the clusters
    few = np.where(np.arange(400) < 60, y, -1)
    known = few >= 0
    kind = KINDS[name]
    alone = kind(0.1, positive_ratio=0.5, lam_unlabeled=30.0, supervised_part=0.0).fit(X, few)
    missed = np.sum(alone.predict(X)[known] != y[known])
    assert missed > mistakes_out_of_fold(X[known], y[known], 0.1)
    model = kind(0.1, positive_ratio=0.5, lam_unlabeled=30.0).fit(X, few)
    assert model.supervised_part_ == 1.0
    np.testing.assert_allclose(model.coef_, L2SVM(0.1).fit(X, few).coef_, rtol=1e-3)


def test_a_supervised_svm_with_all_rows_on_one_side_says_nothing_of_emptiness():
    rng = np.random.default_rng(5)
    y = np.arange(600) % 2
    X = rng.normal(size=(600, 800)) + 0.12 * (2 * y[:, None] - 1)
    X /= np.linalg.norm(X, axis=1)[:, None]
    kept = [*np.flatnonzero(y == 1)[:9], *np.flatnonzero(y == 0)[:3]]
    few = np.full(600, -1)
    few[kept] = y[kept]
    outputs = L2SVM(0.1).fit(X, few).decision_function(X)[few < 0]
    assert outputs.min() > 0
    assert np.var(outputs) < 0.05 * np.mean(outputs**2)  # as if the boundary were in an empty place
    model = TSVM(0.1, positive_ratio=0.5).fit(X, few)
    assert model.supervised_part_ < 0.95
    wrong = np.mean((model.predict(X) != y)[few < 0])
    balanced = (outputs > np.median(outputs)) != y[few < 0]
    assert wrong < 0.1 < np.mean(balanced)


def many_labels():
    """Text of two topics, which unlabeled rows tell apart: dask arrays, 300 labels."""
    X, y = make_text(2000, 3000, chunks=500, random_state=0)
    return X, da.where(da.arange(2000, chunks=500) < 300, y, -1)


@pytest.mark.parametrize("name", ["tsvm", "qp"])
def test_many_labels_that_speak_clearly_decide(name):
    X, few = dask.compute(*many_labels())
    model = KINDS[name](positive_ratio=0.47).fit(X, few)
    alone = KINDS[name](positive_ratio=0.47, supervised_part=0.0).fit(X, few)
    assert model.supervised_part_ == 0.0
    assert np.array_equal(model.coef_, alone.coef_)
    assert f"the model is {model.decision_} alone" in model.decision_reason_
    supervised, own = model.candidates_
    assert supervised["name"] == "supervised"
    assert own["p_value"] <= 0.05
    assert own["fold_error"] < supervised["fold_error"]
    few[0] = -1  # with fewer labels nobody asks, if few predictions change
    model = KINDS[name](positive_ratio=0.47).fit(X, few)
    assert model.supervised_part_ > 0.0
    assert model.candidates_ == []


@pytest.mark.parametrize("name", ["qn", "cccp"])
def test_many_labels_speak_against_a_method(name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 30))
    X[:, 0] += 3.0 * (2 * (np.arange(900) % 2) - 1)  # two clusters, and classes across them
    y = (X[:, 1] + 0.5 * rng.normal(size=900) > 1.0).astype(int)
    few = np.where(np.arange(900) < 300, y, -1)
    model = KINDS[name](positive_ratio=0.5).fit(X, few)  # which is wrong, too
    assert model.supervised_part_ == 1.0
    assert "the model is the supervised SVM alone" in model.decision_reason_
    supervised, own = model.candidates_
    assert own["fold_error"] > supervised["fold_error"]
    np.testing.assert_allclose(model.coef_, L2SVM().fit(X, few).coef_, rtol=1e-2, atol=1e-4)


def test_few_labels_may_not_be_lost_where_many_predictions_change(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 100))
    X[:, 0] += 8.0 * (np.arange(300) % 2)  # an empty place, and classes across it
    y = (X[:, 1] + X[:, 2] > 0).astype(int)
    few = np.where(np.arange(300) < 30, y, -1)
    model = QNS3VM(positive_ratio=0.5).fit(X, few)
    assert model.supervised_part_ == 1.0
    assert model.candidates_[1]["gain"] <= -1.0
    monkeypatch.setattr(_settled, "FREE_CHANGE", 1.0)
    model = QNS3VM(positive_ratio=0.5).fit(X, few)
    assert model.supervised_part_ < 1.0
    assert model.candidates_ == []


def test_probabilities_are_those_of_the_part_that_folds_chose():
    X, few = dask.compute(*many_labels())
    params = {"positive_ratio": 0.47, "probability": True}
    model = TSVM(**params).fit(X, few)
    assert model.supervised_part_ == 0.0
    alone = TSVM(supervised_part=0.0, **params).fit(X, few)
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize("name", ["tsvm", "s3vm", "tsvm, safe"])
def test_few_predictions_of_a_rare_class_leave_its_probability(name, monkeypatch):
    X, y = make_classification(300, 8, class_sep=1.0, weights=[0.8], random_state=1)
    few = hide_labels(y, 40, random_state=3)
    model = KINDS[name](probability=True).fit(X, few)
    monkeypatch.setattr(Mistakes, "speaks_for_one_class", lambda *_: False)
    plain = KINDS[name](probability=True).fit(X, few)
    assert n_positive(model, X, few) < n_positive(plain, X, few) / 4
    found, wanted = model.predict_proba(X), plain.predict_proba(X)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.ptp(found[:, 1]) > 0.5


@pytest.mark.cluster
def test_the_same_bits_on_a_cluster_with_many_labels(tiny_shards):
    X, few = many_labels()
    here = TSVM().fit(X, few)
    with two_workers():
        there = TSVM().fit(X, few)
    assert here.decision_reason_ == there.decision_reason_
    assert np.array_equal(here.coef_, there.coef_)
    assert np.array_equal(here.intercept_, there.intercept_)


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["tsvm", "s3vm"])
def test_the_same_bits_on_a_cluster(name, tiny_shards):
    X, _, few = rare_rows()
    here = KINDS[name]().fit(X, few)
    with two_workers():
        there = KINDS[name]().fit(da.from_array(X, (70, 10)), da.from_array(few, 70))
    assert np.array_equal(here.coef_, there.coef_)
    assert np.array_equal(here.intercept_, there.intercept_)
    assert n_positive(here, X, few) == np.ceil(here.positive_ratio_interval_[0] * 240)
