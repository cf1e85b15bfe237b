"""Rows like those of a network intrusion log."""

import functools
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from dask_s3vm.datasets._alias import draw_item
from dask_s3vm.datasets._check import check_block, check_count, check_dtype, check_seed
from dask_s3vm.datasets._chunks import (
    dask_rows,
    row_chunks,
    row_pointers,
    sparse_block,
    sparse_meta,
)
from dask_s3vm.datasets._intrusion_tables import N_COLUMNS, N_NUMERIC, Profiles, profiles
from dask_s3vm.datasets._random import row_key, stream_seed, uniform
from dask_s3vm.kernels.compiler import kernel

_MEAN_NONZEROS = 17
# Width of the range that a straying entry is drawn from, around the profile's value.
_STRAY = 0.3


class _Model(NamedTuple):
    random_state: int


def make_intrusion(
    n_rows: int = 100_000,
    *,
    block: str = "gcxs",
    dtype: DTypeLike = np.float64,
    chunks: int | str = "auto",
    random_state: int = 0,
) -> tuple[da.Array, da.Array]:
    """Make sparse rows like those of a network intrusion log, in the shape of KDD Cup 99.

    A row is a connection. It follows one of a few profiles of its type of traffic, so that
    there are many equal and nearly equal rows. Of the 23 types, two floods make up four fifths
    of the rows, normal traffic one fifth, and twenty other attacks a hundredth; some of those
    look almost normal.

    Parameters
    ----------
    n_rows : int, default 100_000
        Number of rows; KDD Cup 99 has 4,898,431.
    block : {"gcxs", "scipy"}, default "gcxs"
        Kind of the blocks: `sparse.GCXS` or `scipy.sparse.csr_array`, both by rows.
    dtype : {float32, float64}, default float64
        Type of the entries.
    chunks : int or "auto", default "auto"
        Rows a chunk; "auto" makes chunks of about 8 to 16 MiB.
    random_state : int, default 0
        Seed. Row i depends on it and on i only.

    Returns
    -------
    X : dask.array.Array
        Rows, shape (`n_rows`, 127), about 17 nonzeros each: 38 numeric columns with values in
        [0, 1], then the indicators of attributes with 3, 75 and 11 categories.
    y : dask.array.Array
        Classes, shape (`n_rows`,), int8: 1 for an attack (four rows in five), 0 for normal.
    """
    n_rows = check_count("n_rows", n_rows)
    model = _Model(check_seed(random_state))
    block, entry = check_block(block), check_dtype(dtype)
    rows = row_chunks(n_rows, chunks, _MEAN_NONZEROS * (entry.itemsize + 4) + 4)
    make = functools.partial(_connections, block, entry)
    return dask_rows(model, make, _classes, rows, sparse_meta(block, entry), N_COLUMNS)


def _row_seed(model: _Model) -> np.uint64:
    return stream_seed(model.random_state, "intrusion rows")


def _classes(model: _Model, start: int, stop: int) -> np.ndarray:
    tables = profiles(model.random_state)
    return tables.attack[_draw_profiles(_row_seed(model), tables, start, stop)]


def _connections(block: str, dtype: np.dtype, model: _Model, start: int, stop: int) -> Any:
    tables = profiles(model.random_state)
    seed = _row_seed(model)
    drawn = _draw_profiles(seed, tables, start, stop)
    indptr = row_pointers(np.diff(tables.indptr)[drawn])
    indices = np.empty(indptr[-1], np.int32)
    data = np.empty(indptr[-1], dtype)
    _write_rows(seed, tables, start, drawn, indptr, indices, data)
    return sparse_block(block, data, indices, indptr, N_COLUMNS)


@kernel
def _draw_profiles(seed: np.uint64, tables: Profiles, start: int, stop: int) -> np.ndarray:
    drawn = np.empty(stop - start, np.int32)
    for i in range(stop - start):
        drawn[i] = draw_item(tables.alias, row_key(seed, start + i), 0)
    return drawn


@kernel
def _write_rows(
    seed: np.uint64,
    tables: Profiles,
    start: int,
    drawn: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
) -> None:
    for i in range(len(drawn)):
        key = row_key(seed, start + i)
        first = tables.indptr[drawn[i]]
        loose = tables.loose[drawn[i]]
        for k in range(indptr[i + 1] - indptr[i]):
            column = tables.columns[first + k]
            value = tables.values[first + k]
            u = uniform(key, 1 + k)
            if column < N_NUMERIC and u < loose:
                # Given that u < loose, u / loose is uniform again: one draw serves twice.
                value += _STRAY * (u / loose - 0.5)
                value = min(max(round(value * 100.0) / 100.0, 0.01), 1.0)
            indices[indptr[i] + k] = column
            data[indptr[i] + k] = value
