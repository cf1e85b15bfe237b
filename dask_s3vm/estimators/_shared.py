"""Parameters and attributes that several estimators have: mixins of fields, most without methods.

An estimator takes those that it has. Where it has another default, it redeclares the field; where
something else is meant, also the words. Tests hold the list of these.
"""

import os
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from dask_s3vm.estimators._parameters import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    fitted,
    parameter,
    parametrized,
    redeclared,
)

#: What the parameter `callbacks` may be.
Callbacks = Callable[..., None] | Iterable[Callable[..., None]] | None


@parametrized
class RegularizationParameters:
    """The weight of the regularizer."""

    lam: float = parameter(
        "float", "Weight of the regularizer.", [POSITIVE], default=1e-3, kw_only=False
    )


@parametrized
class CostParameters:
    """The weight of the loss, in place of one of the regularizer."""

    C: float = parameter("float", "Cost of a labeled row.", [POSITIVE], default=1.0, kw_only=False)


@parametrized
class RatioParameters:
    """The share of the classes among the unlabeled rows."""

    positive_ratio: float | None = parameter(
        "float or None",
        "Share of `classes_[1]` among the unlabeled rows. None: its share among the labeled rows, "
        "which for few labels is a rough guess; a wrong ratio can double the error. For more than "
        "two classes always the shares of the labeled rows.",
        [SHARE, None],
        default=None,
    )

    positive_ratio_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)", "The share of positive rows that was used."
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

    unlabeled: int | str | None = parameter(
        "int, str or None",
        "Mark of rows without a label; None if there is no mark.",
        [Integral, str, None],
        default=-1,
    )


@parametrized
class SupervisedLabelParameters(LabelParameters):
    """How labels are read where rows without one are of no use."""

    unlabeled: int | str | None = redeclared(
        LabelParameters,
        "unlabeled",
        about="Mark of rows without a label, which are left out; None if there is no mark. If y "
        "has the values -1 and +1 only, these are taken as the two classes.",
        default=-1,
    )


@parametrized
class ClassWeightParameters:
    """Weights of the classes."""

    class_weight: dict[Any, float] | str | None = parameter(
        'dict, "balanced" or None',
        "Weights of the classes, on labeled rows.",
        [dict, str, None],
        default=None,
    )


@parametrized
class StoppingParameters:
    """When to stop."""

    tol: float = parameter(
        "float",
        "Relative gap of the objective at which training stops; trainings on the way there may "
        "stop earlier.",
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
        "Whether the search works in the shards, each on its own rows (True), or sees all rows at "
        'once (False). "auto": depends on the size of the data; see above.',
        ["boolean", StrOptions({"auto"})],
        default="auto",
    )

    def _place(self, in_shards: str, at_once: str) -> str:
        """What the methods call the value of `sharded`; "auto" has one name."""
        if isinstance(self.sharded, str):
            return self.sharded
        return in_shards if self.sharded else at_once


@parametrized
class ShardedSearch(ShardedParameters):
    """Where a search works, and where it did."""

    sharded_: bool = fitted(
        "bool",
        "Whether the search worked in the shards.",
    )


@parametrized
class ReportParameters:
    """What a fit tells while it runs."""

    callbacks: Callbacks = parameter(
        "callable, sequence of callables or None",
        "Called with every row of `history_` as it comes.",
        [callable, list, tuple, None],
        default=None,
    )
    verbose: bool = parameter(
        "bool", "Show a line of progress on standard error.", ["verbose"], default=False
    )


@parametrized
class RunParameters(ReportParameters):
    """What a fit tells while it runs, and what it leaves if it is interrupted."""

    checkpoint: str | os.PathLike[str] | None = parameter(
        "str, path or None",
        "Directory in which the fit keeps its state, from which an interrupted fit resumes; see "
        "the README. The state is removed when the fit is done.",
        [str, os.PathLike, None],
        default=None,
    )
