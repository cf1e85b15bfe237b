"""What methods share: a binary problem, its solution, and what is known of the labels.

Seeds. TSVM, DA, QN-S3VM and S2RLSC go from an easy problem, with one minimum, to the hard one. A
seed is what a solve leaves for the next smaller lam: a place on the easy part of that way, where it
depends on nothing but the rows and lam. The hard part, in which labels are decided, is always
repeated. A model that was found with a seed is thus one that the method could have found; it need
not be the one that it finds alone.

L2SVM   the solution itself: the problem is convex.
TSVM    weights of the supervised SVM, from which the first labels come. Not needed where labeled
        rows are few, see `methods.labeled_rows`: the way is then that of a solve alone.
QN      weights of the first stage, without the unlabeled rows.
DA      weights at the last temperature at which nearly nothing was decided. Cooling begins there,
        and goes into less detail: the descent at the end, on the objective itself, does the rest.
S2RLSC  labels that the restart of the same number has found, from which it goes on.

On two pairs of digits (500 rows, 50 labels, lam from 1024 down to 1/1024 in steps of 4, for DA from
256 to 1/256, and lam_unlabeled 0.01, 1 and 100) the geometric mean of the ratio of objectives, with
seeds over without, was 0.88 and 0.84 for S2RLSC, 0.90 twice for DA, 1.00 and 0.99 for TSVM, 1.00
twice for QN. Single ratios went up to 1.15 (DA) and down to 0.44 (S2RLSC with a small lam, where
random starts fail).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import select
from dask_s3vm.engine.shard import Shard
from dask_s3vm.methods.run import HistoryRow, Method, R, Record
from dask_s3vm.problems.transductive import count_positive, falling_outputs, set_outputs

#: How a training may end, from good to bad: "precision" where rounding allowed no further step.
ENDINGS = ("converged", "precision", "max_stages", "max_iter")

#: Labels of unlabeled rows may end within this part of the interval of the ratio, which is about a
#: standard error, and at most so far from the ratio; not where that is too little to train again,
#: nor where the interval is so wide that nothing is known. With 30 labels and more, and without
#: these limits, it gained 0.2 points of error on the mean of 77 sets and numbers of labels; with
#: ten labels it lost on some.
LABEL_SHARE = 0.5
MOST_LABEL_DRIFT = 0.05
LEAST_WINDOW = 0.01
WIDEST_INTERVAL = 0.4

#: Least weight of all rows of a class together: squares of less could underflow.
MIN_TOTAL = 1e-100

#: A share of positive predictions is far off by more than this part of the smaller class.
FAR_OFF = 0.5


@dataclass(frozen=True)
class BinaryTask:
    """A binary problem: what is positive, and how much everything counts.

    positive : the class number that is +1.
    costs : cost of a labeled row by its class.
    n_unlabeled, unlabeled_weight : number and total sample weight of the unlabeled rows.
    ratio : r, the share of the unlabeled rows that is positive.
    ratio_interval : where it lies at 95 %.
    to_ratio : whether predictions outside the interval are moved to the ratio itself, not to the
        nearest end: for methods whose threshold ignores the shares of the classes.
    competes : whether outputs are compared with those of other classes, each against the rest.
    modest : whether as few rows of the rare class are to be predicted as the interval allows, or,
        where it allows none, half of the ratio at most; see `methods.unseen`.
    """

    positive: int
    costs: np.ndarray
    n_unlabeled: int = 0
    unlabeled_weight: float = 0.0
    ratio: float = 0.5
    ratio_interval: tuple[float, float] = (0.0, 1.0)
    to_ratio: bool = False
    competes: bool = False
    modest: bool = False

    @property
    def n_positive(self) -> int:
        """Number of unlabeled rows to be labeled +1."""
        return int(np.floor(self.ratio * self.n_unlabeled + 0.5))

    @property
    def rare_is_known(self) -> bool:
        """Whether the interval of the ratio tells which class is rare."""
        low, high = self.ratio_interval
        return high < 0.5 or low > 0.5

    @property
    def count_window(self) -> tuple[int, int]:
        """Fewest and most unlabeled rows that may be predicted to be positive."""
        low, high = (end * self.n_unlabeled for end in self.ratio_interval)
        return min(int(np.ceil(low)), self.n_positive), max(int(high), self.n_positive)

    @property
    def label_window(self) -> tuple[int, int]:
        """Fewest and most unlabeled rows that may be labeled +1 when a training ends.

        Labels that must agree with a wrong ratio to the row put rows on the wrong side. Without
        any bound, all of them may end on one.
        """
        low, high = self.ratio_interval
        is_known = high - low <= WIDEST_INTERVAL
        low = self.ratio - min(LABEL_SHARE * (self.ratio - low), MOST_LABEL_DRIFT)
        high = self.ratio + min(LABEL_SHARE * (high - self.ratio), MOST_LABEL_DRIFT)
        if high - low < LEAST_WINDOW or not is_known:
            return self.n_positive, self.n_positive
        fewest, most = int(np.ceil(low * self.n_unlabeled)), int(high * self.n_unlabeled)
        return min(fewest, self.n_positive), max(most, self.n_positive)

    def nearest_count(self, n: int) -> int:
        """Number of positive predictions that n is to become: n itself inside the window."""
        low, high = self.count_window
        nearest = min(max(n, low), high)
        if self.modest:
            # a class that is there is predicted: half way to an end without any
            if self.ratio < 0.5:
                return min(nearest, low or self.n_positive // 2)
            return max(nearest, high if high < self.n_unlabeled else (high + self.n_positive) // 2)
        return self.n_positive if self.to_ratio and nearest != n else nearest


@dataclass(frozen=True)
class Start:
    """Where a solve starts.

    w : (d + 1,) weights in internal order.
    seed : what the solve for the next larger lam left, or None.
    seeded : whether a seed is wanted for the next smaller lam.
    """

    w: np.ndarray
    seed: Any = None
    seeded: bool = False


@dataclass(frozen=True)
class BinaryJob:
    """One binary problem to be solved for one model.

    engine : the rows.
    record : of the fit; drives the methods.
    task, start : the problem, and where to start.
    name : what names of its states begin with; these are dropped when it is solved.
    tags : columns that its rows of the history begin with.
    place, number : of the model, and of the problem.
    """

    engine: Engine
    record: Record
    task: BinaryTask
    start: Start
    name: str = "problem"
    tags: HistoryRow = field(default_factory=dict)
    place: int = 0
    number: int = 0

    def run(self, method: Method[Any, R], part: str = "fit") -> R:
        """Run a method, or one of several of which the solve consists."""
        return self.record.run(f"{self.name}/{part}", method, self.tags)


@dataclass(frozen=True)
class BinarySolution:
    """Weights (d + 1,) of one binary problem in internal order, and how they were found.

    n_iter : outer iterations.
    termination : one of `ENDINGS`.
    seed : what the solve for the next smaller lam can start from.
    supervised_part : part of the supervised SVM in the weights; see `methods.blend`.
    moved : how far the bias was moved to predict few rows of a rare class; see `methods.unseen`.
    """

    w: np.ndarray
    objective: float
    termination: str
    n_iter: int = field(default=0, kw_only=True)
    seed: Any = field(default=None, kw_only=True)
    supervised_part: float = field(default=0.0, kw_only=True)
    moved: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if self.termination not in ENDINGS:
            raise ValueError(f"termination must be one of {ENDINGS}, got {self.termination!r}")


@dataclass(frozen=True)
class ClassTotals:
    """Rows and total sample weight of each class, and of the unlabeled rows."""

    counts: np.ndarray
    weights: np.ndarray
    n_unlabeled: int
    unlabeled_weight: float = 0.0


def class_totals(engine: Engine, n_classes: int) -> ClassTotals:
    """Count the labels. Costs: 1 round, no pass over the rows."""
    counts, weights = engine.sum(count_labels, n_classes)
    tiny = weights[(weights > 0.0) & (weights < MIN_TOTAL)]
    if len(tiny):
        raise ValueError(
            f"sample_weight of a class, or of unlabeled rows, adds up to {tiny[0]:.3g}; wanted 0 "
            f"or at least {MIN_TOTAL:.0e}: divide the weights by their mean"
        )
    return ClassTotals(counts[:-1], weights[:-1], int(counts[-1]), float(weights[-1]))


def count_labels(shard: Shard, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, sample weight) of each class in a shard; unlabeled rows last."""
    assert shard.codes is not None, "labels are needed to count them"
    codes = np.where(shard.codes < 0, n_classes, shard.codes)  # unlabeled rows go last
    size = n_classes + 1
    counts = np.bincount(codes, minlength=size)
    counts[-1] = np.count_nonzero(shard.unlabeled)  # without those of weight 0
    weights = np.bincount(codes, weights=shard.weights, minlength=size).astype(np.float64)
    return counts, weights


