"""Loops over a few vectors of length d at once, for solvers at the client.

Sums run in the order that is written here, whatever BLAS is installed and however many threads
it would use.
"""

import numpy as np
from numba import njit

#: Columns that are worked on at a time: their part of the result stays in the fastest cache.
BLOCK = 1024


@njit(nogil=True, cache=True)
def products(vectors: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out[k] = (vectors[k].a, vectors[k].b), from one read of each of the vectors."""
    n = a.size
    for k in range(out.shape[0]):
        row = vectors[k]
        # eight sums each, so that the compiler can keep them in vector registers
        with_a, with_b = np.zeros(8), np.zeros(8)
        for block in range(n // 8):
            j = 8 * block
            for lane in range(8):
                with_a[lane] += row[j + lane] * a[j + lane]
                with_b[lane] += row[j + lane] * b[j + lane]
        for j in range(8 * (n // 8), n):
            with_a[0] += row[j] * a[j]
            with_b[0] += row[j] * b[j]
        out[k, 0] = with_a.sum()
        out[k, 1] = with_b.sum()


@njit(nogil=True, cache=True)
def combine(vectors: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Out += sum_k weights[k] vectors[k]."""
    n = out.size
    for low in range(0, n, BLOCK):
        part = out[low : min(low + BLOCK, n)]
        for k in range(weights.size):
            row, weight = vectors[k, low : low + part.size], weights[k]
            for j in range(part.size):
                part[j] += weight * row[j]
