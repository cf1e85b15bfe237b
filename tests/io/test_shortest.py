"""Shortest decimal numbers, against Python's own."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dask_s3vm.io.shortest import LONGEST, write_float, write_whole


def written(value):
    text = np.full(LONGEST + 8, ord("!"), dtype=np.uint8)
    stop = write_float(text, 3, np.float64(value).view(np.uint64))
    assert bytes(text[:3]) == b"!!!"
    assert bytes(text[stop:]) == b"!" * (text.size - stop)
    return bytes(text[3:stop]).decode()


def digits(word):
    return Decimal(word).normalize().as_tuple().digits


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
@example(2.0**-44)  # the lower neighbor is nearer than the upper one
@example(1e23)
@example(-0.0)
def test_floats_are_those_of_repr(value):
    word = written(value)
    assert np.float64(word).view(np.uint64) == np.float64(value).view(np.uint64)
    assert digits(word) == digits(repr(value))
    assert len(word) <= LONGEST


@pytest.mark.parametrize("exponent", [-1074, -1022, -1021, -60, -1, 0, 1, 52, 53, 54, 1023])
def test_powers_of_two_and_their_neighbors(exponent):
    power = np.ldexp(1.0, exponent)
    for value in (power, np.nextafter(power, 0), np.nextafter(power, np.inf)):
        if np.isfinite(value):
            assert digits(written(value)) == digits(repr(float(value)))


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.0, "0"), (100.0, "100"), (-1.5, "-1.5"), (0.001, "0.001"), (1e-7, "1e-7"),
     (1e15, "1000000000000000"), (1e17, "1e17"), (12345.678, "12345.678")],
)  # fmt: skip
def test_notation(value, word):
    assert written(value) == word


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_whole_numbers(number):
    text = np.zeros(32, dtype=np.uint8)
    stop = write_whole(text, 0, np.uint64(number))
    assert int(bytes(text[:stop])) == number
