"""Splits of the labeled rows; every unlabeled row stays in each training part."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
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

from dask_s3vm.interrupts import warn

#: (row numbers to train on, row numbers held out), both ascending.
Split = tuple[np.ndarray, np.ndarray]


class LabeledSplitter(BaseCrossValidator):
    """Base of splitters that cut up the labeled rows alone.

    Training part: the other labeled rows and all unlabeled ones. Test part: labeled rows. Works
    wherever scikit-learn takes a splitter, as long as it is given y with its marks.
    """

    unlabeled: Any

    @abstractmethod
    def _splitter(self, labels: np.ndarray) -> Any:
        """Make scikit-learn's splitter for the labels of the labeled rows."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """Yield row numbers to train on and to test on.

        Parameters
        ----------
        X : array of shape (n, d); only its length is looked at, and it may be None.
        y : array of shape (n,); `unlabeled` marks rows without a label.
        groups : not used.
        """
        y = self._checked(X, y)
        labeled = np.flatnonzero(self._is_labeled(y))
        for held in self.test_parts(y[labeled]):
            mask = np.ones(len(y), dtype=bool)
            mask[labeled[held]] = False
            yield np.flatnonzero(mask), labeled[held]

    def test_parts(self, labels: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the test parts, as ascending positions among the labeled rows.

        labels : those of the labeled rows, in order.
        """
        for _, held in self._splitter(labels).split(labels, labels):
            yield np.sort(held)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of splits; of y with few labels it may be fewer than wanted."""
        if y is None:
            return self._wanted()
        y = self._checked(X, y)
        labels = y[self._is_labeled(y)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `split` says it
            return int(self._splitter(labels).get_n_splits(labels, labels))

    def _wanted(self) -> int:
        """Number of splits where y is not known."""
        return int(self.n_splits)

    def _is_labeled(self, y: np.ndarray) -> np.ndarray:
        if self.unlabeled is None:
            return np.ones(len(y), dtype=bool)
        mark = str(self.unlabeled) if y.dtype.kind in "US" else self.unlabeled
        return np.asarray(y != mark)

    def _checked(self, X: Any, y: Any) -> np.ndarray:
        """Y as an array, with some labels."""
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y, which tells the labeled rows")
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y must be 1-dimensional, got shape {y.shape}")
        if y.dtype.kind == "O":
            y = y.astype(str)
        if X is not None and hasattr(X, "shape") and X.shape[0] != len(y):
            raise ValueError(f"y does not fit X: X has {X.shape[0]} rows, y has {len(y)} entries")
        if not self._is_labeled(y).any():
            raise ValueError(
                f"y has no labeled row: every entry is {self.unlabeled!r}, the mark of rows "
                "without a label"
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
        Folds. If a class has fewer labeled rows (with `stratify`; else if there are fewer labeled
        rows at all), there are as many folds as that, with a warning: else some training part
        would be without the class. A class of one labeled row is an error.
    stratify : bool, default=True
        Whether each fold has its share of every class.
    shuffle : bool, default=True
        Whether to shuffle the labeled rows first.
    random_state : int, RandomState or None, default=0
        Seed of the shuffle.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.

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
        unlabeled: Any = -1,
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
                f"{whom} {least} labeled row(s): it cannot be held out and trained on; wanted at "
                "least 2" + (", or stratify=False" if self.stratify else "")
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
        Splits.
    test_size : float or int, default=0.2
        Share, or number, of the labeled rows that are held out.
    stratify : bool, default=True
        Whether both parts have their share of every class.
    random_state : int, RandomState or None, default=0
        Seed.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.
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
        unlabeled: Any = -1,
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
    """Each labeled row held out in turn: as many splits as labels.

    Parameters
    ----------
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.
    """

    def __init__(self, *, unlabeled: Any = -1) -> None:
        self.unlabeled = unlabeled

    def _splitter(self, labels: np.ndarray) -> Any:
        classes, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"class {classes[counts.argmin()].item()!r} has 1 labeled row: it cannot be held "
                "out and trained on; wanted at least 2"
            )
        return LeaveOneOut()

    def _wanted(self) -> int:
        raise ValueError("LabeledLeaveOneOut needs y to tell the number of splits")


def splitter_of(cv: Any, unlabeled: Any) -> Any:
    """What `cv` of a search means: None or a number of folds, a splitter, or the splits."""
    if cv is None or isinstance(cv, Integral):
        return LabeledKFold(5 if cv is None else int(cv), unlabeled=unlabeled)
    if not isinstance(cv, str) and (hasattr(cv, "split") or np.iterable(cv)):
        return cv
    raise ValueError(f"cv must be None, a number of folds, a splitter or splits, got {cv!r}")
