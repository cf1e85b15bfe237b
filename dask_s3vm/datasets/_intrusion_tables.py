"""What connections look like: types of traffic, and the few profiles that each type repeats."""

import functools
from typing import NamedTuple

import numpy as np

from dask_s3vm.datasets._alias import Alias, alias_table, zipf_weights
from dask_s3vm.datasets._random import row_keys, stream_seed, uniform_matrix

N_NUMERIC = 38
_CATEGORIES = (3, 75, 11)  # protocol, service and state of a connection
N_COLUMNS = N_NUMERIC + sum(_CATEGORIES)

# Two floods, normal traffic, and twenty rare kinds of attack.
_NORMAL = 2
_N_TYPES = 23
_COMMON_SHARES = (0.572, 0.220, 0.199)
_RARE_DECAY = 0.85
# Rare types from this one on are normal profiles with a few changes: those are hard to tell.
_FIRST_DISGUISED = 9
_CHANGES = 2

_COMMON_PROFILES = (6, 60, 200)
_RARE_PROFILES = 4
# Numeric entries of a profile: 14, and in turn one or two more or less. With one indicator
# for each category that makes 17 nonzeros a row.
_MEAN_NUMERIC = 14
_MORE = (0, 1, -1, 2, -2)
# Numeric columns that all profiles of an attack type share; normal traffic is more varied.
_CORE_ATTACK = 10
_CORE_NORMAL = 5
# Share of the numeric entries of a row that stray from the profile.
_LOOSE_COMMON = (0.02, 0.04, 0.35)
_LOOSE_RARE = 0.25


class Profiles(NamedTuple):
    """Profiles as CSR rows, with what is needed to draw rows from them."""

    alias: Alias  # of profiles, all types together
    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    loose: np.ndarray  # share of a profile's numeric entries that stray
    attack: np.ndarray  # class of each profile


@functools.lru_cache(maxsize=8)
def profiles(random_state: int) -> Profiles:
    """Build the profiles of a seed, in every process anew: they are small."""
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


def _draws(random_state: int, what: str, n_rows: int, n_draws: int) -> np.ndarray:
    seed = stream_seed(random_state, f"intrusion {what}")
    return uniform_matrix(row_keys(seed, 0, n_rows), n_draws)


def _numeric(random_state: int, type_of: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the numeric entries of the profiles, mostly zero."""
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
    """Round as the original attributes are, and away from zero for entries to remain."""
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
    """Return one indicator for each category and profile."""
    blocks = []
    for number, size in enumerate(_CATEGORIES):
        of_type = _draws(random_state, f"type category {number}", _N_TYPES, 1)[type_of, 0]
        own = _draws(random_state, f"category {number}", len(type_of), 2)
        # Most profiles have the category of their type; normal and disguised ones have any.
        free = (own[:, 0] < 0.3) | (type_of == _NORMAL) | (type_of >= _FIRST_DISGUISED)
        # The square makes some categories far more common than others.
        chosen = (np.where(free, own[:, 1], of_type) ** 2 * size).astype(int)
        blocks.append(np.eye(size, dtype=bool)[chosen])
    return np.hstack(blocks)
