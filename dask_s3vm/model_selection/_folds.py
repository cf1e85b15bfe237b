"""Labeled rows, and folds of them. A fold is a few row numbers, never a copy of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.estimators._inputs import as_array, plain_labels
from dask_s3vm.estimators._labels import find_classes
from dask_s3vm.features.landmarks import take_rows
from dask_s3vm.model_selection._splits import LabeledSplitter, splitter_of


@dataclass(frozen=True)
class Labeled:
    """The labeled rows, which are few, in this process.

    X, y : the rows and their labels.
    numbers : their numbers among all rows, ascending.
    n_rows : number of all rows.
    mark : what y has for the other rows.
    """

    X: Any
    y: np.ndarray
    numbers: np.ndarray
    n_rows: int
    mark: Any

    def all_labels(self) -> np.ndarray:
        """Y of all rows, with marks."""
        if len(self.numbers) == self.n_rows:
            return self.y
        whole = np.full(self.n_rows, self.mark)
        kind = np.result_type(whole, self.y) if self.y.dtype.kind in "US" else self.y.dtype
        whole = whole.astype(kind)
        whole[self.numbers] = self.y
        return whole


@dataclass(frozen=True)
class Fold:
    """A split.

    held : numbers of the rows that are not trained on, ascending.
    test : positions of the test rows among the labeled rows; None: the test set that was given.
    """

    held: np.ndarray
    test: np.ndarray | None


def labeled_rows(X: Any, y: Any, unlabeled: Any, supervised: bool) -> Labeled:
    """Gather the labeled rows. Costs: y comes to this process, and the rows that have a label."""
    labels = plain_labels(y)
    classes = find_classes(np.unique(labels), unlabeled, supervised)
    numbers = np.flatnonzero(np.isin(labels, classes))
    # a table keeps the names of its columns
    rows = X.iloc[numbers] if hasattr(X, "iloc") else take_rows(as_array(X), numbers)
    mark = -1 if unlabeled is None else unlabeled
    return Labeled(rows, labels[numbers], numbers, len(labels), mark)


def folds_of(cv: Any, labeled: Labeled, unlabeled: Any) -> list[Fold]:
    """Folds of the labeled rows, by `cv` of a search."""
    cv = splitter_of(cv, unlabeled)
    if isinstance(cv, LabeledSplitter):
        folds = [Fold(labeled.numbers[held], held) for held in cv.test_parts(labeled.y)]
    else:
        splits = cv
        if hasattr(cv, "split"):
            splits = cv.split(np.zeros((labeled.n_rows, 1)), labeled.all_labels())
        folds = [_fold(train, test, labeled) for train, test in splits]
    if not folds:
        raise ValueError(f"cv gives no split: {cv!r}")
    return folds


def _fold(train: Any, test: Any, labeled: Labeled) -> Fold:
    """Make a fold of any splitter's row numbers; only labeled rows can be tested on."""
    held = np.ones(labeled.n_rows, dtype=bool)
    held[np.asarray(train)] = False
    tested = np.zeros(labeled.n_rows, dtype=bool)
    tested[np.asarray(test)] = True
    inside = np.flatnonzero(tested[labeled.numbers])
    if len(inside) == 0:
        raise ValueError("cv has a split without a labeled row to test on; use LabeledKFold")
    return Fold(np.flatnonzero(held), inside)
