"""The dual SVM without offset of STAR-SVM, over rows that get their labels in stages.

    max  D(alpha) = sum_i alpha_i - 1/2 |w|^2,    0 <= alpha_i <= C_i
    min  P(w) = 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.phi(x_i))

with w = sum_i y_i alpha_i phi(x_i) (Cheung & Li, eqs. 4 and 5), over the rows that have a label so
far. The gap P - D (7) bounds the distance of both from the optimum. There are two implementations
of `DualProblem`: `KernelDual` has kernel columns in this process, `sharded_dual.ShardedDual` works
on rows in shards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from dask_s3vm.kernels import dual
from dask_s3vm.numerics.linalg import one_blas_thread

#: Stage of labeled rows, and of unlabeled rows of weight 0, which never get a label.
GIVEN = 0
LEFT_OUT = -2


@dataclass(frozen=True)
class Certificate:
    """Quality of a solution, and its cost.

    primal, gap : P, and P - D.
    steps : steps in one variable (kernel columns), or rounds (shards).
    termination : "converged", "precision" (no step gains more than rounding errors) or "max_iter".
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
    """Rows labeled in a stage.

    n_positive, n_negative : their numbers.
    loss : what they add to the gap and to the primal value (eq. 15).
    left : extreme outputs of the rows that still wait.
    """

    n_positive: int
    n_negative: int
    loss: float
    left: Extremes


