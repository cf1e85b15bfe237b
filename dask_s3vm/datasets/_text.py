"""Text-like sparse rows of any size, written chunk by chunk."""

import functools
import math
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from dask_s3vm.datasets._sampling import (
    MAX_INDEX,
    check_block,
    check_count,
    check_dtype,
    check_real,
    check_seed,
    dask_rows,
    draw_item,
    normal_pair,
    row_chunks,
    row_pointers,
    sparse_block,
    sparse_meta,
    stream_seed,
)
from dask_s3vm.datasets._text_tables import (
    TextModel,
    TextTables,
    draw_topic,
    length_limit,
    length_sigma,
    text_tables,
)
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import row_key, uniform

#: Numbers of the draws of a row; a token takes two draws, from _TOKENS on.
_CLASS, _FLIP, _TOPIC, _SECOND, _SECOND_CLASS, _SECOND_TOPIC = range(6)
_LENGTH, _ROUNDING, _FILL, _TOKENS = 6, 8, 9, 10

#: Tokens drawn per nonzero before the rest of a row is filled with unused columns.
_TRIES = 16

#: Share of the rows with a second topic, and of their topic tokens that belong to it.
_SECOND_ROWS = 0.3
_SECOND_SHARE = 0.3


def make_text(
    n_rows: int = 20_000,
    n_features: int = 47_236,
    nonzeros: float = 76,
    *,
    n_topics: int = 60,
    positive_ratio: float = 0.47,
    noise: float = 0.03,
    block: str = "gcxs",
    dtype: DTypeLike = np.float64,
    chunks: int | str = "auto",
    random_state: int = 0,
) -> tuple[da.Array, da.Array]:
    """Make sparse rows like those of a text collection, in the shape of RCV1 by default.

    A row is written word by word: some words are drawn from a Zipf distribution over the whole
    vocabulary, some from the words of its class, some from those of its one or two topics,
    until it has its number of distinct words. Entries are (1 + log tf) * idf, and rows have
    length 1.

    Parameters
    ----------
    n_rows : int, default 20_000
        Number of rows; RCV1 has 804,414.
    n_features : int, default 47_236
        Number of columns, the size of the vocabulary. Column numbers say nothing about
        frequency.
    nonzeros : float, default 76
        Mean number of nonzeros of a row, at least 1. The number is 1 plus a lognormal variable, at
        most half of the columns; a larger mean is reduced to that.
    n_topics : int, default 60
        Number of topics, at least 2. Each belongs to one class.
    positive_ratio : float, default 0.47
        Share of class 1, above 0 and below 1.
    noise : float, default 0.03
        Share of the rows that are written like rows of the other class, at most 0.5.
    block : {"gcxs", "scipy"}, default "gcxs"
        Type of the blocks: `sparse.GCXS` or `scipy.sparse.csr_array`, both by rows.
    dtype : {float32, float64}, default float64
        Type of the entries.
    chunks : int or "auto", default "auto"
        Rows per chunk; "auto" makes chunks of about 8 to 16 MiB.
    random_state : int, default 0
        Seed. Row i depends on it, on the parameters above other than `n_rows`, and on i only.

    Returns
    -------
    X : dask.array.Array
        Rows, shape (`n_rows`, `n_features`), with sorted column numbers.
    y : dask.array.Array
        Classes 0 and 1, shape (`n_rows`,), int8.
    """
    n_rows = check_count("n_rows", n_rows)
    model = TextModel(
        check_seed(random_state),
        check_count("n_features", n_features, MAX_INDEX),
        check_real("nonzeros", nonzeros, 1.0, MAX_INDEX, "a number of at least 1"),
        check_count("n_topics", n_topics),
        _check_share("positive_ratio", positive_ratio),
        check_real("noise", noise, 0.0, 0.5, "a number from 0 to 0.5"),
    )
    if model.n_topics < 2:
        raise ValueError(f"n_topics must be at least 2, got {n_topics!r}")
    block, entry = check_block(block), check_dtype(dtype)
    model = model._replace(nonzeros=min(model.nonzeros, length_limit(model)))
    rows = row_chunks(n_rows, chunks, model.nonzeros * (entry.itemsize + 4) + 4)
    make = functools.partial(_text_block, block, entry)
    return dask_rows(model, make, text_classes, rows, sparse_meta(block, entry), model.n_features)


def _check_share(name: str, value: Any) -> float:
    wanted = "a number above 0 and below 1"
    tiny = np.finfo(np.float64).tiny
    return check_real(name, value, tiny, 1.0 - np.finfo(np.float64).epsneg, wanted)


def _text_block(block: str, dtype: np.dtype, model: TextModel, start: int, stop: int) -> Any:
    data, indices, indptr = text_csr(model, start, stop, dtype)
    return sparse_block(block, data, indices, indptr, model.n_features)


