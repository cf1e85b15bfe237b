"""What is known of the unlabeled rows before training: whether there are any, and their shares."""

from typing import Any

from dask_s3vm.estimators._base import Placed
from dask_s3vm.exceptions import RatioWarning
from dask_s3vm.interrupts import warn
from dask_s3vm.methods.balance import share_interval

#: An estimated share is warned of when it may be off by more than this part of the smaller class.
MOSTLY_KNOWN = 0.5


def positive_ratios(estimator: Any, rows: Placed) -> list[float]:
    """Share of positive rows among the unlabeled, for each binary problem.

    The one given, or those of the labeled rows, with a warning where these are too few to tell.
    """
    given = estimator.positive_ratio
    if given is None:
        share = rows.totals.weights / rows.totals.weights.sum()
        ratios = [float(share[positive]) for positive in rows.positives]
        if len(ratios) == 1 and rows.totals.n_unlabeled:
            _warn_of_guess(estimator, ratios[0], int(rows.totals.counts.sum()))
        return ratios
    if len(rows.classes) > 2:
        raise ValueError(
            f"positive_ratio={given} is for two classes, y has {len(rows.classes)}; leave it "
            "None to take the shares of the labeled rows"
        )
    return [float(given)]


def has_unlabeled(estimator: Any, rows: Placed) -> bool:
    """Whether there are unlabeled rows that count; warns if not."""
    if rows.totals.n_unlabeled > 0 and rows.totals.unlabeled_weight > 0:
        return True
    warn(
        f"{type(estimator).__name__}: y has no unlabeled row (none is {estimator.unlabeled!r}, or "
        "their weight is 0); the supervised problem is solved",
        UserWarning,
    )
    return False


def _warn_of_guess(estimator: Any, ratio: float, n_labels: int) -> None:
    low, high = share_interval(ratio, n_labels)
    if high - low > 2.0 * MOSTLY_KNOWN * min(ratio, 1.0 - ratio):
        warn(
            f"{type(estimator).__name__}: positive_ratio={ratio:.3g} is estimated from {n_labels} "
            f"labeled rows, and may be anything from {low:.2g} to {high:.2g} (95 %); a wrong "
            "ratio can double the error: give positive_ratio if it is known",
            RatioWarning,
        )
