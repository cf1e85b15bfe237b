"""S3VM, which chooses by itself whether unlabeled rows are used."""

from dask_s3vm.parameters.facts import AnnealingAxis, MethodFacts, MethodParameters
from dask_s3vm.parameters.fields import parametrized, redeclared
from dask_s3vm.parameters.safe import GuardAttributes
from dask_s3vm.parameters.shared import (
    ClassWeightParameters,
    InterceptParameters,
    KernelParameters,
    LabelParameters,
    ProbabilityParameters,
    RatioParameters,
    RegularizationParameters,
    RunParameters,
    ScaleParameters,
    StoppingParameters,
)
from dask_s3vm.parameters.svm import TSVMParameters


@parametrized
class S3VMParameters(
    MethodParameters,
    RegularizationParameters,
    RatioParameters,
    GuardAttributes,
    InterceptParameters,
    LabelParameters,
    KernelParameters,
    ScaleParameters,
    ClassWeightParameters,
    StoppingParameters,
    ProbabilityParameters,
    RunParameters,
):
    """Parameters of S3VM."""

    facts = MethodFacts(
        name="s3vm",
        title="Semi-supervised SVM, used only if cross-validation on the labels shows a gain",
        history=f"{TSVMParameters.facts.history}, or, where the labeled rows alone are used, per "
        "Newton step, as in `L2SVM`",
        columns=TSVMParameters.facts.columns,
        iteration="those of the model that was kept",
        estimator="_s3vm:S3VM",
        axis=AnnealingAxis("level", "weight of unlabeled rows"),
        row_bytes=50,
        rounds=((11, 513), (74, 3984)),
    )

    scale: str = redeclared(ScaleParameters, "scale", default="auto")
