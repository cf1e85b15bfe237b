"""Rows in an engine for one fit, and what is known of their labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.estimators._rows import PlacedRows, take_in
from dask_s3vm.features import KernelMap
from dask_s3vm.labels import find_classes
from dask_s3vm.methods.base import ClassTotals
from dask_s3vm.methods.labeled_rows import LabeledAlone
from dask_s3vm.methods.ratio import RatioEstimate
from dask_s3vm.methods.run import Record

R = TypeVar("R")


@dataclass(frozen=True)
class FitRows:
    """Rows in an engine for one fit, and what is known of their labels.

    costs : cost of a labeled row by its class.
    ratios : share of positive rows among the unlabeled, for each binary problem; none for a method
        that needs no share.
    supervised : whether the labeled rows alone count.
    weighted : whether rows have weights.
    start : (k, d + 1) weights to start from, in the user's column order, or None.
    block_rows : number of rows of each block of X.
    exact_rows : the rows themselves, for estimators with exact kernel columns; None for all others.
    record : of this fit; holds the state of an interrupted one, if there is one to resume.
    known : see `PlacedRows`.
    is_trial : whether this is one of many fits on the same rows: a fold, or one of a search.
    labeled : the labeled rows alone, where they are few and a supervised SVM is trained beside a
        method, or before it.
    """

    engine: Engine
    classes: np.ndarray
    totals: ClassTotals
    costs: np.ndarray
    ratios: list[RatioEstimate]
    supervised: bool
    weighted: bool
    start: np.ndarray | None
    block_rows: tuple[int, ...]
    exact_rows: Any
    record: Record
    known: dict[Any, Any] | None = None
    is_trial: bool = False
    labeled: LabeledAlone | None = None

    @property
    def positives(self) -> list[int]:
        """The positive class of each binary problem."""
        return positives_of(self.classes)

    def once(self, key: Any, compute: Callable[[], R]) -> R:
        """Compute what other fits on the same rows may have computed; `key` is all it depends on.

        Fits at the same time may both compute it: they find the same bits.
        """
        if self.known is None:
            return compute()
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]

    def start_of(self, problem: int) -> np.ndarray:
        """Weights to start binary problem number `problem` from, in internal order."""
        layout = self.engine.layout
        if self.start is None:
            return np.zeros(layout.n_features + 1)
        return layout.to_internal(self.start[problem])


class Found(NamedTuple):
    """What was found for a model.

    rows : what it was trained on.
    solved : solutions of the binary problems.
    labels : class number of each row, where the method found some and they are wanted; else None.
    """

    rows: FitRows
    solved: list[Any]
    labels: Any


def positives_of(classes: np.ndarray) -> list[int]:
    """Class numbers that are +1 in turn: one for two classes, else each of them."""
    return [1] if len(classes) == 2 else list(range(len(classes)))


@contextmanager
def place_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, start: np.ndarray | None = None
) -> Iterator[PlacedRows]:
    """Check rows and have them in an engine for a while.

    Sets: n_features_in_, feature_names_in_ of the estimator.
    """
    checked: list[Any] = []

    def find_map(rows: Any, labels: Any) -> KernelMap | None:
        if estimator._wants_rows(rows):
            checked.append(rows)
            return None
        if start is not None:
            return _last_kernel_map(estimator, rows)
        return estimator._fit_kernel_map(rows, labels)

    measured = estimator._scales_columns
    source, kernel_map = take_in(estimator, X, y, sample_weight, find_map, measured)
    try:
        supervised = estimator.facts.supervised
        classes = find_classes(source.summary.labels, estimator.unlabeled, supervised)
        if start is not None:
            _check_start(estimator, classes, estimator.n_features_in_)
        engine = source.place(classes, estimator._column_scale(source.summary.ranges))
    finally:
        source.close()
    try:
        names = getattr(estimator, "feature_names_in_", None)
        yield PlacedRows(
            engine, classes, estimator.n_features_in_, names, kernel_map,
            source.summary.block_rows, checked[0] if checked else None,
        )  # fmt: skip
    finally:
        engine.close()


# Warm starts ----------------------------------------------------------------------------------


def last_weights(estimator: Any) -> np.ndarray | None:
    """Return the weights of the last fit, if `warm_start` wants them."""
    if not estimator.warm_start or not hasattr(estimator, "coef_"):
        return None
    return np.column_stack([estimator.coef_, estimator.intercept_])


def _last_kernel_map(estimator: Any, X: Any) -> KernelMap | None:
    """Return the map of the last fit: its weights mean nothing with another one."""
    last = getattr(estimator, "kernel_map_", None)
    last_kernel = "linear" if last is None else last.kernel
    if last_kernel != estimator.kernel:
        raise ValueError(
            f"warm_start: the last fit had kernel={last_kernel!r}, this one has "
            f"{estimator.kernel!r}; set warm_start=False or keep the kernel"
        )
    if last is not None and X.shape[1] != last.n_features:
        _check_start(estimator, estimator.classes_, X.shape[1])
    return last


def _check_start(estimator: Any, classes: np.ndarray, n_features: int) -> None:
    """Refuse to start from a model of other data, which stays as it was."""
    last = getattr(estimator, "kernel_map_", None)
    known = estimator.coef_.shape[1] if last is None else last.n_features
    estimator.n_features_in_ = known
    if n_features != known or not np.array_equal(estimator.classes_, classes):
        raise ValueError(
            f"warm_start: the last fit had classes {estimator.classes_.tolist()} and "
            f"{known} features, this one has {classes.tolist()} and {n_features}; "
            "set warm_start=False or keep the data's form"
        )
