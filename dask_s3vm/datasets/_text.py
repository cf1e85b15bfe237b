"""Text-like sparse rows of any size."""

import functools
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from dask_s3vm.datasets._check import (
    MAX_INDEX,
    check_block,
    check_count,
    check_dtype,
    check_real,
    check_seed,
)
from dask_s3vm.datasets._chunks import dask_rows, row_chunks, sparse_block, sparse_meta
from dask_s3vm.datasets._text_rows import text_classes, text_csr
from dask_s3vm.datasets._text_tables import TextModel, length_limit


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
        Mean number of nonzeros of a row, at least 1. Numbers vary like a lognormal variable,
        from 1 to half of the columns: a larger mean is cut to that.
    n_topics : int, default 60
        Number of topics, at least 2. Each belongs to one class.
    positive_ratio : float, default 0.47
        Share of class 1, above 0 and below 1.
    noise : float, default 0.03
        Share of the rows that are written like one of the other class, at most 0.5.
    block : {"gcxs", "scipy"}, default "gcxs"
        Kind of the blocks: `sparse.GCXS` or `scipy.sparse.csr_array`, both by rows.
    dtype : {float32, float64}, default float64
        Type of the entries.
    chunks : int or "auto", default "auto"
        Rows a chunk; "auto" makes chunks of about 8 to 16 MiB.
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
