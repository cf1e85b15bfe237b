"""QP-S3VM: labels by a quadratic program."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._labeling import LabelingS3VM
from dask_s3vm.estimators._parameters import fitted, parameter, parametrized
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels, found_once
from dask_s3vm.methods.program import ProgramSettings, solve_program


@parametrized
class QPS3VM(LabelingS3VM):
    """Semi-supervised SVM whose labels come from a quadratic program (QP-S3VM).

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

    n_restarts: int = parameter(
        "int",
        "Number of further starts, from the best vertices for random directions, beside the one "
        "from P = r; the labels of smallest F are kept. None by default, because a smaller F need "
        "not mean better labels: P = r leads to labels near those given, and other minima, though "
        "lower, may lie far off (kdd99 with ten labels: 94 % right at F = -511, 61 % at F = -702).",
        [Interval(Integral, 0, None, closed="left")],
        default=0,
    )

    n_iter_: int = fitted(
        "int", "Steps of the program, all starts together, the most over the binary problems."
    )
    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        "One row per step of the program (class, start, event, objective, swaps, seconds), and one "
        'per SVM (event "train").',
    )

    def _find(
        self, rows: Placed, task: TransductiveTask, cost: float, history: History
    ) -> FoundLabels:
        seeds = _root_seed(self.random_state).spawn(self.n_restarts)
        settings = ProgramSettings(cost, self.center, seeds)
        return found_once(
            history,
            task.positive,
            FoundLabels,
            lambda: solve_program(rows.engine, task, settings, history),
        )

    def _keep_found(self, found: list[FoundLabels]) -> None:
        """Nothing beside what all have."""


def _root_seed(random_state: Any) -> np.random.SeedSequence:
    """Root of the streams of the restarts."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    elif isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.SeedSequence(None if random_state is None else int(random_state))
