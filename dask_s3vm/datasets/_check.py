"""Checks of the generators' arguments."""

import numbers
from typing import Any

import numpy as np

MAX_INDEX = np.iinfo(np.int32).max


def check_count(name: str, value: Any, upper: int | None = None) -> int:
    """Return `value` as an int if it is a positive integer, at most `upper`."""
    _check_integer(name, value, "a positive integer", 1)
    if upper is not None and value > upper:
        raise ValueError(f"{name} must be at most {upper}, got {value!r}")
    return int(value)


def check_seed(random_state: Any) -> int:
    """Return `random_state` as an int if it is a non-negative integer."""
    _check_integer("random_state", random_state, "a non-negative integer", 0)
    return int(random_state)


def _check_integer(name: str, value: Any, wanted: str, lower: int) -> None:
    # A bool is an Integral too, but never meant as a count.
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    if int(value) < lower:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def check_real(name: str, value: Any, lower: float, upper: float, wanted: str) -> float:
    """Return `value` as a float if it lies between the bounds, both included."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    # Not "value < lower or value > upper": that lets nan pass.
    if not lower <= float(value) <= upper:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return float(value)


def check_block(block: Any) -> str:
    """Return `block` if it names a kind of sparse block."""
    if block not in ("gcxs", "scipy"):
        raise ValueError(f"block must be 'gcxs' or 'scipy', got {block!r}")
    return str(block)


def check_dtype(dtype: Any) -> np.dtype:
    """Return `dtype` as a numpy dtype if it is float32 or float64."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    return found
