"""Probabilities from outputs: Platt's sigmoid, moved to the share of the classes.

The outputs o of a classifier say which class, and not how likely it is. For labeled rows that the
model has not seen, a sigmoid of two numbers is fitted by maximum likelihood (Platt, 1999):

    P(class | o) = 1 / (1 + exp(-(a o + b)))

with targets (n+ + 1) / (n+ + 2) and 1 / (n- + 2) in place of 1 and 0: few labels do not make
certain. The share q of the class among these labels is that of a sample, or of somebody's choice.
If the class has a share r among the rows that are to be predicted, Bayes' rule moves b by

    log(r / (1 - r)) - log(q / (1 - q))

where rows of a class are alike whatever its share. With several classes, each has its own sigmoid
against all others, and probabilities are divided by their sum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dask_s3vm.methods.run import Method
from dask_s3vm.numerics.linalg import one_blas_thread

#: Shares are kept this far from 0 and 1: a class that is there is not impossible.
LEAST_SHARE = 1e-4


def fit_sigmoid(
    targets: np.ndarray, outputs: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Slope and level of a logistic regression on outputs.

    targets : probabilities, from 0 to 1. Terminates even if the rows are separable.
    """
    scale = float(outputs.std()) or 1.0
    x = np.column_stack([outputs / scale, np.ones(len(targets))])
    ridge = np.array([1e-2, 1e-9])
    found = np.zeros(2)
    for _ in range(30):
        p = expit(x @ found)
        gradient = x.T @ (weights * (p - targets)) + ridge * found
        curved = (x * (weights * p * (1.0 - p))[:, None]).T @ x + np.diag(ridge)
        step = np.clip(np.linalg.solve(curved, gradient), -2.0, 2.0)
        found = found - step
        if np.abs(step).max() < 1e-8:
            break
    return float(found[0]) / scale, float(found[1])


def calibrate(
    z: np.ndarray, outputs: np.ndarray, weights: np.ndarray, ratio: float | None = None
) -> tuple[float, float]:
    """Slope a and level b of the probabilities of a class.

    Parameters
    ----------
    z : whether a labeled row is of the class; some are, and some are not.
    outputs : outputs for it, of a model that has not seen its label.
    weights : sample weights.
    ratio : share of the class among the rows to be predicted; None: that of the labels.

    Returns
    -------
    (a, b), a >= 0: outputs that rank the rows the wrong way round tell nothing.
    """
    weights = weights / weights.mean()
    positive = float(np.add.reduce(weights * z))
    negative = float(np.add.reduce(weights)) - positive
    targets = np.where(z, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    middle = float(np.add.reduce(weights * outputs)) / len(z)
    slope, level = fit_sigmoid(targets, outputs - middle, weights)
    level -= slope * middle
    if slope <= 0.0:
        slope, level = 0.0, _log_odds((positive + 1.0) / (positive + negative + 2.0))
    if ratio is not None:
        level += _log_odds(ratio) - _log_odds(positive / (positive + negative))
    return slope, level


def _log_odds(share: float) -> float:
    share = min(max(share, LEAST_SHARE), 1.0 - LEAST_SHARE)
    return math.log(share) - math.log1p(-share)


# Outputs of rows that a model has not seen -------------------------------------------------------


@dataclass(frozen=True)
class FoldOutputs:
    """Outputs of labeled rows, by models of the other folds.

    outputs : (l, k); 0 where the fold is not done.
    n_done, n_folds : folds done, and how many there are.
    """

    outputs: np.ndarray
    n_done: int
    n_folds: int

    @property
    def done(self) -> bool:
        """Whether all folds are done."""
        return self.n_done >= self.n_folds


class OutputsOfFolds(Method[FoldOutputs, FoldOutputs]):
    """Trains a model without each fold in turn.

    Parameters
    ----------
    folds : fold of each labeled row.
    n_problems : k, number of binary problems.
    outputs_without : (mask of the labeled rows that are held out) -> (held out, k) outputs.
    """

    State = FoldOutputs
    Result = FoldOutputs

    def __init__(
        self,
        folds: np.ndarray,
        n_problems: int,
        outputs_without: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._folds = folds
        self._n_problems = n_problems
        self._outputs_without = outputs_without

    def start(self) -> FoldOutputs:
        """No fold is done."""
        outputs = np.zeros((len(self._folds), self._n_problems))
        return FoldOutputs(outputs, 0, int(self._folds.max()) + 1)

    def advance(self, state: FoldOutputs) -> FoldOutputs:
        """Train on all folds but one."""
        out = self._folds == state.n_done
        outputs = state.outputs.copy()
        if out.any():
            outputs[out] = self._outputs_without(out)
        return FoldOutputs(outputs, state.n_done + 1, state.n_folds)

    def finish(self, state: FoldOutputs) -> FoldOutputs:
        """Return what was found."""
        return state

    def progress(self, state: FoldOutputs) -> tuple[str, float | None]:
        """Folds take about the same time."""
        what = f"calibration, fold {state.n_done + 1} of {state.n_folds}"
        return what, state.n_done / state.n_folds


def calibrate_all(
    codes: np.ndarray,
    outputs: np.ndarray,
    weights: np.ndarray,
    positives: Sequence[int],
    ratios: Sequence[float | None],
) -> np.ndarray:
    """Slope and level of each class that is positive in turn, (k, 2); see `calibrate`."""
    with one_blas_thread():
        found = [
            calibrate(codes == positive, outputs[:, place], weights, ratio)
            for place, (positive, ratio) in enumerate(zip(positives, ratios, strict=True))
        ]
    return np.array(found)