class DualProblem(Protocol):
    """A dual problem whose training set grows by stages."""

    #: number of rows that wait for a label
    n_waiting: int
    #: whether a training takes rounds over the rows
    takes_rounds: bool

    def solve(self, tol: float, max_iter: int, fresh: bool = False) -> Certificate:
        """Maximize D from the current alpha until gap <= tol P.

        `fresh` first recomputes from alpha what is otherwise updated, to drop rounding errors.
        """
        ...

    def score(self) -> Extremes:
        """Compute the outputs of the waiting rows; return their extremes."""
        ...

    def confidence(self, n: int, extremes: Extremes) -> float:
        """Return the n-th largest (from 1) relative confidence of the waiting rows.

        It is output / high for positive outputs and output / low for negative ones, from 0 to 1.
        """
        ...

    def accept(
        self, above: float, below: float, positive_cost: float, negative_cost: float, stage: int
    ) -> Accepted:
        """Label the waiting rows with output >= above or <= below; they enter with alpha = 0."""
        ...

    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (+1, -1 or 0) and the stage of all rows, in order."""
        ...

    def solution(self) -> np.ndarray:
        """Weights, or an expansion by rows."""
        ...

    def state(self) -> dict[str, Any]:
        """All that is needed to resume; some 40 bytes a row."""
        ...

    def resume_from(self, state: dict[str, Any]) -> None:
        """Come back to a state."""
        ...


# The dual on columns of the kernel matrix -----------------------------------------------------
#
# Greedy ascent in one variable (Steinwart, Hush & Scovel 2011, Algorithm 1). Only rows that take a
# step need their column, usually few of all: memory is 8 n bytes for each of them.


#: Columns computed at a time: this many, plus this part of those that exist.
BATCH = 32
BATCH_SHARE = 0.125

#: Numbers allocated from the start (1 GiB): memory that is never written costs nothing, and moving
#: columns to a larger array costs more than computing them.
ROOM = 1 << 27

#: Row arrays of a problem.
_ARRAYS = ("target", "cost", "stage", "alpha", "outputs")

#: Row numbers -> the columns of K of these rows, (m, n).
ColumnsOf = Callable[[np.ndarray], np.ndarray]


class KernelCache:
    """Columns of a kernel matrix, computed once; several problems may share them.

    Attributes
    ----------
    diagonal : K_ii.
    place : position of the column of each row in `columns`, -1 while there is none.
    columns : (m, n); the array has room for more columns than exist.
    """

    def __init__(self, columns_of: ColumnsOf, diagonal: np.ndarray) -> None:
        n = len(diagonal)
        self.diagonal = diagonal
        self.place = np.full(n, -1, dtype=np.int64)
        self.columns = np.empty((min(n, ROOM // n + BATCH), n))
        self._columns_of = columns_of
        self._n_columns = 0

    @property
    def batch(self) -> int:
        """Number of columns to compute at a time."""
        return BATCH + int(BATCH_SHARE * self._n_columns)

    def make(self, rows: np.ndarray) -> None:
        """Compute the columns of rows that have none."""
        if not len(rows):
            return
        end, n = self._n_columns + len(rows), len(self.place)
        if end > len(self.columns):
            larger = np.empty((min(max(end, 2 * len(self.columns)), n), n))
            larger[: self._n_columns] = self.columns[: self._n_columns]
            self.columns = larger
        self.columns[self._n_columns : end] = self._columns_of(rows)
        self.place[rows] = np.arange(self._n_columns, end)
        self._n_columns = end


class KernelDual:
    """`DualProblem` on kernel columns in this process.

    Parameters
    ----------
    cache : columns of the kernel matrix.
    target : +1 or -1 of rows with a label, 0 for the others.
    cost : C_i of rows with a label.
    weights : sample weights, or None for ones.
    """

    takes_rounds = False

    def __init__(
        self,
        cache: KernelCache,
        target: np.ndarray,
        cost: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        n = len(target)
        self._cache = cache
        self.target = target.astype(np.int8)
        self.cost = np.where(target != 0, cost, 0.0)
        self._weights = np.empty(0) if weights is None else weights
        self.stage = np.where(target != 0, GIVEN, dual.WAITING).astype(np.int32)
        if weights is not None:
            self.stage[(target == 0) & (weights == 0)] = LEFT_OUT
        self.n_waiting = int(np.count_nonzero(self.stage == dual.WAITING))
        self.alpha = np.zeros(n)
        self.outputs = np.zeros(n)

    def solve(self, tol: float, max_iter: int, fresh: bool = False) -> Certificate:
        """See `DualProblem`; at most `max_iter` steps per row in training."""
        rows = np.flatnonzero(self.cost > 0)
        if fresh:
            self._refresh()
        most, done = max_iter * max(len(rows), 1), 0
        while True:
            ended, steps, primal, gap = dual.greedy_ascent(
                rows,
                self.target,
                self.cost,
                self._cache.diagonal,
                self._cache.place,
                self._cache.columns,
                tol,
                most - done,
                self.alpha,
                self.outputs,
            )
            done += steps
            if ended < 0:
                names = {dual.CONVERGED: "converged", dual.PRECISION: "precision"}
                return Certificate(primal, gap, done, names.get(ended, "max_iter"))
            self._cache.make(self._next_rows(rows))

    def score(self) -> Extremes:
        """See `DualProblem`; the outputs are up to date."""
        waiting = self.outputs[self.stage == dual.WAITING]
        return Extremes(float(waiting.max()), float(waiting.min()))

    def confidence(self, n: int, extremes: Extremes) -> float:
        """See `DualProblem`."""
        values, rows = np.empty(len(self.stage)), np.empty(len(self.stage), dtype=np.uint32)
        count = dual.doubts(self.outputs, self.stage, *extremes, values, rows)
        return -float(np.partition(values[:count], n - 1)[n - 1])

    def accept(
        self, above: float, below: float, positive_cost: float, negative_cost: float, stage: int
    ) -> Accepted:
        """See `DualProblem`."""
        n_positive, n_negative, loss, high, low = dual.accept(
            self.outputs,
            above,
            below,
            stage,
            positive_cost,
            negative_cost,
            self._weights,
            self.target,
            self.cost,
            self.stage,
        )
        self.n_waiting -= n_positive + n_negative
        return Accepted(n_positive, n_negative, loss, Extremes(high, low))

    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """See `DualProblem`."""
        return self.target, self.stage

    def solution(self) -> np.ndarray:
        """Return y_i alpha_i."""
        return self.target * self.alpha

    def state(self) -> dict[str, Any]:
        """See `DualProblem`; kernel columns are made again when they are needed."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        return {**arrays, "n_waiting": self.n_waiting}

    def resume_from(self, state: dict[str, Any]) -> None:
        """See `DualProblem`."""
        for name in _ARRAYS:
            getattr(self, name)[:] = state[name]
        self.n_waiting = state["n_waiting"]
        used = np.flatnonzero(self.alpha)
        self._cache.make(used[self._cache.place[used] < 0])

    def _next_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows without a column that add most to the gap: likely the next to step."""
        rows = rows[self._cache.place[rows] < 0]
        slope = 1.0 - self.target[rows] * self.outputs[rows]
        terms = self.cost[rows] * np.maximum(0.0, slope)  # alpha is 0 without a column
        return np.sort(rows[np.argsort(-terms, kind="stable")[: self._cache.batch]])

    @property
    def weights(self) -> np.ndarray | None:
        """Sample weights; None if all are 1."""
        return self._weights if len(self._weights) else None

    def outputs_of(self, expansion: np.ndarray) -> np.ndarray:
        """Outputs of all rows for an expansion by rows."""
        used, cache = np.flatnonzero(expansion), self._cache
        cache.make(used[cache.place[used] < 0])
        outputs = np.zeros(len(expansion))
        for i in used:
            outputs += expansion[i] * cache.columns[cache.place[i]]
        return outputs

    def _refresh(self) -> None:
        """Recompute the outputs from alpha: each step has added a rounding error."""
        self.outputs[:] = self.outputs_of(self.solution())


# The supervised SVM on the same columns -----------------------------------------------------------

#: Most Newton steps; a few are enough as a rule.
MOST_STEPS = 50


def squared_hinge_expansion(
    cache: KernelCache, target: np.ndarray, cost: np.ndarray, lam: float
) -> np.ndarray:
    """Expansion by rows b, o = K b, of the SVM with squared hinge loss on rows of cost > 0.

        min  1/2 sum_i c_i max(0, 1 - y_i o_i)^2 + lam/2 b^T K b

    Where the gradient is 0, lam b_i = c_i (y_i - o_i) on the active rows, y_i o_i < 1, and b_i = 0
    on the others: (K_AA + lam diag(1/c_A)) b_A = y_A. Newton steps solve this for the rows that
    were active before. Costs: some solutions of l equations for l labeled rows.
    """
    rows = np.flatnonzero(cost > 0.0)
    cache.make(rows[cache.place[rows] < 0])
    K, y, c = cache.columns[cache.place[rows]][:, rows], target[rows], cost[rows]
    active = np.ones(len(rows), dtype=bool)
    with one_blas_thread():
        for _ in range(MOST_STEPS):
            found = np.zeros(len(rows))
            own = K[np.ix_(active, active)] + np.diag(lam / c[active])
            try:
                found[active] = np.linalg.solve(own, y[active])
            except np.linalg.LinAlgError:  # lam is lost beside K: of all solutions, the shortest
                found[active] = np.linalg.lstsq(own, y[active])[0]
            before, active = active, y * (K @ found) < 1.0
            if (active == before).all():
                break
    expansion = np.zeros(len(target))
    expansion[rows] = found
    return expansion
