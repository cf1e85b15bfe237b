"""Shares of positive predictions agree with the ratio, also where positives are rare."""

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, QPS3VM, S2RLSC, STARSVM, TSVM, SubmodularS3VM

KINDS = {
    "tsvm": lambda **more: TSVM(**more),
    "da": lambda **more: DAS3VM(**more),
    "qn": lambda **more: QNS3VM(**more),
    "qp": lambda **more: QPS3VM(**more),
    "sqp": lambda **more: SubmodularS3VM(**more),
    "s2rlsc": lambda **more: S2RLSC(n_restarts=4, random_state=0, **more),
    "star": lambda **more: STARSVM(kernel="linear", **more),
    "star exact": lambda **more: STARSVM(kernel="linear", sharded=False, **more),
    "star rbf": lambda **more: STARSVM(kernel="rbf", sigma=3.0, **more),
}


@pytest.fixture(scope="module")
def rare():
    """Rows on one side of the origin, one in seven of them positive."""
    rng = np.random.default_rng(4)
    y = (np.arange(700) % 7 == 0).astype(int)
    X = np.abs(rng.normal(size=(700, 12))) + 1.5 * y[:, None] * (np.arange(12) < 4)
    X /= np.linalg.norm(X, axis=1)[:, None]
    few = np.full(700, -1)
    kept = rng.permutation(700)[:70]
    few[kept] = y[kept]
    return X, y, few


@pytest.mark.parametrize("name", KINDS)
def test_predictions_lie_in_the_interval(rare, name):
    X, y, few = rare
    hidden = few < 0
    model = KINDS[name]().fit(X, few)
    low, high = model.positive_ratio_interval_
    share = (model.predict(X)[hidden] == 1).mean()
    assert low - 1 / hidden.sum() <= share <= high + 1 / hidden.sum()
    assert low <= y[hidden].mean() <= high
    error = (model.predict(X) != y)[hidden].mean()
    assert error <= y[hidden].mean()  # no worse than the larger class for all
    assert error <= (L2SVM().fit(X, few).predict(X) != y)[hidden].mean() + 0.03


@pytest.mark.parametrize("name", ["tsvm", "da", "qn", "s2rlsc", "star"])
def test_several_classes_are_balanced_each(name):
    rng = np.random.default_rng(1)
    y = rng.choice(3, 600, p=[0.6, 0.3, 0.1])
    X = sp.csr_array(np.abs(rng.normal(size=(600, 9))) + 2.0 * np.eye(9)[y])
    few = np.full(600, -1)
    kept = rng.permutation(600)[:90]
    few[kept] = y[kept]
    model = KINDS[name](supervised_part=0.0).fit(X, few)
    hidden = few < 0
    outputs = model.decision_function(X)[hidden]
    for share, (low, high) in zip(
        (outputs > 0).mean(axis=0), model.positive_ratio_interval_, strict=True
    ):
        assert low - 2 / hidden.sum() <= share <= high + 2 / hidden.sum()


def test_annealing_does_not_end_on_one_side(rare):
    X, _, few = rare
    hidden = few < 0
    model = DAS3VM(1e-3).fit(X, few)
    assert (model.predict(X)[hidden] == 1).any()
    low, high = model.positive_ratio_interval_
    assert low <= model.transduction_[hidden].mean() <= high


@pytest.mark.filterwarnings("ignore:.*may have collapsed")  # there is no bias to be moved
def test_lam_of_s2rlsc_follows_the_scale(rare):
    X, _, few = rare
    params = {"n_restarts": 4, "random_state": 0, "fit_intercept": False, "center": True}
    params["supervised_part"] = 0.0  # the lam of that SVM is fixed
    params["positive_ratio"] = 0.1  # folds of an estimate follow the values of the rows
    one, other = (S2RLSC(**params).fit(scale * X, few) for scale in (1, 100))
    assert other.lam_ == pytest.approx(1e4 * one.lam_)
    np.testing.assert_allclose(100 * other.coef_, one.coef_, rtol=1e-6)
