"""scikit-learn estimators: they check input, run a method, and keep what it found as numpy."""

from dask_s3vm.estimators._da import DAS3VM
from dask_s3vm.estimators._l2svm import L2SVM, l2svm_path
from dask_s3vm.estimators._qp import QPS3VM
from dask_s3vm.estimators._submodular import SubmodularS3VM
from dask_s3vm.estimators._tsvm import TSVM

__all__ = ["DAS3VM", "L2SVM", "QPS3VM", "TSVM", "SubmodularS3VM", "l2svm_path"]
