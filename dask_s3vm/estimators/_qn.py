"""QN-S3VM."""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._ratio import positive_ratios
from dask_s3vm.estimators._transductive import TransductiveS3VM
from dask_s3vm.methods.base import (
    BinarySolution,
    History,
    LinearSolution,
    TransductiveTask,
    collect,
)
from dask_s3vm.methods.qn import STAGES, QNSettings, train_qn


class QNS3VM(TransductiveS3VM):
    """Semi-supervised SVM with smooth losses, by a quasi-Newton method (QN-S3VM).

    Minimises (Gieseke et al., eq. 4)::

        1/l sum_lab 1/20 log(1 + exp(20 (1 - y f))) + lam_unlabeled/u sum_unl exp(-3 f^2)
            + lam |w|^2,    f(x) = w.(x - m) + b

    with m the mean of the unlabelled rows, by L-BFGS with one round over the rows per evaluation.
    With a kernel, x stands for features whose inner products are the kernel (eq. 9), and they are
    centred the same way.
    The weight of the unlabelled rows rises in stages, the first of which is the supervised
    problem. Finds a local minimum. Sample and class weights multiply the 1/l and 1/u as in `TSVM`.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser; |w|^2 is not halved.
    lam_unlabeled : float, default=1.0
        Weight of the unlabelled rows (lambda'). 0: the labelled rows alone.
    positive_ratio : float or None, default=None
        Share of `classes_[1]` among the unlabelled rows, which gives b. None: its share among the
        labelled rows, so that b is the mean of the known labels (eq. 13). For more than two classes
        always the shares of the labelled rows.
    offset : {"balanced", "free"}, default="balanced"
        "balanced": b = 2 positive_ratio - 1, the mean output of the unlabelled rows (section 3.4);
        "free": b is one more variable, and may put all unlabelled rows on one side.
    fit_intercept : bool, default=True
        False: f(x) = w.x, without offset and centering.
    threshold : {"zero", "ratio"}, default="zero"
        "ratio" moves the bias so that a share `positive_ratio` of the unlabelled rows is
        predicted positive; helps where that share is known.
    annealing : sequence of float, default=(0.0, 1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0)
        The stages, as parts of `lam_unlabeled`, rising to 1.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", "laplacian", ...: see `dask_s3vm.features.fit_kernel_map`, also for
        the parameters after it. Other kernels than the linear one are computed with landmark rows.
    n_components : int or None, default=500
        Landmarks; None: all rows, the exact kernel.
    sigma : float or "scale", default="scale"
        Width of the RBF kernel; "scale": a fifth of the diagonal of the ranges of the columns.
    gamma : float or None, default=None
        1 / (2 sigma^2), and the like for other kernels.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Constant of the polynomial and the sigmoid kernel.
    kernel_params : dict or None, default=None
        Parameters of a callable kernel.
    random_state : int, numpy Generator or RandomState, or None, default=None
        Draws the landmarks.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, on labelled rows.
    tol : float, default=1e-6
        The last stage ends where a step brings, and the next one promises, a relative decrease of
        at most this; those before at 1e-5 if that is more.
    gtol : float, default=1e-9
        A stage ends where no entry of the gradient exceeds this.
    max_iter : int, default=500
        Most evaluations per stage.
    warm_start : bool, default=False
        Start from the weights of the last fit, with its landmarks. The stages are walked all the
        same; to go on from there, set ``annealing=(1.0,)`` too.
    callbacks : callable, sequence of callables or None, default=None
        Called with every row of `history_` as it comes.
    checkpoint : str, path or None, default=None
        Directory in which the fit keeps its state, to be gone on with after an interruption; see
        the README. The state is removed when the fit is done.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_ : ndarray of shape (1, d) or (n_classes, d)
        Weights, of features if there is a kernel; one row for two classes, one-vs-rest for more.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        b - w.m: rows to be predicted need no centering. Moved by the threshold.
    objective_ : float or ndarray of shape (n_classes,)
        The objective above.
    positive_ratio_ : float or ndarray of shape (n_classes,)
        The share of positive rows that was used.
    transduction_ : array of shape (n,)
        Labels of the training rows: those given, and predictions for the others. A dask array, not
        yet computed, if X is one.
    n_iter_ : int
        Evaluations, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows, all of them counted.
    termination_ : str
        How the last stage ended: "converged", "precision" or "max_iter".
    history_ : list of dict
        One row per evaluation: stage, its weight of the unlabelled rows, evaluations so far,
        objective, norm of the gradient, seconds.
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    References
    ----------
    F. Gieseke, A. Airola, T. Pahikkala, O. Kramer. Fast and Simple Gradient-Based Optimization for
    Semi-Supervised Support Vector Machines.

    Examples
    --------
    >>> from dask_s3vm import QNS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = QNS3VM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    offset: str
    annealing: Sequence[float]
    gtol: float

    _counted = "evaluations"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TransductiveS3VM._parameter_constraints,
        "offset": [StrOptions({"balanced", "free"})],
        "annealing": ["array-like"],
        "gtol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        lam: float = 1e-3,
        lam_unlabeled: float = 1.0,
        *,
        positive_ratio: float | None = None,
        offset: str = "balanced",
        fit_intercept: bool = True,
        threshold: str = "zero",
        annealing: Sequence[float] = STAGES,
        kernel: str | Callable[..., float] = "linear",
        n_components: int | None = 500,
        sigma: float | str = "scale",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        unlabeled: int | str | None = -1,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        gtol: float = 1e-9,
        max_iter: int = 500,
        warm_start: bool = False,
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.lam_unlabeled = lam_unlabeled
        self.positive_ratio = positive_ratio
        self.offset = offset
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.annealing = annealing
        self.kernel = kernel
        self.n_components = n_components
        self.sigma = sigma
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.unlabeled = unlabeled
        self.class_weight = class_weight
        self.tol = tol
        self.gtol = gtol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _validate_params(self) -> None:
        super()._validate_params()
        stages = self._stages()
        rising = all(a < b for a, b in itertools.pairwise(stages))
        if not stages or not rising or not stages[0] >= 0.0 or stages[-1] != 1.0:
            raise ValueError(
                f"annealing must be numbers that rise from 0 or more to 1, got {self.annealing!r}"
            )
        if self.offset == "free" and not self.fit_intercept:
            raise ValueError("offset='free' has no effect with fit_intercept=False")

    def _stages(self) -> tuple[float, ...]:
        return tuple(float(part) for part in np.ravel(self.annealing))

    def _settings(self) -> QNSettings:
        return QNSettings(
            self.lam,
            self.lam_unlabeled,
            self._stages(),
            self.offset if self.fit_intercept else "none",
            self.tol,
            self.gtol,
            self.max_iter,
        )

    def _train(
        self, rows: Placed, task: TransductiveTask, start: np.ndarray | None, history: History
    ) -> BinarySolution:
        return train_qn(rows.engine, task, self._settings(), start, history, self._seeds)

    def _train_supervised(self, rows: Placed, history: History) -> LinearSolution:
        """Train on the labelled rows; without any other there is nothing to balance."""
        settings = replace(self._settings(), lam_unlabeled=0.0, stages=(1.0,))
        totals = rows.totals
        if not totals.unlabeled_weight and self.fit_intercept:
            settings = replace(settings, offset="free")
        solved = []
        for number, (positive, ratio) in enumerate(
            zip(rows.positives, positive_ratios(self, rows), strict=True)
        ):
            task = TransductiveTask(
                positive, rows.costs, totals.n_unlabeled, totals.unlabeled_weight, ratio
            )
            start = rows.internal_start(number)
            solved.append(train_qn(rows.engine, task, settings, start, history))
        return collect(rows.engine, solved)
