"""STAR-SVM: self-training with adaptive regularization."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dask_s3vm.estimators._base import Solver, check_steps, one_or_all
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._linear import like_rows
from dask_s3vm.estimators._rows import PlacedRows, as_array
from dask_s3vm.estimators._safe import GuardedS3VM
from dask_s3vm.estimators._settled import Weighed
from dask_s3vm.features import KernelMap
from dask_s3vm.features.kernel_columns import KernelColumns, all_rows, block_rows, kernel_columns
from dask_s3vm.methods.base import BinaryJob, BinaryTask, ClassTotals, balanced_weights
from dask_s3vm.methods.run import HistoryRow
from dask_s3vm.methods.star import (
    DualProblems,
    ExactProblems,
    SelfTraining,
    ShardedProblems,
    StarSolution,
    class_costs,
    earliest_class,
)
from dask_s3vm.parameters.fields import fitted, parametrized
from dask_s3vm.parameters.methods import STARParameters
from dask_s3vm.parameters.shared import ShardedSearch

#: sharded="auto" works on exact kernel columns up to so many rows.
EXACT_ROWS = 10_000


@parametrized
class STARSVM(STARParameters, ShardedSearch, GuardedS3VM):
    """Self-training SVM with adaptive regularization (STAR-SVM).

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    An SVM without offset is trained on the rows that have a label::

        min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.phi(x_i))            (eq. 4)

    Of the other rows, those of extreme output then get the sign of their output for a label, for
    good, with ``C_i = confidence^k C`` if it was stage k: late labels, which rest on earlier ones,
    count less. This goes on until every row has a label. Each training starts where the last one
    ended and stops by the duality gap (7).

    The paper as printed and its authors' program differ, and this is the program. A stage takes the
    rows with output ``>= (1 - tau) max`` or ``<= (1 - tau) min`` over those without a label
    (Algorithm 1), with tau = (labels assigned so far) / u_0, u_0 the number of unlabeled rows:
    printed is 1 / u_0, with which stages would take two rows or so forever. And a class of share p
    counts ``2 (1 - p) C``, given labels included: eq. (21) prints p, which makes the rare class
    count less (``weighting="printed"``; it does worse, see ``examples/papers/star_svm.py``).

    With ``sharded=False`` all rows come into this process: greedy ascent on columns of the exact
    kernel, 8 n bytes for each row that is ever a support vector. With ``sharded=True`` rows stay in
    shards, on any engine, with coordinate ascent in each; kernels other than the linear one are
    computed with landmark rows. "auto" shards the linear kernel, and others beyond 10,000 rows.

    With ``balance="predictions"`` the linear kernel has a bias. Where the share of positive
    predictions is outside the interval of the ratio, the threshold is moved to the ratio: weights
    of the classes have moved it. With ``balance="paper"`` there is no offset: have the classes on
    both sides of the origin then. The authors' program computes exp(-|x - z|^2 / (4 sigma^2)) for
    its sigma: give sqrt(2) times that to get the same kernel.

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
    >>> model = STARSVM(kernel="rbf", sigma=0.3).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

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
    intercept_: np.ndarray = fitted(
        "ndarray of shape (1,) or (n_classes,)", 'Biases; zeros with balance="paper".'
    )
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
    termination_: str = fitted(
        "str",
        '"converged"; "precision" if rounding allowed no smaller gap; "max_stages" if that was '
        'met; "max_iter" if a training ended by that.',
    )

    _counted = "rounds or steps of one training"
    _solution = StarSolution
    _in_lanes = False  # outputs that all classes need are in the shards

    def _is_supervised(self, totals: ClassTotals) -> bool:
        super()._is_supervised(totals)  # warns
        return False

    def _solver(self, rows: FitRows, models: Sequence[Any]) -> Solver:
        engine, part = rows.engine, self._part_supervised
        problems: DualProblems = ShardedProblems(engine, len(rows.classes), self._has_bias)
        exact: ExactProblems | None = None
        if rows.exact_rows is not None:
            columns, one = self._kernel_columns(rows.exact_rows), float(self._has_bias)
            problems = exact = ExactProblems(
                engine, lambda numbers: columns(numbers) + one, columns.diagonal() + one
            )

        def solve(rows: FitRows, job: BinaryJob) -> StarSolution:
            task = job.task
            costs = class_costs(float(self.C), task.ratio, self.weighting)
            wanted = self._wanted(task) if self._is_balanced(task) else None
            problem = problems.of_class(task.positive, costs)
            beside = None
            if exact is not None and part != 0.0 and task.n_unlabeled and not rows.supervised:
                beside = exact.supervised(task, self._supervised_lam)
            training = SelfTraining(problem, costs, self, wanted, beside, part, rows.supervised)
            return job.run(training, "stages")

        return solve

    @property
    def _has_bias(self) -> bool:
        return self._is_linear and self.balance == "predictions"

    def _weighed(self, rows: FitRows, task: BinaryTask, solution: Any, place: int) -> Weighed:
        """Balance, and train the supervised SVM; an expansion by rows is and has that already."""
        if rows.exact_rows is not None:
            return Weighed(solution)
        return super()._weighed(rows, task, solution, place)

    def _balanced(
        self, rows: FitRows, task: BinaryTask, solution: Any, n: int | None = None
    ) -> Any:
        """Move the bias."""
        if not self._is_balanced(task):
            return solution
        return replace(solution, w=balanced_weights(rows.engine, solution.w, 1.0, task, n))

    def _is_balanced(self, task: BinaryTask) -> bool:
        return self.balance == "predictions" and task.n_unlabeled > 0

    def _wanted(self, task: BinaryTask) -> BinaryTask:
        """The ratio itself: weights of classes have moved the threshold."""
        return replace(task, to_ratio=self.weighting != "none")

    def _is_exact(self, X: Any) -> bool:
        """Whether columns of the exact kernel are used; see `sharded`."""
        if self.sharded == "auto":
            return not self._is_linear and sum(block_rows(X)) <= EXACT_ROWS
        return not self.sharded

    def _wants_rows(self, X: Any) -> bool:
        return self._is_exact(X)

    def _kernel_columns(self, X: Any) -> KernelColumns:
        return kernel_columns(
            all_rows(X),
            self.kernel,
            sigma=self.sigma,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _keep(self, solved: list[Any], rows: FitRows, history: list[HistoryRow]) -> None:
        """Set the model.

        Sets: coef_, intercept_, kernel_map_, support_, dual_coef_, objective_, gap_, n_iter_,
        termination_, history_, sharded_.
        """
        for name in ("support_", "dual_coef_"):
            if hasattr(self, name):
                delattr(self, name)
        found = np.stack([one.w for one in solved])
        self.sharded_ = rows.exact_rows is None
        if self.sharded_:
            w = rows.engine.layout.to_external(found)
            self.coef_, self.intercept_ = np.ascontiguousarray(w[:, :-1]), w[:, -1].copy()
        else:
            self._keep_expansion(found, self._kernel_columns(rows.exact_rows))
            constant = float(self._has_bias) * np.add.reduce(found, axis=1)
            self.intercept_ = constant + [one.offset for one in solved]
        self.gap_ = one_or_all([one.gap for one in solved])
        check_steps("STARSVM", found, solved, rows.is_trial)
        self._keep_course(solved, history)

    def _keep_expansion(self, dual: np.ndarray, columns: KernelColumns) -> None:
        """Set the model from y_i alpha_i of all rows."""
        self.support_ = np.flatnonzero(dual.any(axis=0))
        self.dual_coef_ = np.ascontiguousarray(dual[:, self.support_])
        if columns.kernel == "linear":
            self.coef_ = columns.weights(self.support_, self.dual_coef_)
            self.kernel_map_ = None
        else:
            self.coef_ = np.eye(len(dual))
            self.kernel_map_ = columns.expansion(self.support_, self.dual_coef_)

    def _found_labels(self, rows: FitRows, solved: list[Any]) -> Any:
        """(class number of each row, -1 for those that took no part; rankings; stages)."""
        if len(solved) == 1:
            (one,) = solved
            found = np.where(one.stages < 0, -1, (one.labels > 0).astype(np.int64))
            ranking, stages = one.ranking, one.stages
        else:
            found = earliest_class(solved)
            ranking = np.stack([one.ranking for one in solved], axis=1)
            stages = np.stack([one.stages for one in solved], axis=1)
        return found, ranking, stages

    def _keep_labels(self, X: Any, y: Any, rows: FitRows, found: Any) -> None:
        """Set what there is for each training row.

        Sets: positive_ratio_, positive_ratio_interval_, transduction_, ranking_, labeled_iter_.
        """
        self._keep_ratios(rows)
        if isinstance(X, PlacedRows):
            self.transduction_ = self.ranking_ = self.labeled_iter_ = None
            return
        numbers, ranking, stages = found
        labels = self.classes_[numbers]
        if (numbers < 0).any():  # rows of weight 0 took no part
            labels = np.where(numbers < 0, np.asarray(self.predict(X)), labels)
        X, sizes = as_array(X), rows.block_rows
        self.transduction_ = like_rows(labels, X, sizes)
        self.ranking_ = like_rows(ranking, X, sizes)
        self.labeled_iter_ = like_rows(stages, X, sizes)
