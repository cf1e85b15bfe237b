"""Splits of the labeled rows; all unlabeled rows are in every training part.

The splitters work wherever scikit-learn takes one. In a search a split is a `Fold`: a few row
numbers, never a copy of rows.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import (
    BaseCrossValidator,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from dask_s3vm.estimators._rows import as_array, plain_labels
from dask_s3vm.exceptions import warn
from dask_s3vm.features.landmarks import take_rows
from dask_s3vm.labels import AUTO, Tally, as_labels, find_classes, is_unlabeled, mark_for

#: (numbers of the training rows, numbers of the test rows), both ascending.
Split = tuple[np.ndarray, np.ndarray]


class LabeledSplitter(BaseCrossValidator):
    """Base of splitters of the labeled rows.

    The test part consists of labeled rows; the training part of all other labeled rows and all
    unlabeled rows. `split` needs y, with its marks of unlabeled rows.
    """

    unlabeled: Any

    @abstractmethod
    def _splitter(self, labels: np.ndarray) -> Any:
        """Return scikit-learn's splitter for the labels of the labeled rows."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """Yield the numbers of the training rows and of the test rows.

        Parameters
        ----------
        X : array of shape (n, d) or None
            Rows; only their number is used.
        y : array of shape (n,)
            Labels; `unlabeled` marks rows without a label.
        groups : object
            Ignored.
        """
        y = self._checked(X, y)
        labeled = np.flatnonzero(self._is_labeled(y))
        for test in self.test_parts(y[labeled]):
            mask = np.ones(len(y), dtype=bool)
            mask[labeled[test]] = False
            yield np.flatnonzero(mask), labeled[test]

    def test_parts(self, labels: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the test parts, as ascending positions among the labeled rows.

        Parameters
        ----------
        labels : ndarray
            Labels of the labeled rows, in order.
        """
        for _, test in self._splitter(labels).split(labels, labels):
            yield np.sort(test)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits; if y has few labels it may be less than `n_splits`."""
        if y is None:
            return self._wanted()
        y = self._checked(X, y)
        labels = y[self._is_labeled(y)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `split` warns
            return int(self._splitter(labels).get_n_splits(labels, labels))

    def _wanted(self) -> int:
        """Return the number of splits without knowing y."""
        return int(self.n_splits)

    def _is_labeled(self, y: np.ndarray) -> np.ndarray:
        return ~is_unlabeled(y, self.unlabeled)

    def _checked(self, X: Any, y: Any) -> np.ndarray:
        """Return y as an array; a y without any label is refused."""
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y to know the labeled rows")
        y = as_labels(y)
        if X is not None and hasattr(X, "shape") and X.shape[0] != len(y):
            raise ValueError(f"y does not fit X: X has {X.shape[0]} rows, y has {len(y)} entries")
        if not self._is_labeled(y).any():
            raise ValueError(
                f"y has no labeled row: every entry is {self.unlabeled!r}, the mark of unlabeled "
                "rows"
            )
        return y

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({own})"


class LabeledKFold(LabeledSplitter):
    """K folds of the labeled rows; all unlabeled rows are in each training part.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds. If a class has fewer labeled rows than that, there are as many folds as
        labeled rows of the class, with a warning; otherwise the class would be missing in some
        training part. A class with one labeled row is an error. Without `stratify`, the same
        applies to the number of all labeled rows.
    stratify : bool, default=True
        Whether each fold has about the same share of every class.
    shuffle : bool, default=True
        Whether to shuffle the labeled rows first.
    random_state : int, RandomState or None, default=0
        Seed of the shuffle.
    unlabeled : int, str or None, default="auto"
        Mark of rows without a label; "auto": -1, NaN or "", by the type of y.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_s3vm.model_selection import LabeledKFold
    >>> y = np.array([0, -1, 1, 0, -1, 1])
    >>> for train, test in LabeledKFold(2, shuffle=False).split(None, y):
    ...     print(train, test)
    [1 3 4 5] [0 2]
    [0 1 2 4] [3 5]
    """

    n_splits: int
    stratify: bool
    shuffle: bool
    random_state: Any

    def __init__(
        self,
        n_splits: int = 5,
        *,
        stratify: bool = True,
        shuffle: bool = True,
        random_state: Any = 0,
        unlabeled: Any = AUTO,
    ) -> None:
        if not isinstance(n_splits, Integral) or n_splits < 2:
            raise ValueError(f"n_splits must be a whole number >= 2, got {n_splits!r}")
        self.n_splits = int(n_splits)
        self.stratify = stratify
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabeled = unlabeled

    def _splitter(self, labels: np.ndarray) -> Any:
        n_splits = self._possible(labels)
        seed = self.random_state if self.shuffle else None
        kind = StratifiedKFold if self.stratify else KFold
        return kind(n_splits, shuffle=self.shuffle, random_state=seed)

    def _possible(self, labels: np.ndarray) -> int:
        classes, counts = np.unique(labels, return_counts=True)
        least = int(counts.min()) if self.stratify else len(labels)
        if least >= self.n_splits:
            return self.n_splits
        label = classes[counts.argmin()].item()
        whom = f"class {label!r} has" if self.stratify else "there are"
        if least < 2:
            raise ValueError(
                f"{whom} {least} labeled row(s): it cannot be both tested and trained on; wanted "
                "at least 2" + (", or stratify=False" if self.stratify else "")
            )
        warn(
            f"{least} folds in place of n_splits={self.n_splits}: {whom} {least} labeled rows",
            UserWarning,
        )
        return least


class LabeledShuffleSplit(LabeledSplitter):
    """Random test parts of the labeled rows; all unlabeled rows are in each training part.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float or int, default=0.2
        Share, or number, of the labeled rows in the test part.
    stratify : bool, default=True
        Whether both parts have about the same share of every class.
    random_state : int, RandomState or None, default=0
        Seed of the draws.
    unlabeled : int, str or None, default="auto"
        Mark of rows without a label; "auto": -1, NaN or "", by the type of y.
    """

    n_splits: int
    test_size: float
    stratify: bool
    random_state: Any

    def __init__(
        self,
        n_splits: int = 10,
        *,
        test_size: float = 0.2,
        stratify: bool = True,
        random_state: Any = 0,
        unlabeled: Any = AUTO,
    ) -> None:
        if not isinstance(n_splits, Integral) or n_splits < 1:
            raise ValueError(f"n_splits must be a whole number >= 1, got {n_splits!r}")
        if not isinstance(test_size, Real) or not test_size > 0:
            raise ValueError(f"test_size must be a share or a number > 0, got {test_size!r}")
        self.n_splits = int(n_splits)
        self.test_size = test_size
        self.stratify = stratify
        self.random_state = random_state
        self.unlabeled = unlabeled

    def _splitter(self, labels: np.ndarray) -> Any:
        kind = StratifiedShuffleSplit if self.stratify else ShuffleSplit
        return kind(self.n_splits, test_size=self.test_size, random_state=self.random_state)


class LabeledLeaveOneOut(LabeledSplitter):
    """Test on each labeled row in turn: as many splits as labeled rows.

    Parameters
    ----------
    unlabeled : int, str or None, default="auto"
        Mark of rows without a label; "auto": -1, NaN or "", by the type of y.
    """

    def __init__(self, *, unlabeled: Any = AUTO) -> None:
        self.unlabeled = unlabeled

    def _splitter(self, labels: np.ndarray) -> Any:
        classes, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"class {classes[counts.argmin()].item()!r} has 1 labeled row: it cannot be "
                "both tested and trained on; wanted at least 2"
            )
        return LeaveOneOut()

    def _wanted(self) -> int:
        raise ValueError("LabeledLeaveOneOut needs y to know the number of splits")


@dataclass(frozen=True)
class Labeled:
    """The labeled rows, which are few, in the memory of this process.

    Attributes
    ----------
    X, y : array
        The rows and their labels.
    numbers : ndarray
        Their numbers among all rows, ascending.
    n_rows : int
        Number of all rows.
    mark : object
        Mark of unlabeled rows.
    """

    X: Any
    y: np.ndarray
    numbers: np.ndarray
    n_rows: int
    mark: Any

    def all_labels(self) -> np.ndarray:
        """Return the labels of all rows, with marks of unlabeled rows."""
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

    Attributes
    ----------
    held_out : ndarray
        Numbers of the rows that are not trained on, ascending.
    test : ndarray or None
        Positions of the test rows among the labeled rows; None: the test set of the search.
    """

    held_out: np.ndarray
    test: np.ndarray | None


