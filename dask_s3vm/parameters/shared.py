"""Parameters and attributes that several estimators have: mixins of fields, most without methods.

An estimator takes those that it has. Where it has another default, it redeclares the field; where
something else is meant, also the description. `tests/parameters` lists these.
"""

import os
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

from dask_s3vm.parameters.fields import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Between,
    OneOf,
    fitted,
    parameter,
    parametrized,
    redeclared,
)

#: Kernels that have a name, those of `sklearn.metrics.pairwise`.
KERNELS = (
    "additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf",
    "sigmoid",
)  # fmt: skip

#: What `kernel` can be.
KERNEL_CHOICES = (
    '"linear", "rbf", "poly", "laplacian", ...: see `dask_s3vm.features.fit_kernel_map`, also for '
    "the parameters after it."
)

#: `lam` unless it is given.
DEFAULT_LAM = 1e-3

#: What the parameter `callbacks` may be.
Callbacks = Callable[..., None] | Iterable[Callable[..., None]] | None


@parametrized
class RegularizationParameters:
    """The weight of the regularizer."""

    lam: float = parameter(
        "float",
        "Weight of the regularizer: of |w|^2 against the mean loss of the labeled rows. The same "
        "value means the same in every estimator that has `lam`; `lam_to_C` converts it for those "
        "that have `C`.",
        [POSITIVE],
        default=DEFAULT_LAM,
        kw_only=False,
    )


@parametrized
class CostParameters:
    """The weight of the loss, in place of one of the regularizer."""

    C: float = parameter(
        "float",
        "Cost of a labeled row, against |w|^2 / 2. `C_to_lam` converts it to the `lam` of other "
        "estimators.",
        [POSITIVE],
        default=1.0,
        kw_only=False,
    )


@parametrized
class RatioParameters:
    """The share of the classes among the unlabeled rows."""

    positive_ratio: float | str | dict[Any, float] = parameter(
        'float, dict, "auto", "labels" or "shift"',
        "Share of the positive class, the last one in sorted order, among the unlabeled rows, or "
        "the share of each class (a dict). It matters more than any other parameter. "
        '"auto": estimated from the labels and the outputs '
        "of supervised models, for labels drawn at random; the error is a quarter less than that "
        'of "labels", the share of the labeled rows, at 100 labels. "shift": estimated from the '
        "outputs alone, for labels that were not drawn at random, such as ten of each class.",
        [SHARE, OneOf(("auto", "labels", "shift")), dict],
        default="auto",
    )
    balance: str = parameter(
        '{"predictions", "paper"}',
        "How the share of positive predictions among the unlabeled rows is made to agree with "
        'the ratio. "predictions": of the models that a method finds on its way, only those whose '
        "share lies in `positive_ratio_interval_`, or nearest to it, are considered. The bias is "
        "then moved to the nearest end of the interval if the share lies outside. "
        '"paper": as published, where only labels in training, or the mean output, obey the ratio; '
        "with rare positives the lowest objective may then be that of a model that predicts none.",
        [OneOf(("predictions", "paper"))],
        default="predictions",
    )

    positive_ratio_: Any = fitted(
        "float or ndarray of shape (n_classes,)", "The share of positive rows that was used."
    )
    positive_ratio_interval_: Any = fitted(
        "ndarray of shape (2,) or (n_classes, 2)",
        "95 % interval of that share among the unlabeled rows: low, high.",
    )
    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and those found for the others. A dask array if "
        "X is one.",
    )


@parametrized
class TransductionParameters(RegularizationParameters, RatioParameters):
    """The weights of an objective with a term for unlabeled rows."""

    lam_unlabeled: float = parameter(
        "float",
        "Weight of the unlabeled rows (lambda'). 0 trains on the labeled rows alone.",
        [NOT_NEGATIVE],
        default=1.0,
        kw_only=False,
    )


@parametrized
class InterceptParameters:
    """Whether there is a bias."""

    fit_intercept: bool = parameter(
        "bool", "Whether the model has a bias.", ["boolean"], default=True
    )


