"""Methods that label rows for good: QP-S3VM, S-QP-S3VM and STAR-SVM."""

from typing import Any, ClassVar

from dask_s3vm.parameters.facts import MethodFacts, MethodParameters
from dask_s3vm.parameters.fields import (
    COUNT,
    COUNT_OR_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    OneOf,
    parameter,
    parametrized,
    redeclared,
)
from dask_s3vm.parameters.safe import BlendParameters, SafetyParameters
from dask_s3vm.parameters.shared import (
    KERNEL_CHOICES,
    ClassWeightParameters,
    CostParameters,
    InterceptParameters,
    KernelParameters,
    LabelParameters,
    ProbabilityParameters,
    RatioParameters,
    RunParameters,
    ShardedParameters,
    StoppingParameters,
)


@parametrized
class LabelingParameters(
    MethodParameters,
    CostParameters,
    RatioParameters,
    BlendParameters,
    SafetyParameters,
    InterceptParameters,
    LabelParameters,
    KernelParameters,
    ClassWeightParameters,
    StoppingParameters,
    ProbabilityParameters,
    RunParameters,
):
    """Parameters of the methods that find labels first and then train an SVM on them."""

    C_unlabeled: float | None = parameter(
        "float or None",
        "Cost of an unlabeled row (C*). None: 0.1 C l / u, with which the unlabeled rows together "
        "weigh a tenth of the labeled ones. With C l / u, wrong labels that were found cost up to "
        "six points more than the supervised SVM on pixels and tables; with this, up to three.",
        [POSITIVE, None],
        default=None,
        kw_only=False,
    )
    center: bool = parameter(
        "bool",
        "Whether unlabeled rows are centered on their mean, and labeled ones on theirs, on the "
        "fly: sparse rows stay sparse. False is the paper's form, in which the mean of rows that "
        "are not negative outweighs what tells them apart.",
        ["boolean"],
        default=True,
    )


@parametrized
class QPParameters(LabelingParameters):
    """Parameters of QP-S3VM."""

    facts = MethodFacts(
        name="qp",
        title="Labels by a quadratic program, then an SVM",
        history='One row per step of the program, and one per SVM (event "train")',
        columns=(
            "class", "restart", "event", "objective", "switches", "svm_objective", "newton_steps",
            "cg_steps", "seconds",
        ),
        iteration="steps of the program, all starts together",
        estimator="_labeling:QPS3VM",
        row_bytes=74,
        rounds=((35, 417),),
    )  # fmt: skip

    n_restarts: int = parameter(
        "int",
        "Number of further starts, from the best vertices for random directions, beside the one "
        "from P = r; the labels of smallest F are kept. None by default, because a smaller F need "
        "not mean better labels: P = r leads to labels near those given, and other minima, though "
        "lower, may lie far off (kdd99 with ten labels: 97 % right at F = -534, 60 % at F = -927).",
        [COUNT_OR_ZERO],
        default=0,
    )


@parametrized
class SQPParameters(ShardedParameters, LabelingParameters):
    """Parameters of S-QP-S3VM."""

    facts = MethodFacts(
        name="sqp",
        title="Labels by greedy picks of a submodular function, then an SVM",
        history='One row per choice of a set (event "exact" or "greedi"), and one per SVM (event '
        '"train")',
        columns=(
            "class", "event", "objective", "set_value", "proven_share", "distinct_rows", "picks",
            "gains_computed", "svm_objective", "newton_steps", "cg_steps", "seconds",
        ),
        iteration="1, because greedy picks are made once",
        estimator="_labeling:SubmodularS3VM",
        row_bytes=50,
        rounds=((29, 411),),
    )  # fmt: skip

    pick: str = parameter(
        '{"fewer", "positive"}',
        "Which rows are picked: those of the class that has fewer of the unlabeled rows, or, as in "
        "the paper, those of `classes_[1]`. The program is the same, but not what greedy makes of "
        "it.",
        [OneOf(("fewer", "positive"))],
        default="fewer",
    )

    _renamed: ClassVar[dict[str, tuple[str, str]]] = {
        "scheme": ("sharded", "with False for 'exact' and True for 'greedi'")
    }


@parametrized
class STARParameters(
    MethodParameters,
    CostParameters,
    RatioParameters,
    BlendParameters,
    SafetyParameters,
    ShardedParameters,
    LabelParameters,
    KernelParameters,
    StoppingParameters,
    ProbabilityParameters,
    RunParameters,
):
    """Parameters of STAR-SVM."""

    facts = MethodFacts(
        name="star",
        title="Self-training with adaptive regularization",
        history="One row per stage",
        columns=(
            "class", "stage", "tau", "n_positive", "n_negative", "n_waiting", "objective", "gap",
            "steps", "seconds",
        ),
        iteration="stages",
        estimator="_star:STARSVM",
        row_bytes=50,
        rounds=((15, 135),),
    )  # fmt: skip

    confidence: float = parameter(
        "float",
        "gamma of eq. (3), 0 to 1: how much less a label counts from stage to stage.",
        [SHARE],
        default=0.7,
        kw_only=False,
    )
    weighting: str = parameter(
        '{"minority", "printed", "none"}',
        "Weights of the classes by their shares, which `positive_ratio` tells: see above. A ratio "
        'of 0.5 weighs both alike. "none": all C.',
        [OneOf(("minority", "printed", "none"))],
        default="minority",
    )
    kernel: Any = redeclared(
        KernelParameters,
        "kernel",
        description=f"{KERNEL_CHOICES} In shards, kernels other than the linear one are computed "
        "with landmark rows; otherwise they are exact.",
        default="linear",
    )
    tol: float = parameter(
        "float",
        "The last training stops when the duality gap is at most this part of the objective. So do "
        "those before it if they see all rows at once; in shards they stop at 1e-2 or this, if "
        "larger.",
        [NOT_NEGATIVE],
        default=1e-3,
    )
    max_iter: int = parameter(
        "int",
        "Maximum number of rounds of one training in shards, or of steps for each of its rows if "
        "it sees all at once.",
        [COUNT],
        default=1000,
    )
    max_stages: int | None = parameter(
        "int or None",
        "Maximum number of stages; the last one labels all rows that are left. None: until there "
        "are none.",
        [COUNT, None],
        default=None,
    )
    min_share: float | None = parameter(
        "float or None",
        "Least share of the unlabeled rows that a stage labels. Algorithm 1 alone "
        "(0) begins with many stages of two rows, the more the more rows there are, and labels "
        "after these count for nothing (confidence^100 C): on 100,000 rows of text 5.8 % error, "
        "near the supervised 5.5 %, where 0.01 gives 4.0 %. None: 0 up to 10,000 unlabeled rows, "
        "else 0.01.",
        [SHARE, None],
        default=None,
    )

    _renamed: ClassVar[dict[str, tuple[str, str]]] = {
        "solver": ("sharded", "with False for 'exact' and True for 'sharded'")
    }


def lam_to_C(lam: float, n_labeled: int) -> float:
    """`C` of an estimator that weighs |w|^2 against the loss as `lam` does in others.

    lam weighs |w|^2 against the *mean* loss of the labeled rows, C the *sum* of their losses
    against |w|^2 / 2: C = 1 / (2 lam l) for l labeled rows.
    """
    return 1.0 / (2.0 * lam * n_labeled)


def C_to_lam(C: float, n_labeled: int) -> float:
    """`lam` of an estimator that weighs |w|^2 against the loss as `C` does in others."""
    return 1.0 / (2.0 * C * n_labeled)
