"""Rows whose labels may be switched: a loop over labels and outputs; no row is read."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def doubtful_rows(
    codes: np.ndarray, target: np.ndarray, outputs: np.ndarray, side: int, rows: np.ndarray
) -> int:
    """List rows without a label (code < 0) that are labelled `side` and inside the margin.

    Inside: side * output < 1. Writes row numbers into the head of `rows`; returns how many.
    """
    n = 0
    for i in range(codes.size):
        if codes[i] < 0 and target[i] == side and side * outputs[i] < 1.0:
            rows[n] = i
            n += 1
    return n
