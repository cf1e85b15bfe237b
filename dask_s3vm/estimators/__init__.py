"""scikit-learn estimators: they check input, run a method, and keep what it found as numpy."""

from dask_s3vm.estimators._l2svm import L2SVM, l2svm_path

__all__ = ["L2SVM", "l2svm_path"]