# Weights of the unlabeled rows --------------------------------------------------------------------


def one_weight(engine: Engine, name: str) -> float:
    """Return the weight that all unlabeled rows have, those of weight 0 left out.

    Costs: 1 round, no pass over the rows.
    """
    found = engine.each(weight_range)
    low, high = min(part[0] for part in found), max(part[1] for part in found)
    if low != high:
        raise ValueError(
            f"sample_weight of unlabeled rows ranges from {low:.6g} to {high:.6g}, but {name} "
            "counts unlabeled rows; wanted one weight for all of them, or 0 to leave some out"
        )
    return low


def weight_range(shard: Shard) -> tuple[float, float]:
    """Smallest and largest weight of the unlabeled rows that count."""
    chosen = shard.unlabeled
    if not chosen.any():
        return np.inf, -np.inf
    if shard.weights is None:
        return 1.0, 1.0
    return float(shard.weights[chosen].min()), float(shard.weights[chosen].max())


# The share of positive predictions ----------------------------------------------------------------
#
# No method of the papers makes the classifier that it returns predict a share r of positives: only
# labels in training obey it, or the mean output. The transductive objective is lowest where all
# unlabeled rows are on one side, so that with rare positives the best objective may be worthless.


def n_predicted_positive(engine: Engine, w: np.ndarray, bias: float) -> int:
    """Number of unlabeled rows with a positive output at w. Costs: 1 round, 1 pass."""
    (n,) = engine.sum(count_positive, w, bias)
    return int(n)


