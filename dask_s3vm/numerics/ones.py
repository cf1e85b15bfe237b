"""Values that all are 1, as those of indicators and hashed tables, and take no memory.

They are an array of stride 0: every entry is the same four bytes. Compiled code reads it like any
other array, from the fastest cache and with the same bits.
"""

import numpy as np


def ones(n: int) -> np.ndarray:
    """Return n values that are 1, read-only."""
    return np.broadcast_to(np.float32(1.0), (n,))


def is_ones(values: np.ndarray) -> bool:
    """Whether values are those of `ones`, or a part of them."""
    shared = values.ndim == 1 and values.strides == (0,) and values.dtype == np.float32
    return shared and bool(np.all(values[:1] == 1.0))


def without_ones(values: np.ndarray) -> np.ndarray:
    """Return `ones` for values that all are 1, else the values."""
    if not is_ones(values) and np.all(values[:1000] == 1.0) and np.all(values == 1.0):
        return ones(len(values))
    return values


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate values, those that are `ones` to `ones`."""
    if all(is_ones(values) for values in parts):
        return ones(sum(len(values) for values in parts))
    return np.concatenate(parts)
