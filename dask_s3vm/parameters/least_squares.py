"""RLSC, S2RLSC, and its unsupervised case, maximum margin clustering."""

from collections.abc import Sequence
from numbers import Real
from typing import ClassVar

from dask_s3vm.parameters.facts import MethodFacts, MethodParameters
from dask_s3vm.parameters.fields import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    Between,
    parameter,
    parametrized,
    redeclared,
)
from dask_s3vm.parameters.safe import BlendParameters, SafetyParameters
from dask_s3vm.parameters.shared import (
    ClassWeightParameters,
    InterceptParameters,
    LabelParameters,
    LeastSquaresKernel,
    ProbabilityParameters,
    RegularizationParameters,
    ReportParameters,
    RunParameters,
    SearchParameters,
    SupervisedLabelParameters,
    TransductionParameters,
)


@parametrized
class RLSCParameters(
    MethodParameters,
    LeastSquaresKernel,
    InterceptParameters,
    SupervisedLabelParameters,
    ClassWeightParameters,
    ProbabilityParameters,
    ReportParameters,
):
    """Parameters of regularized least squares."""

    facts = MethodFacts(
        name="rlsc",
        title="Supervised regularized least squares in closed form",
        history="One row per lam",
        columns=("lam", "objective", "loo_error", "loo_loss", "seconds"),
        iteration="1, because the solution is closed",
        estimator="_least_squares:RLSC",
        supervised=True,
        shares_path=True,
        row_bytes=9,
        rounds=((4, 4),),
    )

    lam: float | Sequence[float] | None = parameter(
        "float, array-like of float or None",
        "Weight of the regularizer: of |w|^2 against the mean loss of the labeled rows. Of several "
        "values, the one with the fewest leave-one-out errors is taken; where these are equal, the "
        "leave-one-out loss decides. None: powers of 10 times the mean squared length of the "
        "labeled rows.",
        [POSITIVE, "array-like", None],
        default=None,
        kw_only=False,
    )
    safe: bool = parameter(
        "bool",
        "Whether to project the model onto those that some labels of the unlabeled rows would "
        "lead to: its quadratic loss on all rows is then not larger than before, whatever their "
        "labels are. Costs: some 10 to 500 passes over the rows.",
        ["boolean"],
        default=False,
    )


@parametrized
class S2RLSCParameters(
    MethodParameters,
    TransductionParameters,
    BlendParameters,
    SafetyParameters,
    SearchParameters,
    InterceptParameters,
    LeastSquaresKernel,
    LabelParameters,
    ClassWeightParameters,
    ProbabilityParameters,
    RunParameters,
):
    """Parameters of S2RLSC."""

    facts = MethodFacts(
        name="s2rlsc",
        title="Semi-supervised regularized least squares by local search with restarts",
        history="One row per restart, in their order",
        columns=(
            "class", "lam", "restart", "objective", "start_objective", "flips", "changes",
            "seconds",
        ),
        iteration="restarts",
        estimator="_least_squares:S2RLSC",
        shares_path=True,
        takes_seeds=True,
        in_kernels=True,
        restarts=True,
        row_bytes=9,
        rounds=((6, 19),),
    )  # fmt: skip

    lam: float | None = parameter(  # type: ignore[assignment]
        "float or None",
        "Weight of the regularizer: of |w|^2 against the mean loss of the labeled rows. None: "
        "chosen by the leave-one-out errors of `RLSC` on the labeled rows.",
        [POSITIVE, None],
        default=None,
        kw_only=False,
    )
    balance_tol: float | None = parameter(
        "float or None",
        "Largest distance of the share of positive labels from the ratio during the search. If no "
        "number of rows does, the nearest one is kept. None: it stays in the interval of the "
        'ratio, or within 0.1 with balance="paper".',
        [NOT_NEGATIVE, None],
        default=None,
    )
    center: bool = parameter(
        "bool",
        "Whether to subtract the mean from the rows first. The paper does not.",
        ["boolean"],
        default=False,
    )

    _renamed: ClassVar[dict[str, tuple[str, str]]] = {
        "placement": ("sharded", "with False for 'pool' and True for 'shards'")
    }


@parametrized
class ClusteringParameters(
    MethodParameters,
    SearchParameters,
    InterceptParameters,
    LeastSquaresKernel,
    RunParameters,
):
    """Parameters of maximum margin clustering."""

    facts = MethodFacts(
        name="",
        title="Maximum margin clustering",
        history="One row per restart",
        columns=(
            "split", "restart", "objective", "start_objective", "flips", "changes", "seconds",
        ),
        iteration="splits",
        estimator="_clustering:MaxMarginClustering",
        restarts=True,
        row_bytes=9,
    )  # fmt: skip

    n_clusters: int = parameter("int", "Number of clusters.", [COUNT], default=2, kw_only=False)
    lam: float = redeclared(RegularizationParameters, "lam", default=1.0)
    balance: float = parameter(
        "float",
        "Share of rows in the smaller or larger part of a split, where it starts.",
        [Between(Real, 0, 1, "neither")],
        default=0.5,
    )
    balance_tol: float = parameter(
        "float",
        "The share stays within `balance` +- this, at all times; no cluster is empty.",
        [NOT_NEGATIVE],
        default=0.2,
    )
    center: bool = parameter(
        "bool",
        "Whether to subtract the mean from the rows of a cluster before it is split. Without, the "
        "mean direction of rows that are far from the origin outweighs all others, and draws the "
        "search to the edge of the balance.",
        ["boolean"],
        default=True,
    )

    _renamed: ClassVar[dict[str, tuple[str, str]]] = S2RLSCParameters._renamed
