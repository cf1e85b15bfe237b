"""The language that text-like rows are written in: words, topics and their frequencies."""

import functools
import math
from typing import NamedTuple

import numpy as np

from dask_s3vm.datasets._sampling import (
    Alias,
    alias_table,
    draw_item,
    permutation,
    stream_seed,
    zipf_weights,
)
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import row_key, uniform

#: Shares of the tokens of a row: any words, words of its class, words of its topics. They set how
#: hard the data are: class words help with all labels, topic words mislead with few labels.
_BACKGROUND_SHARE = 0.75
_CLASS_SHARE = 0.105
_TOPIC_SHARE = 1.0 - _BACKGROUND_SHARE - _CLASS_SHARE
#: Standard deviation of the logarithm of row lengths.
_LENGTH_SIGMA = 0.6


class TextModel(NamedTuple):
    """What the rows depend on, besides their numbers."""

    random_state: int
    n_features: int
    nonzeros: float
    n_topics: int
    positive_ratio: float
    noise: float


class TextTables(NamedTuple):
    """Tables that the kernel uses to write rows."""

    background_end: float  # a uniform draw below gives a background word,
    class_end: float  # below this one a word of the class, else one of a topic
    background: Alias  # of frequency ranks
    column_of_rank: np.ndarray
    class_alias: Alias  # of places in class_words
    class_words: np.ndarray  # (2, words of a class) column numbers
    topic_alias: Alias  # of places in topic_words
    topic_words: np.ndarray  # (n_topics, words of a topic) column numbers
    topic_bounds: np.ndarray  # cumulative shares of the topics within their class
    first_positive: int  # topics below are of class 0, the others of class 1
    idf: np.ndarray


@functools.lru_cache(maxsize=8)
def text_tables(model: TextModel) -> TextTables:
    """Build the tables of a model.

    Every process builds its own, which is faster than to send them.
    """
    size = model.n_features
    column_of_rank = permutation(stream_seed(model.random_state, "text columns"), size)
    background = zipf_weights(size, 1.0, 20.0)
    # Words of classes and topics are common enough to matter, but not always the same top words.
    marked = alias_table(np.sqrt(background))
    class_words = _word_sets(model, "text classes", marked, 2, _set_size(size, 100))
    topic_words = _word_sets(model, "text topics", marked, model.n_topics, _set_size(size, 60))
    class_weights = zipf_weights(class_words.shape[1], 1.0, 5.0)
    topic_weights = zipf_weights(topic_words.shape[1], 1.0, 20.0)
    first_positive, shares = _topic_shares(model)
    class_shares = np.array([1.0 - model.positive_ratio, model.positive_ratio])
    overall = shares * class_shares[(np.arange(model.n_topics) >= first_positive).astype(int)]
    frequency = _BACKGROUND_SHARE * background
    _add_words(frequency, class_words, class_weights, _CLASS_SHARE * class_shares)
    _add_words(frequency, topic_words, topic_weights, _TOPIC_SHARE * overall)
    idf = np.empty(size)
    idf[column_of_rank] = _inverse_document_frequency(frequency, model.nonzeros)
    return TextTables(
        background_end=_BACKGROUND_SHARE,
        class_end=_BACKGROUND_SHARE + _CLASS_SHARE,
        background=alias_table(background),
        column_of_rank=column_of_rank,
        class_alias=alias_table(class_weights),
        class_words=column_of_rank[class_words],
        topic_alias=alias_table(topic_weights),
        topic_words=column_of_rank[topic_words],
        topic_bounds=_bounds(shares, first_positive),
        first_positive=first_positive,
        idf=idf,
    )


def _add_words(
    frequency: np.ndarray, sets: np.ndarray, weights: np.ndarray, shares: np.ndarray
) -> None:
    """Add to the frequencies of ranks what sets of words with these shares contribute."""
    for words, share in zip(sets, shares, strict=True):
        frequency[words] += share * weights


def _bounds(shares: np.ndarray, first_positive: int) -> np.ndarray:
    """Return the cumulative shares, which restart at the first topic of class 1."""
    return np.concatenate([np.cumsum(part) for part in np.split(shares, [first_positive])])


def _topic_shares(model: TextModel) -> tuple[int, np.ndarray]:
    """Return the number of topics of class 0, and the share of every topic within its class."""
    positive = min(max(round(model.n_topics * model.positive_ratio), 1), model.n_topics - 1)
    negative = model.n_topics - positive
    return negative, np.concatenate([zipf_weights(n, 1.0, 3.0) for n in (negative, positive)])


def _set_size(size: int, parts: int) -> int:
    """Return the size of a word set: 1 / `parts` of the vocabulary, but at least a few words."""
    return max(1, min(max(8, size // parts), size // 4))


def _word_sets(model: TextModel, stream: str, marked: Alias, n_sets: int, size: int) -> np.ndarray:
    """Return `n_sets` sets of `size` distinct frequency ranks, in order of importance."""
    return _draw_sets(stream_seed(model.random_state, stream), marked, n_sets, size)


@kernel
def _draw_sets(seed: np.uint64, marked: Alias, n_sets: int, size: int) -> np.ndarray:
    sets = np.empty((n_sets, size), np.int32)
    used = np.zeros(len(marked.keep), np.bool_)
    for s in range(n_sets):
        key = row_key(seed, s)
        used[:] = False
        for k in range(size):
            # Sets are small compared with the vocabulary: the next unused rank is near.
            rank = draw_item(marked, key, k)
            while used[rank]:
                rank = (rank + 1) % len(used)
            used[rank] = True
            sets[s, k] = rank
    return sets


def _inverse_document_frequency(frequency: np.ndarray, nonzeros: float) -> np.ndarray:
    """Return 1 + log(1 / share of rows that have the word), from the token frequencies."""
    held = -np.expm1(-nonzeros * frequency)
    return 1.0 - np.log(np.maximum(held, 1e-7))


def length_sigma(model: TextModel) -> float:
    """Return the deviation of log row lengths, reduced if the longest rows would not fit."""
    room = math.log(max(length_limit(model) / model.nonzeros, 1.0))
    return min(_LENGTH_SIGMA, room / 2.5)


def length_limit(model: TextModel) -> int:
    """Return the largest number of nonzeros of a row."""
    return max(1, model.n_features // 2)


@kernel
def draw_topic(tables: TextTables, label: int, key: np.uint64, draw: int) -> int:
    """Draw a topic of class `label`."""
    low = tables.first_positive if label else 0
    high = len(tables.topic_bounds) if label else tables.first_positive
    u = uniform(key, draw)
    topic = low
    while topic < high - 1 and u >= tables.topic_bounds[topic]:
        topic += 1
    return topic
