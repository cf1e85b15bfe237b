"""What estimators that learn from unlabeled rows have in common."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from dask_s3vm.estimators._base import LinearS3VM, Placed
from dask_s3vm.estimators._parameters import fitted, parameter, parametrized
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._shared import (
    ClassWeightParameters,
    InterceptParameters,
    RunParameters,
    StoppingParameters,
    TransductionParameters,
    WarmStartParameters,
)
from dask_s3vm.interrupts import interruptible, warn
from dask_s3vm.methods.balance import is_balanced, n_predicted_positive, ratio_threshold
from dask_s3vm.methods.base import (
    BinarySolution,
    History,
    LinearSolution,
    TransductiveTask,
    collect,
    solved_once,
)
from dask_s3vm.methods.l2svm import L2SVMSettings, train_l2svm
from dask_s3vm.methods.seeds import Seeds


@parametrized
class TransductiveS3VM(
    TransductionParameters,
    InterceptParameters,
    LinearS3VM,
    ClassWeightParameters,
    StoppingParameters,
    WarmStartParameters,
    RunParameters,
):
    """Base of TSVM, DA and QN-S3VM."""

    threshold: str = parameter(
        '{"zero", "ratio"}',
        '"ratio" moves the bias so that a share `positive_ratio` of the unlabeled rows is '
        "predicted positive; helps where that share is known.",
        [StrOptions({"zero", "ratio"})],
        default="zero",
    )

    intercept_: np.ndarray = fitted(
        "ndarray of shape (1,) or (n_classes,)", "Biases, moved by the threshold."
    )
    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and predictions for the others. A dask array, "
        "not yet computed, if X is one.",
    )

    #: what the fit of a larger lam has left, on a path of several
    _seeds: ClassVar[Seeds | None] = None

    @abstractmethod
    def _train(
        self, rows: Placed, task: TransductiveTask, start: np.ndarray | None, history: History
    ) -> BinarySolution:
        """Train one binary problem."""

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TransductiveS3VM":
        """Train on labeled and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows, within the labeled and within the unlabeled ones.

        Returns
        -------
        self
        """
        with self._placed(X, y, sample_weight) as rows:
            history = rows.history
            ratios = positive_ratios(self, rows)
            shift = np.zeros(len(rows.positives))
            if not has_unlabeled(self, rows) or self.lam_unlabeled == 0:
                solution = self._train_supervised(rows, ratios, history)
            else:
                solved = []
                for number, (positive, ratio) in enumerate(
                    zip(rows.positives, ratios, strict=True)
                ):
                    totals = rows.totals
                    task = TransductiveTask(
                        positive, rows.costs, totals.n_unlabeled, totals.unlabeled_weight, ratio
                    )
                    start = rows.internal_start(number)
                    one = solved_once(
                        history,
                        f"class {positive}",
                        lambda: self._train(rows, task, start, history),  # noqa: B023
                    )
                    shift[number] = self._balance(rows, task, one)
                    solved.append(one)
                solution = collect(rows.engine, solved)
        self._keep(solution, history.rows)
        self.intercept_ = self.intercept_ - shift
        self.positive_ratio_ = ratios[0] if len(ratios) == 1 else np.array(ratios)
        self.transduction_ = self._complete(X, y, rows.block_rows)
        return self

    def _train_supervised(
        self, rows: Placed, ratios: list[float], history: History
    ) -> LinearSolution:
        """Train on the labeled rows alone."""
        settings = L2SVMSettings(self.fit_intercept, self.tol, self.max_iter)
        (solution,) = train_l2svm(
            rows.engine, rows.costs, [self.lam], settings, rows.start, history
        )
        return solution

    def _balance(self, rows: Placed, task: TransductiveTask, solution: BinarySolution) -> float:
        """How far to move the threshold; warns where the predictions are far from the ratio."""
        engine, bias = rows.engine, float(self.fit_intercept)
        if self.threshold == "ratio":
            return ratio_threshold(engine, solution.w, bias, task.n_positive, task.n_unlabeled)
        share = n_predicted_positive(engine, solution.w, bias) / task.n_unlabeled
        if not is_balanced(share, task.ratio):
            warn(
                f"{type(self).__name__}: {100 * share:.1f} % of the unlabeled rows are predicted "
                f"to be of class {rows.classes[task.positive]!r}, where positive_ratio says "
                f"{100 * task.ratio:.1f} %; the fit may have collapsed: check positive_ratio and "
                "lam_unlabeled, or use threshold='ratio'",
                UserWarning,
            )
        return 0.0