@parametrized
class LabelParameters:
    """How labels are read."""

    unlabeled: float | str | None = parameter(
        "int, str, NaN or None",
        'Mark of rows without a label; None if there is no mark. "auto": -1 among whole numbers, '
        'NaN among numbers that have it, "" (None, NA, NaN) among strings; y of -1, 0 and +1 is '
        "refused if 0 is more frequent than -1, because it may be the mark.",
        [Integral, "nan", str, None],
        default="auto",
    )


@parametrized
class SupervisedLabelParameters(LabelParameters):
    """How labels are read where rows without one are of no use."""

    unlabeled: float | str | None = redeclared(
        LabelParameters,
        "unlabeled",
        description="Mark of rows without a label, which are left out; None if there is no mark. "
        '"auto": -1 among whole numbers, NaN among numbers that have it, "" (None, NA, NaN) among '
        "strings. If y has the values -1 and +1 only, these are taken as the two classes; -1, 0 "
        "and +1 are refused if 0 is more frequent than -1, because it may be the mark.",
        default="auto",
    )


@parametrized
class ClassWeightParameters:
    """Weights of the classes."""

    class_weight: dict[Any, float] | str | None = parameter(
        'dict, "balanced" or None',
        "Weights of the classes, on labeled rows. They multiply the mean loss: 2 for all classes "
        "counts, while a `sample_weight` of 2 for all rows does not. None: all 1.",
        [dict, str, None],
        default=None,
    )


@parametrized
class ProbabilityParameters:
    """Whether there are probabilities."""

    probability: bool = parameter(
        "bool",
        "Whether to calibrate probabilities, for `predict_proba`. Models of five folds of the "
        "labeled rows are trained too, each with up to 10,000 unlabeled rows. A sigmoid is fitted "
        "to the outputs of the rows that they have not seen (Platt) and moved to "
        "`positive_ratio_` where there is one. The likelier one of two classes need not be what "
        "`predict` returns; the likeliest one of more is.",
        ["boolean"],
        default=False,
    )

    calibration_: Any = fitted(
        "ndarray of shape (1, 2) or (n_classes, 2), or None",
        "a and b of the probability 1 / (1 + exp(-(a o + b))) of an output o; None without "
        "`probability`.",
    )


@parametrized
class StoppingParameters:
    """When to stop."""

    tol: float = parameter(
        "float",
        "Relative gap of the objective at which training stops. Intermediate trainings may stop "
        "earlier.",
        [NOT_NEGATIVE],
        default=1e-6,
    )
    max_iter: int = parameter(
        "int", "Maximum number of Newton steps of one training.", [COUNT], default=100
    )


@parametrized
class WarmStartParameters:
    """Where to start."""

    warm_start: bool = parameter(
        "bool",
        "Start from the weights of the last fit, with its landmarks.",
        ["boolean"],
        default=False,
    )


@parametrized
class ShardedParameters:
    """Where a search works."""

    sharded: bool | str = parameter(
        'bool or "auto"',
        "Whether the search works in shards of the data, each on its own rows, or sees all rows "
        'at once. "auto": depends on the size of the data; see above.',
        ["boolean", OneOf(("auto",))],
        default="auto",
    )


@parametrized
class ShardedSearch(ShardedParameters):
    """Where a search works, and where it did."""

    sharded_: bool = fitted(
        "bool",
        "Whether the search worked in the shards.",
    )


@parametrized
class SearchParameters(ShardedParameters):
    """A local search with restarts."""

    n_restarts: int = parameter(
        "int", "Number of searches; in a clustering, per split.", [COUNT], default=50
    )
    population: tuple[int, int] = parameter(
        "(int, int)",
        "Number of parents and of children in the evolutionary search, (mu+nu)-EA. (1, 1) takes "
        "the rows in turn instead of at random, which is the fastest.",
        [tuple, list],
        default=(5, 25),
    )
    patience: int | None = parameter(
        "int or None",
        "Number of restarts in a row without an improvement after which the search stops. None: "
        "all restarts are made.",
        [COUNT, None],
        default=None,
    )
    dtype: str = parameter(
        '{"float64", "float32"}',
        'Type of the numbers that the search works on. With "float32" they take half the memory; '
        "sums, and the final model, are float64 in either case.",
        [OneOf(("float32", "float64"))],
        default="float64",
    )


