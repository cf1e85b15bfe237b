"""Random numbers of compiled code: splitmix64, by state or by counting.

By state: the state is an array of one ``uint64``. Every search owns its state, so that the streams
of different searches are independent, whatever threads they run on.

By counting: `row_key` and `uniform` hash (seed, row, draw), and no state is carried from one row to
the next. Rows get the same numbers however they are divided into shards or chunks, and in whatever
order they are processed.

All integers are ``np.uint64``: numba turns a mix of uint64 and int64 into float64.
"""

from typing import Any

import numpy as np

from dask_s3vm.numerics.compiler import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_TO_UNIT = 2.0**-53


@kernel(inline="always")
def scramble(bits: np.uint64) -> np.uint64:
    """Scramble 64 bits one to one (the finalizer of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


@kernel
def below(state: np.ndarray, n: int) -> int:
    """Draw an integer from 0..n-1, n < 2^32, and advance the state."""
    state[0] += _STEP
    bits = scramble(state[0]) >> _HALF
    # the bias of the scaled draw is n / 2^32 at most
    return np.int64((bits * np.uint64(n)) >> _HALF)  # type: ignore[return-value]


@kernel(inline="always")
def row_key(seed: np.uint64, row: int) -> np.uint64:
    """Return the key of a row; the keys of one seed are all different."""
    return scramble(seed ^ scramble((np.uint64(row) + _ONE) * _STEP))


@kernel(inline="always")
def uniform(key: np.uint64, draw: int) -> float:
    """Return draw number `draw` of the row with this key, uniform in [0, 1)."""
    bits = scramble(key + (np.uint64(draw) + _ONE) * _STEP)
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


@kernel
def row_uniform(seed: np.uint64, row: int) -> float:
    """Return the only draw of a row, uniform in [0, 1), from its key itself."""
    return np.float64(row_key(seed, row) >> np.uint64(11)) * _TO_UNIT


@kernel
def _draw(seed: np.uint64, first: int, out: np.ndarray) -> None:
    for i in range(len(out)):
        out[i] = row_uniform(seed, first + i)


def draw_rows(first: int, n_rows: int, seed: int = 0) -> np.ndarray:
    """Return the draws of rows `first` to `first + n_rows`, see `row_uniform`."""
    out = np.empty(n_rows)
    _draw(np.uint64(seed), first, out)
    return out


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Root of all random streams of a fit: for an int the same every time."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    elif isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.SeedSequence(None if random_state is None else int(random_state))
