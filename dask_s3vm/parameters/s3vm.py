"""S3VM, which chooses by itself whether unlabeled rows are used."""

from dask_s3vm.parameters.facts import AnnealingAxis, MethodFacts, MethodParameters
from dask_s3vm.parameters.fields import OneOf, parameter, parametrized
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

    scale: str = parameter(
        '{"auto", "none"}',
        'Whether to scale the columns. "auto" scales them to [0, 1] (sparse rows: divides them by '
        "their largest absolute value) where their ranges differ by a factor of 100 or more, with "
        "one more pass over X; "
        '`coef_` is over the columns as they are. "none" uses them as they are, and warns.',
        [OneOf(("auto", "none"))],
        default="none",
    )
