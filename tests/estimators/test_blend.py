"""Models are, for a part, the supervised SVM."""

import numpy as np
import pytest

from dask_s3vm import L2SVM, QNS3VM, RLSC, S2RLSC, STARSVM

KINDS = {
    "qn": QNS3VM,
    "s2rlsc": lambda **more: S2RLSC(n_restarts=4, random_state=0, **more),
    "star": lambda **more: STARSVM(kernel="linear", **more),
    "star exact": lambda **more: STARSVM(kernel="linear", sharded=False, **more),
}


def few_labels(n_classes):
    """Rows about as many places as there are classes, a fifth of them labeled."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 200)
    X = rng.normal(size=(200, 6)) + 1.5 * np.eye(6)[y]
    return X, y, np.where(np.arange(200) < 40, y, -1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_weights_are_the_mean_of_both_models(name, n_classes):
    X, _, few = few_labels(n_classes)
    labels_alone = L2SVM(tol=1e-10).fit(X, few).coef_
    found = KINDS[name](supervised_part=0.0).fit(X, few).coef_
    for given, part in ((None, 0.75), (0.4, 0.4), (1.0, 1.0)):
        model = KINDS[name](supervised_part=given).fit(X, few)
        wanted = part * labels_alone + (1.0 - part) * found
        np.testing.assert_allclose(model.coef_, wanted, atol=0.02 * np.abs(wanted).max())


def test_the_part_falls_with_the_number_of_labels():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 900)
    X = rng.normal(size=(900, 4)) + 1.5 * y[:, None]
    few = np.where(np.arange(900) < 300, y, -1)
    model, wanted = (QNS3VM(supervised_part=part).fit(X, few) for part in (None, 0.25))
    assert np.array_equal(model.coef_, wanted.coef_)


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
