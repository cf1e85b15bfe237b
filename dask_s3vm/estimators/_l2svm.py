"""The supervised linear SVM, l2-SVM-MFN."""

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._parameters import fitted, parametrized
from dask_s3vm.estimators._shared import (
    ClassWeightParameters,
    InterceptParameters,
    RegularizationParameters,
    RunParameters,
    StoppingParameters,
    SupervisedLabelParameters,
    WarmStartParameters,
)
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import History, LinearSolution
from dask_s3vm.methods.l2svm import L2SVMSettings, train_l2svm

#: What the models of a path have in common.
_OF_ALL = ("classes_", "n_features_in_", "feature_names_in_", "n_rounds_", "kernel_map_")


@parametrized
class L2SVM(
    RegularizationParameters,
    InterceptParameters,
    SupervisedLabelParameters,
    LinearS3VM,
    ClassWeightParameters,
    StoppingParameters,
    WarmStartParameters,
    RunParameters,
):
    r"""Linear SVM with squared hinge loss, trained by modified finite Newton (l2-SVM-MFN).

    Minimizes, over the labeled rows (Sindhwani & Keerthi, eq. 1.2)::

        f(w) = 1/2 sum_i c_i max(0, 1 - y_i w.x_i)^2 + lam/2 |w|^2

    with ``c_i = 1/l`` for l labeled rows; sample and class weights multiply ``c_i``. The bias is
    a component of w like the others, and regularized with them. It stops when the objective is
    proven to be within a factor ``1 + tol`` of the minimum: ``|grad f|^2 / (2 lam) <= tol f``.

    This is the problem of ``LinearSVC(loss="squared_hinge", dual=False, C=1 / (2 * lam * l))``.

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

    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        "One row per Newton step: objective, gradient norm, active rows, CG steps, rounds of the "
        "line search, step length, seconds.",
    )

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "L2SVM":
        """Train on the labeled rows.

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