def is_balanced(share: float, ratio: float) -> bool:
    """Whether a share of positive predictions is near the ratio; if not, a fit may be of no use."""
    return abs(share - ratio) <= FAR_OFF * min(ratio, 1.0 - ratio) + 0.02


def balanced_weights(
    engine: Engine, w: np.ndarray, bias: float, task: BinaryTask, n: int | None = None
) -> np.ndarray:
    """Weights with the bias moved as little as makes the share of positive predictions agree.

    n : number of positive predictions, if it is known.

    Costs: 1 round and 1 pass if it is not; where the share disagrees, those of `ratio_threshold`
    too.
    """
    n = n_predicted_positive(engine, w, bias) if n is None else n
    wanted = task.nearest_count(n)
    if wanted == n:
        return w
    moved = w.copy()
    moved[-1] -= ratio_threshold(engine, w, bias, wanted, task.n_unlabeled)
    return moved


def ratio_threshold(
    engine: Engine, w: np.ndarray, bias: float, n_positive: int, n_unlabeled: int
) -> float:
    """Output above which `n_positive` of the unlabeled rows lie, as near as ties allow.

    The middle between the last row above and the first below. Costs: 5-9 rounds as a rule, 1 pass.
    """
    engine.each(set_outputs, w, bias)
    last = select(engine, max(n_positive - 1, 0), falling_outputs)
    first = select(engine, min(n_positive, n_unlabeled - 1), falling_outputs)
    return threshold_between(-last.value, -first.value, n_positive, n_unlabeled)


def threshold_between(last: float, first: float, n_positive: int, n_unlabeled: int) -> float:
    """Threshold between the outputs of the last row above it and the first one below."""
    if n_positive == 0:
        return last + _clear_of(last)
    if n_positive == n_unlabeled:
        return first - _clear_of(first)
    return 0.5 * (last + first)


def _clear_of(value: float) -> float:
    """A distance at which the rounding of an output does not matter."""
    return 1e-9 * (1.0 + abs(value))
