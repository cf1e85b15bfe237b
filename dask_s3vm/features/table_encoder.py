"""Tables of mixed columns as sparse rows: numbers, indicators of categories, hashed texts."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.containers import as_block
from dask_s3vm.features.table_checks import check_numbers, check_words
from dask_s3vm.features.table_columns import (
    CellError,
    UnknownCategoryWarning,
    as_table,
    codes_of,
    numbers_of,
    texts_of,
    warn_of_unknown,
    whole,
)
from dask_s3vm.features.table_facts import (
    Facts,
    MixedColumnError,
    agreed,
    facts_of,
    median_of,
    refuse_crowded,
    scaling,
)
from dask_s3vm.features.table_labels import LabelCode
from dask_s3vm.features.table_parameters import TableParameters
from dask_s3vm.features.table_rows import assemble, hash_texts, side_by_side
from dask_s3vm.frames import is_lazy_frame, lazy_parts
from dask_s3vm.interrupts import interruptible

__all__ = ["TableEncoder", "UnknownCategoryWarning", "warn_of_unknown"]


class TableEncoder(TransformerMixin, TableParameters):
    """Make sparse rows of a table with columns of numbers, categories, dates and texts.

    A column of numbers becomes one feature, ``(x - offset) * factor``; so does a column of dates,
    as seconds since 1970. A column of c categories becomes c features, of which the one of the
    row's category is 1. A column of texts becomes `n_text_features` features: its words, hashed.
    Zeros are not stored.

    Parameters
    ----------
    categorical : "auto" or sequence of str
        Columns of categories. With "auto" these are the columns of words or booleans, also of words
        that look like numbers, unless a csv file has them. A sequence names further ones, such as
        numbers that are codes.
    numeric : sequence of str
        Columns that must have numbers: any other value in them is an error.
    text : sequence of str
        Columns of free text. Each text becomes a row of unit length: counts of its words, in lower
        case and hashed to `n_text_features` features.
    scale : {"unit", "maxabs", "std", "none"}
        "unit": ``(x - min) / (max - min)``, to [0, 1]. "maxabs": divided by the largest absolute
        value, which keeps zeros zero: for columns that are mostly zero but also negative. "std":
        divided by the standard deviation, zeros stay zeros. New rows may lie outside these ranges.
    missing : {"error", "zero", "mean", "median"}
        Missing values (null, NaN, the empty word, and `null_values`) raise an error; or a missing
        number is a scaled 0, the mean or the median of its column. A missing category or text has
        no feature. Medians of tables in several pieces are those of `table_facts.median_of`.
    missing_indicator : bool
        Whether a column in which values were missing in `fit` gets one more feature, which is 1
        where its value is missing.
    null_values : sequence of str
        Words, besides the empty one, that mean a missing value, such as "NA" or "?".
    handle_unknown : {"ignore", "error"}
        A category that was not seen in `fit` gets zeros in all features of its column, and one
        `UnknownCategoryWarning` gives the number of such values; or it is an error.
    n_text_features : int
        Features of a column of texts.
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
    kinds_ : list of {"number", "date", "category", "text"}
        What each column holds.
    categories_ : list of (tuple of str or None)
        Sorted categories of each column, None for other kinds.
    offset_, factor_ : ndarray
        Offset and factor of each column; 0 and 1 where there are no numbers.
    fill_ : ndarray
        What missing numbers of each column are replaced by, before scaling; for "zero" the offset.
    indicator_ : ndarray of bool
        Columns with a feature for missing values.
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

    @interruptible
    def fit(self, X: Any, y: Any = None) -> "TableEncoder":
        """Find the kinds, categories and ranges of the columns.

        Parameters
        ----------
        X : table
            A DataFrame of pandas, dask or polars, a ``pyarrow.Table``, anything with
            ``__arrow_c_stream__``, dict of columns, list of dicts, structured array, or array or
            list of rows, whose columns are named "0", "1", ...
        y : ignored
        """
        self.check()
        if is_lazy_frame(X):
            names = [str(name) for name in X.columns]
            look = dask.delayed(self._facts_of_part, pure=False)
            parts = compute_all([look(part, names, i) for i, part in enumerate(lazy_parts(X))])
        else:
            table = as_table(X)
            names, parts = table.column_names, (self.facts_of(table),)
        try:
            return self.settle(names, [agreed(column) for column in zip(*parts, strict=True)])
        except MixedColumnError as error:
            raise _located(error, X, names) from None

    def facts_of(self, table: pa.Table) -> list[Facts]:
        """Return the facts of the columns of some rows, to be put together for `settle`.

        Raises
        ------
        CellError
            For the first row with a value that cannot be used.
        """
        found, errors = [], []
        for name in table.column_names:
            try:
                facts = facts_of(
                    whole(table.column(name), name),
                    name,
                    role=self.role_of(name),
                    most=self.max_categories,
                    null_values=self.null_values,
                    with_ranks=self.missing == "median",
                )
                self._check_gap(name, facts.gap)
                found.append(facts)
            except CellError as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: error.row)
        return found

    def facts_of_words(self, column: pa.Array, name: str) -> Facts:
        """Return the facts of a column of words: categories whatever they look like, or labels."""
        most, null_values = self.max_categories, self.null_values
        return facts_of(column, name, role="category", most=most, null_values=null_values)

    def settle(self, names: Sequence[str], facts: Sequence[Facts]) -> "TableEncoder":
        """Fit from the facts of the columns; readers of files call this in place of `fit`."""
        self.check()
        self.check_named(names)
        refuse_crowded(names, facts, self.max_categories)
        self.kinds_ = [found.kind or "number" for found in facts]
        self.categories_: list[tuple[str, ...] | None] = []
        self.offset_, self.factor_ = np.zeros(len(names)), np.ones(len(names))
        self.fill_ = np.zeros(len(names))
        self.indicator_ = np.array([found.gap is not None for found in facts])
        self.indicator_ &= self.missing_indicator
        for i, (name, found) in enumerate(zip(names, facts, strict=True)):
            if self.kinds_[i] == "category":
                self.categories_.append(self._categories(name, found))
                continue
            self.categories_.append(None)
            if self.kinds_[i] == "number" and name not in self.numeric:
                check_numbers(name, found.moments)
            if self.kinds_[i] in ("number", "date"):
                self.offset_[i], self.factor_[i] = scaling(found.moments, self.scale)
                self.fill_[i] = self._fill(found, self.offset_[i])
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self.label_ = None
        self.reading_ = None
        return self

    def _fill(self, found: Facts, offset: float) -> float:
        if self.missing == "mean":
            return found.moments.mean
        return median_of(found.ranks) if self.missing == "median" else offset

    def _categories(self, name: str, found: Facts) -> tuple[str, ...]:
        words = found.words or ()
        if name not in self.named_categorical:
            check_words(name, found)
        return tuple(sorted(words))

    def _facts_of_part(self, part: Any, names: list[str], number: int) -> list[Facts]:
        with CellError.within(number):
            return self.facts_of(as_table(part, names).select(names))

    def _check_gap(self, name: str, row: int | None) -> None:
        if self.missing == "error" and row is not None:
            reason = "the value is missing; TableEncoder(missing=...) allows it: zero, mean, median"
            raise CellError(row, name, reason)

    # Encoding ---------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return rows as a csr_array; a lazy dask array if X is a dask DataFrame.

        Columns are put in the order of `fit` if X has names. A column that is missing, or that
        `fit` did not see, is an error.
        """
        check_is_fitted(self)
        if is_lazy_frame(X):
            return self._transform_lazily(X)
        rows, unknown = self.encode(self.ordered(as_table(X, self.feature_names_in_.tolist())))
        warn_of_unknown(unknown)
        return rows

    def ordered(self, table: pa.Table) -> pa.Table:
        """Return the columns that were fitted, in their order; refuse others."""
        self.check_names(table.column_names)
        return table.select(self.feature_names_in_.tolist())

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a table with other columns; those that a file of training had are allowed."""
        wanted = self.feature_names_in_.tolist()
        allowed = {*wanted, *(self.reading_ or {}).get("columns", ())}
        allowed |= set() if self.label_ is None else {self.label_.name}
        if absent := [name for name in wanted if name not in names]:
            raise ValueError(f"X has no column {absent[:5]}; it has {list(names)[:20]}")
        if extra := [name for name in names if name not in allowed]:
            raise ValueError(f"X has more columns than were fitted: {extra[:5]}; wanted {wanted}")

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        ``column``, ``column=category``, ``column#number`` (of a hashed word) or ``column:missing``.
        """
        check_is_fitted(self)
        names: list[str] = []
        for i, name in enumerate(self.feature_names_in_.tolist()):
            if self.kinds_[i] == "category":
                names += [f"{name}={word}" for word in self.categories_[i] or ()]
            elif self.kinds_[i] == "text":
                names += [f"{name}#{number}" for number in range(self.n_text_features)]
            else:
                names.append(name)
            names += [f"{name}:missing"] if self.indicator_[i] else []
        return np.array(names, dtype=object)

    @property
    def sizes_(self) -> list[int | None]:
        """Number of features of each column, None for numbers; indicators are not counted."""
        size = {"number": None, "date": None, "text": self.n_text_features}
        return [
            len(words) if words is not None else size[kind]
            for kind, words in zip(self.kinds_, self.categories_, strict=True)
        ]

    @property
    def n_features_out_(self) -> int:
        """Number of features."""
        widths = [1 if size is None else size for size in self.sizes_]
        return sum(widths) + int(self.indicator_.sum())

    def encode(self, table: pa.Table) -> tuple[csr_array, dict[str, int]]:
        """Return the rows of a table with the columns of `fit`, in their order.

        Returns
        -------
        rows : csr_array
            The rows.
        unknown : dict of str to int
            Number of values of unknown categories, by column.
        """
        columns, gaps, unknown = self._interpreted(table)
        return self.assemble(columns, gaps), unknown

    def check_rows(self, table: pa.Table) -> dict[str, int]:
        """Refuse what `encode` would refuse; returns the numbers of unknown categories."""
        return self._interpreted(table)[2]

    def _interpreted(self, table: pa.Table) -> tuple[list[Any], list[np.ndarray], dict[str, int]]:
        """Return columns as numbers, codes or texts, what is missing, and what is unknown."""
        columns: list[Any] = []
        gaps: list[np.ndarray] = []
        unknown: dict[str, int] = {}
        errors: list[CellError] = []
        for i, name in enumerate(table.column_names):
            words = self.categories_[i]
            try:
                column = whole(table.column(i), name)
                if words is not None:
                    codes, missing = codes_of(column, words, self.null_values)
                    if (strange := (codes < 0) & ~missing).any():
                        self._check_unknown(name, strange, column)
                        unknown[name] = int(strange.sum())
                    columns.append(codes)
                elif self.kinds_[i] == "text":
                    texts, missing = texts_of(column, self.null_values)
                    columns.append(texts)
                else:
                    numbers = numbers_of(column, name, self.null_values, self.kinds_[i])
                    missing = np.isnan(numbers)
                    columns.append(
                        np.where(missing, self.fill_[i], numbers) if missing.any() else numbers
                    )
                if missing.any():
                    self._check_gap(name, int(missing.argmax()))
                gaps.append(missing)
            except CellError as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: error.row)
        return columns, gaps, unknown

    def assemble(
        self, columns: Sequence[Any], gaps: Sequence[np.ndarray] | None = None
    ) -> csr_array:
        """Make rows of columns of numbers, codes and texts.

        Parameters
        ----------
        columns : sequence of arrays or lists
            One for each column: numbers, codes of categories, or texts.
        gaps : sequence of arrays, optional
            For each column, which of its values are missing.
        """
        dtype = np.dtype(self.dtype)
        parts: list[tuple[bool, Any, int | None, float, float]] = []
        for i, (column, size) in enumerate(zip(columns, self.sizes_, strict=True)):
            is_text = self.kinds_[i] == "text"
            parts.append((is_text, column, size, self.offset_[i], self.factor_[i]))
            if self.indicator_[i] and gaps is not None:
                mark = np.where(gaps[i], np.int32(0), np.int32(-1))
                parts.append((False, mark, 1, 0.0, 1.0))
        blocks: list[csr_array] = []
        for is_text, group in groupby(parts, key=lambda part: part[0]):
            _, held, sizes, offset, factor = zip(*group, strict=True)
            if is_text:
                blocks += [hash_texts(texts, self.n_text_features, dtype) for texts in held]
            else:
                blocks.append(assemble(held, sizes, np.array(offset), np.array(factor), dtype))
        return side_by_side(blocks)

    def _check_unknown(self, name: str, strange: np.ndarray, column: pa.Array) -> None:
        if self.handle_unknown == "error":
            row = int(strange.argmax())
            shown = str(column[row].as_py())[:40]
            reason = f"holds {shown!r}, wanted a category that the encoder was fitted on"
            raise CellError(row, name, reason)

    def _transform_lazily(self, X: Any) -> da.Array:
        self.check_names([str(name) for name in X.columns])
        make, held = dask.delayed(_block, pure=True), dask.delayed(self, traverse=False)
        blocks = [make(part, held, i) for i, part in enumerate(lazy_parts(X))]
        meta = as_block(csr_array((0, 0), dtype=np.dtype(self.dtype)), self.block)
        arrays = [da.from_delayed(b, (np.nan, self.n_features_out_), meta=meta) for b in blocks]
        return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _block(part: Any, encoder: TableEncoder, number: int) -> Any:
    with CellError.within(number):
        return as_block(encoder.transform(part), encoder.block)


def _located(error: MixedColumnError, X: Any, names: Sequence[str]) -> ValueError:
    """Return the error with the first row that has a word among numbers."""
    if not is_lazy_frame(X):
        return error.cell_of(as_table(X)) or error
    find = dask.delayed(lambda part, i: error.cell_of(as_table(part, names), i), pure=False)
    cells = compute_all([find(part, i) for i, part in enumerate(lazy_parts(X))])
    return next((cell for cell in cells if cell is not None), error)
