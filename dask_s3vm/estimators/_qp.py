"""QP-S3VM: labels by a quadratic programme."""

import os
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._labelling import LabellingS3VM
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels, found_once
from dask_s3vm.methods.programme import ProgrammeSettings, solve_programme


class QPS3VM(LabellingS3VM):
    """Semi-supervised SVM whose labels come from a quadratic programme (QP-S3VM).

    Minimises (Emara & Kantardzic, Problem 3), over probabilities P of the u unlabelled rows to be
    positive, an upper bound of the S3VM's dual::

        F(P) = 1/2 C*^2 (1 - P)' K_uu P + C C* Y' K_lu (1 - P),   0 <= P <= 1,  sum P = r u

    F is concave: Frank-Wolfe steps lead from vertex to vertex, never up, to labels that no step and
    no swap of two rows near the threshold improves. A local minimum; `n_restarts` looks for more.

    A linear SVM with squared hinge loss is then trained on all rows with these labels::

        1/2 |w|^2 + C sum_lab max(0, 1 - y o)^2 + C* sum_unl max(0, 1 - y o)^2

    and predicts new rows. The paper asks for columns in [0, 1]: see `UnitScaler`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a labelled row.
    C_unlabeled : float or None, default=None
        Cost C* of an unlabelled row. None: C l / u, where both kinds of rows weigh alike.
    positive_ratio : float or None, default=None
        r, the share of `classes_[1]` among the unlabelled rows. None: its share among the labelled
        rows, which for few labels is a rough guess. For more than two classes always that.
    n_restarts : int, default=0
        Further starts, from the best vertices for random directions, beside the one from P = r; the
        labels of smallest F are kept. None by default, because a smaller F need not mean better
        labels: P = r leads to labels near those given, and other minima, though lower, may lie far
        off (kdd99 with ten labels: 94 % right at F = -511, 61 % at F = -702).
    center : bool, default=True
        Whether the kernel is taken about the mean of the unlabelled rows, on the fly: sparse rows
        stay sparse. False is the paper's form, in which the mean of rows that are not negative
        outweighs what tells them apart.
    fit_intercept : bool, default=True
        Whether the SVM has a bias.
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
        Draws the landmarks, and the directions of the restarts.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, on labelled rows.
    tol : float, default=1e-6
        Relative gap of the objective at which the SVM stops.
    max_iter : int, default=100
        Most Newton steps of the SVM.
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
    transduction_ : array of shape (n,)
        Labels of the training rows: those given, and those found. A dask array if X is one. With
        more than two classes, a row goes to the class that claims it; if several or none do, to the
        one for which it lies farthest on the positive side of the threshold.
    objective_ : float or ndarray of shape (n_classes,)
        F, eq. (11), of the labels found; without unlabelled rows the objective of the SVM.
    coef_ : ndarray of shape (1, d) or (n_classes, d)
        Weights of the SVM, of features if there is a kernel; one row for two classes, one-vs-rest
        for more.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Biases.
    positive_ratio_ : float or ndarray of shape (n_classes,)
        The share of positive rows that was used.
    n_iter_ : int
        Steps of the programme, all starts together, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows, all of them counted.
    termination_ : str
        How the SVM ended: "converged", "precision" or "max_iter".
    history_ : list of dict
        One row per step of the programme (class, start, event, objective, swaps, seconds), and one
        per SVM (event "train").
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    References
    ----------
    W. Emara, M. Kantardzic. Submodular Optimization for Efficient Semi-supervised Support Vector
    Machines.

    Examples
    --------
    >>> from dask_s3vm import QPS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = QPS3VM(positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    n_restarts: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LabellingS3VM._parameter_constraints,
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 1.0,
        C_unlabeled: float | None = None,
        *,
        positive_ratio: float | None = None,
        n_restarts: int = 0,
        center: bool = True,
        fit_intercept: bool = True,
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
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.C_unlabeled = C_unlabeled
        self.positive_ratio = positive_ratio
        self.n_restarts = n_restarts
        self.center = center
        self.fit_intercept = fit_intercept
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
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _find(
        self, rows: Placed, task: TransductiveTask, cost: float, history: History
    ) -> FoundLabels:
        seeds = _root_seed(self.random_state).spawn(self.n_restarts)
        settings = ProgrammeSettings(cost, self.center, seeds)
        return found_once(
            history,
            task.positive,
            FoundLabels,
            lambda: solve_programme(rows.engine, task, settings, history),
        )

    def _keep_found(self, found: list[FoundLabels]) -> None:
        """Nothing beside what all have."""


def _root_seed(random_state: Any) -> np.random.SeedSequence:
    """Root of the streams of the restarts."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    elif isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.SeedSequence(None if random_state is None else int(random_state))
