"""The supervised SVM, and TSVM, DA, CCCP and QN: unlabeled rows as a term of the objective."""

from collections.abc import Sequence
from numbers import Real
from typing import ClassVar

from dask_s3vm.parameters.facts import AnnealingAxis, MethodFacts, MethodParameters
from dask_s3vm.parameters.fields import (
    COUNT,
    NOT_NEGATIVE,
    Between,
    OneOf,
    parameter,
    parametrized,
    redeclared,
)
from dask_s3vm.parameters.safe import BlendParameters, SafetyParameters
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
    SupervisedLabelParameters,
    TransductionParameters,
    WarmStartParameters,
)


@parametrized
class L2SVMParameters(
    MethodParameters,
    RegularizationParameters,
    InterceptParameters,
    SupervisedLabelParameters,
    KernelParameters,
    ScaleParameters,
    ClassWeightParameters,
    StoppingParameters,
    WarmStartParameters,
    ProbabilityParameters,
    RunParameters,
):
    """Parameters of the supervised SVM."""

    facts = MethodFacts(
        name="l2svm",
        title="Supervised SVM with squared hinge loss",
        history="One row per Newton step",
        columns=(
            "class", "lam", "iteration", "objective", "gradient_norm", "n_active", "cg_steps",
            "line_rounds", "step_length", "seconds",
        ),
        iteration="Newton steps",
        estimator="_l2svm:L2SVM",
        supervised=True,
        shares_path=True,
        row_bytes=38,
        rounds=((9, 157), (72, 966)),
    )  # fmt: skip


@parametrized
class LapSVMParameters(L2SVMParameters, RatioParameters, BlendParameters, SafetyParameters):
    """Parameters of the Laplacian SVM."""

    facts = MethodFacts(
        name="lapsvm",
        title="SVM with outputs that are smooth along a graph of neighbors",
        history="One row per Newton step",
        columns=L2SVMParameters.facts.columns,
        iteration="Newton steps",
        estimator="_lapsvm:LapSVM",
        shares_path=True,
        row_bytes=38,
        rounds=((13, 101), (24, 220)),
    )

    unlabeled: float | str | None = redeclared(LabelParameters, "unlabeled", default="auto")
    lam_manifold: float = parameter(
        "float",
        "Weight of the mean squared difference of outputs along the edges of the graph. 0 trains "
        "on the labeled rows alone.",
        [NOT_NEGATIVE],
        default=1.0,
        kw_only=False,
    )
    n_neighbors: int = parameter("int", "Nearest rows that a row is joined to.", [COUNT], default=6)


@parametrized
class TransductiveParameters(
    MethodParameters,
    TransductionParameters,
    BlendParameters,
    SafetyParameters,
    InterceptParameters,
    LabelParameters,
    KernelParameters,
    ScaleParameters,
    ClassWeightParameters,
    StoppingParameters,
    WarmStartParameters,
    ProbabilityParameters,
    RunParameters,
):
    """Parameters that TSVM, DA, CCCP and QN-S3VM have in common."""

    _renamed: ClassVar[dict[str, tuple[str, str]]] = {
        "threshold": ("balance", "with 'predictions' for 'ratio' and 'paper' for 'zero'")
    }


@parametrized
class TSVMParameters(TransductiveParameters):
    """Parameters of TSVM."""

    facts = MethodFacts(
        name="tsvm",
        title="Transductive SVM with multiple switching",
        history='One row per retraining and per switch; the last switches (event "release") are of '
        "single rows",
        columns=(
            "class", "event", "level", "objective", "n_active", "newton_steps", "cg_steps",
            "switches", "seconds",
        ),
        iteration="retrainings, each followed by a switch of labels",
        estimator="_transductive:TSVM",
        takes_seeds=True,
        axis=AnnealingAxis("level", "weight of unlabeled rows"),
        row_bytes=50,
        rounds=((52, 511), (274, 3982)),
    )  # fmt: skip

    max_switches: int | None = parameter(
        "int or None",
        "Maximum number of label pairs switched at once. 1 is Joachims' original TSVM. None: as "
        "many as possible.",
        [COUNT, None],
        default=None,
    )


