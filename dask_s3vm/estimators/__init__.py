"""scikit-learn estimators: they check input, run a method, and keep what it found as numpy."""

from dask_s3vm.estimators._clustering import MaxMarginClustering
from dask_s3vm.estimators._da import DAS3VM
from dask_s3vm.estimators._l2svm import L2SVM, l2svm_path
from dask_s3vm.estimators._qn import QNS3VM
from dask_s3vm.estimators._qp import QPS3VM
from dask_s3vm.estimators._rlsc import RLSC, rlsc_path
from dask_s3vm.estimators._s2rlsc import S2RLSC, s2rlsc_path
from dask_s3vm.estimators._star import STARSVM
from dask_s3vm.estimators._submodular import SubmodularS3VM
from dask_s3vm.estimators._tsvm import TSVM

__all__ = [
    "DAS3VM",
    "L2SVM",
    "QNS3VM",
    "QPS3VM",
    "RLSC",
    "S2RLSC",
    "STARSVM",
    "TSVM",
    "MaxMarginClustering",
    "SubmodularS3VM",
    "l2svm_path",
    "rlsc_path",
    "s2rlsc_path",
]
