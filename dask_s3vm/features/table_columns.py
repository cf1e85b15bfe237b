"""Columns of tables: from tables of many types to Arrow, and from Arrow to numbers and codes.

`as_table` makes an Arrow table of whatever holds columns. `kind_of` tells what a type of Arrow is
to the encoder. `numbers_of` and `codes_of` read a column as numbers, or as codes of categories.
What is missing is null, NaN, the empty word, and the words that `null_values` names.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dask_s3vm.exceptions import warn

__all__ = [
    "CellError", "UnknownCategoryWarning", "as_table", "codes_of", "has_decimal_comma", "has_marks",
    "is_number", "kind_of", "numbers_of", "refuse_bytes", "texts_of", "warn_of_unknown", "whole",
    "words_of",
]  # fmt: skip

#: Spellings of the two booleans, of which the first that a column's categories hold is used.
_BOOLEANS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"), ("0", "1"))
_REFUSED = (
    pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError,
    UnicodeEncodeError,
)  # fmt: skip
_SHOWN = 40
_MARKED = re.compile(r"[+-]?[$€£¥]? ?(\d{1,3}(,\d{3})+|\d+)(\.\d+)? ?[%$€£¥]?")
_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?|[+-]?\d{1,3}(?:[.' ]\d{3})+,\d+")


class UnknownCategoryWarning(UserWarning):
    """A table has categories that the encoder was not fitted on."""


#: What columns may hold, in words.
_WANTED = "wanted numbers, words, booleans or dates"


class CellError(ValueError):
    """A value of a table cannot be used.

    Parameters
    ----------
    row : int
        Its row, counted from 0.
    column : str
        Its column.
    reason : str
        What was found and what is wanted.
    part : int, optional
        Partition of a dask DataFrame that the row is counted in.
    """

    def __init__(self, row: int, column: str, reason: str, part: int | None = None) -> None:
        super().__init__(row, column, reason, part)  # all: unpickling calls the class with `args`
        self.row = row
        self.column = column
        self.reason = reason
        self.part = part

    def __str__(self) -> str:
        part = "" if self.part is None else f"partition {self.part}, "
        return f"column {self.column!r}, {part}row {self.row}: {self.reason}"

    @staticmethod
    @contextmanager
    def within(part: int) -> Iterator[None]:
        """Name the partition in errors."""
        try:
            yield
        except CellError as error:
            raise CellError(error.row, error.column, error.reason, part) from None


# Tables to Arrow ------------------------------------------------------------------------------


def as_table(X: Any, names: Sequence[str] | None = None) -> pa.Table:
    """Return a table of any type as an Arrow table.

    Parameters
    ----------
    X : DataFrame, pyarrow.Table, dict of columns, records, or array
        Anything with ``__arrow_c_stream__``, as polars has it, does. Records are dicts, or a
        structured array. Columns of a plain array or of lists of rows have no names: they get
        `names`, or their numbers.
    names : sequence of str, optional
        Names of columns that have none.

    Returns
    -------
    pyarrow.Table
        The table; columns of mixed types are words.
    """
    if isinstance(X, pa.Table):
        found = X
    elif isinstance(X, pa.RecordBatch):
        found = pa.Table.from_batches([X])
    else:
        columns = _columns(X, names)
        if columns is None:
            found = pa.table(X)
        else:
            found = pa.table(
                [_array(column, name) for name, column in columns],
                names=[name for name, _ in columns],
            )
    if len(set(found.column_names)) < found.num_columns:
        twice = sorted({name for name in found.column_names if found.column_names.count(name) > 1})
        raise ValueError(f"X has more than one column {twice[:5]}, wanted distinct names")
    return found


def _columns(X: Any, names: Sequence[str] | None) -> list[tuple[str, Any]] | None:
    """Return names and columns of a table; None for one that Arrow itself can import."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas, also columns of mixed objects
        return [(str(name), X.iloc[:, i]) for i, name in enumerate(X.columns)]
    if hasattr(X, "__arrow_c_stream__"):
        return None
    if isinstance(X, Mapping):
        return _same_lengths([(str(name), column) for name, column in X.items()])
    if isinstance(X, np.ndarray) and X.dtype.names:
        return [(name, X[name]) for name in X.dtype.names]
    if isinstance(X, Sequence) and len(X) and isinstance(X[0], Mapping):
        first = list(X[0])
        for number, record in enumerate(X):
            if set(record) != set(first):
                raise ValueError(
                    f"record {number} has the fields {sorted(map(str, record))}, record 0 has "
                    f"{sorted(map(str, first))}; wanted the same in all"
                )
        return [(str(name), [record[name] for record in X]) for name in first]
    table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if table.ndim != 2:
        raise ValueError(f"X has {table.ndim} dimension(s), wanted a table: rows and columns")
    if names is None:
        names = [str(number) for number in range(table.shape[1])]
    if len(names) != table.shape[1]:
        raise ValueError(f"X has {table.shape[1]} columns, wanted {len(names)}: {names[:20]}")
    return [(str(name), table[:, i]) for i, name in enumerate(names)]


