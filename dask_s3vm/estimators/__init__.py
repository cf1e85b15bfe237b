"""scikit-learn estimators, loaded when first used: a command needs one of them.

An estimator checks its input, runs a method of `methods`, and stores the result in its attributes.
"""

# ruff: noqa: I001 (one statement for each module)

from typing import TYPE_CHECKING

from dask_s3vm._lazy import lazy_names

# For type checkers and editors. A test compares it with _PUBLIC.
if TYPE_CHECKING:
    from dask_s3vm.estimators._clustering import MaxMarginClustering as MaxMarginClustering
    from dask_s3vm.estimators._l2svm import L2SVM as L2SVM, l2svm_path as l2svm_path
    from dask_s3vm.estimators._labeling import (
        QPS3VM as QPS3VM,
        SubmodularS3VM as SubmodularS3VM,
    )
    from dask_s3vm.estimators._lapsvm import LapSVM as LapSVM
    from dask_s3vm.estimators._least_squares import (
        RLSC as RLSC,
        S2RLSC as S2RLSC,
        rlsc_path as rlsc_path,
        s2rlsc_path as s2rlsc_path,
    )
    from dask_s3vm.estimators._s3vm import S3VM as S3VM
    from dask_s3vm.estimators._star import STARSVM as STARSVM
    from dask_s3vm.estimators._transductive import (
        CCCPS3VM as CCCPS3VM,
        DAS3VM as DAS3VM,
        QNS3VM as QNS3VM,
        TSVM as TSVM,
    )

_PUBLIC = {
    "CCCPS3VM": "dask_s3vm.estimators._transductive",
    "DAS3VM": "dask_s3vm.estimators._transductive",
    "L2SVM": "dask_s3vm.estimators._l2svm",
    "LapSVM": "dask_s3vm.estimators._lapsvm",
    "MaxMarginClustering": "dask_s3vm.estimators._clustering",
    "QNS3VM": "dask_s3vm.estimators._transductive",
    "QPS3VM": "dask_s3vm.estimators._labeling",
    "RLSC": "dask_s3vm.estimators._least_squares",
    "S2RLSC": "dask_s3vm.estimators._least_squares",
    "S3VM": "dask_s3vm.estimators._s3vm",
    "STARSVM": "dask_s3vm.estimators._star",
    "SubmodularS3VM": "dask_s3vm.estimators._labeling",
    "TSVM": "dask_s3vm.estimators._transductive",
    "l2svm_path": "dask_s3vm.estimators._l2svm",
    "rlsc_path": "dask_s3vm.estimators._least_squares",
    "s2rlsc_path": "dask_s3vm.estimators._least_squares",
}

__all__ = list(_PUBLIC)

__getattr__, __dir__ = lazy_names("dask_s3vm.estimators", _PUBLIC)
