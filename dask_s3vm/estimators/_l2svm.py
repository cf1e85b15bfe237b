"""The supervised linear SVM, l2-SVM-MFN."""

import os
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import History, LinearSolution
from dask_s3vm.methods.l2svm import L2SVMSettings, train_l2svm

#: What the models of a path have in common.
_OF_ALL = ("classes_", "n_features_in_", "feature_names_in_", "n_rounds_", "kernel_map_")


class L2SVM(LinearS3VM):
    r"""Linear SVM with squared hinge loss, trained by modified finite Newton (l2-SVM-MFN).

    Minimises, over the labelled rows (Sindhwani & Keerthi, eq. 1.2)::

        f(w) = 1/2 sum_i c_i max(0, 1 - y_i w.x_i)^2 + lam/2 |w|^2

    with ``c_i = 1/l`` for l labelled rows; sample and class weights multiply ``c_i``. The bias is
    a component of w like the others, and regularised with them. It stops when the objective is
    proven to be within a factor ``1 + tol`` of the minimum: ``|grad f|^2 / (2 lam) <= tol f``.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser. The same problem as ``LinearSVC(loss="squared_hinge",
        dual=False, C=1 / (2 * lam * l))``.
    fit_intercept : bool, default=True
        Whether to have a bias.
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
        Mark of rows without a label, which are left out; None if there is no mark. If y has
        the values -1 and +1 only, these are taken as the two classes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    tol : float, default=1e-6
        Relative gap of the objective at which to stop.
    max_iter : int, default=100
        Most Newton steps per binary problem.
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
        Biases.
    objective_ : float or ndarray of shape (n_classes,)
        Minimum of f that was reached.
    n_iter_ : int
        Newton steps, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows, all of them counted.
    termination_ : str
        "converged"; "precision" where rounding allowed no further step; or "max_iter".
    history_ : list of dict
        One row per Newton step: objective, gradient norm, active rows, CG steps, rounds of the
        line search, step length, seconds.
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.
    S. S. Keerthi, D. DeCoste. A modified finite Newton method for fast solution of large scale
    linear SVMs. JMLR 6, 2005.

    Examples
    --------
    >>> from dask_s3vm import L2SVM
    >>> from dask_s3vm.datasets import make_g2c
    >>> X, y = make_g2c(n_rows=200, n_features=20)
    >>> model = L2SVM(lam=1e-2).fit(X, y)
    >>> float((model.predict(X) == y).mean().compute()) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearS3VM._kernel_constraints,
        "lam": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "unlabeled": [Integral, str, None],
        "class_weight": [dict, str, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "callbacks": [callable, list, tuple, None],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lam: float = 1e-3,
        *,
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
        warm_start: bool = False,
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
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
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "L2SVM":
        """Train on the labelled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows to leave out.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows.

        Returns
        -------
        self
        """
        solutions, history = self._solve(X, y, sample_weight, [self.lam])
        self._keep(solutions[0], history.rows)
        return self

    def _solve(
        self, X: Any, y: Any, sample_weight: Any, lams: Sequence[float]
    ) -> tuple[list[LinearSolution], History]:
        with self._placed(X, y, sample_weight, supervised=True, lams=lams) as rows:
            history = rows.history
            settings = L2SVMSettings(self.fit_intercept, self.tol, self.max_iter)
            solutions = train_l2svm(rows.engine, rows.costs, lams, settings, rows.start, history)
        return solutions, history


@interruptible
def l2svm_path(
    X: Any, y: Any, lams: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[L2SVM]:
    """Train an `L2SVM` for each of several `lam`, on one resident copy of the rows.

    Solutions are walked from the largest lam to the smallest, each the seed of the next.

    Parameters
    ----------
    X, y, sample_weight : see `L2SVM.fit`.
    lams : values of lam, in any order.
    **params : other parameters of `L2SVM`.

    Returns
    -------
    Fitted estimators, in the order of `lams`.
    """
    if len(lams) == 0:
        raise ValueError("lams is empty; wanted at least one value")
    models = [L2SVM(lam=lam, **params) for lam in lams]
    for model in models:
        model._validate_params()
    fit_l2svm_path(models, X, y, sample_weight)
    return models


def fit_l2svm_path(models: list[L2SVM], X: Any, y: Any, sample_weight: Any) -> None:
    """Fit models that differ in lam."""
    walk = sorted(models, key=lambda model: -model.lam)
    guide = clone(walk[0])
    lams = [model.lam for model in walk]
    solutions, history = guide._solve(X, y, sample_weight, lams)
    for model, solution in zip(walk, solutions, strict=True):
        for name in _OF_ALL:
            if hasattr(guide, name):
                setattr(model, name, getattr(guide, name))
        model._keep(solution, [row for row in history.rows if row["lam"] == model.lam])
