"""The dual in this process, on columns of the kernel matrix that are made when first needed.

TWO-SVM's greedy ascent in one variable (Steinwart, Hush & Scovel 2011, Algorithm 1). Only rows that
ever take a step need their column, which as a rule are few: memory is 8 n bytes for each of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dask_s3vm.kernels import ascent, greedy
from dask_s3vm.problems.dual import GIVEN, LEFT_OUT, Accepted, Certificate, Extremes

#: Columns that are made at a time: so many, and a part of those that there are.
BATCH = 32
BATCH_SHARE = 0.125

#: Numbers that there is room for from the start (1 GiB): memory that is not written to costs
#: nothing, and to move columns to a larger array costs more than to make them.
ROOM = 1 << 27

#: What a problem has for each row.
_ARRAYS = ("target", "cost", "stage", "alpha", "outputs")

#: Row numbers -> the columns of K of these rows, (m, n).
ColumnsOf = Callable[[np.ndarray], np.ndarray]


class KernelCache:
    """Columns of a kernel matrix, kept once they are made; several problems may share it.

    Attributes
    ----------
    diagonal : K_ii.
    place : number of a row's column in `columns`, -1 while there is none.
    columns : (m, n), room for more than there are.
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
        """Number of columns to be made at a time."""
        return BATCH + int(BATCH_SHARE * self._n_columns)

    def make(self, rows: np.ndarray) -> None:
        """Make the columns of rows that have none."""
        end, n = self._n_columns + len(rows), len(self.place)
        if end > len(self.columns):
            larger = np.empty((min(max(end, 2 * len(self.columns)), n), n))
            larger[: self._n_columns] = self.columns[: self._n_columns]
            self.columns = larger
        self.columns[self._n_columns : end] = self._columns_of(rows)
        self.place[rows] = np.arange(self._n_columns, end)
        self._n_columns = end


class KernelDual:
    """See `dual.DualProblem`.

    Parameters
    ----------
    cache : the kernel.
    target : +1 or -1 of rows with a label, 0 for the others.
    cost : C_i of rows with a label.
    weights : sample weights, or None for ones.
    """

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
        self.stage = np.where(target != 0, GIVEN, ascent.WAITING).astype(np.int32)
        if weights is not None:
            self.stage[(target == 0) & (weights == 0)] = LEFT_OUT
        self.n_waiting = int(np.count_nonzero(self.stage == ascent.WAITING))
        self.alpha = np.zeros(n)
        self.outputs = np.zeros(n)

    def solve(self, tol: float, max_iter: int, fresh: bool = False) -> Certificate:
        """See `dual.DualProblem`; at most `max_iter` steps for each row in training."""
        rows = np.flatnonzero(self.cost > 0)
        if fresh:
            self._refresh()
        most, done = max_iter * max(len(rows), 1), 0
        while True:
            ended, steps, primal, gap = greedy.greedy_ascent(
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
                names = {greedy.CONVERGED: "converged", greedy.PRECISION: "precision"}
                return Certificate(primal, gap, done, names.get(ended, "max_iter"))
            self._cache.make(self._wanted(rows))

    def score(self) -> Extremes:
        """See `dual.DualProblem`; outputs are at hand."""
        waiting = self.outputs[self.stage == ascent.WAITING]
        return Extremes(float(waiting.max()), float(waiting.min()))

    def confidence(self, n: int, extremes: Extremes) -> float:
        """See `dual.DualProblem`."""
        values, rows = np.empty(len(self.stage)), np.empty(len(self.stage), dtype=np.uint32)
        count = ascent.doubts(self.outputs, self.stage, *extremes, values, rows)
        return -float(np.partition(values[:count], n - 1)[n - 1])

    def accept(
        self, above: float, below: float, positive_cost: float, negative_cost: float, stage: int
    ) -> Accepted:
        """See `dual.DualProblem`."""
        n_positive, n_negative, loss, high, low = ascent.accept(
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
        """See `dual.DualProblem`."""
        return self.target, self.stage

    def state(self) -> dict[str, Any]:
        """See `dual.DualProblem`; kernel columns are made again when they are needed."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        return {**arrays, "n_waiting": self.n_waiting}

    def go_on_from(self, state: dict[str, Any]) -> None:
        """See `dual.DualProblem`."""
        for name in _ARRAYS:
            getattr(self, name)[:] = state[name]
        self.n_waiting = state["n_waiting"]
        used = np.flatnonzero(self.alpha)
        self._cache.make(used[self._cache.place[used] < 0])

    def _wanted(self, rows: np.ndarray) -> np.ndarray:
        """Rows without a column that add most to the gap: they are the next to take a step."""
        rows = rows[self._cache.place[rows] < 0]
        slope = 1.0 - self.target[rows] * self.outputs[rows]
        terms = self.cost[rows] * np.maximum(0.0, slope)  # alpha is 0: no column, no step
        return np.sort(rows[np.argsort(-terms, kind="stable")[: self._cache.batch]])

    def _refresh(self) -> None:
        """Compute the outputs anew from alpha: each step has added a rounding error."""
        used, cache = np.flatnonzero(self.alpha), self._cache
        self.outputs[:] = 0.0
        for i in used:
            self.outputs += self.target[i] * self.alpha[i] * cache.columns[cache.place[i]]
