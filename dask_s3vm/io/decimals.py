"""Decimal numbers as the nearest float64, exactly as Python's ``float()`` rounds them.

Short numbers take one exact operation on float64 (Clinger's fast path), others one product of
integers (Lemire, "Number parsing at a gigabyte per second", 2021). What neither settles for
certain is left to the caller.
"""

import math
from typing import Any

import numpy as np

from dask_s3vm.numerics.compiler import kernel

__all__ = ["multiply", "to_float"]

# Below and above these powers, numbers of up to 19 digits are zero or infinite.
_LOWEST, _HIGHEST = -342, 308
# These powers of ten, and whole numbers up to this one, are float64 numbers themselves.
_EXACT_POWER = 22
_EXACT_WHOLE = np.uint64(2**53)
_EXACT = np.array([float(10**power) for power in range(_EXACT_POWER + 1)])

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TOP = np.uint64(2**63)
_FULL = np.uint64(2**64 - 1)
_HALF_BITS, _HALF_MASK = np.uint64(32), np.uint64(2**32 - 1)
# Bits of the product's upper word that are cut off; if all are set, its lower word matters.
_CUT_BITS, _CUT_MASK = np.uint64(9), np.uint64(2**9 - 1)


def _make_fives() -> np.ndarray:
    """Return the leading 128 bits of the powers of five, as pairs of upper and lower word.

    All are rounded down, but for those few negative powers whose inverse fits one word: these
    are rounded up, as the proof of the method wants it.
    """
    fives = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for power in range(_LOWEST, _HIGHEST + 1):
        five = 5 ** abs(power)
        if power >= 0:
            shift = 128 - five.bit_length()
            bits = five << shift if shift >= 0 else five >> -shift
        else:
            bits = (1 << (five.bit_length() + 127)) // five + (power >= -27)
        fives[power - _LOWEST] = divmod(bits, 2**64)
    return fives


_FIVES = _make_fives()


@kernel
def to_float(mantissa: Any, scale: int) -> tuple[bool, float]:
    """Return ``mantissa * 10**scale``, rounded once.

    Parameters
    ----------
    mantissa : uint64
        All digits of the number.
    scale : int
        The power of ten.

    Returns
    -------
    sure : bool
        Whether the number is settled. Those that are not are rare: below or above the range of
        normal numbers, or too near to the middle of two of them.
    number : float
        The number, if it is settled.
    """
    if mantissa == _ZERO:
        return True, 0.0
    if mantissa <= _EXACT_WHOLE and -_EXACT_POWER <= scale <= _EXACT_POWER:
        # Both are float64 numbers, so only the one operation rounds.
        if scale < 0:
            return True, np.float64(mantissa) / _EXACT[-scale]
        return True, np.float64(mantissa) * _EXACT[scale]
    if scale < _LOWEST or scale > _HIGHEST:
        return False, 0.0
    return _round_product(mantissa, scale)


@kernel
def _round_product(mantissa: Any, scale: int) -> tuple[bool, float]:
    """Do it by a product of 64 bits and the leading bits of a power of five."""
    # The binary exponent of 10**scale: log2(10) is 217706 / 65536 closely enough.
    exponent = ((217706 * scale) >> 16) + 63
    while mantissa < _TOP:
        mantissa <<= _ONE
        exponent -= 1
    high, low = multiply(mantissa, _FIVES[scale - _LOWEST, 0])
    if high & _CUT_MASK == _CUT_MASK:
        more, _ = multiply(mantissa, _FIVES[scale - _LOWEST, 1])
        low += more
        if low < more:
            high += _ONE
    if low == _FULL and not -27 <= scale <= 55:
        return False, 0.0
    top = high >> np.uint64(63)
    shift = top + _CUT_BITS
    bits = high >> shift
    exponent += int(top) - 52
    # `bits` has 54 bits, the last one to round by. Exactly in the middle of two numbers, the
    # even one is wanted; with these powers only can the product be exact.
    if low <= _ONE and -4 <= scale <= 23 and bits & np.uint64(3) == _ONE and bits << shift == high:
        bits -= _ONE
    bits = (bits + (bits & _ONE)) >> _ONE
    if exponent < -1022 - 52 or exponent > 1022 - 52:
        return False, 0.0
    return True, math.ldexp(np.float64(bits), exponent)


@kernel
def multiply(a: Any, b: Any) -> tuple[Any, Any]:
    """Return upper and lower word of the product of two unsigned 64-bit words."""
    a_high, a_low = a >> _HALF_BITS, a & _HALF_MASK
    b_high, b_low = b >> _HALF_BITS, b & _HALF_MASK
    # None of these sums overflows: (2**32 - 1)**2 + 2 * (2**32 - 1) is the largest word.
    middle = a_high * b_low + (a_low * b_low >> _HALF_BITS)
    other = a_low * b_high + (middle & _HALF_MASK)
    return a_high * b_high + (middle >> _HALF_BITS) + (other >> _HALF_BITS), a * b
