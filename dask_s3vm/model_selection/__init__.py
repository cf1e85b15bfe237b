"""Model selection with few labels: splits of the labeled rows, and parameter searches."""

from dask_s3vm.model_selection._searches import S3VMGridSearchCV, S3VMRandomizedSearchCV
from dask_s3vm.model_selection._splits import (
    LabeledKFold,
    LabeledLeaveOneOut,
    LabeledShuffleSplit,
)

__all__ = [
    "LabeledKFold",
    "LabeledLeaveOneOut",
    "LabeledShuffleSplit",
    "S3VMGridSearchCV",
    "S3VMRandomizedSearchCV",
]
