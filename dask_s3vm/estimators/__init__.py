"""scikit-learn estimators.

An estimator checks its input, runs a method of `methods`, and stores the result in its attributes.
"""

from dask_s3vm.estimators._clustering import MaxMarginClustering
from dask_s3vm.estimators._l2svm import L2SVM, l2svm_path
from dask_s3vm.estimators._labeling import QPS3VM, SubmodularS3VM
from dask_s3vm.estimators._lapsvm import LapSVM
from dask_s3vm.estimators._least_squares import RLSC, S2RLSC, rlsc_path, s2rlsc_path
from dask_s3vm.estimators._s3vm import S3VM
from dask_s3vm.estimators._star import STARSVM
from dask_s3vm.estimators._transductive import CCCPS3VM, DAS3VM, QNS3VM, TSVM

__all__ = [
    "CCCPS3VM",
    "DAS3VM",
    "L2SVM",
    "QNS3VM",
    "QPS3VM",
    "RLSC",
    "S2RLSC",
    "S3VM",
    "STARSVM",
    "TSVM",
    "LapSVM",
    "MaxMarginClustering",
    "SubmodularS3VM",
    "l2svm_path",
    "rlsc_path",
    "s2rlsc_path",
]
