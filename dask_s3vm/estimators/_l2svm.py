"""The supervised linear SVM, l2-SVM-MFN."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from dask_s3vm.estimators._inputs import take_in
from dask_s3vm.estimators._labels import class_costs, find_classes
from dask_s3vm.estimators._linear import LinearClassifier
from dask_s3vm.estimators._progress import callbacks_of
from dask_s3vm.exceptions import ConvergenceWarning
from dask_s3vm.methods.base import History, class_totals
from dask_s3vm.methods.l2svm import L2SVMSettings, LinearSolution, train_l2svm


class L2SVM(LinearClassifier):
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
        Start from the weights of the last fit.
    callbacks : callable, sequence of callables or None, default=None
        Called with every row of `history_` as it comes.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_ : ndarray of shape (1, d) or (n_classes, d)
        Weights; one row for two classes, one-vs-rest for more.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Biases.
    objective_ : float or ndarray of shape (n_classes,)
        Minimum of f that was reached.
    n_iter_ : int
        Newton steps, the most over the binary problems.
    termination_ : str
        "converged"; "precision" where rounding allowed no further step; or "max_iter".
    history_ : list of dict
        One row per Newton step: objective, gradient norm, active rows, CG steps, rounds of the
        line search, step length, seconds.
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
        "lam": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "unlabeled": [Integral, str, None],
        "class_weight": [dict, str, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "callbacks": [callable, list, tuple, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lam: float = 1e-3,
        *,
        fit_intercept: bool = True,
        unlabeled: int | str | None = -1,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        warm_start: bool = False,
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.unlabeled = unlabeled
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose

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
        self._validate_params()
        start = self._start()
        source = take_in(self, X, y, sample_weight)
        try:
            classes = find_classes(source.summary.labels, self.unlabeled, supervised=True)
            if start is not None:
                self._check_start(classes)
            engine = source.place(classes)
        finally:
            source.close()
        try:
            costs = class_costs(classes, class_totals(engine, len(classes)), self.class_weight)
            settings = L2SVMSettings(self.fit_intercept, self.tol, self.max_iter)
            history = History(callbacks_of(self.callbacks, self.verbose))
            solutions = train_l2svm(engine, costs, lams, settings, start, history)
        finally:
            engine.close()
        self.classes_ = classes
        return solutions, history

    def _start(self) -> np.ndarray | None:
        """Weights of the last fit, if they are wanted."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        return np.column_stack([self.coef_, self.intercept_])

    def _check_start(self, classes: np.ndarray) -> None:
        """Refuse to start from a model of other data, which stays as it was."""
        n_features, self.n_features_in_ = self.n_features_in_, self.coef_.shape[1]
        if n_features != self.n_features_in_ or not np.array_equal(self.classes_, classes):
            raise ValueError(
                f"warm_start: the last fit had classes {self.classes_.tolist()} and "
                f"{self.n_features_in_} features, this one has {classes.tolist()} and "
                f"{n_features}; set warm_start=False or keep the data's form"
            )

    def _keep(self, solution: LinearSolution, history: list[dict[str, Any]]) -> None:
        """Set the fitted attributes, and warn where the fit did not converge."""
        self.coef_ = np.ascontiguousarray(solution.w[:, :-1])
        self.intercept_ = solution.w[:, -1].copy()
        binary = len(solution.w) == 1
        self.objective_ = float(solution.objective[0]) if binary else solution.objective
        self.n_iter_ = max(1, int(solution.n_iter.max()))
        worst = max(solution.termination, key=("converged", "precision", "max_iter").index)
        self.termination_ = worst
        self.history_ = history
        if worst == "max_iter":
            warnings.warn(
                f"L2SVM did not converge in max_iter={self.max_iter} Newton steps; "
                "increase max_iter, tol or lam",
                ConvergenceWarning,
                stacklevel=3,
            )


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
    walk = sorted(range(len(lams)), key=lambda i: -lams[i])
    guide = clone(models[0])
    solutions, history = guide._solve(X, y, sample_weight, [lams[i] for i in walk])
    for i, solution in zip(walk, solutions, strict=True):
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(guide, name):
                setattr(models[i], name, getattr(guide, name))
        models[i]._keep(solution, [row for row in history.rows if row["lam"] == lams[i]])
    return models
