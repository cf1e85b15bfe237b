"""Rows whose labels may be switched: a loop over the active rows; none is read."""

import numpy as np

from dask_s3vm.kernels.compiler import kernel


@kernel
def doubtful_rows(
    active: np.ndarray, codes: np.ndarray, target: np.ndarray, side: int, rows: np.ndarray
) -> int:
    """List the active rows (y o < 1) that have no label of their own (code < 0) and y = side.

    Writes row numbers into the head of `rows`; returns how many.
    """
    n = 0
    for k in range(active.size):
        i = active[k]
        if codes[i] < 0 and target[i] == side:
            rows[n] = i
            n += 1
    return n
