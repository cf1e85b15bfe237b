"""What estimators have in common that find labels first and train an SVM on them afterwards."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from dask_s3vm.estimators._base import LinearS3VM, Placed
from dask_s3vm.estimators._linear import beside
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._resident import Resident
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


class LabellingS3VM(LinearS3VM):
    """Base of QPS3VM and SubmodularS3VM: see these for the parameters and attributes."""

    C: float
    C_unlabeled: float | None
    positive_ratio: float | None
    center: bool
    fit_intercept: bool
    tol: float
    callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None
    verbose: bool

    #: labels are found anew in every fit: there is nothing to start from
    warm_start = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearS3VM._kernel_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "C_unlabeled": [Interval(Real, 0, None, closed="neither"), None],
        "positive_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "center": ["boolean"],
        "fit_intercept": ["boolean"],
        "unlabeled": [Integral, str, None],
        "class_weight": [dict, str, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "callbacks": [callable, list, tuple, None],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _find(
        self, rows: Placed, task: TransductiveTask, cost: float, history: History
    ) -> FoundLabels:
        """Find the labels of one binary problem; `cost` is C*."""

    @abstractmethod
    def _keep_found(self, found: list[FoundLabels]) -> None:
        """Set attributes of the estimator's own; the list is empty without unlabelled rows."""

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LabellingS3VM":
        """Find labels for the unlabelled rows, then train on all rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows, which multiply C and C*. Unlabelled rows must all have the same
            weight, or 0, which leaves them out: the programme counts rows.

        Returns
        -------
        self
        """
        with self._placed(X, y, sample_weight) as rows:
            history = rows.history
            ratios = positive_ratios(self, rows)
            # costs of rows are relative to the total weight of the labelled ones; C is not
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
