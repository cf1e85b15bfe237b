"""Semi-supervised support vector machines at scale, on Dask.

Names are loaded on first use: dask imports this package at start-up, for the entry points
``dask.sizeof`` and ``dask_cli``, and that import must not load scikit-learn and numba.
"""

# ruff: noqa: I001 (one statement for each module)

from typing import TYPE_CHECKING

from dask_s3vm._lazy import lazy_names
from dask_s3vm._version import __version__

# For type checkers and editors. A test compares it with _PUBLIC.
if TYPE_CHECKING:
    from dask_s3vm import (
        datasets as datasets,
        features as features,
        io as io,
        model_selection as model_selection,
        plotting as plotting,
    )
    from dask_s3vm.estimators import (
        CCCPS3VM as CCCPS3VM,
        DAS3VM as DAS3VM,
        L2SVM as L2SVM,
        QNS3VM as QNS3VM,
        QPS3VM as QPS3VM,
        RLSC as RLSC,
        S2RLSC as S2RLSC,
        S3VM as S3VM,
        STARSVM as STARSVM,
        TSVM as TSVM,
        LapSVM as LapSVM,
        MaxMarginClustering as MaxMarginClustering,
        SubmodularS3VM as SubmodularS3VM,
        l2svm_path as l2svm_path,
        rlsc_path as rlsc_path,
        s2rlsc_path as s2rlsc_path,
    )
    from dask_s3vm.features import (
        TableEncoder as TableEncoder,
        UnitScaler as UnitScaler,
    )
    from dask_s3vm.io import (
        load_model as load_model,
        save_model as save_model,
    )
    from dask_s3vm.parameters.labeling import (
        C_to_lam as C_to_lam,
        lam_to_C as lam_to_C,
    )

_PUBLIC = {
    "CCCPS3VM": "dask_s3vm.estimators",
    "DAS3VM": "dask_s3vm.estimators",
    "L2SVM": "dask_s3vm.estimators",
    "LapSVM": "dask_s3vm.estimators",
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
    "C_to_lam": "dask_s3vm.parameters.labeling",
    "l2svm_path": "dask_s3vm.estimators",
    "lam_to_C": "dask_s3vm.parameters.labeling",
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
