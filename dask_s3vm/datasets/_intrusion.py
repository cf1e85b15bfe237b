"""Rows like those of a network intrusion log.

Every type of traffic has a few profiles. A row repeats a profile of its type, with a few entries
that deviate.
"""

import functools
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from dask_s3vm.datasets._sampling import (
    Alias,
    alias_table,
    check_block,
    check_count,
    check_dtype,
    check_seed,
    dask_rows,
    draw_item,
    row_chunks,
    row_keys,
    row_pointers,
    sparse_block,
    sparse_meta,
    stream_seed,
    uniform_matrix,
    zipf_weights,
)
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import row_key, uniform

# Types of traffic -----------------------------------------------------------------------------

N_NUMERIC = 38
_CATEGORIES = (3, 75, 11)  # protocol, service and state of a connection
N_COLUMNS = N_NUMERIC + sum(_CATEGORIES)

#: Types: two floods, normal traffic, and twenty rare attacks.
_NORMAL = 2
_N_TYPES = 23
_COMMON_SHARES = (0.572, 0.220, 0.199)
_RARE_DECAY = 0.85

#: Rare types from this one on have normal profiles with a few changes: they are hard to detect.
_FIRST_DISGUISED = 9
_CHANGES = 2


# Profiles of a type ---------------------------------------------------------------------------

_COMMON_PROFILES = (6, 60, 200)
_RARE_PROFILES = 4

#: Numeric entries of a profile: 14, plus these in turn. With one indicator for each category that
#: makes 17 nonzeros a row on average.
_MEAN_NUMERIC = 14
_MORE = (0, 1, -1, 2, -2)

#: Numeric columns that all profiles of an attack type share; normal traffic is more varied.
_CORE_ATTACK = 10
_CORE_NORMAL = 5


# Rows of a profile ----------------------------------------------------------------------------

_MEAN_NONZEROS = 17

#: Share of the numeric entries of a row that deviate from the profile.
_LOOSE_COMMON = (0.02, 0.04, 0.35)
_LOOSE_RARE = 0.25

#: Width of the range around the value of the profile that a deviating entry is drawn from.
_STRAY = 0.3


class _Model(NamedTuple):
    random_state: int


class Profiles(NamedTuple):
    """Profiles as CSR rows, and the distribution of rows over them."""

    alias: Alias  # of profiles, all types together
    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    loose: np.ndarray  # share of the numeric entries that deviate, by profile
    attack: np.ndarray  # class of each profile


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
        Type of the blocks: `sparse.GCXS` or `scipy.sparse.csr_array`, both by rows.
    dtype : {float32, float64}, default float64
        Type of the entries.
    chunks : int or "auto", default "auto"
        Rows per chunk; "auto" makes chunks of about 8 to 16 MiB.
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


# The profiles of a seed -----------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def profiles(random_state: int) -> Profiles:
    """Build the profiles of a seed; every process builds its own, because they are small."""
    sizes = np.array([*_COMMON_PROFILES, *[_RARE_PROFILES] * (_N_TYPES - 3)])
    type_of = np.repeat(np.arange(_N_TYPES), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    table = _numeric(random_state, type_of, place)
    _disguise(random_state, type_of, table)
    present = np.hstack([table > 0, _indicators(random_state, type_of)])
    rows, columns = np.nonzero(present)
    full = np.hstack([table, np.ones((len(table), sum(_CATEGORIES)))])
    within = np.concatenate([zipf_weights(size, 1.0, 0.0) for size in sizes])
    loose = np.array([*_LOOSE_COMMON, *[_LOOSE_RARE] * (_N_TYPES - 3)])
    return Profiles(
        alias_table(within * _type_shares()[type_of]),
        np.concatenate([[0], np.cumsum(present.sum(axis=1))]),
        columns.astype(np.int32),
        full[rows, columns],
        loose[type_of],
        (type_of != _NORMAL).astype(np.int8),
    )


def _type_shares() -> np.ndarray:
    rare = _RARE_DECAY ** np.arange(_N_TYPES - 3)
    return np.array([*_COMMON_SHARES, *(1 - sum(_COMMON_SHARES)) * rare / rare.sum()])


def _numeric(random_state: int, type_of: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the numeric entries of the profiles, most of them zero."""
    n_profiles = len(type_of)
    # The columns of smallest score are taken: those of the type first, then random ones.
    order = np.argsort(_draws(random_state, "core", _N_TYPES, N_NUMERIC), axis=1)
    rank = np.argsort(order, axis=1)
    core_size = np.where(np.arange(_N_TYPES) == _NORMAL, _CORE_NORMAL, _CORE_ATTACK)
    core = (rank < core_size[:, None])[type_of]
    score = _draws(random_state, "columns", n_profiles, N_NUMERIC) - core
    taken = np.argsort(np.argsort(score, axis=1), axis=1)
    wanted = _MEAN_NUMERIC + np.array(_MORE)[place % len(_MORE)]
    of_type = _draws(random_state, "type values", _N_TYPES, N_NUMERIC)[type_of]
    own = _draws(random_state, "values", n_profiles, N_NUMERIC)
    values = np.where(core, 0.7 * of_type + 0.3 * own, own)
    return np.where(taken < wanted[:, None], _two_decimals(values), 0.0)


def _two_decimals(values: np.ndarray) -> np.ndarray:
    """Round to two decimals like the original attributes, but not to zero."""
    return np.clip(np.round(values, 2), 0.01, 1.0)


def _disguise(random_state: int, type_of: np.ndarray, table: np.ndarray) -> None:
    """Replace the profiles of the disguised types by slightly changed normal ones."""
    targets = np.flatnonzero(type_of >= _FIRST_DISGUISED)
    normal = np.flatnonzero(type_of == _NORMAL)
    draws = _draws(random_state, "disguise", len(targets), 1 + 2 * _CHANGES)
    for target, draw in zip(targets, draws, strict=True):
        table[target] = table[normal[int(draw[0] * len(normal))]]
        held = np.flatnonzero(table[target])
        changed = held[(draw[1 : 1 + _CHANGES] * len(held)).astype(int)]
        table[target, changed] = _two_decimals(draw[1 + _CHANGES :])


def _indicators(random_state: int, type_of: np.ndarray) -> np.ndarray:
    """Return the indicators of the categories of each profile."""
    blocks = []
    for number, size in enumerate(_CATEGORIES):
        of_type = _draws(random_state, f"type category {number}", _N_TYPES, 1)[type_of, 0]
        own = _draws(random_state, f"category {number}", len(type_of), 2)
        # Most profiles have the category of their type; normal and disguised ones vary freely.
        free = (own[:, 0] < 0.3) | (type_of == _NORMAL) | (type_of >= _FIRST_DISGUISED)
        # The square makes some categories far more common than others.
        chosen = (np.where(free, own[:, 1], of_type) ** 2 * size).astype(int)
        blocks.append(np.eye(size, dtype=bool)[chosen])
    return np.hstack(blocks)


def _draws(random_state: int, what: str, n_rows: int, n_draws: int) -> np.ndarray:
    seed = stream_seed(random_state, f"intrusion {what}")
    return uniform_matrix(row_keys(seed, 0, n_rows), n_draws)
