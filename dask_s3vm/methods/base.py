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
    """Rows and total sample weight of each class, and the number of unlabelled rows."""

    counts: np.ndarray
    weights: np.ndarray
    n_unlabeled: int


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
    return ClassTotals(counts[:-1], weights[:-1], int(counts[-1]))


def count_labels(shard: Shard, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, sample weight) of each class in a shard; unlabelled rows last."""
    assert shard.codes is not None, "labels are needed to count them"
    codes = np.where(shard.codes < 0, n_classes, shard.codes)  # unlabelled rows go last
    size = n_classes + 1
    counts = np.bincount(codes, minlength=size)
    weights = np.bincount(codes, weights=shard.weights, minlength=size).astype(np.float64)
    return counts, weights
