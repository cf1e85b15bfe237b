"""Packed copies of the active rows.

Conjugate gradients run over the same active rows many times. Where these are few and far
between, memory is read in large steps for little use: a copy of them, made once per Newton step,
is several times faster to run over. Where many rows are active it is not, and costs memory.
"""

from collections.abc import Callable

import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.engine.checks import MAX_ENTRIES
from dask_s3vm.kernels.passes import pack_csr
from dask_s3vm.kernels.rows import CSR, Rows

#: Pack when the active rows hold at most this share of the entries; also the bound on memory.
MAX_SHARE = 0.25


def packed_rows(
    rows: Rows,
    active: np.ndarray,
    cost: np.ndarray,
    may_copy: Callable[[float], bool] = lambda share: True,
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Return rows to run over, the numbers of those that count, and costs by row number.

    `may_copy` tells whether there is memory for a copy of such a share of the rows. The products
    have the same bits with and without a copy.
    """
    if isinstance(rows, CSR):
        low, high = rows.indptr[active], rows.indptr[active + np.uint32(1)]
        lengths = (high - low).astype(np.int64)
        share = lengths.sum() / max(len(rows.indices), 1)
    else:
        share = len(active) / max(len(rows), 1)
    if share > MAX_SHARE or not may_copy(share):
        return rows, active, cost
    packed = _pack_csr(rows, active, lengths) if isinstance(rows, CSR) else frozen(rows[active])
    return packed, np.arange(len(active), dtype=np.uint32), cost[active]


def copied_rows(rows: Rows, chosen: np.ndarray) -> Rows:
    """Return a copy of the listed rows (uint32 numbers)."""
    if not isinstance(rows, CSR):
        return frozen(rows[chosen])
    lengths = (rows.indptr[chosen + np.uint32(1)] - rows.indptr[chosen]).astype(np.int64)
    return _pack_csr(rows, chosen, lengths)


def stacked_rows(parts: list[Rows]) -> Rows:
    """Put rows of several blocks, all sparse or all dense, on top of each other."""
    if len(parts) == 1:
        return parts[0]
    sparse = [part for part in parts if isinstance(part, CSR)]
    if not sparse:
        return frozen(np.concatenate(parts))
    ends = np.cumsum([0, *(len(part.indices) for part in sparse)])
    starts = [
        part.indptr[:-1].astype(np.int64) + end for part, end in zip(sparse, ends, strict=False)
    ]
    _check_size(int(ends[-1]))
    indptr = np.append(np.concatenate(starts), ends[-1]).astype(np.uint32)
    indices = np.concatenate([part.indices for part in sparse])
    values = np.concatenate([part.values for part in sparse])
    return CSR(frozen(indptr), frozen(indices), frozen(values))


def _check_size(n_entries: int) -> None:
    """Refuse more than 32 bits can count; they would be misread without a word."""
    if n_entries >= MAX_ENTRIES:
        raise ValueError(
            f"{n_entries:,} stored entries are too many to be brought together (at most "
            f"{MAX_ENTRIES - 1:,}); have the search work in the shards"
        )


def _pack_csr(rows: CSR, active: np.ndarray, lengths: np.ndarray) -> CSR:
    _check_size(int(lengths.sum()))
    indptr = np.append(0, np.cumsum(lengths)).astype(np.uint32)
    indices = np.empty(indptr[-1], dtype=rows.indices.dtype)
    values = np.empty(indptr[-1], dtype=rows.values.dtype)
    pack_csr(rows, active, indptr, indices, values)
    return CSR(frozen(indptr), frozen(indices), frozen(values))
