"""What methods share: facts about labels, and reports of progress."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard

#: One row of `history_`: flat, numbers and strings only.
HistoryRow = dict[str, Any]

#: Called with every row of the history as it comes.
Callback = Callable[[HistoryRow], None]


@dataclass(frozen=True)
class ClassTotals:
    """Rows and total sample weight of each class, and of the unlabelled rows."""

    counts: np.ndarray
    weights: np.ndarray
    n_unlabeled: int
    unlabeled_weight: float = 0.0


@dataclass(frozen=True)
class BinarySolution:
    """Weights (d + 1,) of one binary problem in internal order, and how they were found.

    termination : "converged"; "precision" where rounding allowed no further step; "max_iter".
    """

    w: np.ndarray
    objective: float
    n_iter: int
    termination: str


@dataclass(frozen=True)
class LinearSolution:
    """A linear model per binary problem, in the user's column order.

    w : (k, d + 1), bias last. k = 1 for two classes, else one per class.
    """

    w: np.ndarray
    objective: np.ndarray
    n_iter: np.ndarray
    termination: list[str]


def collect(engine: Engine, solved: list[BinarySolution]) -> LinearSolution:
    """Put binary solutions side by side."""
    return LinearSolution(
        engine.layout.to_external(np.stack([one.w for one in solved])),
        np.array([one.objective for one in solved]),
        np.array([one.n_iter for one in solved]),
        [one.termination for one in solved],
    )


@dataclass(frozen=True)
class TransductiveTask:
    """A binary problem with unlabelled rows.

    positive : the class number that is +1.
    costs : cost of a labelled row by its class.
    n_unlabeled, unlabeled_weight : number and total sample weight of the unlabelled rows.
    ratio : r, the share of the unlabelled rows that is positive.
    """

    positive: int
    costs: np.ndarray
    n_unlabeled: int
    unlabeled_weight: float
    ratio: float

    @property
    def n_positive(self) -> int:
        """Number of unlabelled rows to be labelled +1."""
        return int(np.floor(self.ratio * self.n_unlabeled + 0.5))


class History:
    """Collects the rows of `history_` and passes each on to the callbacks."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self.rows: list[HistoryRow] = []
        self._callbacks = list(callbacks)

    def add(self, row: HistoryRow) -> None:
        """Append a row."""
        self.rows.append(row)
        for callback in self._callbacks:
            callback(row)


def class_totals(engine: Engine, n_classes: int) -> ClassTotals:
    """Count the labels. Costs: 1 round, no pass over the rows."""
    counts, weights = engine.step(lambda: engine.sum(count_labels, n_classes))
    return ClassTotals(counts[:-1], weights[:-1], int(counts[-1]), float(weights[-1]))


def count_labels(shard: Shard, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, sample weight) of each class in a shard; unlabelled rows last."""
    assert shard.codes is not None, "labels are needed to count them"
    codes = np.where(shard.codes < 0, n_classes, shard.codes)  # unlabelled rows go last
    size = n_classes + 1
    counts = np.bincount(codes, minlength=size)
    counts[-1] = np.count_nonzero(shard.unlabeled)  # those that count for something
    weights = np.bincount(codes, weights=shard.weights, minlength=size).astype(np.float64)
    return counts, weights
