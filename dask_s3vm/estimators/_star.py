"""STAR-SVM: self-training with adaptive regularisation."""

import os
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from dask_s3vm.estimators._base import LinearS3VM, Placed
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._star_fit import Fitted, fit_exact, fit_sharded
from dask_s3vm.features import KernelMap
from dask_s3vm.features.columns import KernelColumns, all_rows, beside, block_rows, kernel_columns
from dask_s3vm.interrupts import interruptible, warn
from dask_s3vm.methods.base import History
from dask_s3vm.methods.star import ENDINGS, WEIGHTINGS, StarSettings, class_costs, earliest_class

#: solver="auto" works on exact kernel columns up to so many rows.
EXACT_ROWS = 10_000

#: min_share=None is 0 up to so many unlabelled rows, and beyond them this share.
MANY_ROWS = 10_000
MANY_SHARE = 0.01

#: Gap, as a part of the objective, at which stages before the last are left where a training takes
#: rounds over the rows; on exact columns all are trained to `tol`.
LOOSE = 1e-2


class STARSVM(LinearS3VM):
    """Self-training SVM with adaptive regularisation (STAR-SVM).

    An SVM without offset is trained on the rows that have a label::

        min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.phi(x_i))            (eq. 4)

    Of the other rows, those of extreme output then get the sign of their output for a label, for
    good, with ``C_i = confidence^k C`` if it was stage k: late labels, which rest on earlier ones,
    count less. This goes on until every row has a label. Each training starts where the last one
    ended and stops by the duality gap (7).

    The paper as printed and its authors' program differ, and this is the program. A stage takes the
    rows with output ``>= (1 - tau) max`` or ``<= (1 - tau) min`` over those without a label
    (Algorithm 1), with tau = (labels assigned so far) / u_0, u_0 the number of unlabelled rows:
    printed is 1 / u_0, with which stages would take two rows or so for ever. And a class of share p
    counts ``2 (1 - p) C``, given labels included: eq. (21) prints p, which makes the rare class
    count less (``weighting="printed"``; it does worse, see ``examples/papers/star_svm.py``).

    There is no offset: for the linear kernel have the classes on both sides of the origin.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of a given label.
    confidence : float, default=0.7
        gamma of eq. (3), 0 to 1: how much less a label counts from stage to stage.
    positive_ratio : float or None, default=None
        Share of `classes_[1]`, for the weights of the classes. None: its share among the labelled
        rows. 0.5 weighs both alike. For more than two classes always the shares of the labelled.
    weighting : {"minority", "printed", "none"}, default="minority"
        Weights of the classes: see above. "none": all C.
    solver : {"auto", "exact", "sharded"}, default="auto"
        "exact": all rows in this process, greedy ascent on columns of the exact kernel, 8 n bytes
        for each row that is ever a support vector. "sharded": rows in shards, on any engine,
        coordinate ascent in each; other kernels than the linear one through `n_components`
        landmarks. "auto": exact for other kernels than the linear one up to 10,000 rows, else
        sharded.
    kernel : str or callable, default="rbf"
        "linear", "rbf", "poly", "laplacian", ...: see `dask_s3vm.features.fit_kernel_map`, also for
        the parameters after it. The authors' program computes exp(-|x - z|^2 / (4 sigma^2)) for its
        sigma: give sqrt(2) times that to get the same kernel.
    n_components : int or None, default=500
        Landmarks, where the solver is sharded; None: all rows.
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
    tol : float, default=1e-3
        The last training stops when the duality gap is at most this part of the objective. So do
        those before it where the solver is exact; where it is sharded, at 1e-2 or this, if larger.
    max_iter : int, default=1000
        Most rounds of a training (sharded), or steps for each of its rows (exact).
    max_stages : int or None, default=None
        Most stages; the last one labels all rows that are left. None: until there are none.
    min_share : float or None, default=None
        Least share of the unlabelled rows that a stage labels, by a larger tau. Algorithm 1 alone
        (0) begins with many stages of two rows, the more the more rows there are, and labels after
        these count for nothing (confidence^100 C): on 100,000 rows of text 5.8 % error, near the
        supervised 5.5 %, where 0.01 gives 4.0 %. None: 0 up to 10,000 unlabelled rows, else 0.01.
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
        Labels of the training rows: those given, and those assigned in a stage, which are final:
        `predict` may say otherwise. For more than two classes, of the one whose training labelled
        the row positive in the earliest stage (section III-D). A dask array if X is one.
    ranking_ : array of shape (n,) or (n, n_classes)
        Ranking score of the training rows: sign of the label times the number of rows without one
        before the stage in which the row got it.
    labeled_iter_ : array of shape (n,) or (n, n_classes)
        Stage in which a row got its label: 0 given, below 0 for a row of weight 0.
    coef_, intercept_ : ndarray
        Weights, of the features that `kernel_map_` makes if there is one, and zeros.
    kernel_map_ : KernelMap or None
        Where the solver is exact and the kernel not linear, its landmarks are the support vectors
        and its features the decision functions, ``sum_i y_i alpha_i k(x_i, x)``.
    support_, dual_coef_ : ndarray of shape (m,) and (1 or n_classes, m)
        Row numbers of the support vectors and y_i alpha_i, where the solver is exact.
    objective_, gap_ : float or ndarray of shape (n_classes,)
        Objective (4) of the last training, all rows labelled, and its duality gap.
    positive_ratio_ : float or ndarray of shape (n_classes,)
        The share of positive rows that was used.
    solver_ : str
        "exact" or "sharded".
    n_iter_ : int
        Stages, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows, all of them counted.
    termination_ : str
        "converged"; "precision" if rounding allowed no smaller gap; "max_stages" if that was met;
        "max_iter" if a training ended by that.
    history_ : list of dict
        One row per stage: rows labelled, tau, objective, gap, steps, seconds.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    References
    ----------
    E. Cheung, Y. Li. Self-Training with Adaptive Regularization for S3VM. IJCNN 2017.
    I. Steinwart, D. Hush, C. Scovel. Training SVMs without Offset. JMLR 12, 2011.
    C. Ma et al. Adding vs. Averaging in Distributed Primal-Dual Optimization. ICML 2015.

    Examples
    --------
    >>> from dask_s3vm import STARSVM
    >>> from dask_s3vm.datasets import hide_labels, make_moons
    >>> X, y = make_moons(n_rows=500)
    >>> model = STARSVM(sigma=0.3).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    #: every training starts from the last stage's, no fit from the last fit; classes: `weighting`
    warm_start = False
    class_weight = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearS3VM._kernel_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "confidence": [Interval(Real, 0, 1, closed="both")],
        "positive_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "weighting": [StrOptions({*WEIGHTINGS})],
        "solver": [StrOptions({"auto", "exact", "sharded"})],
        "unlabeled": [Integral, str, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_stages": [Interval(Integral, 1, None, closed="left"), None],
        "min_share": [Interval(Real, 0, 1, closed="both"), None],
        "callbacks": [callable, list, tuple, None],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float = 1.0,
        confidence: float = 0.7,
        *,
        positive_ratio: float | None = None,
        weighting: str = "minority",
        solver: str = "auto",
        kernel: str | Callable[..., float] = "rbf",
        n_components: int | None = 500,
        sigma: float | str = "scale",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        unlabeled: int | str | None = -1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_stages: int | None = None,
        min_share: float | None = None,
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.confidence = confidence
        self.positive_ratio = positive_ratio
        self.weighting = weighting
        self.solver = solver
        self.kernel = kernel
        self.n_components = n_components
        self.sigma = sigma
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.unlabeled = unlabeled
        self.tol = tol
        self.max_iter = max_iter
        self.max_stages = max_stages
        self.min_share = min_share
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "STARSVM":
        """Train on labelled and unlabelled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Factors of C_i. Unlabelled rows of weight 0 are left out, and only predicted.

        Returns
        -------
        self
        """
        columns: list[KernelColumns] = []

        def make_map(rows: Any) -> KernelMap | None:
            if not self._is_exact(rows):
                return self._fit_kernel_map(rows)
            columns.append(self._kernel_columns(rows))
            return None

        with self._placed(X, y, sample_weight, make_map=make_map) as rows:
            ratios = positive_ratios(self, rows)
            has_unlabeled(self, rows)
            costs = [class_costs(self.C, ratio, self.weighting) for ratio in ratios]
            settings = StarSettings(
                self.confidence,
                self.tol,
                self.tol if columns else max(self.tol, LOOSE),
                self.max_iter,
                self.max_stages,
                self._least_share(rows.totals.n_unlabeled),
            )
            history = rows.history
            if columns:
                fitted = fit_exact(rows, columns[0], costs, settings, history)
            else:
                fitted = fit_sharded(rows, costs, settings, history)
        self.solver_ = "exact" if columns else "sharded"
        self.positive_ratio_ = ratios[0] if len(ratios) == 1 else np.array(ratios)
        self._keep_fitted(fitted, history)
        self._keep_rows(X, rows, fitted)
        return self

    def _least_share(self, n_unlabeled: int) -> float:
        if self.min_share is None:
            return 0.0 if n_unlabeled <= MANY_ROWS else MANY_SHARE
        return float(self.min_share)

    def _is_exact(self, rows: Any) -> bool:
        if self.solver == "auto":
            return not self._is_linear and sum(block_rows(rows)) <= EXACT_ROWS
        return self.solver == "exact"

    def _resident_map(self, X: Any) -> KernelMap | None:
        return None if self._is_exact(X) else self._fit_kernel_map(X)

    def _wants_rows(self, X: Any) -> bool:
        return self._is_exact(X)

    def _kernel_columns(self, rows: Any) -> KernelColumns:
        return kernel_columns(
            all_rows(rows),
            self.kernel,
            sigma=self.sigma,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _keep_fitted(self, fitted: Fitted, history: History) -> None:
        """Set the model, and warn where it did not converge.

        Sets: coef_, intercept_, kernel_map_, support_, dual_coef_, objective_, gap_, n_iter_,
        termination_, history_.
        """
        for name in ("support_", "dual_coef_"):
            if hasattr(self, name):
                delattr(self, name)
        self.coef_ = fitted.coef
        self.intercept_ = np.zeros(len(fitted.coef))
        if fitted.support is not None:
            self.support_, self.dual_coef_ = fitted.support, fitted.dual_coef
            self.kernel_map_ = fitted.kernel_map
        trained = fitted.trained
        objective = np.array([one.certificate.primal for one in trained])
        gap = np.array([one.certificate.gap for one in trained])
        binary = len(trained) == 1
        self.objective_ = float(objective[0]) if binary else objective
        self.gap_ = float(gap[0]) if binary else gap
        self.n_iter_ = max(1, *(one.n_stages for one in trained))
        self.termination_ = max((one.termination for one in trained), key=ENDINGS.index)
        self.history_ = history.rows
        if self.termination_ == "max_iter":
            warn(
                f"STARSVM: a training did not converge in max_iter={self.max_iter}; increase "
                "max_iter or tol, or take a smaller C",
                ConvergenceWarning,
            )

    def _keep_rows(self, X: Any, rows: Placed, fitted: Fitted) -> None:
        """Set what there is for each training row: transduction_, ranking_, labeled_iter_."""
        if isinstance(X, Resident):
            self.transduction_ = self.ranking_ = self.labeled_iter_ = None
            return
        trained, codes = fitted.trained, fitted.codes
        if len(trained) == 1:
            found = np.where(trained[0].stages < 0, -1, (trained[0].labels > 0).astype(np.int64))
            ranking, stages = trained[0].ranking, trained[0].stages
        else:
            found = earliest_class(trained)
            ranking = np.stack([one.ranking for one in trained], axis=1)
            stages = np.stack([one.stages for one in trained], axis=1)
        found = np.where(codes >= 0, codes, found)
        labels = self.classes_[found]
        if (found < 0).any():  # rows of weight 0 took no part
            labels = np.where(found < 0, np.asarray(self.predict(X)), labels)
        sizes = rows.block_rows
        self.transduction_ = beside(X, labels, sizes)
        self.ranking_ = beside(X, ranking, sizes)
        self.labeled_iter_ = beside(X, stages, sizes)
