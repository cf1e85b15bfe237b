"""Tables of mixed columns as sparse rows: numbers scaled, categories as indicators.

`TableEncoder` is the transformer. `LabelCode` turns the words of a label column into classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
import sparse
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.exceptions import warn
from dask_s3vm.features.table_columns import (
    SCALES,
    Moments,
    assemble,
    codes_of,
    columns_of,
    moments_of,
    numbers_or_none,
    put_together,
    scaling,
    words_of,
)
from dask_s3vm.interrupts import interruptible

#: Facts of a column: moments if it has numbers, and its distinct words if they are not too many.
Facts = tuple[Moments | None, tuple[str, ...] | None]


# Label columns --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelCode:
    """The classes of the words of a label column.

    Attributes
    ----------
    name : str
        The column.
    words : tuple of str
        All known labels.
    positive : tuple of str or None
        Labels of class 1, all others being class 0; None: each label is a class.
    """

    name: str
    words: tuple[str, ...]
    positive: tuple[str, ...] | None = None

    def classes(self) -> np.ndarray:
        """Return the class of each of `words`.

        0 and 1 with `positive`; else integers if all words are, else floats, else the words.
        """
        if self.positive is not None:
            return np.isin(np.array(self.words), self.positive).astype(np.int64)
        for kind in (int, float):
            try:
                return np.array([kind(word) for word in self.words])
            except (ValueError, OverflowError):
                continue
        return np.array(self.words, dtype=np.str_)

    def decode(self, codes: np.ndarray, unlabeled: Any) -> np.ndarray:
        """Return the classes of codes; `unlabeled` for codes below 0."""
        classes = self.classes()
        mark = str(unlabeled) if classes.dtype.kind == "U" else unlabeled
        # one array of classes and mark, so that all blocks have the same dtype
        held = np.append(classes, np.array([mark]))
        return held[np.where(codes < 0, len(classes), codes)]

    def dtype(self, unlabeled: Any) -> np.dtype:
        """Return the dtype of the labels."""
        return self.decode(np.empty(0, dtype=np.int32), unlabeled).dtype


def label_code(name: str, words: tuple[str, ...], positive: tuple[str, ...] | None) -> LabelCode:
    """Return a `LabelCode`; raise ValueError for positive labels that do not occur."""
    if positive is not None:
        absent = [word for word in positive if word not in words]
        if absent:
            known = ", ".join(repr(word) for word in words[:10])
            raise ValueError(f"positive names {absent}, but the labels of {name!r} are {known}")
        if len(positive) == len(words):
            raise ValueError(f"positive names all labels of {name!r}: {list(words)[:10]}")
    return LabelCode(name, words, positive)


# Tables ---------------------------------------------------------------------------------------


class UnknownCategoryWarning(UserWarning):
    """A table has categories that the encoder was not fitted on."""


class TableEncoder(TransformerMixin, BaseEstimator):
    """Make sparse rows of a table with columns of numbers and of categories.

    A column of numbers becomes one feature, ``(x - offset) * factor``. A column of c categories
    becomes c features, of which the one of the row's category is 1. Zeros are not stored.

    A category that was not seen in `fit` gets zeros in all features of its column; one
    `UnknownCategoryWarning` gives the number of such values.

    Parameters
    ----------
    categorical : "auto" or sequence of str
        Columns of categories. With "auto" these are the columns with booleans or with values that
        are not numbers. A sequence names further columns of categories, such as numbers that are
        codes.
    numeric : sequence of str
        Columns that must have numbers: any other value in them is an error.
    scale : {"unit", "maxabs", "std", "none"}
        "unit": ``(x - min) / (max - min)``, to [0, 1]. "maxabs": divided by the largest absolute
        value, which keeps zeros zero: for columns that are mostly zero but also negative. "std":
        divided by the standard deviation, zeros stay zeros. New rows may lie outside these ranges.
    missing : {"error", "zero"}
        Missing values (``None``, NaN, and the words of `table_columns.MISSING`) raise an error, or
        store nothing: no category, or a scaled number of 0.
    max_categories : int
        Largest number of categories of a column. More are taken for a mistake, such as a column of
        names.
    dtype : {float64, float32}
        Type of the features.
    block : {"gcxs", "scipy"}
        Type of the blocks of dask arrays that `transform` returns.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        Names of the columns.
    categories_ : list of (tuple of str or None)
        Sorted categories of each column, None for numbers.
    offset_, factor_ : ndarray
        Offset and factor of each column; 0 and 1 for categories.
    n_features_in_, n_features_out_ : int
        Numbers of columns of the table and of features.
    label_ : LabelCode or None
        The label column, if the encoder was fitted by reading a file.
    reading_ : dict or None
        How that file was read: format, delimiter, header, columns.

    Examples
    --------
    >>> from dask_s3vm import TableEncoder
    >>> table = [{"size": 2, "color": "red"}, {"size": 6, "color": "blue"}]
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'color=blue', 'color=red']
    >>> encoder.transform([{"size": 4, "color": "red"}]).toarray()
    array([[0.5, 0. , 1. ]])
    """

    label_: LabelCode | None
    reading_: dict[str, Any] | None

    def __init__(
        self,
        *,
        categorical: Any = "auto",
        numeric: Sequence[str] = (),
        scale: str = "unit",
        missing: str = "error",
        max_categories: int = 10_000,
        dtype: Any = "float64",
        block: str = "gcxs",
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.scale = scale
        self.missing = missing
        self.max_categories = max_categories
        self.dtype = dtype
        self.block = block

    @interruptible
    def fit(self, X: Any, y: Any = None) -> "TableEncoder":
        """Find the types, categories and ranges of the columns.

        Parameters
        ----------
        X : table
            A pandas or dask DataFrame, ``pyarrow.Table``, dict of columns, list of dicts,
            structured array, or an array or list of rows, whose columns are named "0", "1", ...
        y : ignored
        """
        self.check()
        if hasattr(X, "to_delayed") and hasattr(X, "columns"):
            names = [str(name) for name in X.columns]
            look = dask.delayed(self._facts_of, pure=False)
            parts = compute_all([look(part, names) for part in X.to_delayed()])
        else:
            names = list(columns_of(X))
            parts = (self._facts_of(X, names),)
        return self.settle(names, [agreed(column) for column in zip(*parts, strict=True)])

    def transform(self, X: Any) -> Any:
        """Return rows as a csr_array; a lazy dask array if X is a dask DataFrame.

        Columns are found by name if X has names; columns that `fit` did not see are ignored.
        """
        check_is_fitted(self)
        if hasattr(X, "to_delayed") and hasattr(X, "columns"):
            return self._transform_lazily(X)
        rows, unknown = self._encode(X)
        warn_of_unknown(unknown)
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features: ``column`` or ``column=category``."""
        check_is_fitted(self)
        names: list[str] = []
        for name, words in zip(self.feature_names_in_, self.categories_, strict=True):
            names += [name] if words is None else [f"{name}={word}" for word in words]
        return np.array(names, dtype=object)

    def check(self) -> None:
        """Raise ValueError for invalid parameters."""
        if self.scale not in SCALES:
            raise ValueError(f"scale is {self.scale!r}, wanted one of {list(SCALES)}")
        if self.missing not in ("error", "zero"):
            raise ValueError(f"missing is {self.missing!r}, wanted 'error' or 'zero'")
        if self.block not in ("gcxs", "scipy"):
            raise ValueError(f"block is {self.block!r}, wanted 'gcxs' or 'scipy'")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype is {self.dtype!r}, wanted float32 or float64")
        if isinstance(self.categorical, str) and self.categorical != "auto":
            raise ValueError(f"categorical is {self.categorical!r}, wanted 'auto' or a list")
        if isinstance(self.numeric, str):
            raise ValueError(f"numeric is {self.numeric!r}, wanted a list of columns")
        if both := set(self.numeric) & set(self.named_categorical):
            raise ValueError(f"columns {sorted(both)} are in both categorical and numeric")

    @property
    def named_categorical(self) -> tuple[str, ...]:
        """Columns that are categories whatever their values."""
        return () if isinstance(self.categorical, str) else tuple(map(str, self.categorical))

    def settle(self, names: Sequence[str], facts: Sequence[Facts]) -> "TableEncoder":
        """Fit from the facts of the columns; readers of files call this in place of `fit`."""
        self.check()
        if not names:
            raise ValueError("the table has no column, wanted at least one")
        for option in ("numeric", "named_categorical"):
            if absent := [name for name in getattr(self, option) if name not in names]:
                word = option.removeprefix("named_")
                raise ValueError(f"{word} names {absent}, but the columns are {list(names)[:50]}")
        self.categories_: list[tuple[str, ...] | None] = []
        self.offset_, self.factor_ = np.zeros(len(names)), np.ones(len(names))
        for i, (name, (moments, words)) in enumerate(zip(names, facts, strict=True)):
            if moments is not None and name not in self.named_categorical:
                self.offset_[i], self.factor_[i] = scaling(moments, self.scale)
                self.categories_.append(None)
                continue
            if words is None or len(words) > self.max_categories:
                raise ValueError(
                    f"column {name!r} has more than {self.max_categories} categories "
                    "(max_categories); leave it out, or allow more"
                )
            self.categories_.append(tuple(sorted(words)))
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self.label_ = None
        self.reading_ = None
        return self

    @property
    def sizes_(self) -> list[int | None]:
        """Number of categories of each column, None for numbers."""
        return [None if words is None else len(words) for words in self.categories_]

    @property
    def n_features_out_(self) -> int:
        """Number of features."""
        return sum(1 if size is None else size for size in self.sizes_)

    def assemble(self, columns: Sequence[np.ndarray]) -> csr_array:
        """Make rows of columns of numbers and codes; see `table_columns.assemble`."""
        return assemble(columns, self.sizes_, self.offset_, self.factor_, np.dtype(self.dtype))

    def _facts_of(self, X: Any, names: list[str]) -> list[Facts]:
        columns = columns_of(X, names)
        return [self._look_at(name, column) for name, column in columns.items()]

    def _look_at(self, name: str, column: np.ndarray) -> Facts:
        numbers = None if name in self.named_categorical else numbers_or_none(column)
        if numbers is None and name in self.numeric:
            raise ValueError(f"column {name!r} is to be numeric, but holds something else")
        if numbers is not None:
            self._check_numbers(name, numbers)
        words, missing = words_of(column)
        self._check_gaps(name, missing)
        distinct = np.unique(words[~missing])
        few = len(distinct) <= self.max_categories
        moments = None if numbers is None else moments_of(numbers)
        return moments, tuple(distinct.tolist()) if few else None

    def _encode(self, X: Any) -> tuple[csr_array, dict[str, int]]:
        """Return the rows, and the number of unknown categories by column."""
        names = self.feature_names_in_.tolist()
        unknown: dict[str, int] = {}
        columns: list[np.ndarray] = []
        for (name, column), words in zip(
            columns_of(X, names).items(), self.categories_, strict=True
        ):
            if words is None:
                numbers = numbers_or_none(column)
                if numbers is None:
                    raise ValueError(f"column {name!r} holds something that is not a number")
                self._check_numbers(name, numbers)
                self._check_gaps(name, np.isnan(numbers))
                columns.append(numbers)
                continue
            codes, missing = codes_of(column, words)
            self._check_gaps(name, missing)
            columns.append(codes)
            if count := int(np.sum((codes < 0) & ~missing)):
                unknown[name] = count
        return self.assemble(columns), unknown

    def _check_numbers(self, name: str, numbers: np.ndarray) -> None:
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise ValueError(f"column {name!r}, row {row}: an infinite number, wanted a finite one")

    def _check_gaps(self, name: str, missing: np.ndarray) -> None:
        if self.missing == "error" and missing.any():
            row = int(np.flatnonzero(missing)[0])
            raise ValueError(
                f"column {name!r}, row {row}: the value is missing; missing='zero' would allow it"
            )

    def _transform_lazily(self, X: Any) -> da.Array:
        make = dask.delayed(_block, pure=True)
        held = dask.delayed(self, traverse=False)
        width = self.n_features_out_
        meta = as_block(csr_array((0, 0), dtype=np.dtype(self.dtype)), self.block)
        parts = [
            da.from_delayed(make(part, held), shape=(np.nan, width), meta=meta)
            for part in X.to_delayed()
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)


def agreed(parts: Sequence[Facts]) -> Facts:
    """Combine the facts of the parts of a column: it has numbers only if all parts have."""
    moments = [part for part, _ in parts]
    words: set[str] | None = set()
    for _, some in parts:
        words = None if words is None or some is None else words | set(some)
    together = None if any(m is None for m in moments) else put_together(m for m in moments if m)
    return together, None if words is None else tuple(sorted(words))


def warn_of_unknown(unknown: dict[str, int]) -> None:
    """Warn once with the number of values of unknown categories, if there are any."""
    if unknown:
        by_column = ", ".join(f"{count} in {name!r}" for name, count in unknown.items())
        warn(
            f"{sum(unknown.values())} values are categories that the encoder was not fitted on "
            f"({by_column}); all features of their column are 0",
            UnknownCategoryWarning,
        )


def as_block(matrix: csr_array, block: str) -> Any:
    """Return rows as a block of type "gcxs" or "scipy"."""
    if block == "scipy":
        return matrix
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return sparse.GCXS(parts, shape=matrix.shape, compressed_axes=(0,))


def _block(part: Any, encoder: TableEncoder) -> Any:
    return as_block(encoder.transform(part), encoder.block)
