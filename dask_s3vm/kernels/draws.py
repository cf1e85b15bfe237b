"""Random numbers of compiled searches: splitmix64, the state an array of one ``uint64``.

A search owns its state, so streams of different searches do not meet whatever threads they run
on. `row_uniform` draws by row number instead, with no state: rows in different shards get the
numbers that they would get together.

All integers are ``np.uint64``: numba turns a mix of uint64 and int64 into float64.
"""

import numpy as np

from dask_s3vm.kernels.compiler import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_TO_UNIT = 2.0**-53


@kernel(inline="always")
def scramble(bits: np.uint64) -> np.uint64:
    """Scramble 64 bits one to one."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


@kernel
def below(state: np.ndarray, n: int) -> int:
    """Draw a number of 0..n-1, n < 2^32, and move the state on."""
    state[0] += _STEP
    bits = scramble(state[0]) >> _HALF
    # the bias of the scaled draw is n / 2^32 at most
    return np.int64((bits * np.uint64(n)) >> _HALF)  # type: ignore[return-value]


@kernel
def row_uniform(seed: np.uint64, row: int) -> float:
    """Draw of a row by its number: uniform in [0, 1)."""
    bits = scramble(seed ^ scramble((np.uint64(row) + _ONE) * _STEP))
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT
