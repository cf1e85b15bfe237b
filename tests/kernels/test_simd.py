"""Sums in vector instructions have the bits of the loop that they stand for."""

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from dask_s3vm.numerics.simd import LANES, dot_in_eights


@numba.njit
def dot(a, b):
    return dot_in_eights(a, b)


def in_a_loop(a, b):
    sums = [np.float64(0.0)] * LANES
    for k in range(len(a) // LANES * LANES):
        sums[k % LANES] = sums[k % LANES] + np.float64(a[k]) * b[k]
    while len(sums) > 1:
        sums = [sums[k] + sums[k + 1] for k in range(0, len(sums), 2)]
    return sums[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 250])
def test_bits_are_those_of_the_loop(rng, dtype, n):
    a = rng.normal(size=n + 1).astype(dtype)[1:]  # not aligned to the width of a vector
    b = rng.normal(size=n + 2)[1:]
    assert dot(a, b) == in_a_loop(a, b)
    a.flags.writeable = False
    assert dot(a, b) == in_a_loop(a, b)


@pytest.mark.parametrize("a", [np.zeros(16)[::2], np.zeros(8, dtype=np.int64)])
def test_other_arrays_are_refused(a):
    with pytest.raises(TypingError, match="contiguous"):
        dot(a, np.zeros(8))
