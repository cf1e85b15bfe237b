"""TSVM with multiple switching."""

from typing import Any

import numpy as np

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._parameters import COUNT, fitted, parameter, parametrized
from dask_s3vm.estimators._transductive import TransductiveS3VM
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask
from dask_s3vm.methods.tsvm import TSVMSettings, train_tsvm


@parametrized
class TSVM(TransductiveS3VM):
    """Transductive linear SVM with multiple switching.

    Minimizes (Sindhwani & Keerthi, section 1.3), over w and over labels of the unlabeled rows of
    which a share `positive_ratio` is positive::

        1/2l sum_lab max(0, 1 - y o)^2 + lam_unlabeled/2u sum_unl max(0, 1 - |o|)^2 + lam/2 |w|^2

    with o = w.x, the bias inside w. Labels come from the supervised SVM; the weight of the
    unlabeled rows rises level by level, and at each level retraining and switching of pairs of
    labels alternate until nothing switches. Finds a local minimum.
    With ``lam_unlabeled=0`` it is exactly `L2SVM`.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.
    T. Joachims. Transductive Inference for Text Classification using Support Vector Machines.

    Examples
    --------
    >>> from dask_s3vm import TSVM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = TSVM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    max_switches: int | None = parameter(
        "int or None",
        "Maximum number of label pairs switched at once; 1 is Joachims' original TSVM, None as "
        "many as possible.",
        [COUNT, None],
        default=None,
    )

    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        "One row per retraining and per switch: level, pairs switched, objective, active rows, "
        "Newton and CG steps, seconds.",
    )

    def _train(
        self, rows: Placed, task: TransductiveTask, start: np.ndarray | None, history: History
    ) -> BinarySolution:
        settings = TSVMSettings(
            self.lam,
            self.lam_unlabeled,
            self.max_switches,
            self.fit_intercept,
            self.tol,
            self.max_iter,
        )
        return train_tsvm(rows.engine, task, settings, start, history, self._seeds)