def _same_lengths(columns: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    for name, column in columns:
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise ValueError(f"column {name!r} is {column!r:.40}, wanted a sequence of values")
        if len(column) != len(columns[0][1]):
            raise ValueError(
                f"column {name!r} has {len(column)} values, {columns[0][0]!r} has "
                f"{len(columns[0][1])}; wanted the same number in all"
            )
    return columns


def _array(column: Any, name: str) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, np.ndarray) and not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    try:
        return pa.array(column, from_pandas=True)
    except _REFUSED:  # objects of different types
        held = [None if isinstance(value, str) and not value else value for value in column]
    try:
        return pa.array(held, from_pandas=True)
    except _REFUSED:
        for row, value in enumerate(held):
            if isinstance(value, (complex, np.complexfloating)) or _is_nameless(value):
                reason = f"is of type {type(value).__name__}, {_WANTED}"
                raise CellError(row, name, reason) from None
            if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
                reason = f"holds {value[:_SHOWN]!r}, wanted text in Unicode"
                raise CellError(row, name, reason) from None
        return pa.array([_word(value) for value in held], pa.string())


def _is_nameless(value: Any) -> bool:
    """Whether the word for an object would be its address, another one in every process."""
    kind = type(value)
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def _word(value: Any) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float):
        return None if value != value else str(int(value)) if value.is_integer() else str(value)
    return str(value)


def whole(column: Any, name: str | None = None) -> pa.Array:
    """Return a column as one array; with its name, text that is not UTF-8 is a `CellError`."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # nothing in it, or words beyond 2 GiB
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0)
    if name is not None:
        refuse_bytes(column, name)
    return column


def refuse_bytes(column: pa.Array, name: str) -> None:
    """Refuse text, also that of a dictionary, that is not UTF-8."""
    encoded = pa.types.is_dictionary(column.type)
    words = column.dictionary if encoded else column
    if not _is_text(words.type):
        return
    try:
        words.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        cells = words.cast(pa.large_binary()).to_pylist()
        wrong = [raw is not None and raw != raw.decode(errors="ignore").encode() for raw in cells]
        place = wrong.index(True)
        row = _first(column.indices.fill_null(-1).to_numpy() == place) if encoded else place
        shown = repr(cells[place][:_SHOWN])[1:]
        raise CellError(row, name, f"holds {shown}, wanted text in UTF-8") from None


# Columns to numbers and codes -----------------------------------------------------------------


def kind_of(type: pa.DataType) -> str | None:
    """Return the kind of a column: "number", "date" or "category"; None if all of it is missing.

    Raises
    ------
    ValueError
        For a type that is none of these.
    """
    types = pa.types
    if types.is_null(type):
        return None
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return "number"
    if types.is_date(type) or types.is_timestamp(type):
        return "date"
    plain = type.value_type if types.is_dictionary(type) else type
    if types.is_boolean(plain) or _is_text(plain) or (plain != type and kind_of(plain)):
        return "category"
    raise ValueError(f"is of type {type}, {_WANTED}")


def numbers_of(
    column: pa.Array,
    name: str,
    null_values: Collection[str] = (),
    kind: str = "number",
    decimal: str = ".",
) -> np.ndarray:
    """Return a column as float64, NaN where it is missing.

    Parameters
    ----------
    column : pyarrow.Array
        Numbers or dates, or words that read as such.
    name : str
        What errors call it.
    null_values : collection of str
        Words for missing values, besides the empty one.
    kind : {"number", "date"}
        What is wanted; dates become seconds since 1970.
    decimal : {".", ","}
        What is before the decimals of words.

    Raises
    ------
    CellError
        For a value that is not what is wanted, or an infinite number.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = kind if pa.types.is_null(column.type) else kind_of(column.type)
    if _is_text(column.type):
        column = _read_words(column, name, null_values, kind, decimal)
    elif found != kind:
        raise CellError(_first(column.is_valid()), name, f"holds {column.type}, wanted {kind}s")
    if kind == "date":
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if kind == "date":
        return values / 1e6
    infinite = np.isinf(values)
    if infinite.any():
        raise CellError(_first(infinite), name, "an infinite number, wanted a finite one")
    return values