@parametrized
class DAParameters(TransductiveParameters):
    """Parameters of deterministic annealing."""

    facts = MethodFacts(
        name="da",
        title="Semi-supervised SVM by deterministic annealing",
        history='One row per temperature (event "anneal"), then one per half step of the descent '
        '("retrain", "switch")',
        columns=(
            "class", "event", "temperature", "objective", "entropy", "evaluations", "cg_steps",
            "switches", "seconds",
        ),
        iteration="temperatures, and retrainings of the descent after them",
        estimator="_transductive:DAS3VM",
        takes_seeds=True,
        axis=AnnealingAxis("temperature", "temperature T", falls=True),
        row_bytes=60,
        rounds=((180, 800), (480, 3300)),
    )  # fmt: skip


@parametrized
class CCCPParameters(TransductiveParameters):
    """Parameters of the concave-convex procedure."""

    facts = MethodFacts(
        name="cccp",
        title="Semi-supervised SVM with the ramp loss by the concave-convex procedure",
        history="One row per turn: a convex problem solved, unlabeled rows labeled by its outputs",
        columns=("class", "iteration", "objective", "gap", "steps", "changes", "seconds"),
        iteration="turns",
        estimator="_transductive:CCCPS3VM",
        row_bytes=50,
        rounds=((36, 337), (54, 518)),
    )  # fmt: skip

    ramp: float = parameter(
        "float",
        "Where the ramp loss becomes flat (s), above -1 and at most 0. Unlabeled rows with |f| <= "
        "-s count for neither class until their output grows: the lower s, the fewer labels are "
        "decided at once. With 0, every row has a label in every turn.",
        [Between(Real, -1, 0, "right")],
        default=-0.3,
    )
    tol: float = parameter(
        "float",
        "The last convex problem is solved until the duality gap is at most this part of its "
        "objective; those before it until the gap is a tenth of what was gained.",
        [NOT_NEGATIVE],
        default=1e-3,
    )
    max_iter: int = parameter(
        "int", "Maximum number of rounds of one convex problem.", [COUNT], default=1000
    )


#: Parts of lam_unlabeled, stage by stage (section 4.1.4 of the paper; 0 is line 1 of Algorithm 1).
STAGES = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0)


@parametrized
class QNParameters(TransductiveParameters):
    """Parameters of QN-S3VM."""

    facts = MethodFacts(
        name="qn",
        title="Semi-supervised SVM with smooth losses by a quasi-Newton method",
        history="One row per evaluation",
        columns=(
            "class", "stage", "lam_unlabeled", "evaluation", "objective", "gradient_norm",
            "seconds",
        ),
        iteration="stages",
        estimator="_transductive:QNS3VM",
        takes_seeds=True,
        axis=AnnealingAxis("lam_unlabeled", "weight of unlabeled rows"),
        row_bytes=30,
        rounds=((35, 375), (142, 727)),
    )  # fmt: skip

    offset: str = parameter(
        '{"balanced", "free"}',
        '"balanced": b, the mean output of the unlabeled rows, is 2 positive_ratio - 1 (section '
        '3.4); with balance="predictions" only at first, and from stage to stage what the share of '
        'positive predictions needs. "free": b is one more variable, and may put all unlabeled '
        "rows on one side.",
        [OneOf(("balanced", "free"))],
        default="balanced",
    )
    annealing: Sequence[float] = parameter(
        "sequence of float",
        "The stages, as parts of `lam_unlabeled`, rising to 1. They are walked with `warm_start` "
        "too; (1.0,) goes on from the last weights.",
        ["array-like"],
        default=STAGES,
    )
    tol: float = parameter(
        "float",
        "The last stage ends where a step brings, and the next one promises, a relative decrease "
        "of at most this; stages before it end at 1e-5 if that is more.",
        [NOT_NEGATIVE],
        default=1e-6,
    )
    gtol: float = parameter(
        "float",
        "A stage ends where no entry of the gradient exceeds this.",
        [NOT_NEGATIVE],
        default=1e-9,
    )
    max_iter: int = parameter(
        "int", "Maximum number of evaluations per stage.", [COUNT], default=500
    )
