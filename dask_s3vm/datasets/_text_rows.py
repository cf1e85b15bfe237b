"""The rows of text-like data, written chunk by chunk."""

import math

import numpy as np

from dask_s3vm.datasets._alias import draw_item
from dask_s3vm.datasets._chunks import row_pointers
from dask_s3vm.datasets._random import normal_pair, row_key, stream_seed, uniform
from dask_s3vm.datasets._text_tables import (
    TextModel,
    TextTables,
    draw_topic,
    length_limit,
    length_sigma,
    text_tables,
)
from dask_s3vm.kernels.compiler import kernel

# What the draws of a row are for; tokens take two draws each.
_CLASS, _FLIP, _TOPIC, _SECOND, _SECOND_CLASS, _SECOND_TOPIC = range(6)
_LENGTH, _ROUNDING, _FILL, _TOKENS = 6, 8, 9, 10

# Tokens tried per column wanted, before the rest of a row is filled with free columns.
_TRIES = 16
# Share of the rows with a second topic, and of the topic tokens that go to it.
_SECOND_ROWS = 0.3
_SECOND_SHARE = 0.3


def _seed(model: TextModel) -> np.uint64:
    return stream_seed(model.random_state, "text rows")


def text_classes(model: TextModel, start: int, stop: int) -> np.ndarray:
    """Return the classes of the rows from `start` to `stop`."""
    return _classes(_seed(model), model.positive_ratio, start, stop)


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
    """Draw numbers of nonzeros: 1 + lognormal, rounded at random for the mean to be exact."""
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
    # How often the row at hand has each word; all zero between rows.
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
    """Draw tokens until `columns` is full or the tries are used up; return the columns found."""
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
    """Fill up a row with free columns from a random place on."""
    column = int(uniform(key, _FILL) * len(seen))
    while found < len(columns):
        if seen[column] == 0:
            seen[column] = 1
            columns[found] = column
            found += 1
        column = (column + 1) % len(seen)


@kernel
def _weigh(idf: np.ndarray, columns: np.ndarray, seen: np.ndarray, values: np.ndarray) -> None:
    """Set the values (1 + log tf) * idf, scaled to length 1, and clear `seen`."""
    square = 0.0
    for column in columns:
        square += ((1.0 + math.log(seen[column])) * idf[column]) ** 2
    scale = 1.0 / math.sqrt(square)
    for k, column in enumerate(columns):
        values[k] = (1.0 + math.log(seen[column])) * idf[column] * scale
        seen[column] = 0
