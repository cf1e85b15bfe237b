"""The shortest decimal number that reads back as the same float64 (Schubfach).

A float64 stands for all real numbers that round to it. Among the decimal numbers in that interval
the one with the fewest digits is wanted, and of these the nearest: what Python's ``repr`` prints.
With ``v = c * 2**q``, one product of c and the leading 128 bits of a power of ten gives the ends of
the interval in units of that power, exactly enough to compare (Giulietti, "The Schubfach way to
render doubles", 2020).
"""

from typing import Any

import numpy as np

from dask_s3vm.io.decimals import multiply
from dask_s3vm.numerics.compiler import kernel

__all__ = ["LONGEST", "shortest", "write_float", "write_whole"]

#: Most characters that `write_float` writes.
LONGEST = 25

_LOWEST, _HIGHEST = -292, 324
_ZERO, _ONE, _TWO, _FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
_TEN, _FORTY = np.uint64(10), np.uint64(40)
_FRACTION = np.uint64(2**52 - 1)
_HIDDEN = np.uint64(2**52)
# Plain notation for numbers with their point so far behind or before the first digit.
_POINT_HIGH, _POINT_LOW = 16, -4


def _make_tens() -> np.ndarray:
    """Return the leading 128 bits of the powers of ten, rounded up, as upper and lower words."""
    tens = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for power in range(_LOWEST, _HIGHEST + 1):
        ten = 10 ** abs(power)
        if power >= 0:
            shift = 128 - ten.bit_length()
            bits = ten << shift if shift >= 0 else -(-ten >> -shift)
        else:
            bits = -(-(1 << (ten.bit_length() + 127)) // ten)
        tens[power - _LOWEST] = divmod(bits, 2**64)
    return tens


_TENS = _make_tens()


@kernel
def shortest(bits: Any) -> tuple[Any, Any]:
    """Return digits and exponent of a positive finite float64: it is ``digits * 10**exponent``.

    Parameters
    ----------
    bits : uint64
        The number's 64 bits, without a sign.

    Returns
    -------
    digits : uint64
        The digits as a whole number, perhaps with zeros at its end.
    exponent : int
        The power of ten.
    """
    fraction = bits & _FRACTION
    biased = np.int64(bits >> np.uint64(52))
    if biased:
        c, q = fraction | _HIDDEN, biased - 1075
        if -53 < q <= 0 and c & ((_ONE << np.uint64(-q)) - _ONE) == _ZERO:
            return c >> np.uint64(-q), 0
    else:
        c, q = fraction, np.int64(-1074)
    # Below a power of two, the next number is only half as far as above.
    uneven = np.int64(fraction == _ZERO and biased > 1)
    k = (q * 1262611 - 524031 * uneven) >> 22
    h = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    four = _FOUR * c
    low = _scaled(-k, (four - _TWO + np.uint64(uneven)) << h)
    middle = _scaled(-k, four << h)
    high = _scaled(-k, (four + _TWO) << h)
    odd = c & _ONE  # ends of the interval round to the even neighbor
    low, high = low + odd, high - odd
    s = middle // _FOUR
    if s >= _TEN:
        tens = s // _TEN
        under, over = low <= _FORTY * tens, _FORTY * tens + _FORTY <= high
        if under != over:
            return tens + np.uint64(over), k + 1
    under, over = low <= _FOUR * s, _FOUR * s + _FOUR <= high
    if under != over:
        return s + np.uint64(over), k
    half = _FOUR * s + _TWO
    up = middle > half or (middle == half and s & _ONE == _ONE)
    return s + np.uint64(up), k


@kernel
def write_float(text: Any, pos: int, bits: Any) -> int:
    """Write the finite number that has these bits at `pos`; return where it ends."""
    if bits >> np.uint64(63):
        text[pos] = 45  # minus
        pos += 1
        bits &= np.uint64(2**63 - 1)
    if bits == _ZERO:
        text[pos] = 48
        return pos + 1
    digits, exponent = shortest(bits)
    while digits % _TEN == _ZERO:
        digits //= _TEN
        exponent += 1
    point = _count(digits) + exponent
    if exponent >= 0 and point <= _POINT_HIGH:
        pos = write_whole(text, pos, digits)
        return _zeros(text, pos, exponent)
    if 0 < point <= _POINT_HIGH:
        stop = write_whole(text, pos, digits) + 1
        for i in range(stop - 1, pos + point, -1):
            text[i] = text[i - 1]
        text[pos + point] = 46  # point
        return stop
    if _POINT_LOW < point <= 0:
        text[pos], text[pos + 1] = 48, 46
        return write_whole(text, _zeros(text, pos + 2, -point), digits)
    pos = write_whole(text, pos, digits)
    text[pos] = 101  # e
    pos += 1
    if exponent < 0:
        text[pos] = 45
        pos += 1
    return write_whole(text, pos, np.uint64(abs(exponent)))


@kernel
def write_whole(text: Any, pos: int, number: Any) -> int:
    """Write an unsigned whole number at `pos`; return where it ends."""
    stop = pos + _count(number)
    for i in range(stop - 1, pos - 1, -1):
        rest = number // _TEN
        text[i] = np.uint8(48) + np.uint8(number - rest * _TEN)
        number = rest
    return stop


@kernel
def _count(number: Any) -> int:
    count = 1
    while number >= _TEN:
        number //= _TEN
        count += 1
    return count


@kernel
def _zeros(text: Any, pos: int, count: int) -> int:
    for i in range(pos, pos + count):
        text[i] = 48
    return pos + count


@kernel
def _scaled(power: int, number: Any) -> Any:
    """Return the upper word of ``number * 10**power``; its last bit tells whether more follows."""
    upper, lower = _TENS[power - _LOWEST, 0], _TENS[power - _LOWEST, 1]
    carried, _ = multiply(lower, number)
    high, low = multiply(upper, number)
    low += carried
    if low < carried:
        high += _ONE
    return high | np.uint64(low > _ONE)
