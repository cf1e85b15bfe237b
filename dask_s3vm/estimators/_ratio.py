"""The share of positive rows among the unlabeled: as users give it, or estimated."""

from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.exceptions import RatioWarning, warn
from dask_s3vm.methods.base import ClassTotals
from dask_s3vm.methods.ratio import RatioEstimate, RatioEstimates, estimate_ratios, given_ratio
from dask_s3vm.methods.run import Record

#: An estimated share is warned of when it may be off by more than this part of the smaller class.
MOSTLY_KNOWN = 0.5

#: Shares of all classes that a user gives sum to 1 within this.
ROUNDING = 1e-6


def positive_ratios(
    estimator: Any,
    record: Record,
    engine: Engine,
    classes: np.ndarray,
    totals: ClassTotals,
    positives: list[int],
    known: dict[str, RatioEstimates] | None = None,
) -> list[RatioEstimate]:
    """Share of positive rows among the unlabeled, for each binary problem.

    Those given, or estimates, with a warning where labels are too few to tell. `known` are
    estimates that other fits on the same rows have made, and gets this one.
    """
    given = estimator.positive_ratio
    if not isinstance(given, str):
        shares = given_shares(given, classes)
        return [given_ratio(shares[positive], totals.n_unlabeled) for positive in positives]
    known = {} if known is None else known
    if given not in known:
        record.report_progress({}, "estimating the ratio of the classes")
        compute = partial(estimate_ratios, engine, totals, positives, given)
        known[given] = record.once("ratio", RatioEstimates, compute)
    estimates = known[given].estimates
    if len(estimates) == 1 and totals.n_unlabeled:
        label = classes[1].item()
        _warn_of_guess(estimator, estimates[0], label, int(totals.counts.sum()))
    return estimates


def given_shares(given: Any, classes: np.ndarray) -> list[float]:
    """Share of each class, from a number for `classes[1]` or a dict with all of them."""
    known = classes.tolist()
    if not isinstance(given, Mapping):
        if len(known) > 2:
            raise ValueError(
                f"positive_ratio={given} is for two classes, y has {len(known)}; give a dict with "
                "the share of each class, or 'auto' to have them estimated"
            )
        return [1.0 - float(given), float(given)]
    if set(given) != set(known):  # True is 1: booleans beside missing ones are integers
        raise ValueError(
            f"positive_ratio has shares of {list(given)}; wanted those of the classes {known}"
        )
    shares = [given[label] for label in known]
    if all(isinstance(share, Real) and 0.0 <= float(share) <= 1.0 for share in shares):
        total = float(sum(shares))
        if abs(total - 1.0) <= ROUNDING:
            return [float(share) for share in shares]
        wrong = f"{dict(given)!r}, which sum to {total:.6g}"
    else:
        wrong = repr(dict(given))
    raise ValueError(f"positive_ratio must have shares from 0 to 1 that sum to 1, got {wrong}")


def _warn_of_guess(estimator: Any, ratio: RatioEstimate, label: Any, n_labels: int) -> None:
    value = ratio.value
    if ratio.high - ratio.low > 2.0 * MOSTLY_KNOWN * min(value, 1.0 - value):
        warn(
            f"{type(estimator).__name__}: positive_ratio={value:.3g}, the share of {label!r} among "
            f"the unlabeled rows, is estimated from {n_labels} labeled rows, and may be anything "
            f"from {ratio.low:.2g} to {ratio.high:.2g} (95 %); a wrong ratio can double the error: "
            "give positive_ratio if it is known",
            RatioWarning,
        )
