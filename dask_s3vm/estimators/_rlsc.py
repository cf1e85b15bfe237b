"""Regularised least-squares classification."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._least_squares import Callbacks, LeastSquaresParameters
from dask_s3vm.estimators._progress import callbacks_of, progress_of
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import History
from dask_s3vm.methods.rlsc import RLSCSolution, train_rlsc


class RLSC(LeastSquaresParameters, LinearS3VM):
    """Regularised least-squares classification, in closed form.

    Minimises, over the labelled rows (Gieseke et al., eq. 1, with the square loss)::

        1/l sum_i (y_i - w.x_i)^2 + lam |w|^2,    y_i in {-1, +1}

    sample and class weights multiply the 1/l. The bias is a component of w like the others, and
    regularised with them. One pass over the rows and one eigendecomposition serve every lam; a
    second pass gives the leave-one-out errors of all of them.

    Parameters
    ----------
    lam : float or array-like of float, default=1.0
        Weight of the regulariser; of several the one with the fewest leave-one-out errors is taken,
        by the leave-one-out loss where they are equal. The same problem as ``Ridge(alpha=lam * l)``
        on y in {-1, +1}, with a column of ones in place of its intercept.
    fit_intercept : bool, default=True
        Whether to have a bias.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", ...: see `dask_s3vm.features.fit_kernel_map`, also for the
        parameters after it. Kernels are computed with landmark rows, and so is the linear one if X
        has more than 4,096 columns and rows; else it is exact.
    n_components : int or None, default=500
        Landmarks; None: all rows, the exact kernel.
    sigma : float or "scale", default="scale"
        Width of the RBF kernel.
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
        Mark of rows without a label, which are left out; None if there is no mark. If y has the
        values -1 and +1 only, these are taken as the two classes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    callbacks : callable, sequence of callables or None, default=None
        Called with every row of `history_`.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_ : ndarray of shape (1, d) or (n_classes, d)
        Weights, of features if the kernel is not linear; one row for two classes, else one-vs-rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Biases.
    lam_ : float
        The lam that was taken.
    lams_ : ndarray of shape (n_lams,)
        All of them.
    loo_errors_ : ndarray of shape (n_lams,)
        Share of labelled rows that a model of the other rows puts into a wrong class. Left out is
        the term of the row: the others keep their 1/l.
    loo_losses_ : ndarray of shape (n_lams,)
        Mean squared residual of these predictions, added over the binary problems.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the minimum.
    n_rounds_ : int
        Rounds over the rows.
    history_ : list of dict
        One row per lam.
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_iter_ : int
        1: the solution is closed.
    termination_ : str
        "converged".
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

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

    warm_start = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearS3VM._kernel_constraints,
        "lam": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "fit_intercept": ["boolean"],
        "unlabeled": [Integral, str, None],
        "class_weight": [dict, str, None],
        "callbacks": [callable, list, tuple, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lam: float | Sequence[float] = 1.0,
        *,
        fit_intercept: bool = True,
        kernel: Any = "linear",
        n_components: int | None = 500,
        sigma: float | str = "scale",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        unlabeled: int | str | None = -1,
        class_weight: dict[Any, float] | str | None = None,
        callbacks: Callbacks = None,
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
        self.callbacks = callbacks
        self.verbose = verbose

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RLSC":
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
        lams = check_lams(self.lam)
        solutions = self._solve(X, y, sample_weight, lams)
        order = sorted(
            range(len(lams)), key=lambda i: (solutions[i].loo_error, solutions[i].loo_loss)
        )
        self._keep_all(lams, solutions, order[0])
        return self

    def _solve(
        self, X: Any, y: Any, sample_weight: Any, lams: Sequence[float]
    ) -> list[RLSCSolution]:
        with self._placed(X, y, sample_weight, supervised=True) as rows:
            return train_rlsc(rows.engine, rows.costs, lams, self.fit_intercept)

    def _keep_all(self, lams: Sequence[float], solutions: list[RLSCSolution], chosen: int) -> None:
        """Set the fitted attributes."""
        progress = progress_of(self, None, 1)
        history = History([*callbacks_of(self.callbacks), *progress])
        for lam, solution in zip(lams, solutions, strict=True):
            history.add(
                {
                    "lam": float(lam),
                    "objective": float(solution.linear.objective.sum()),
                    "loo_error": solution.loo_error,
                    "loo_loss": solution.loo_loss,
                }
            )
        for shown in progress:
            shown.close()
        self.lams_ = np.asarray(lams, dtype=np.float64)
        self.lam_ = float(lams[chosen])
        self.loo_errors_ = np.array([solution.loo_error for solution in solutions])
        self.loo_losses_ = np.array([solution.loo_loss for solution in solutions])
        self._keep(solutions[chosen].linear, history.rows)
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
    solutions = guide._solve(X, y, sample_weight, lams)
    for model, lam, solution in zip(models, lams, solutions, strict=True):
        copy_facts(guide, model)
        model._keep_all([lam], [solution], 0)


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
