"""Data and comparisons that the tests of the semi-supervised estimators share."""

import numpy as np
import pytest

from dask_s3vm import DAS3VM, QNS3VM, TSVM

BOTH = [TSVM, DAS3VM]
ALL = [*BOTH, QNS3VM]
both = pytest.mark.parametrize("kind", BOTH)
each = pytest.mark.parametrize("kind", ALL)

#: some sets here are small and their ratio is off; the warning has a test of its own
quiet = pytest.mark.filterwarnings("ignore:.*may have collapsed:UserWarning")


def clusters(n=120, n_labeled=10, d=6, seed=0, gap=2.0):
    """Rows, true classes, and labels of which few are left; half of the rows in each class."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, d))
    X[:, 0] += gap * (truth - 0.5)
    keep = np.concatenate([np.flatnonzero(truth == k)[: n_labeled // 2] for k in (0, 1)])
    return X, truth, np.where(np.isin(np.arange(n), keep), truth, -1)


def assert_same(a, b, atol=1e-8):
    np.testing.assert_allclose(a.coef_, b.coef_, atol=atol)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=atol)
    np.testing.assert_allclose(a.objective_, b.objective_, rtol=1e-8)


def assert_identical(a, b):
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.intercept_, b.intercept_)
    assert np.array_equal(a.objective_, b.objective_)
