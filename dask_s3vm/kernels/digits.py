"""Numbers as unsigned integers of the same order, counted by their digits; see `engine.select`."""

import numpy as np

from dask_s3vm.numerics.compiler import kernel

#: Bits of a digit.
BITS = 12

#: The sign bit of a float64.
_TOP = np.uint64(1 << 63)


@kernel
def order_keys(bits: np.ndarray, keys: np.ndarray, counts: np.ndarray) -> bool:
    """Write keys of the same order as float64 values, and count them by their leading digit.

    bits : the values, seen as uint64; -0.0 and 0.0 get the same key.

    Returns whether a value is NaN.
    """
    infinite = np.uint64(0x7FF0000000000000)
    shift = np.uint64(64 - BITS)
    is_nan = False
    for i in range(bits.size):
        b = bits[i]
        if b == _TOP:  # -0.0
            b = np.uint64(0)
        is_nan |= (b & ~_TOP) > infinite
        key = ~b if b & _TOP else b | _TOP
        keys[i] = key
        counts[key >> shift] += 1
    return is_nan


@kernel
def count_digits(keys: np.ndarray, shift: int, width: int, counts: np.ndarray) -> None:
    """Count keys by the digit of `width` bits below bit `shift`."""
    down = np.uint64(shift - width)
    mask = np.uint64((1 << width) - 1)
    for i in range(keys.size):
        counts[(keys[i] >> down) & mask] += 1
