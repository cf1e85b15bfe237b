"""The dual SVM without offset inside STAR-SVM, and rows that get their labels one stage at a time.

    max  D(alpha) = sum_i alpha_i - 1/2 |w|^2,    0 <= alpha_i <= C_i
    min  P(w) = 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.phi(x_i))

with w = sum_i y_i alpha_i phi(x_i) (Cheung & Li, eqs. 4 and 5) over the rows that have a label so
far. The gap (7) = P - D bounds how far both are from the optimum. `kernel_dual` holds kernel
columns in this process, `sharded_dual` works on rows in shards; both do what `DualProblem` says.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

#: Stage of rows that were given a label, and of unlabeled ones that count for nothing.
GIVEN = 0
LEFT_OUT = -2


@dataclass(frozen=True)
class Certificate:
    """How good a solution is, and what it took.

    primal, gap : P, and P - D.
    steps : steps in one variable (kernel columns), or rounds (shards).
    termination : "converged"; "precision" where rounding allowed no further step; "max_iter".
    """

    primal: float
    gap: float
    steps: int
    termination: str


class Extremes(NamedTuple):
    """Largest and smallest output among the rows that wait for a label."""

    high: float
    low: float


class Accepted(NamedTuple):
    """Rows labeled in a stage, what they add to gap and primal value (eq. 15), what is left."""

    n_positive: int
    n_negative: int
    loss: float
    left: Extremes


class DualProblem(Protocol):
    """A dual problem that grows."""

    #: rows that wait for a label
    n_waiting: int

    def solve(self, tol: float, max_iter: int, fresh: bool = False) -> Certificate:
        """Raise D from where it is until gap <= tol P; `fresh` drops rounding errors first."""
        ...

    def score(self) -> Extremes:
        """Outputs of the waiting rows."""
        ...

    def confidence(self, n: int, extremes: Extremes) -> float:
        """Return the n-th largest (from 1) relative confidence of the waiting rows.

        That is output / high of a positive output, output / low of a negative one, from 0 to 1.
        """
        ...

    def accept(
        self, above: float, below: float, positive_cost: float, negative_cost: float, stage: int
    ) -> Accepted:
        """Label waiting rows with output >= above or <= below; rows join with alpha = 0."""
        ...

    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """(+1, -1 or 0, stage) of all rows, in order."""
        ...

    def state(self) -> dict[str, Any]:
        """All of it, to go on from; 40 bytes a row."""
        ...

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Come back to a state."""
        ...
