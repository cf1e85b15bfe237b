"""Regularized least-squares classification."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._least_squares import LeastSquaresParameters
from dask_s3vm.estimators._parameters import POSITIVE, fitted, parameter, parametrized
from dask_s3vm.estimators._shared import (
    ClassWeightParameters,
    InterceptParameters,
    ReportParameters,
    SupervisedLabelParameters,
)
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import HistoryRow
from dask_s3vm.methods.rlsc import RLSCSolution, train_rlsc


@parametrized
class RLSC(
    LeastSquaresParameters,
    InterceptParameters,
    SupervisedLabelParameters,
    LinearS3VM,
    ClassWeightParameters,
    ReportParameters,
):
    """Regularized least-squares classification, in closed form.

    Minimizes, over the labeled rows (Gieseke et al., eq. 1, with the square loss)::

        1/l sum_i (y_i - w.x_i)^2 + lam |w|^2,    y_i in {-1, +1}

    sample and class weights multiply the 1/l. The bias is a component of w like the others, and
    regularized with them. One pass over the rows and one eigendecomposition serve every lam; a
    second pass gives the leave-one-out errors of all of them.

    This is the problem of ``Ridge(alpha=lam * l)`` on y in {-1, +1}, with a column of ones in place
    of its intercept.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.

    Examples
    --------
    >>> from dask_s3vm import RLSC
    >>> from dask_s3vm.datasets import make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = RLSC(lam=[0.01, 0.1, 1.0]).fit(X, y)
    >>> bool(model.loo_errors_.min() < 0.05)
    True
    """

    lam: float | Sequence[float] = parameter(
        "float or array-like of float",
        "Weight of the regularizer. Of several, the one with the fewest leave-one-out errors is "
        "taken; where these are equal, the leave-one-out loss decides.",
        [POSITIVE, "array-like"],
        default=1.0,
        kw_only=False,
    )

    lam_: float = fitted("float", "The lam that was taken.")
    lams_: np.ndarray = fitted("ndarray of shape (n_lams,)", "All values of lam.")
    loo_errors_: np.ndarray = fitted(
        "ndarray of shape (n_lams,)",
        "Share of labeled rows that a model of the other rows puts into a wrong class. Left out is "
        "the term of the row: the others keep their 1/l.",
    )
    loo_losses_: np.ndarray = fitted(
        "ndarray of shape (n_lams,)",
        "Mean squared residual of these predictions, added over the binary problems.",
    )
    history_: list[dict[str, Any]] = fitted("list of dict", "One row per lam.")
    n_iter_: int = fitted("int", "1: the solution is closed.")

    warm_start = False

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RLSC":
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
        lams = check_lams(self.lam)
        solutions, history = self._solve(X, y, sample_weight, lams)
        order = sorted(
            range(len(lams)), key=lambda i: (solutions[i].loo_error, solutions[i].loo_loss)
        )
        self._keep_all(lams, solutions, order[0], history)
        return self

    def _solve(
        self, X: Any, y: Any, sample_weight: Any, lams: Sequence[float]
    ) -> tuple[list[RLSCSolution], list[HistoryRow]]:
        """Train for every lam; the history has one row for each."""
        with self._placed(X, y, sample_weight, supervised=True) as rows:
            solutions = train_rlsc(rows.engine, rows.costs, lams, self.fit_intercept)
            for lam, solution in zip(lams, solutions, strict=True):
                rows.history.add(
                    {
                        "lam": float(lam),
                        "objective": float(solution.linear.objective.sum()),
                        "loo_error": solution.loo_error,
                        "loo_loss": solution.loo_loss,
                    }
                )
        return solutions, rows.history.rows

    def _keep_all(
        self,
        lams: Sequence[float],
        solutions: list[RLSCSolution],
        chosen: int,
        history: list[HistoryRow],
    ) -> None:
        """Set the fitted attributes."""
        self.lams_ = np.asarray(lams, dtype=np.float64)
        self.lam_ = float(lams[chosen])
        self.loo_errors_ = np.array([solution.loo_error for solution in solutions])
        self.loo_losses_ = np.array([solution.loo_loss for solution in solutions])
        self._keep(solutions[chosen].linear, history)
        self._to_columns()


@interruptible
def rlsc_path(
    X: Any, y: Any, lams: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[RLSC]:
    """Train an `RLSC` for each of several `lam`, from one eigendecomposition.

    Parameters
    ----------
    X, y, sample_weight : see `RLSC.fit`.
    lams : values of lam, in any order.
    **params : other parameters of `RLSC`.

    Returns
    -------
    Fitted estimators, in the order of `lams`, each with its own leave-one-out error.
    """
    lams = check_lams(lams, "lams")
    models = [RLSC(lam=lam, **params) for lam in lams]
    fit_rlsc_path(models, X, y, sample_weight)
    return models


def fit_rlsc_path(models: list[RLSC], X: Any, y: Any, sample_weight: Any) -> None:
    """Fit models that differ in lam, a number each."""
    lams = [float(model.lam) for model in models]  # type: ignore[arg-type]
    guide = clone(models[0])
    solutions, history = guide._solve(X, y, sample_weight, lams)
    for model, lam, solution, row in zip(models, lams, solutions, history, strict=True):
        copy_facts(guide, model)
        model._keep_all([lam], [solution], 0, [row])


def copy_facts(guide: Any, model: Any) -> None:
    """Give a model of a path what all of them have in common."""
    for name in ("classes_", "n_features_in_", "feature_names_in_", "n_rounds_", "kernel_map_"):
        if hasattr(guide, name):
            setattr(model, name, getattr(guide, name))


def check_lams(lam: Any, name: str = "lam") -> list[float]:
    """Values of lam as a list, checked."""
    if isinstance(lam, (str, bytes, dict)):
        raise ValueError(f"{name} must be a number > 0, or several, got {lam!r}")
    values = np.atleast_1d(np.asarray(lam, dtype=object)).ravel()
    if len(values) == 0:
        raise ValueError(f"{name} is empty; wanted at least one value")
    for value in values:
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name} must be finite and > 0, got {value!r}")
    return [float(value) for value in values]