@parametrized
class KernelParameters:
    """The kernel; see `dask_s3vm.features.fit_kernel_map` for what the parameters mean."""

    kernel: str | Callable[..., float] = parameter(
        "str or callable",
        f"{KERNEL_CHOICES} Kernels other than the linear one are computed with landmark rows.",
        [OneOf(KERNELS), callable],
        default="linear",
    )
    n_components: int | None = parameter(
        "int or None",
        "Number of landmarks; None: all rows, the exact kernel.",
        [COUNT, None],
        default=500,
    )
    sigma: float | str = parameter(
        'float or "scale"',
        'Width of the RBF kernel; "scale": a fifth of the diagonal of the ranges of the columns.',
        [POSITIVE, OneOf(("scale",))],
        default="scale",
    )
    gamma: float | None = parameter(
        "float or None",
        "1 / (2 sigma^2), and the like for other kernels.",
        [POSITIVE, None],
        default=None,
    )
    degree: float = parameter(
        "float", "Degree of the polynomial kernel.", [NOT_NEGATIVE], default=3
    )
    coef0: float = parameter(
        "float",
        "Constant of the polynomial and the sigmoid kernel.",
        [Between(Real, None, None, "neither")],
        default=1.0,
    )
    kernel_params: dict[str, Any] | None = parameter(
        "dict or None", "Parameters of a callable kernel.", [dict, None], default=None
    )
    random_state: Any = parameter(
        "int, numpy Generator or RandomState, or None",
        "Draws the landmarks, and the random starts of a search where there are any. An int gives "
        "the same model every time.",
        ["random_state", "generator"],
        default=None,
    )

    kernel_map_: Any = fitted(
        "KernelMap or None",
        "Makes the features that `coef_` is over; None for the linear kernel.",
    )

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"


@parametrized
class ScaleParameters:
    """What is done to columns of different units."""

    scale: str = parameter(
        '{"auto", "none"}',
        'Whether to scale columns. "auto": those of dense rows to [0, 1] if their ranges differ by '
        "a factor of 100 or more; `coef_` is over the columns as given. Sparse rows, and rows that "
        'stay in files, are left as they are. "none": nothing is scaled.',
        [OneOf(("auto", "none"))],
        default="none",
    )


@parametrized
class LeastSquaresKernel(KernelParameters):
    """The kernel of least squares, which may need landmarks for the linear one too."""

    kernel: str | Callable[..., float] = redeclared(
        KernelParameters,
        "kernel",
        description=f"{KERNEL_CHOICES} Kernels other than the linear one are computed with "
        "landmark rows, and so is the linear one if X has more than 4,096 columns and more than "
        "4,096 rows; otherwise it is exact.",
        default="linear",
    )


@parametrized
class ReportParameters:
    """What a fit tells while it runs."""

    callbacks: Callbacks = parameter(
        "callable, sequence of callables or None",
        "Called with every row of `history_` as it comes; rows of several classes may alternate.",
        [callable, list, tuple, None],
        default=None,
    )
    verbose: bool = parameter(
        "bool", "Show a progress line on standard error.", ["verbose"], default=False
    )


@parametrized
class RunParameters(ReportParameters):
    """What a fit tells while it runs, and what it leaves if it is interrupted."""

    checkpoint: str | os.PathLike[str] | None = parameter(
        "str, path or None",
        "Directory (a path, or a URL such as ``s3://...``) in which the fit keeps its state, from "
        "which an interrupted fit resumes; see the page Faults of the documentation. The state is "
        "removed when the fit is done.",
        [str, os.PathLike, None],
        default=None,
    )
