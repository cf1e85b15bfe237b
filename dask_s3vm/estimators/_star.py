"""STAR-SVM: self-training with adaptive regularization."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions

from dask_s3vm.estimators._base import LinearS3VM, Placed
from dask_s3vm.estimators._kernel import CHOICES, KernelParameters
from dask_s3vm.estimators._parameters import (
    COUNT,
    NOT_NEGATIVE,
    SHARE,
    fitted,
    parameter,
    parametrized,
    redeclared,
)
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._shared import (
    CostParameters,
    RatioParameters,
    RunParameters,
    ShardedSearch,
    StoppingParameters,
)
from dask_s3vm.estimators._star_fit import Fitted, fit_exact, fit_sharded
from dask_s3vm.features import KernelMap
from dask_s3vm.features.columns import KernelColumns, all_rows, beside, block_rows, kernel_columns
from dask_s3vm.interrupts import interruptible, warn
from dask_s3vm.methods.base import History
from dask_s3vm.methods.star import ENDINGS, WEIGHTINGS, StarSettings, class_costs, earliest_class

#: sharded="auto" works on exact kernel columns up to so many rows.
EXACT_ROWS = 10_000

#: min_share=None is 0 up to so many unlabeled rows, and beyond them this share.
MANY_ROWS = 10_000
MANY_SHARE = 0.01

#: Gap, as a part of the objective, at which stages before the last are left where a training takes
#: rounds over the rows; on exact columns all are trained to `tol`.
LOOSE = 1e-2


@parametrized
class STARSVM(
    CostParameters,
    RatioParameters,
    ShardedSearch,
    LinearS3VM,
    StoppingParameters,
    RunParameters,
):
    """Self-training SVM with adaptive regularization (STAR-SVM).

    An SVM without offset is trained on the rows that have a label::

        min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.phi(x_i))            (eq. 4)

    Of the other rows, those of extreme output then get the sign of their output for a label, for
    good, with ``C_i = confidence^k C`` if it was stage k: late labels, which rest on earlier ones,
    count less. This goes on until every row has a label. Each training starts where the last one
    ended and stops by the duality gap (7).

    The paper as printed and its authors' program differ, and this is the program. A stage takes the
    rows with output ``>= (1 - tau) max`` or ``<= (1 - tau) min`` over those without a label
    (Algorithm 1), with tau = (labels assigned so far) / u_0, u_0 the number of unlabeled rows:
    printed is 1 / u_0, with which stages would take two rows or so for ever. And a class of share p
    counts ``2 (1 - p) C``, given labels included: eq. (21) prints p, which makes the rare class
    count less (``weighting="printed"``; it does worse, see ``examples/papers/star_svm.py``).

    With ``sharded=False`` all rows come into this process: greedy ascent on columns of the exact
    kernel, 8 n bytes for each row that is ever a support vector. With ``sharded=True`` rows stay in
    shards, on any engine, with coordinate ascent in each; kernels other than the linear one are
    computed with landmark rows. "auto" shards the linear kernel, and others beyond 10,000 rows.

    There is no offset: for the linear kernel have the classes on both sides of the origin. The
    authors' program computes exp(-|x - z|^2 / (4 sigma^2)) for its sigma: give sqrt(2) times that
    to get the same kernel.

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

    confidence: float = parameter(
        "float",
        "gamma of eq. (3), 0 to 1: how much less a label counts from stage to stage.",
        [SHARE],
        default=0.7,
        kw_only=False,
    )
    weighting: str = parameter(
        '{"minority", "printed", "none"}',
        "Weights of the classes by their shares, which `positive_ratio` tells: see above. A ratio "
        'of 0.5 weighs both alike. "none": all C.',
        [StrOptions({*WEIGHTINGS})],
        default="minority",
    )
    kernel: str | Callable[..., float] = redeclared(
        KernelParameters,
        "kernel",
        about=f"{CHOICES} In shards, kernels other than the linear one are computed with landmark "
        "rows; otherwise they are exact.",
        default="rbf",
    )
    tol: float = parameter(
        "float",
        "The last training stops when the duality gap is at most this part of the objective. So do "
        "those before it if they see all rows at once; in shards they stop at 1e-2 or this, if "
        "larger.",
        [NOT_NEGATIVE],
        default=1e-3,
    )
    max_iter: int = parameter(
        "int",
        "Maximum number of rounds of one training in shards, or of steps for each of its rows if "
        "it sees all at once.",
        [COUNT],
        default=1000,
    )
    max_stages: int | None = parameter(
        "int or None",
        "Maximum number of stages; the last one labels all rows that are left. None: until there "
        "are none.",
        [COUNT, None],
        default=None,
    )
    min_share: float | None = parameter(
        "float or None",
        "Least share of the unlabeled rows that a stage labels, by a larger tau. Algorithm 1 alone "
        "(0) begins with many stages of two rows, the more the more rows there are, and labels "
        "after these count for nothing (confidence^100 C): on 100,000 rows of text 5.8 % error, "
        "near the supervised 5.5 %, where 0.01 gives 4.0 %. None: 0 up to 10,000 unlabeled rows, "
        "else 0.01.",
        [SHARE, None],
        default=None,
    )

    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and those assigned in a stage, which are final: "
        "`predict` may say otherwise. For more than two classes, of the one whose training labeled "
        "the row positive in the earliest stage (section III-D). A dask array if X is one.",
    )
    ranking_: Any = fitted(
        "array of shape (n,) or (n, n_classes)",
        "Ranking score of the training rows: sign of the label times the number of rows without "
        "one before the stage in which the row got it.",
    )
    labeled_iter_: Any = fitted(
        "array of shape (n,) or (n, n_classes)",
        "Stage in which a row got its label: 0 given, below 0 for a row of weight 0.",
    )
    intercept_: np.ndarray = fitted("ndarray of shape (1,) or (n_classes,)", "Zeros.")
    kernel_map_: KernelMap | None = fitted(
        "KernelMap or None",
        "Makes the features that `coef_` is over; None for the linear kernel. Without shards its "
        "landmarks are the support vectors and its features the decision functions, "
        "``sum_i y_i alpha_i k(x_i, x)``.",
    )
    support_: np.ndarray = fitted(
        "ndarray of shape (m,)", "Row numbers of the support vectors; not set by work in shards."
    )
    dual_coef_: np.ndarray = fitted(
        "ndarray of shape (1 or n_classes, m)", "Their y_i alpha_i; not set by work in shards."
    )
    objective_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "Objective (4) of the last training, all rows labeled.",
    )
    gap_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)", "Duality gap of the last training."
    )
    n_iter_: int = fitted("int", "Stages, the most over the binary problems.")
    termination_: str = fitted(
        "str",
        '"converged"; "precision" if rounding allowed no smaller gap; "max_stages" if that was '
        'met; "max_iter" if a training ended by that.',
    )
    history_: list[dict[str, Any]] = fitted(
        "list of dict", "One row per stage: rows labeled, tau, objective, gap, steps, seconds."
    )

    _renamed: ClassVar[dict[str, tuple[str, str]]] = {
        "solver": ("sharded", "with False for 'exact' and True for 'sharded'")
    }

    #: every training starts from the last stage's, no fit from the last fit; classes: `weighting`
    warm_start = False
    class_weight = None

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "STARSVM":
        """Train on labeled and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Factors of C_i. Unlabeled rows of weight 0 are left out, and only predicted.

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
                result = fit_exact(rows, columns[0], costs, settings, history)
            else:
                result = fit_sharded(rows, costs, settings, history)
        self.sharded_ = not columns
        self.positive_ratio_ = ratios[0] if len(ratios) == 1 else np.array(ratios)
        self._keep_fitted(result, history)
        self._keep_rows(X, rows, result)
        return self

    def _least_share(self, n_unlabeled: int) -> float:
        if self.min_share is None:
            return 0.0 if n_unlabeled <= MANY_ROWS else MANY_SHARE
        return float(self.min_share)

    def _is_exact(self, rows: Any) -> bool:
        if self.sharded == "auto":
            return not self._is_linear and sum(block_rows(rows)) <= EXACT_ROWS
        return not self.sharded

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

    def _keep_fitted(self, result: Fitted, history: History) -> None:
        """Set the model, and warn where it did not converge.

        Sets: coef_, intercept_, kernel_map_, support_, dual_coef_, objective_, gap_, n_iter_,
        termination_, history_.
        """
        for name in ("support_", "dual_coef_"):
            if hasattr(self, name):
                delattr(self, name)
        self.coef_ = result.coef
        self.intercept_ = np.zeros(len(result.coef))
        if result.support is not None and result.dual_coef is not None:
            self.support_, self.dual_coef_ = result.support, result.dual_coef
            self.kernel_map_ = result.kernel_map
        trained = result.trained
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

    def _keep_rows(self, X: Any, rows: Placed, result: Fitted) -> None:
        """Set what there is for each training row: transduction_, ranking_, labeled_iter_."""
        if isinstance(X, Resident):
            self.transduction_ = self.ranking_ = self.labeled_iter_ = None
            return
        trained, codes = result.trained, result.codes
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
