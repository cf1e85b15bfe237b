"""Random numbers by counting: draw k of row i is a hash of (seed, i, k).

Nothing is carried from one row to the next, so any chunk of rows can be made alone, in any
order and on any thread, and always comes out the same.

All integers are ``np.uint64``: numba turns a mix of uint64 and int64 into float64.
"""

import hashlib
import math

import numpy as np

from dask_s3vm.kernels.compiler import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_TO_UNIT = 2.0**-53


def stream_seed(random_state: int, stream: str) -> np.uint64:
    """Return the 64-bit seed of a named stream; streams of one `random_state` are unrelated."""
    digest = hashlib.blake2b(f"{stream}/{random_state}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


@kernel(inline="always")
def mix(state: np.uint64) -> np.uint64:
    """Scramble 64 bits one to one (the finalizer of splitmix64)."""
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


@kernel(inline="always")
def row_key(seed: np.uint64, row: int) -> np.uint64:
    """Return the key of a row; the keys of one seed are all different."""
    return mix(seed ^ mix((np.uint64(row) + _ONE) * _STEP))


@kernel(inline="always")
def uniform(key: np.uint64, draw: int) -> float:
    """Return draw number `draw` of a row, uniform in [0, 1)."""
    bits = mix(key + (np.uint64(draw) + _ONE) * _STEP)
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


@kernel
def normal_pair(key: np.uint64, draw: int) -> tuple[float, float]:
    """Return two independent standard normals made of the draws `draw` and `draw + 1`."""
    # 1 - u lies in (0, 1], where the logarithm is finite.
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, draw)))
    angle = 2.0 * math.pi * uniform(key, draw + 1)
    return radius * math.cos(angle), radius * math.sin(angle)


@kernel
def row_keys(seed: np.uint64, start: int, stop: int) -> np.ndarray:
    """Return the keys of the rows from `start` up to, not including, `stop`."""
    keys = np.empty(stop - start, np.uint64)
    for i in range(stop - start):
        keys[i] = row_key(seed, start + i)
    return keys


def permutation(seed: np.uint64, size: int) -> np.ndarray:
    """Return a random order of the numbers below `size`."""
    # Keys are distinct, so the order is the same whatever the sorting algorithm.
    return np.argsort(row_keys(seed, 0, size)).astype(np.int32)


@kernel
def uniform_matrix(keys: np.ndarray, n_draws: int) -> np.ndarray:
    """Return the first draws of every key, one row for each."""
    draws = np.empty((len(keys), n_draws))
    for i in range(len(keys)):
        for k in range(n_draws):
            draws[i, k] = uniform(keys[i], k)
    return draws
