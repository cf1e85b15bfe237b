"""scikit-learn's own checks, for every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dask_s3vm import (
    CCCPS3VM,
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    S3VM,
    STARSVM,
    TSVM,
    LapSVM,
    MaxMarginClustering,
    SubmodularS3VM,
)
from dask_s3vm.parameters.methods import METHODS

pytestmark = pytest.mark.usefixtures("array_api")

# the equivalence of weights and repetitions is checked to 1e-7: solve that far
ESTIMATORS = [
    L2SVM(tol=1e-16),
    L2SVM(unlabeled=None, class_weight="balanced", tol=1e-16),
    L2SVM(kernel="rbf", sigma=2.0, tol=1e-20),
    RLSC(1.0),  # chosen by leave-one-out errors, lam differs: copies are left out one by one
    RLSC(lam=[0.01, 1.0], unlabeled=None, class_weight="balanced"),
    RLSC(1.0, kernel="rbf", sigma=2.0),
    RLSC(1.0, safe=True),
    MaxMarginClustering(n_restarts=5),
    MaxMarginClustering(n_restarts=5, population=(1, 1), sharded=True, dtype="float32"),
]
SEMI_SUPERVISED = [
    TSVM(tol=1e-16),
    S3VM(tol=1e-16),
    DAS3VM(tol=1e-16),
    CCCPS3VM(tol=1e-16),
    LapSVM(tol=1e-16),
    QNS3VM(tol=0.0, gtol=0.0),
    S2RLSC(n_restarts=5),
    S2RLSC(kernel="rbf", sigma=2.0, n_restarts=5, sharded=True),
    TSVM(kernel="rbf", sigma=2.0, tol=1e-20),
    DAS3VM(kernel="rbf", sigma=2.0, tol=1e-20),
    QNS3VM(kernel="rbf", sigma=2.0, tol=0.0, gtol=0.0),
    STARSVM(kernel="rbf", sigma=2.0, tol=1e-16),
    STARSVM(kernel="linear", tol=1e-16, max_iter=100_000),
    STARSVM(kernel="rbf", sharded=True, sigma=2.0, tol=1e-16, max_iter=100_000),
    QPS3VM(tol=1e-16),
    SubmodularS3VM(tol=1e-16),
    QPS3VM(kernel="rbf", sigma=2.0, tol=1e-20),
]


def test_every_method_is_checked():
    checked = {type(estimator).__name__ for estimator in [*ESTIMATORS, *SEMI_SUPERVISED]}
    # names of this package: a test that runs before may have defined a method of its own
    homes = {own.facts.estimator for own in METHODS.values() if own.facts.estimator}
    assert {home.split(":")[1] for home in homes} <= checked


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore:MaxMarginClustering.*is so large beside the rows:UserWarning")
def test_sklearn_check(estimator, check):
    check(estimator)


def marks_as_classes(estimator):
    """The check that gives the classes -1 and +1, of which -1 is the mark of unlabeled rows."""
    return {"check_classifiers_classes": "y in {-1, +1} is refused with a way out"}


@parametrize_with_checks(SEMI_SUPERVISED, expected_failed_checks=marks_as_classes)
@pytest.mark.filterwarnings("ignore:.*no unlabeled row:UserWarning")
def test_sklearn_check_without_unlabeled_rows(estimator, check):
    check(estimator)
