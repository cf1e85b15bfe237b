"""Models are, for a part, the supervised SVM."""

import numpy as np
import pytest

from dask_s3vm import (
    CCCPS3VM,
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    STARSVM,
    TSVM,
    SubmodularS3VM,
)
from dask_s3vm.estimators import _settled
from dask_s3vm.exceptions import quiet


@pytest.fixture(autouse=True)
def no_folds(monkeypatch):
    """Let the rows alone tell the part: folds may overrule them, see test_unseen.py."""
    monkeypatch.setattr(_settled, "FREE_CHANGE", 1.0)


KINDS = {
    "tsvm": TSVM,
    "da": DAS3VM,
    "cccp": CCCPS3VM,
    "qn": QNS3VM,
    "qp": QPS3VM,
    "sqp": SubmodularS3VM,
    "s2rlsc": lambda **more: S2RLSC(n_restarts=4, random_state=0, **more),
    "star": lambda **more: STARSVM(kernel="linear", **more),
    "star exact": lambda **more: STARSVM(kernel="linear", sharded=False, **more),
}


def few_labels(n_classes, seed=0):
    """Rows about as many places as there are classes, a fifth of them labeled."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, 200)
    X = rng.normal(size=(200, 6)) + 1.5 * np.eye(6)[y]
    return X, y, np.where(np.arange(200) < 40, y, -1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_weights_are_the_mean_of_both_models(name, n_classes):
    X, _, few = few_labels(n_classes)
    labels_alone = L2SVM(tol=1e-10).fit(X, few).coef_
    found = KINDS[name](supervised_part=0.0).fit(X, few).coef_
    for given in (None, 0.4, 1.0):
        model = KINDS[name](supervised_part=given).fit(X, few)
        part = np.reshape(model.supervised_part_, (-1, 1))
        assert given is None or (part == given).all()
        wanted = part * labels_alone + (1.0 - part) * found
        np.testing.assert_allclose(model.coef_, wanted, atol=0.02 * np.abs(wanted).max())


def relative_variances(f):
    """Of distances from the boundary: over all rows, and over both sides, which count the same."""
    d, sides = np.abs(f), [np.abs(f[f > 0]), np.abs(f[f <= 0])]
    mean, square = np.mean([[one.mean(), (one**2).mean()] for one in sides], axis=0)
    return np.array([np.var(d) / np.mean(d**2), 1.0 - mean**2 / square])


def wanted_part(own, supervised, y):
    """The rule, row by row; y of +1, -1, and 0 where there is no label."""
    free = y == 0
    spread = [relative_variances(f[free]) for f in (own, supervised)]
    part = min(1.0, np.max(spread[0] / spread[1]))
    steps = np.linspace(0.0, 1.0, 20_001)
    for f, s, label in zip(own[~free], supervised[~free], y[~free], strict=True):
        if label * s > 0:
            part = max(part, steps[np.argmax(label * (steps * s + (1 - steps) * f) >= 0)])
    return part


@pytest.mark.parametrize("name", KINDS)
def test_the_rows_tell_the_part(name):
    parts = []
    for seed in range(3):
        X, y, few = few_labels(2, seed)
        few[:6] = 1 - y[:6]  # labels that a method may contradict
        alone = KINDS[name](supervised_part=0.0).fit(X, few).decision_function(X)
        labels_alone = L2SVM(tol=1e-10).fit(X, few).decision_function(X)
        signs = np.where(few < 0, 0, np.where(few == 1, 1, -1))
        wanted = wanted_part(alone, labels_alone, signs)
        model = KINDS[name]().fit(X, few)
        assert model.supervised_part_ == pytest.approx(wanted, abs=0.02)
        parts.append(wanted)
    assert min(parts) < 1.0


def test_classes_that_compete_have_one_part():
    X, _, few = few_labels(3)
    alone = TSVM(supervised_part=0.0).fit(X, few).decision_function(X)
    labels_alone = L2SVM(tol=1e-10).fit(X, few).decision_function(X)
    parts = []
    for k in range(3):
        spread = []
        for f in (alone[few < 0, k], labels_alone[few < 0, k]):
            spread.append(relative_variances(f)[1])
        signs = np.where(few < 0, 0, np.where(few == k, 1, -1))[few >= 0]
        own, other = signs * alone[few >= 0, k], signs * labels_alone[few >= 0, k]
        asked = [-o / (s - o) for o, s in zip(own, other, strict=True) if o < 0 < s]
        parts.append(max(min(1.0, spread[0] / spread[1]), *asked, 0.0))
    model = TSVM().fit(X, few)
    np.testing.assert_allclose(model.supervised_part_, np.mean(parts), atol=1e-3)
    assert min(parts) < max(parts)


@pytest.mark.parametrize("name", ["tsvm", "star exact"])
def test_rows_of_weight_zero_say_nothing(name):
    X, _, few = few_labels(2)
    rng = np.random.default_rng(3)
    more = rng.normal(size=(60, 6)) * 3.0
    labels = np.where(np.arange(60) < 30, -1, rng.integers(0, 2, 60))
    wide = np.concatenate([X, more]), np.concatenate([few, labels])
    weights = np.concatenate([np.ones(200), np.zeros(60)])
    model = KINDS[name](positive_ratio=0.5).fit(X, few)
    other = KINDS[name](positive_ratio=0.5).fit(*wide, sample_weight=weights)
    assert other.supervised_part_ == pytest.approx(model.supervised_part_, abs=1e-6)


def test_a_boundary_in_an_empty_place_is_believed():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    few = np.where(np.arange(400) < 10, y, -1)
    found = {}
    for width, size in ((200, 0.2), (5, 0.3)):
        X = rng.normal(size=(400, width)) + size * (2 * y[:, None] - 1)
        model = TSVM(1e-2, positive_ratio=0.5).fit(X, few)
        errors = [np.mean(one.fit(X, few).predict(X) != y) for one in (model, L2SVM(1e-2))]
        found[width] = model.supervised_part_, *errors
    assert found[200][0] < 0.5
    assert found[200][1] < 0.5 * found[200][2]
    assert found[5][0] > 0.8


@pytest.mark.parametrize("name", KINDS)
def test_outputs_that_compete_are_not_moved_afterwards(name):
    X, _, few = few_labels(3)
    labels_alone = L2SVM(tol=1e-10).fit(X, few).intercept_
    found, model = (KINDS[name](supervised_part=part).fit(X, few) for part in (0.0, 0.6))
    wanted = 0.6 * labels_alone + 0.4 * found.intercept_
    np.testing.assert_allclose(model.intercept_, wanted, atol=0.02 * np.abs(wanted).max())


@pytest.mark.filterwarnings("ignore:.*may have collapsed")
@pytest.mark.parametrize("name", KINDS)
def test_the_rule_of_the_papers_is_the_method_alone(name):
    X, _, few = few_labels(2)
    model, alone = (
        KINDS[name](balance="paper", supervised_part=part).fit(X, few) for part in (None, 0.0)
    )
    assert np.array_equal(model.coef_, alone.coef_)
    assert np.array_equal(model.intercept_, alone.intercept_)


def test_a_kernel_has_the_supervised_svm_of_that_kernel():
    X, _, few = few_labels(2)
    params = {"kernel": "rbf", "sigma": 2.0}
    wanted = L2SVM(n_components=None, tol=1e-12, **params).fit(X, few).decision_function(X)
    found = STARSVM(supervised_part=1.0, **params).fit(X, few).decision_function(X)
    # one has a bias in the kernel, the other a threshold: 1 is added to the kernel or not
    assert np.corrcoef(found, wanted)[0, 1] > 0.99


def test_lam_of_rlsc_follows_the_scale():
    X, y, _ = few_labels(3)
    one, other = (RLSC(fit_intercept=False).fit(scale * X, y) for scale in (1, 100))
    assert other.lam_ == pytest.approx(1e4 * one.lam_)
    np.testing.assert_allclose(100 * other.coef_, one.coef_, rtol=1e-6)
    assert one.loo_errors_.min() == one.loo_errors_[one.lams_ == one.lam_]
    again = RLSC(one.lam_, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(again.coef_, one.coef_, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_of_classes_do_not_move_the_bias_of_the_supervised_svm(kernel):
    """STARSVM's own threshold is moved to the ratio itself, any other to the interval."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.25).astype(int)
    X = rng.normal(size=(400, 3)) + 0.7 * y[:, None]
    few = np.where(np.arange(400) < 100, y, -1)
    params = {"supervised_part": 1.0, "kernel": kernel, "positive_ratio": 0.25}
    model = STARSVM(**params).fit(X, few)
    low = model.positive_ratio_interval_[0]
    share = np.mean(L2SVM(kernel=kernel).fit(X, few).predict(X)[few < 0])
    assert share < low - 0.02
    n = np.count_nonzero(model.predict(X)[few < 0])
    assert n == np.ceil(low * 300)
    if kernel == "linear":
        assert model.intercept_ == pytest.approx(TSVM(**params).fit(X, few).intercept_, abs=1e-3)


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("name", ["tsvm", "qn", "star"])
def test_what_is_the_supervised_svm_says_so(name, safe):
    X, _, few = few_labels(2)
    assert KINDS[name](supervised_part=0.5).fit(X, few).decision_ == name
    model = KINDS[name](supervised_part=1.0, safe=safe).fit(X, few)
    assert model.decision_ == "supervised"
    assert safe or model.decision_reason_.endswith("supervised SVM alone: as given.")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_rows_are_labeled_by_the_supervised_svm_where_the_model_is_that(name, n_classes):
    X, _, few = few_labels(n_classes)
    model = KINDS[name](supervised_part=1.0).fit(X, few)
    assert model.decision_ == "supervised"
    if not name.startswith("star"):  # labels that it assigns are final
        assert np.array_equal(model.transduction_, np.where(few < 0, model.predict(X), few))


def test_few_labels_bound_what_changes(monkeypatch):
    monkeypatch.setattr(_settled, "FREE_CHANGE", 0.0)
    monkeypatch.setattr(_settled, "part_of_folds", lambda *_: None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 100))
    X[:, 0] += 4.0 * np.where(rng.random(400) < 0.5, 1.0, -1.0)  # clusters that are not the classes
    few = np.where(np.arange(400) < 24, np.arange(400) % 2, -1)
    labels_alone = L2SVM(tol=1e-10).fit(X, few).predict(X)[few < 0]
    shares = []
    for allowed in (1.0, 0.05, 0.0):
        monkeypatch.setattr(_settled, "change_allowed", lambda _, most=allowed: most)
        with quiet():
            model = QNS3VM().fit(X, few)
        shares.append(np.mean(model.predict(X)[few < 0] != labels_alone))
    assert shares[0] > 0.1
    assert 0.0 < shares[1] <= 0.05
    assert shares[2] == 0.0
