"""Probabilities from outputs: Platt's sigmoid, moved to the share of the classes.

The outputs o of a classifier say which class, and not how likely it is. For labeled rows that the
model has not seen, a sigmoid of two numbers is fitted by maximum likelihood (Platt, 1999):

    P(class | o) = 1 / (1 + exp(-(a o + b)))

with targets (n+ + 1) / (n+ + 2) and 1 / (n- + 2) in place of 1 and 0: few labels do not make
certain. The share q of the class among these labels is that of a sample, or of somebody's choice.
If the class has a share r among the rows that are to be predicted, Bayes' rule moves b by

    log(r / (1 - r)) - log(q / (1 - q))

where rows of a class are alike whatever its share.

With k classes, all have the same sigmoid of their own outputs, and probabilities are divided by
their sum. So the likeliest class is the one with the largest output, which is predicted. The two
numbers are those of maximum likelihood for the probabilities so divided, with targets
(1 + 1/n) / (1 + k/n) for the class of a row, and 1/n / (1 + k/n) for the others, n rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

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


def calibrate_classes(
    codes: np.ndarray, outputs: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Slope a >= 0 and level b of the probabilities of several classes.

    Parameters
    ----------
    codes : class number of each labeled row.
    outputs : (l, k) outputs of a model that has not seen its label.
    weights : sample weights.
    """
    n, n_classes = outputs.shape
    scale, weights = float(outputs.std()) or 1.0, (weights / weights.mean())[:, None]
    x = outputs / scale
    targets = ((codes[:, None] == np.arange(n_classes)) + 1.0 / n) / (1.0 + n_classes / n)

    def loss(sigmoid: np.ndarray) -> tuple[float, np.ndarray]:
        z = sigmoid[0] * x + sigmoid[1]
        logs = log_expit(z)
        logs -= np.logaddexp.reduce(logs, axis=1, keepdims=True)
        slopes = weights * (np.exp(logs) - targets) * expit(-z)
        gradient = np.array([np.add.reduce(part, axis=None) for part in (slopes * x, slopes)])
        return -float(np.add.reduce(weights * targets * logs, axis=None)), gradient

    slope, level = minimize(loss, [1.0, 0.0], jac=True, bounds=[(0.0, None), (-30.0, 30.0)]).x
    return float(slope) / scale, float(level)


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
    ratio: float | None,
) -> np.ndarray:
    """Slope and level of each class that is positive in turn, (k, 2); all alike if k > 1.

    `ratio` counts for two classes only.
    """
    with one_blas_thread():
        if len(positives) > 1:
            return np.tile(calibrate_classes(codes, outputs, weights), (len(positives), 1))
        return np.array([calibrate(codes == positives[0], outputs[:, 0], weights, ratio)])
