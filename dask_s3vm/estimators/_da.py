"""Deterministic annealing."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._transductive import TransductiveS3VM
from dask_s3vm.methods.annealing import DASettings, train_da
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask


class DAS3VM(TransductiveS3VM):
    """Semi-supervised linear SVM by deterministic annealing.

    Looks for a minimum of the same objective as `TSVM` (Sindhwani & Keerthi, section 1.4)::

        1/2l sum_lab max(0, 1 - y o)^2 + lam_unlabeled/2u sum_unl max(0, 1 - |o|)^2 + lam/2 |w|^2

    by way of probabilities p of the unlabelled rows, of mean `positive_ratio`, whose entropy is
    weighed by a temperature (eq. 1.6). The temperature falls from a point where the problem is
    convex to one where p is certain. From the best w along the way a last descent leads to a
    local minimum of the objective itself, among those with as many positive labels.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser.
    lam_unlabeled : float, default=1.0
        Weight of the unlabelled rows (lambda'). 0 is exactly `L2SVM` on the labelled rows.
    positive_ratio : float or None, default=None
        Share of `classes_[1]` among the unlabelled rows. None: its share among the labelled rows,
        which for few labels is a rough guess; a wrong ratio can double the error. For more than two
        classes always the shares of the labelled rows.
    fit_intercept : bool, default=True
        Whether to have a bias.
    threshold : {"zero", "ratio"}, default="zero"
        "ratio" moves the bias so that a share `positive_ratio` of the unlabelled rows is
        predicted positive; helps where that share is known.
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
        Relative gap of the objective at which the last solve stops.
    max_iter : int, default=100
        Most Newton steps per solve of the descent.
    warm_start : bool, default=False
        Start from the weights of the last fit, with its landmarks.
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
        Biases, moved by the threshold.
    objective_ : float or ndarray of shape (n_classes,)
        The transductive objective above.
    positive_ratio_ : float or ndarray of shape (n_classes,)
        The share of positive rows that was used.
    transduction_ : array of shape (n,)
        Labels of the training rows: those given, and predictions for the others. A dask array, not
        yet computed, if X is one.
    n_iter_ : int
        Newton steps of the descent, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows, all of them counted.
    termination_ : str
        How the last solve ended: "converged", "precision" or "max_iter".
    history_ : list of dict
        One row per temperature ("anneal": transductive objective, mean entropy of p, evaluations,
        seconds), then one per half step of the descent ("retrain", "switch": objective, CG steps,
        pairs switched, seconds).
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.

    Examples
    --------
    >>> from dask_s3vm import DAS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = DAS3VM(lam=0.1, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    def __init__(
        self,
        lam: float = 1e-3,
        lam_unlabeled: float = 1.0,
        *,
        positive_ratio: float | None = None,
        fit_intercept: bool = True,
        threshold: str = "zero",
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
        max_iter: int = 100,
        warm_start: bool = False,
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.lam_unlabeled = lam_unlabeled
        self.positive_ratio = positive_ratio
        self.fit_intercept = fit_intercept
        self.threshold = threshold
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
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _train(
        self, rows: Placed, task: TransductiveTask, start: np.ndarray | None, history: History
    ) -> BinarySolution:
        settings = DASettings(
            self.lam, self.lam_unlabeled, self.fit_intercept, self.tol, self.max_iter
        )
        return train_da(rows.engine, task, settings, start, history, self._seeds)
