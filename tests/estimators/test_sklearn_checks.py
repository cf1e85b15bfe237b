"""scikit-learn's own checks, for every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dask_s3vm import L2SVM

# the equivalence of weights and repetitions is checked to 1e-7: solve that far
ESTIMATORS = [L2SVM(tol=1e-16), L2SVM(unlabeled=None, class_weight="balanced", tol=1e-16)]


@parametrize_with_checks(ESTIMATORS)
def test_sklearn_check(estimator, check):
    check(estimator)