def _read_words(
    column: pa.Array, name: str, null_values: Collection[str], kind: str, decimal: str
) -> pa.Array:
    """Read words as numbers or dates."""
    found = column.dictionary_encode()
    words = pc.utf8_trim_whitespace(found.dictionary)
    gap = pc.is_in(words, value_set=pa.array(["", *null_values], words.type))
    words = pc.if_else(gap, pa.scalar(None, words.type), words)
    type, read = pa.float64() if kind == "number" else pa.timestamp("us"), words
    if decimal == ",":  # a point is wrong then
        read = pc.replace_substring(pc.replace_substring(words, ".", "?"), ",", ".")
    try:
        return read.cast(type).take(found.indices)
    except pa.ArrowInvalid:
        bad = next(i for i, word in enumerate(read) if not _reads_as(word, type))
        row = _first(pc.equal(found.indices, bad).fill_null(False))
        shown = str(words[bad])[:_SHOWN]
        raise CellError(row, name, f"holds {shown!r}, wanted a {kind}") from None


def _reads_as(word: pa.Scalar, type: pa.DataType) -> bool:
    try:
        word.cast(type)
    except pa.ArrowInvalid:
        return False
    return True


def words_of(column: pa.Array, null_values: Collection[str] = ()) -> tuple[np.ndarray, list[Any]]:
    """Return a column as codes into a list of distinct words, None for those that are missing.

    A code of -1 is a missing value too. Whole numbers are written without a point: missing values
    turn a column of integers into floats.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    nothing = {"", *null_values}
    words = [_word(value) for value in column.dictionary.to_pylist()]
    return indices, [None if word in nothing else word for word in words]


def codes_of(
    column: pa.Array, categories: Sequence[str], null_values: Collection[str] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each value in `categories` (-1: not found), and which are missing."""
    indices, words = words_of(column, null_values)
    places: dict[Any, int] = {word: code for code, word in enumerate(categories)}
    if pa.types.is_boolean(column.type):
        spelled = next((pair for pair in _BOOLEANS if places.keys() & set(pair)), _BOOLEANS[0])
        words = [None if word is None else spelled[word == "True"] for word in words]
    # the last place is that of the index -1
    codes = np.array([*(places.get(word, -1) for word in words), -1], dtype=np.int32)
    gaps = np.array([*(word is None for word in words), True])
    return codes[indices], gaps[indices]


def texts_of(column: pa.Array, null_values: Collection[str] = ()) -> tuple[list[str], np.ndarray]:
    """Return a column as texts, "" for those that are missing, and which are."""
    nothing = {None, "", *null_values}
    texts = [_word(value) for value in column.to_pylist()]
    missing = np.array([text in nothing for text in texts], dtype=bool)
    return ["" if text in nothing else str(text) for text in texts], missing


def _is_text(type: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(type) or types.is_large_string(type) or types.is_string_view(type)


def _first(flags: Any) -> int:
    return int(np.argmax(np.asarray(flags)))


def warn_of_unknown(unknown: dict[str, int]) -> None:
    """Warn once with the number of values of unknown categories, if there are any."""
    if unknown:
        by_column = ", ".join(f"{count} in {name!r}" for name, count in unknown.items())
        warn(
            "categories that the encoder was not fitted on: "
            f"{by_column}; all features of their column are 0 in these rows",
            UnknownCategoryWarning,
        )


def is_number(word: str) -> bool:
    """Tell whether a word reads as a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def has_decimal_comma(word: str) -> bool:
    """Tell whether a word is a number with a comma before its decimals, such as 1.000,5."""
    return _COMMA.fullmatch(word) is not None


def has_marks(word: str) -> bool:
    """Tell whether a word is a number with marks that are not read, such as 1,234.50 or 5 %."""
    return _MARKED.fullmatch(word) is not None and not is_number(word)
