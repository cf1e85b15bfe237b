"""What estimators have in common that find labels first and train an SVM on them afterwards."""

from abc import abstractmethod
from typing import Any

import numpy as np

from dask_s3vm.estimators._base import LinearS3VM, Placed
from dask_s3vm.estimators._linear import beside
from dask_s3vm.estimators._parameters import POSITIVE, fitted, parameter, parametrized
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._shared import (
    ClassWeightParameters,
    CostParameters,
    InterceptParameters,
    RatioParameters,
    RunParameters,
    StoppingParameters,
)
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import (
    History,
    LinearSolution,
    TransductiveTask,
    collect,
    solved_once,
)
from dask_s3vm.methods.found_labels import FoundLabels, classes_of_rows, train_on_found
from dask_s3vm.methods.l2svm import L2SVMSettings, train_l2svm
from dask_s3vm.methods.weights import one_weight


@parametrized
class LabelingS3VM(
    CostParameters,
    RatioParameters,
    InterceptParameters,
    LinearS3VM,
    ClassWeightParameters,
    StoppingParameters,
    RunParameters,
):
    """Base of QPS3VM and SubmodularS3VM."""

    C_unlabeled: float | None = parameter(
        "float or None",
        "Cost C* of an unlabeled row. None: C l / u, with which both kinds of rows weigh alike.",
        [POSITIVE, None],
        default=None,
        kw_only=False,
    )
    center: bool = parameter(
        "bool",
        "Whether the kernel is taken about the mean of the unlabeled rows, on the fly: sparse rows "
        "stay sparse. False is the paper's form, in which the mean of rows that are not negative "
        "outweighs what tells them apart.",
        ["boolean"],
        default=True,
    )

    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and those found. A dask array if X is one. With "
        "more than two classes, a row goes to the class that claims it; if several or none do, to "
        "the one for which it lies farthest on the positive side of the threshold.",
    )
    objective_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "F, eq. (11), of the labels found; without unlabeled rows the objective of the SVM.",
    )

    #: labels are found anew in every fit: there is nothing to start from
    warm_start = False

    @abstractmethod
    def _find(
        self, rows: Placed, task: TransductiveTask, cost: float, history: History
    ) -> FoundLabels:
        """Find the labels of one binary problem; `cost` is C*."""

    @abstractmethod
    def _keep_found(self, found: list[FoundLabels]) -> None:
        """Set attributes of the estimator's own; the list is empty without unlabeled rows."""

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LabelingS3VM":
        """Find labels for the unlabeled rows, then train on all rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows, which multiply C and C*. Unlabeled rows must all have the same
            weight, or 0, which leaves them out: the program counts rows.

        Returns
        -------
        self
        """
        with self._placed(X, y, sample_weight) as rows:
            history = rows.history
            ratios = positive_ratios(self, rows)
            # costs of rows are relative to the total weight of the labeled ones; C is not
            costs = self.C * rows.totals.weights.sum() * rows.costs
            settings = L2SVMSettings(self.fit_intercept, self.tol, self.max_iter)
            if not has_unlabeled(self, rows):
                (solution,) = train_l2svm(rows.engine, 2 * costs, [1.0], settings, None, history)
                found: list[FoundLabels] = []
                codes = None
            else:
                solution, found, codes = self._train(rows, costs, ratios, settings, history)
        self._keep(solution, history.rows)
        self._keep_found(found)
        self.positive_ratio_ = ratios[0] if len(ratios) == 1 else np.array(ratios)
        if codes is None or isinstance(X, Resident):
            self.transduction_ = self._complete(X, y, rows.block_rows)
        else:
            self.transduction_ = beside(self.classes_[codes], X, rows.block_rows)
        return self

    def _train(
        self,
        rows: Placed,
        costs: np.ndarray,
        ratios: list[float],
        settings: L2SVMSettings,
        history: History,
    ) -> tuple[LinearSolution, list[FoundLabels], np.ndarray]:
        """Find and train, for each binary problem."""
        totals = rows.totals
        weight = one_weight(rows.engine, type(self).__name__)
        cost = self._unlabeled_cost(rows)
        tasks, found, solved = [], [], []
        for positive, ratio in zip(rows.positives, ratios, strict=True):
            task = TransductiveTask(
                positive, costs, totals.n_unlabeled, totals.unlabeled_weight, ratio
            )
            tasks.append(task)
            found.append(self._find(rows, task, cost * weight, history))
            solved.append(
                solved_once(
                    history,
                    f"class {positive}",
                    lambda: train_on_found(
                        rows.engine, tasks[-1], found[-1], cost, settings, history
                    ),
                )
            )
        codes = classes_of_rows(rows.engine, tasks, found)
        return collect(rows.engine, solved), found, codes

    def _unlabeled_cost(self, rows: Placed) -> float:
        """C*: the one given, or C l / u."""
        if self.C_unlabeled is not None:
            return float(self.C_unlabeled)
        totals = rows.totals
        return float(self.C * totals.weights.sum() / totals.unlabeled_weight)
