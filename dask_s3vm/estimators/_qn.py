"""QN-S3VM."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._parameters import (
    COUNT,
    NOT_NEGATIVE,
    fitted,
    parameter,
    parametrized,
)
from dask_s3vm.estimators._transductive import TransductiveS3VM
from dask_s3vm.methods.base import (
    BinarySolution,
    History,
    LinearSolution,
    TransductiveTask,
    collect,
)
from dask_s3vm.methods.qn import STAGES, QNSettings, train_qn


@parametrized
class QNS3VM(TransductiveS3VM):
    """Semi-supervised SVM with smooth losses, by a quasi-Newton method (QN-S3VM).

    Minimizes (Gieseke et al., eq. 4)::

        1/l sum_lab 1/20 log(1 + exp(20 (1 - y f))) + lam_unlabeled/u sum_unl exp(-3 f^2)
            + lam |w|^2,    f(x) = w.(x - m) + b

    with m the mean of the unlabeled rows, by L-BFGS with one round over the rows per evaluation.
    With a kernel, x stands for features whose inner products are the kernel (eq. 9), and they are
    centered the same way. Without a bias (`fit_intercept`) there is no centering: f(x) = w.x.
    The weight of the unlabeled rows rises in stages, the first of which is the supervised
    problem. Finds a local minimum. Sample and class weights multiply the 1/l and 1/u as in `TSVM`.

    References
    ----------
    F. Gieseke, A. Airola, T. Pahikkala, O. Kramer. Fast and Simple Gradient-Based Optimization for
    Semi-Supervised Support Vector Machines.

    Examples
    --------
    >>> from dask_s3vm import QNS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = QNS3VM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    offset: str = parameter(
        '{"balanced", "free"}',
        '"balanced": b = 2 positive_ratio - 1, the mean output of the unlabeled rows (section '
        '3.4); without a `positive_ratio`, the mean of the known labels (eq. 13). "free": b is one '
        "more variable, and may put all unlabeled rows on one side.",
        [StrOptions({"balanced", "free"})],
        default="balanced",
    )
    annealing: Sequence[float] = parameter(
        "sequence of float",
        "The stages, as parts of `lam_unlabeled`, rising to 1. They are walked with `warm_start` "
        "too; (1.0,) goes on from the last weights.",
        ["array-like"],
        default=STAGES,
    )
    tol: float = parameter(
        "float",
        "The last stage ends where a step brings, and the next one promises, a relative decrease "
        "of at most this; stages before it end at 1e-5 if that is more.",
        [NOT_NEGATIVE],
        default=1e-6,
    )
    gtol: float = parameter(
        "float",
        "A stage ends where no entry of the gradient exceeds this.",
        [NOT_NEGATIVE],
        default=1e-9,
    )
    max_iter: int = parameter(
        "int", "Maximum number of evaluations per stage.", [COUNT], default=500
    )

    intercept_: np.ndarray = fitted(
        "ndarray of shape (1,) or (n_classes,)",
        "b - w.m, moved by the threshold: rows to be predicted need no centering.",
    )
    n_iter_: int = fitted("int", "Evaluations, the most over the binary problems.")
    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        "One row per evaluation: stage, its weight of the unlabeled rows, evaluations so far, "
        "objective, norm of the gradient, seconds.",
    )

    _counted = "evaluations"

    def _validate_params(self) -> None:
        super()._validate_params()
        stages = self._stages()
        rising = all(a < b for a, b in itertools.pairwise(stages))
        if not stages or not rising or not stages[0] >= 0.0 or stages[-1] != 1.0:
            raise ValueError(
                f"annealing must be numbers that rise from 0 or more to 1, got {self.annealing!r}"
            )
        if self.offset == "free" and not self.fit_intercept:
            raise ValueError("offset='free' has no effect with fit_intercept=False")

    def _stages(self) -> tuple[float, ...]:
        return tuple(float(part) for part in np.ravel(self.annealing))

    def _settings(self) -> QNSettings:
        return QNSettings(
            self.lam,
            self.lam_unlabeled,
            self._stages(),
            self.offset if self.fit_intercept else "none",
            self.tol,
            self.gtol,
            self.max_iter,
        )

    def _train(
        self, rows: Placed, task: TransductiveTask, start: np.ndarray | None, history: History
    ) -> BinarySolution:
        return train_qn(rows.engine, task, self._settings(), start, history, self._seeds)

    def _train_supervised(
        self, rows: Placed, ratios: list[float], history: History
    ) -> LinearSolution:
        """Train on the labeled rows; without any other there is nothing to balance."""
        settings = replace(self._settings(), lam_unlabeled=0.0, stages=(1.0,))
        totals = rows.totals
        if not totals.unlabeled_weight and self.fit_intercept:
            settings = replace(settings, offset="free")
        solved = []
        for number, (positive, ratio) in enumerate(zip(rows.positives, ratios, strict=True)):
            task = TransductiveTask(
                positive, rows.costs, totals.n_unlabeled, totals.unlabeled_weight, ratio
            )
            start = rows.internal_start(number)
            solved.append(train_qn(rows.engine, task, settings, start, history))
        return collect(rows.engine, solved)
