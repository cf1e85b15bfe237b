"""The share of each class among the unlabeled rows, with a 95 % interval.

"labels"  The share of the labeled rows.

"auto"    Prediction-powered inference (Angelopoulos et al., 2023). Out-of-fold scores g of the
          labeled rows, and scores of the unlabeled rows by the same models, correct the share:

              p = mean_lab z + k (mean_unl g - mean_lab g),    k = cov(z, g) / var(g)

          with z = 1 for rows of the class. Few rows are divided into folds several times, and
          scores are means over the divisions. What is wanted is the share of the unlabeled rows at
          hand, not of the source they come from. Its error is the difference between the means of
          z - k g over labeled and over unlabeled rows, of variance var(z - k g) (1/l + 1/u), and
          this k makes it smallest; k = 0 is the share. It is right if labels were drawn at random.
          Estimates p_j of c >= 4 classes, of variances v_j, are drawn to equal shares, the more the
          nearer to these they are in units of their deviations (James & Stein, 1961):

              1/c + max(0, 1 - (c - 3) / S) (p_j - 1/c),    S = (c - 1)/c sum_j (p_j - 1/c)^2 / v_j

"shift"   Labels that were not drawn at random, as so many for each class, say nothing by their
          share. Scores calibrated on the labeled rows give densities of the classes up to a factor,
          of which the unlabeled rows are a mixture; its weights of maximum likelihood are the
          shares (Saerens et al., 2002). Their deviation s comes from repeated draws of the labeled
          rows. Weak scores say little: where any shares of c classes are as likely beforehand,
          of mean 1/c and variance v = (c - 1) / (c^2 (c + 1)), the estimate is drawn to 1/c by
          the factor v / (v + s^2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, expit, ndtri, stdtrit

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import ClassTotals
from dask_s3vm.methods.calibration import fit_sigmoid
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems.fold_scores import (
    count_outputs,
    gather_labeled,
    mean_scores,
    scores_of,
    train_folds,
)
from dask_s3vm.problems.folds import assign_folds

#: With fewer labeled rows of a class, or outside it, scores tell nothing reliable.
LEAST_ROWS = 3

#: Labeled rows are gathered up to this number, and dense ones up to this size. Beyond, the share is
#: within 0.022 at 95 %.
MOST_ROWS = 2000
MOST_BYTES = 256 << 20

#: Most that a score counts.
MOST_POWER = 1.5

#: Folds share training rows, so that out-of-fold scores vary together: so much more variance.
DEPENDENCE = 1.25

#: Rows that the scores got wholly wrong, but which are not among the labeled ones: half a row, as
#: in Jeffreys' interval of a share. Without them, scores that are right about all of few labels
#: would leave no doubt at all.
WRONG_ROWS = 0.5

#: 95 % intervals.
TAIL = 0.025

#: Repeated draws of the labeled rows from which the deviation of "shift" comes.
DRAWS = 200

#: The draws leave the models as they are, which others had been trained on: so much more deviation.
UNSEEN = 1.3


@dataclass(frozen=True)
class RatioEstimate:
    """Share of a class among the unlabeled rows.

    low, high : 95 % interval of it.
    source : "given", "labels", "auto" or "shift"; "auto" may have had to take "labels".
    """

    value: float
    low: float
    high: float
    source: str

    @property
    def interval(self) -> tuple[float, float]:
        """(low, high)."""
        return self.low, self.high


@dataclass(frozen=True)
class RatioEstimates:
    """One estimate for each binary problem."""

    estimates: list[RatioEstimate]


def given_ratio(value: float, n_unlabeled: int) -> RatioEstimate:
    """A share that is known; the interval is that of the share among so many rows drawn with it."""
    half = -float(ndtri(TAIL)) * math.sqrt(value * (1.0 - value) / max(n_unlabeled, 1))
    return RatioEstimate(value, max(value - half, 0.0), min(value + half, 1.0), "given")


def estimate_ratios(
    engine: Engine, totals: ClassTotals, positives: Sequence[int], how: str
) -> RatioEstimates:
    """Estimate the share of each class that is positive in turn; over all classes they sum to 1.

    Parameters
    ----------
    engine : rows with class numbers, -1 where unlabeled.
    totals : what is known of the labels.
    positives : class numbers.
    how : "labels", "auto" or "shift".

    Costs: nothing for "labels", else 2 rounds, 1 pass with a column for each fold and class.
    """
    estimates = shares_of_labels(totals, positives)
    if how != "labels" and totals.n_unlabeled and can_gather(engine, totals):
        estimates = _from_scores(engine, positives, how, estimates)
    if len(positives) > 1:
        estimates = _summing_to_one(estimates)
    if how == "auto" and len(positives) > 3:
        estimates = _drawn_to_equal(estimates)
    return RatioEstimates(estimates)


def shares_of_labels(totals: ClassTotals, positives: Sequence[int]) -> list[RatioEstimate]:
    """Shares of the labeled rows, by their weights, with Jeffreys' intervals.

    The intervals are for the share among the unlabeled rows, which varies too if these are few.
    """
    n, total = int(totals.counts.sum()), float(totals.weights.sum())
    more = math.sqrt(1.0 + n / max(totals.n_unlabeled, 1))
    estimates = []
    for positive in positives:
        share = float(totals.weights[positive]) / total
        found = betaincinv(n * share + 0.5, n * (1.0 - share) + 0.5, (TAIL, 1.0 - TAIL))
        low, high = (share + more * (float(end) - share) for end in found)
        estimates.append(RatioEstimate(share, max(low, 0.0), min(high, 1.0), "labels"))
    return estimates


def can_gather(engine: Engine, totals: ClassTotals) -> bool:
    """Whether the labeled rows are few enough to come together at the client."""
    n, layout = int(totals.counts.sum()), engine.layout
    return n <= MOST_ROWS and (layout.sparse or 8 * n * layout.n_features <= MOST_BYTES)


def _from_scores(
    engine: Engine, positives: Sequence[int], how: str, shares: list[RatioEstimate]
) -> list[RatioEstimate]:
    """Estimates from scores, for classes with labeled rows enough."""
    labeled = gather_labeled(engine)
    z = labeled.codes[:, None] == np.asarray(positives)
    n, counts = len(z), np.count_nonzero(z, axis=0)
    enough = np.minimum(counts, n - counts) >= LEAST_ROWS
    if not enough.any():
        return shares
    folds = assign_folds(labeled.codes, np.arange(n))
    models = train_folds(labeled, np.where(z, 1.0, -1.0), folds)
    if how == "auto":
        means, n_unlabeled = mean_scores(engine, models)
        scores = scores_of(models.outputs).mean(axis=0)
        found = [
            powered(z[:, c], scores[:, c], labeled.weights, float(means[c]), n_unlabeled)
            for c in range(len(positives))
        ]
    else:
        outputs = models.outputs.mean(axis=0)
        middles, weights = count_outputs(engine, models)
        with one_blas_thread():
            found = [
                shifted(
                    z[:, c], outputs[:, c], labeled.weights, middles, weights[c],
                    max(len(positives), 2),
                )
                for c in range(len(positives))
            ]  # fmt: skip
    return [new if use else old for new, old, use in zip(found, shares, enough, strict=True)]


def powered(
    z: np.ndarray, scores: np.ndarray, weights: np.ndarray, unlabeled: float, n_unlabeled: float
) -> RatioEstimate:
    """Prediction-powered estimate.

    Parameters
    ----------
    z : whether a labeled row is of the class.
    scores : out-of-fold scores of the labeled rows, 0 to 1.
    weights : their sample weights.
    unlabeled : mean score of the unlabeled rows.
    n_unlabeled : their number.
    """
    weights = weights / np.add.reduce(weights)
    n = 1.0 / float(np.add.reduce(weights**2))  # as many rows of equal weight say as much
    share, score = float(np.add.reduce(weights * z)), float(np.add.reduce(weights * scores))
    dz, dg = z - share, scores - score
    var_z, var_g = float(np.add.reduce(weights * dz**2)), float(np.add.reduce(weights * dg**2))
    covariance = float(np.add.reduce(weights * dz * dg))
    power = 0.0
    free = max(n - 3.0, 1.0)
    if covariance > 0.0 and var_g > 0.0:
        # less where the slope k of the regression is known no better than its own size; rows of the
        # rarer class are what it is known from
        explained = covariance**2 / (var_z * var_g)
        rare = n * min(share, 1.0 - share)
        doubt = 2.0 * (1.0 - explained) / (explained * max(rare - 2.0, 1.0))
        power = min(covariance / var_g, MOST_POWER) * max(1.0 - doubt, 0.0)
    value = share + power * (unlabeled - score)
    rest = (float(np.add.reduce(weights * (dz - power * dg) ** 2)) * n + WRONG_ROWS) / free
    spread = math.sqrt(DEPENDENCE * rest * (1.0 / n + 1.0 / n_unlabeled))
    half = -float(stdtrit(free, TAIL)) * spread
    value = min(max(value, 0.0), 1.0)
    return RatioEstimate(value, max(value - half, 0.0), min(value + half, 1.0), "auto")


def shifted(
    z: np.ndarray,
    outputs: np.ndarray,
    weights: np.ndarray,
    bins: np.ndarray,
    counts: np.ndarray,
    n_classes: int = 2,
) -> RatioEstimate:
    """Maximum likelihood estimate where labels were drawn by class.

    Parameters
    ----------
    z, weights : see `powered`.
    outputs : out-of-fold outputs of the labeled rows.
    bins, counts : middles of bins, and the weight of unlabeled rows with outputs in them.
    n_classes : c, the number of classes.
    """
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(z == side) for side in (False, True)]
    draws = [rng.choice(own, size=(DRAWS, len(own))) for own in members]
    chosen = np.concatenate([np.arange(len(z))[None, :], np.concatenate(draws, axis=1)])
    found = np.array([_mixture(z[i], outputs[i], weights[i], bins, counts) for i in chosen])
    variance = (UNSEEN * float(found[1:].std(ddof=1))) ** 2
    usual = 1.0 / n_classes
    before = usual**2 * (n_classes - 1) / (n_classes + 1)
    factor = before / (before + variance)
    value = usual + factor * (float(found[0]) - usual)
    half = -float(ndtri(TAIL)) * math.sqrt(factor * variance)
    return RatioEstimate(value, max(value - half, 0.0), min(value + half, 1.0), "shift")


def _mixture(
    z: np.ndarray, outputs: np.ndarray, weights: np.ndarray, bins: np.ndarray, counts: np.ndarray
) -> float:
    """Weight of maximum likelihood of the positive class in a mixture of both."""
    weights = weights / weights.mean()
    share = float(np.add.reduce(weights * z) / np.add.reduce(weights))
    slope, level = fit_sigmoid(z, outputs, weights)
    posterior = expit(slope * bins + level)
    excess = posterior / share - (1.0 - posterior) / (1.0 - share)
    base = (1.0 - posterior) / (1.0 - share)
    low, high = 0.0, 1.0
    for _ in range(40):  # the likelihood is concave: its slope has one sign change
        middle = 0.5 * (low + high)
        if float(np.add.reduce(counts * excess / (base + middle * excess))) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _summing_to_one(estimates: list[RatioEstimate]) -> list[RatioEstimate]:
    """Shares of all classes, moved together with their intervals so that they sum to 1.

    The uncertain ones move most: in proportion to the squares of their widths.
    """
    values = np.array([one.value for one in estimates])
    widths = np.array([one.high - one.low for one in estimates]) ** 2 + 1e-300
    moved = np.maximum(values + (1.0 - values.sum()) * widths / widths.sum(), 0.0)
    moved /= moved.sum()
    return _moved(estimates, moved)


def _drawn_to_equal(estimates: list[RatioEstimate]) -> list[RatioEstimate]:
    """Shares of c >= 4 classes, drawn to 1/c; see the module. Their sum stays."""
    values, n_classes = np.array([one.value for one in estimates]), len(estimates)
    widths = np.array([one.high - one.low for one in estimates])
    deviations = np.maximum(widths / (-2.0 * float(ndtri(TAIL))), 1e-150)
    away = values - 1.0 / n_classes
    size = (n_classes - 1) / n_classes * float(np.add.reduce((away / deviations) ** 2))
    factor = 1.0 - (n_classes - 3) / size if size > n_classes - 3 else 0.0
    return _moved(estimates, 1.0 / n_classes + factor * away)


def _moved(estimates: list[RatioEstimate], values: np.ndarray) -> list[RatioEstimate]:
    """Estimates of other values; intervals keep their widths."""
    return [
        RatioEstimate(
            float(value),
            float(np.clip(one.low + value - one.value, 0.0, value)),
            float(np.clip(one.high + value - one.value, value, 1.0)),
            one.source,
        )
        for one, value in zip(estimates, values, strict=True)
    ]
