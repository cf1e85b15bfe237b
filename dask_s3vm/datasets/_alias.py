"""Alias tables: one uniform draw gives one item of a fixed distribution in constant time."""

from typing import NamedTuple

import numpy as np

from dask_s3vm.datasets._random import uniform
from dask_s3vm.kernels.compiler import kernel


class Alias(NamedTuple):
    """Cell i holds item i up to the share ``keep[i]`` of the cell, and ``other[i]`` above."""

    keep: np.ndarray
    other: np.ndarray


def zipf_weights(size: int, exponent: float, shift: float) -> np.ndarray:
    """Return the Zipf-Mandelbrot probabilities of ranks 0, 1, ..., ``size - 1``."""
    weights = (np.arange(size) + 1.0 + shift) ** -exponent
    return weights / weights.sum()


def alias_table(probabilities: np.ndarray) -> Alias:
    """Build the alias table of a distribution."""
    return Alias(*_fill_table(np.asarray(probabilities, dtype=np.float64)))


@kernel
def _fill_table(probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair every cell that is too small with one that is too large (Vose's method)."""
    size = len(probabilities)
    load = probabilities * (size / probabilities.sum())
    keep = np.ones(size)
    other = np.arange(size).astype(np.int32)
    small = np.empty(size, np.int32)
    large = np.empty(size, np.int32)
    n_small = n_large = 0
    for i in range(size):
        if load[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        keep[low] = load[low]
        other[low] = high
        load[high] -= 1.0 - load[low]
        if load[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    return keep, other


@kernel(inline="always")
def draw_item(table: Alias, key: np.uint64, draw: int) -> int:
    """Draw an item with draw number `draw` of the row with this key."""
    place = uniform(key, draw) * len(table.keep)
    # Rounding may carry the product up to the length itself.
    cell = min(int(place), len(table.keep) - 1)
    return cell if place - cell < table.keep[cell] else int(table.other[cell])
