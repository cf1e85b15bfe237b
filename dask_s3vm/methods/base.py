"""What methods share: facts about labels, and reports of progress."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.methods.keeping import Keeper, Snapshot, State

#: One row of `history_`: flat, numbers and strings only.
HistoryRow = dict[str, Any]

#: Called with every row of the history as it comes.
Callback = Callable[[HistoryRow], None]


@dataclass(frozen=True)
class ClassTotals:
    """Rows and total sample weight of each class, and of the unlabeled rows."""

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
    """A binary problem with unlabeled rows.

    positive : the class number that is +1.
    costs : cost of a labeled row by its class.
    n_unlabeled, unlabeled_weight : number and total sample weight of the unlabeled rows.
    ratio : r, the share of the unlabeled rows that is positive.
    """

    positive: int
    costs: np.ndarray
    n_unlabeled: int
    unlabeled_weight: float
    ratio: float

    @property
    def n_positive(self) -> int:
        """Number of unlabeled rows to be labeled +1."""
        return int(np.floor(self.ratio * self.n_unlabeled + 0.5))


class History:
    """What a fit has done: rows of `history_`, each passed on to the callbacks; and its state.

    At a step boundary a method says by `keep` all that is needed to go on from there, under a name
    of its own; `kept` gives it back, in this process or a later one.

    Parameters
    ----------
    callbacks : called with each row.
    keeper : remembers states.
    engine : tells how many rounds were made.
    """

    def __init__(
        self,
        callbacks: Iterable[Callback] = (),
        keeper: Keeper | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._callbacks = list(callbacks)
        self._keeper = Keeper() if keeper is None else keeper
        self._engine = engine
        self.rows: list[HistoryRow] = list(self._keeper.last.history)
        if engine is not None:
            engine.rounds += self._keeper.last.rounds

    def add(self, row: HistoryRow) -> None:
        """Append a row."""
        self.rows.append(row)
        for callback in self._callbacks:
            callback(row)

    def kept(self, name: str) -> State | None:
        """The state to go on from, if there is one of this name."""
        return self._keeper.last.states.get(name)

    def keep(self, name: str, state: State, began: float | None = None) -> None:
        """Offer a state, and drop those of names that begin with it and a slash.

        `began` : when its collection began, of a state that took some work; see `due`.
        """
        last = self._keeper.last.states
        states = {key: value for key, value in last.items() if not key.startswith(f"{name}/")}
        rounds = 0 if self._engine is None else self._engine.rounds
        self._keeper.offer(Snapshot({**states, name: state}, list(self.rows), rounds), began)

    @property
    def due(self) -> bool:
        """Whether it is time for a state that takes some work to collect."""
        return self._keeper.due


def solved_once(
    history: History, name: str, solve: Callable[[], "BinarySolution"]
) -> "BinarySolution":
    """Solve a binary problem, unless that is done already; states within it are `name`/..."""
    state = history.kept(name)
    if state is None:
        state = vars(solve())
        history.keep(name, state)
    return BinarySolution(**state)


def class_totals(engine: Engine, n_classes: int) -> ClassTotals:
    """Count the labels. Costs: 1 round, no pass over the rows."""
    counts, weights = engine.sum(count_labels, n_classes)
    return ClassTotals(counts[:-1], weights[:-1], int(counts[-1]), float(weights[-1]))


def count_labels(shard: Shard, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, sample weight) of each class in a shard; unlabeled rows last."""
    assert shard.codes is not None, "labels are needed to count them"
    codes = np.where(shard.codes < 0, n_classes, shard.codes)  # unlabeled rows go last
    size = n_classes + 1
    counts = np.bincount(codes, minlength=size)
    counts[-1] = np.count_nonzero(shard.unlabeled)  # those that count for something
    weights = np.bincount(codes, weights=shard.weights, minlength=size).astype(np.float64)
    return counts, weights
