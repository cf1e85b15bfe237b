"""Packed copies of the active rows.

Conjugate gradients run over the same active rows many times. Where these are few and far
between, memory is read in large steps for little use: a copy of them, made once per Newton step,
is several times faster to run over. Where many rows are active it is not, and costs memory.
"""

import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels.passes import pack_csr
from dask_s3vm.kernels.rows import CSR, Rows

#: Pack when the active rows hold at most this share of the entries; also the bound on memory.
MAX_SHARE = 0.25


def packed_rows(
    rows: Rows, active: np.ndarray, cost: np.ndarray
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Return rows to run over, the numbers of those that count, and costs by row number."""
    if isinstance(rows, CSR):
        low, high = rows.indptr[active], rows.indptr[active + np.uint32(1)]
        lengths = (high - low).astype(np.int64)
        if lengths.sum() > MAX_SHARE * len(rows.indices):
            return rows, active, cost
        packed: Rows = _pack_csr(rows, active, lengths)
    else:
        if len(active) > MAX_SHARE * len(rows):
            return rows, active, cost
        packed = frozen(rows[active])
    return packed, np.arange(len(active), dtype=np.uint32), cost[active]


def _pack_csr(rows: CSR, active: np.ndarray, lengths: np.ndarray) -> CSR:
    indptr = np.append(0, np.cumsum(lengths)).astype(np.uint32)
    indices = np.empty(indptr[-1], dtype=rows.indices.dtype)
    values = np.empty(indptr[-1], dtype=rows.values.dtype)
    pack_csr(rows, active, indptr, indices, values)
    return CSR(frozen(indptr), frozen(indices), frozen(values))