def text_csr(
    model: TextModel, start: int, stop: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return data, indices and indptr of the rows from `start` to `stop`."""
    seed = _seed(model)
    counts = np.empty(stop - start, np.int64)
    _lengths(seed, model.nonzeros, length_sigma(model), length_limit(model), start, counts)
    indptr = row_pointers(counts)
    indices = np.empty(indptr[-1], np.int32)
    data = np.empty(indptr[-1], dtype)
    odds = (model.positive_ratio, model.noise)
    _write_rows(seed, text_tables(model), odds, start, indptr, indices, data)
    return data, indices, indptr


def text_classes(model: TextModel, start: int, stop: int) -> np.ndarray:
    """Return the classes of the rows from `start` to `stop`."""
    return _classes(_seed(model), model.positive_ratio, start, stop)


def _seed(model: TextModel) -> np.uint64:
    return stream_seed(model.random_state, "text rows")


# Compiled loops -------------------------------------------------------------------------------


@kernel
def _classes(seed: np.uint64, ratio: float, start: int, stop: int) -> np.ndarray:
    classes = np.empty(stop - start, np.int8)
    for i in range(stop - start):
        classes[i] = uniform(row_key(seed, start + i), _CLASS) < ratio
    return classes


@kernel
def _lengths(
    seed: np.uint64, mean: float, sigma: float, limit: int, start: int, counts: np.ndarray
) -> None:
    """Draw numbers of nonzeros: 1 + lognormal, rounded at random so that the mean is exact."""
    for i in range(len(counts)):
        key = row_key(seed, start + i)
        normal, _ = normal_pair(key, _LENGTH)
        length = 1.0 + (mean - 1.0) * math.exp(sigma * normal - 0.5 * sigma * sigma)
        counts[i] = min(math.floor(length + uniform(key, _ROUNDING)), limit)


@kernel
def _write_rows(
    seed: np.uint64,
    tables: TextTables,
    odds: tuple[float, float],
    start: int,
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
) -> None:
    # Counts of each word in the current row; all zero between rows.
    seen = np.zeros(len(tables.idf), np.int32)
    for i in range(len(indptr) - 1):
        key = row_key(seed, start + i)
        columns = indices[indptr[i] : indptr[i + 1]]
        found = _draw_columns(tables, odds, key, columns, seen)
        _fill_columns(key, columns, found, seen)
        columns.sort()
        _weigh(tables.idf, columns, seen, data[indptr[i] : indptr[i + 1]])


@kernel
def _draw_columns(
    tables: TextTables,
    odds: tuple[float, float],
    key: np.uint64,
    columns: np.ndarray,
    seen: np.ndarray,
) -> int:
    """Draw tokens until `columns` is full or the tries are used up; return the number found."""
    ratio, noise = odds
    label = int((uniform(key, _CLASS) < ratio) != (uniform(key, _FLIP) < noise))
    topic = draw_topic(tables, label, key, _TOPIC)
    second, second_bound = topic, 1.0
    if uniform(key, _SECOND) < _SECOND_ROWS:
        second_label = int(uniform(key, _SECOND_CLASS) < ratio)
        second = draw_topic(tables, second_label, key, _SECOND_TOPIC)
        second_bound = 1.0 - _SECOND_SHARE * (1.0 - tables.class_end)
    found = 0
    for token in range(_TRIES * len(columns)):
        kind = uniform(key, _TOKENS + 2 * token)
        word = _TOKENS + 2 * token + 1
        if kind < tables.background_end:
            column = tables.column_of_rank[draw_item(tables.background, key, word)]
        elif kind < tables.class_end:
            column = tables.class_words[label, draw_item(tables.class_alias, key, word)]
        else:
            owner = topic if kind < second_bound else second
            column = tables.topic_words[owner, draw_item(tables.topic_alias, key, word)]
        if seen[column] == 0:
            columns[found] = column
            found += 1
        seen[column] += 1
        if found == len(columns):
            break
    return found


@kernel
def _fill_columns(key: np.uint64, columns: np.ndarray, found: int, seen: np.ndarray) -> None:
    """Fill up a row with unused columns, from a random one on."""
    column = int(uniform(key, _FILL) * len(seen))
    while found < len(columns):
        if seen[column] == 0:
            seen[column] = 1
            columns[found] = column
            found += 1
        column = (column + 1) % len(seen)


@kernel
def _weigh(idf: np.ndarray, columns: np.ndarray, seen: np.ndarray, values: np.ndarray) -> None:
    """Set the values (1 + log tf) * idf, scaled to length 1, and reset `seen`."""
    square = 0.0
    for column in columns:
        square += ((1.0 + math.log(seen[column])) * idf[column]) ** 2
    scale = 1.0 / math.sqrt(square)
    for k, column in enumerate(columns):
        values[k] = (1.0 + math.log(seen[column])) * idf[column] * scale
        seen[column] = 0
