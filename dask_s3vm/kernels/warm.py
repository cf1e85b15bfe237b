"""Compiling kernels before they are needed."""

import numpy as np

from dask_s3vm.kernels import line, passes
from dask_s3vm.kernels.rows import CSR, Rows, new_pair


def warm(columns: str, values: str) -> None:
    """Compile (or load from numba's cache) the kernels for rows of one kind, by running them on
    no rows at all.

    Parameters
    ----------
    columns : dtype of column numbers, or "" for dense rows.
    values : dtype of values.
    """  # noqa: D205
    rows = _no_rows(columns, values)
    none, numbers = np.zeros(0, dtype=np.uint32), np.zeros(0)
    target = np.zeros(0, dtype=np.int8)
    pair = new_pair(rows, 1)
    passes.gram(rows, none, numbers, pair, 1.0)
    passes.squared_hinge(rows, target, numbers, pair, 1.0, numbers, none)
    line.hinge_slope(target, numbers, numbers, numbers, 1.0)
    if isinstance(rows, CSR):
        passes.diagonal_csr(rows, none, numbers, 1.0, np.zeros(2))
    else:
        passes.diagonal_dense(rows, none, numbers, 1.0, np.zeros(2))


def _no_rows(columns: str, values: str) -> Rows:
    """Make an empty block of the types that real ones have, read-only like them."""
    if not columns:
        empty = np.zeros((0, 1), dtype=values)
        empty.flags.writeable = False
        return empty
    parts = (np.zeros(1, np.uint32), np.zeros(0, columns), np.zeros(0, values))
    for part in parts:
        part.flags.writeable = False
    return CSR(*parts)
