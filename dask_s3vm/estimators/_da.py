"""Deterministic annealing."""

from typing import Any

import numpy as np

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._parameters import fitted, parametrized
from dask_s3vm.estimators._transductive import TransductiveS3VM
from dask_s3vm.methods.annealing import DASettings, train_da
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask


@parametrized
class DAS3VM(TransductiveS3VM):
    """Semi-supervised linear SVM by deterministic annealing.

    Looks for a minimum of the same objective as `TSVM` (Sindhwani & Keerthi, section 1.4)::

        1/2l sum_lab max(0, 1 - y o)^2 + lam_unlabeled/2u sum_unl max(0, 1 - |o|)^2 + lam/2 |w|^2

    by way of probabilities p of the unlabeled rows, of mean `positive_ratio`, whose entropy is
    weighed by a temperature (eq. 1.6). The temperature falls from a point where the problem is
    convex to one where p is certain. From the best w along the way a last descent leads to a
    local minimum of the objective itself, among those with as many positive labels.
    With ``lam_unlabeled=0`` it is exactly `L2SVM`.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.

    Examples
    --------
    >>> from dask_s3vm import DAS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = DAS3VM(lam=0.1, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    n_iter_: int = fitted("int", "Newton steps of the descent, the most over the binary problems.")
    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        'One row per temperature ("anneal": transductive objective, mean entropy of p, '
        'evaluations, seconds), then one per half step of the descent ("retrain", "switch": '
        "objective, CG steps, pairs switched, seconds).",
    )

    def _train(
        self, rows: Placed, task: TransductiveTask, start: np.ndarray | None, history: History
    ) -> BinarySolution:
        settings = DASettings(
            self.lam, self.lam_unlabeled, self.fit_intercept, self.tol, self.max_iter
        )
        return train_da(rows.engine, task, settings, start, history, self._seeds)