def labeled_rows(X: Any, y: Any, unlabeled: Any, supervised: bool) -> Labeled:
    """Gather the labeled rows.

    Costs: all of y and the labeled rows are transferred to this process.
    """
    labels = plain_labels(y)
    classes = find_classes(Tally.of(labels), unlabeled, supervised)
    numbers = np.flatnonzero(np.isin(labels, classes))
    # a DataFrame keeps its column names
    rows = X.iloc[numbers] if hasattr(X, "iloc") else take_rows(as_array(X), numbers)
    mark = mark_for(labels.dtype, AUTO if unlabeled is None else unlabeled)
    return Labeled(rows, labels[numbers], numbers, len(labels), mark)


def splitter_of(cv: Any, unlabeled: Any) -> Any:
    """Return the splitter, or the splits, that `cv` of a search means."""
    if cv is None or isinstance(cv, Integral):
        return LabeledKFold(5 if cv is None else int(cv), unlabeled=unlabeled)
    if not isinstance(cv, str) and (hasattr(cv, "split") or np.iterable(cv)):
        return cv
    raise ValueError(f"cv must be None, a number of folds, a splitter or splits, got {cv!r}")


def folds_of(cv: Any, labeled: Labeled, unlabeled: Any) -> list[Fold]:
    """Return the folds that `cv` of a search means."""
    cv = splitter_of(cv, unlabeled)
    if isinstance(cv, LabeledSplitter):
        folds = [Fold(labeled.numbers[test], test) for test in cv.test_parts(labeled.y)]
    else:
        splits = cv
        if hasattr(cv, "split"):
            splits = cv.split(np.zeros((labeled.n_rows, 1)), labeled.all_labels())
        folds = [_fold(train, test, labeled) for train, test in splits]
    if not folds:
        raise ValueError(f"cv has no split: {cv!r}")
    return folds


def _fold(train: Any, test: Any, labeled: Labeled) -> Fold:
    """Make a fold from the row numbers of any splitter; only labeled rows can be tested on."""
    held_out = np.ones(labeled.n_rows, dtype=bool)
    held_out[np.asarray(train)] = False
    tested = np.zeros(labeled.n_rows, dtype=bool)
    tested[np.asarray(test)] = True
    inside = np.flatnonzero(tested[labeled.numbers])
    if len(inside) == 0:
        raise ValueError("cv has a split without a labeled row to test on; use LabeledKFold")
    return Fold(np.flatnonzero(held_out), inside)
