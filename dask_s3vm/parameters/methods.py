"""All methods of this package: importing this module registers them."""

from dask_s3vm.parameters.facts import (
    COLUMNS,
    METHODS,
    AnnealingAxis,
    MethodFacts,
    MethodParameters,
    estimator_named,
    estimator_of,
)
from dask_s3vm.parameters.labeling import (
    LabelingParameters,
    QPParameters,
    SQPParameters,
    STARParameters,
)
from dask_s3vm.parameters.least_squares import (
    ClusteringParameters,
    RLSCParameters,
    S2RLSCParameters,
)
from dask_s3vm.parameters.s3vm import S3VMParameters
from dask_s3vm.parameters.svm import (
    CCCPParameters,
    DAParameters,
    L2SVMParameters,
    LapSVMParameters,
    QNParameters,
    TransductiveParameters,
    TSVMParameters,
)

__all__ = [
    "COLUMNS", "METHODS", "AnnealingAxis", "CCCPParameters", "ClusteringParameters", "DAParameters",
    "L2SVMParameters", "LabelingParameters", "LapSVMParameters", "MethodFacts", "MethodParameters",
    "QNParameters", "QPParameters", "RLSCParameters", "S2RLSCParameters", "S3VMParameters",
    "SQPParameters", "STARParameters", "TSVMParameters", "TransductiveParameters",
    "estimator_named", "estimator_of",
]  # fmt: skip
