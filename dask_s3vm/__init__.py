"""Semi-supervised support vector machines at scale, on Dask.

Names are loaded on first use: dask imports this package at start-up, for the entry points
``dask.sizeof`` and ``dask_cli``, and that import must not load scikit-learn and numba.
"""

from dask_s3vm._lazy import lazy_names
from dask_s3vm._version import __version__

_PUBLIC = {
    "DAS3VM": "dask_s3vm.estimators",
    "L2SVM": "dask_s3vm.estimators",
    "MaxMarginClustering": "dask_s3vm.estimators",
    "QNS3VM": "dask_s3vm.estimators",
    "RLSC": "dask_s3vm.estimators",
    "S2RLSC": "dask_s3vm.estimators",
    "S3VM": "dask_s3vm.estimators",
    "STARSVM": "dask_s3vm.estimators",
    "QPS3VM": "dask_s3vm.estimators",
    "SubmodularS3VM": "dask_s3vm.estimators",
    "TSVM": "dask_s3vm.estimators",
    "TableEncoder": "dask_s3vm.features",
    "UnitScaler": "dask_s3vm.features",
    "C_to_lam": "dask_s3vm.parameters.shared",
    "l2svm_path": "dask_s3vm.estimators",
    "lam_to_C": "dask_s3vm.parameters.shared",
    "rlsc_path": "dask_s3vm.estimators",
    "s2rlsc_path": "dask_s3vm.estimators",
    "load_model": "dask_s3vm.io",
    "save_model": "dask_s3vm.io",
    "datasets": "dask_s3vm",
    "features": "dask_s3vm",
    "io": "dask_s3vm",
    "model_selection": "dask_s3vm",
    "plotting": "dask_s3vm",
}

__all__ = ["__version__", *_PUBLIC]


__getattr__, __dir__ = lazy_names("dask_s3vm", _PUBLIC)
