"""QP-S3VM and S-QP-S3VM: labels are found first, and an SVM is trained on them afterwards."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.estimators._base import Solver, one_or_all
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._safe import GuardedS3VM
from dask_s3vm.methods.base import BinaryJob, BinarySolution, BinaryTask, one_weight
from dask_s3vm.methods.l2svm import train_l2svm
from dask_s3vm.methods.labeling import (
    FoundLabels,
    LabelingSolution,
    classes_of_rows,
    train_on_found,
)
from dask_s3vm.methods.qp import LabelProgramSearch
from dask_s3vm.methods.run import HistoryRow, Method
from dask_s3vm.methods.submodular import GreedySearch, PickedSolution
from dask_s3vm.numerics.random import seed_sequence
from dask_s3vm.parameters.fields import fitted, parametrized
from dask_s3vm.parameters.methods import LabelingParameters, QPParameters, SQPParameters
from dask_s3vm.parameters.shared import ShardedSearch

#: C_unlabeled=None: unlabeled rows weigh so much, all together, against the labeled ones.
UNLABELED_PART = 0.1


@parametrized
class LabelingS3VM(LabelingParameters, GuardedS3VM):
    """Base of QPS3VM and SubmodularS3VM.

    Unlabeled rows must all have the same sample weight, or 0, which leaves them out: the program
    counts rows. Weights multiply C and C*.
    """

    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and those found; `predict`, by a model that is "
        "partly the supervised SVM, may say otherwise. Predictions where `supervised_part_` is 1. "
        "A dask array if X is one. With more than two classes, a row goes to the class that claims "
        "it; if several or none do, to the one for which it lies farthest on the positive side of "
        "the threshold.",
    )
    objective_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "F, eq. (11), of the labels found; without unlabeled rows the objective of the SVM.",
    )

    @abstractmethod
    def _search(self, engine: Engine, task: BinaryTask, cost: float) -> Method[Any, Any]:
        """Make the method that finds the labels of one binary problem; `cost` is C*."""

    def _task_costs(self, rows: FitRows) -> np.ndarray:
        # costs of rows are relative to the total weight of the labeled ones; C is not
        return self.C * rows.totals.weights.sum() * rows.costs

    def _solver(self, rows: FitRows, models: Sequence[Any]) -> Solver:
        if rows.supervised:
            return self._solve_supervised
        weight = one_weight(rows.engine, type(self).__name__)
        cost = self._unlabeled_cost(rows)

        def solve(rows: FitRows, job: BinaryJob) -> Any:
            search = self._search(job.engine, job.task, cost * weight)
            found: FoundLabels = job.run(search, "labels")
            svm = train_on_found(job, self, found, cost)
            return self._solution(
                svm.w, found.objective, svm.termination, found, n_iter=found.n_iter
            )

        return solve

    def _solve_supervised(self, rows: FitRows, job: BinaryJob) -> BinarySolution:
        """Train the SVM on the labeled rows alone."""
        svm = train_l2svm(
            replace(job, task=BinaryTask(job.task.positive, 2 * job.task.costs)),
            lam=1.0,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return self._solution(svm.w, svm.objective, svm.termination, None, n_iter=svm.n_iter)

    def _unlabeled_cost(self, rows: FitRows) -> float:
        """C*: the one given, or a part of C l / u."""
        if self.C_unlabeled is not None:
            return float(self.C_unlabeled)
        totals = rows.totals
        return float(UNLABELED_PART * self.C * totals.weights.sum() / totals.unlabeled_weight)

    def _found_labels(self, rows: FitRows, solved: list[Any]) -> Any:
        if rows.supervised:
            return None
        return classes_of_rows(rows.engine, self._tasks(rows), [one.found for one in solved])


@parametrized
class QPS3VM(QPParameters, LabelingS3VM):
    """Semi-supervised SVM whose labels come from a quadratic program (QP-S3VM).

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Minimizes (Emara & Kantardzic, Problem 3), over probabilities P of the u unlabeled rows to be
    positive, an upper bound of the S3VM's dual::

        F(P) = 1/2 C*^2 (1 - P)' K_uu P + C C* Y' K_lu (1 - P),   0 <= P <= 1,  sum P = r u

    with r the `positive_ratio`. F is concave: Frank-Wolfe steps lead from vertex to vertex, never
    up, to labels that no step and no swap of two rows near the threshold improves. A local minimum;
    `n_restarts` looks for more.

    A linear SVM with squared hinge loss is then trained on all rows with these labels::

        1/2 |w|^2 + C sum_lab max(0, 1 - y o)^2 + C* sum_unl max(0, 1 - y o)^2

    and predicts new rows. The paper asks for columns in [0, 1]: see `UnitScaler`.

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

    _solution = LabelingSolution

    def _search(self, engine: Engine, task: BinaryTask, cost: float) -> Method[Any, Any]:
        seeds = seed_sequence(self.random_state).spawn(self.n_restarts)
        return LabelProgramSearch(engine, task, cost, self.center, seeds)


@parametrized
class SubmodularS3VM(SQPParameters, ShardedSearch, LabelingS3VM):
    """Semi-supervised SVM whose positive rows are picked greedily (S-QP-S3VM).

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    The program of `QPS3VM` over sets A of r u rows that are labeled +1, the others -1, as the
    maximum of a set function (Emara & Kantardzic, Problem 4)::

        S(A) = -1/2 C*^2 sum_{j in A, k in U} K_jk + C C* sum_{j in A, i in L} y_i K_ij
               + 1/2 C*^2 sum_{j, k in A} K_jk + Q5(|A|)

    Q5 depends on the size of A alone and makes S monotone and submodular (Theorem 3), with bounds
    of the kernel that are taken from the data, negative kernel values included. Greedy reaches at
    least 1 - 1/e of the largest S (Theorem 2).

    With ``sharded=False`` the distinct unlabeled rows come together in the client, and the set is
    that of plain greedy, ties by row number. With ``sharded=True`` the shards pick from their own
    rows first, and greedy picks among these (GreeDi): less memory and a weaker bound. "auto" shards
    distinct rows of more than `s3vm.greedy-bytes` (dask's configuration; 2 GiB).

    A linear SVM with squared hinge loss is then trained on all rows with these labels::

        1/2 |w|^2 + C sum_lab max(0, 1 - y o)^2 + C* sum_unl max(0, 1 - y o)^2

    and predicts new rows. The paper asks for columns in [0, 1]: see `UnitScaler`.

    References
    ----------
    W. Emara, M. Kantardzic. Submodular Optimization for Efficient Semi-supervised Support Vector
    Machines.
    B. Mirzasoleiman et al. Distributed Submodular Maximization: Identifying Representative Elements
    in Massive Data.

    Examples
    --------
    >>> from dask_s3vm import SubmodularS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = SubmodularS3VM(positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    set_value_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "S of the rows that were picked; with classes swapped if these are of `classes_[0]`.",
    )
    proven_share_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "The part of the largest S that `set_value_` is at least, proven for these data.",
    )

    _solution = PickedSolution

    def _search(self, engine: Engine, task: BinaryTask, cost: float) -> Method[Any, Any]:
        return GreedySearch(engine, task, cost, self, _config.greedy_bytes())

    def _keep(self, solved: list[Any], rows: FitRows, history: list[HistoryRow]) -> None:
        super()._keep(solved, rows, history)
        picked = [] if rows.supervised else [one.found for one in solved]
        self.set_value_ = one_or_all([one.value for one in picked])
        self.proven_share_ = one_or_all([one.proven for one in picked])
        self.sharded_ = bool(picked) and picked[0].sharded
