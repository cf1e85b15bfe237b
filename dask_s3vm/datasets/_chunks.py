"""From functions that make rows [start, stop) to dask arrays."""

import math
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import sparse

from dask_s3vm.datasets._check import MAX_INDEX, check_count

# "auto" splits evenly into chunks of at most this size, so of at least half of it.
_CHUNK_BYTES = 16 * 2**20

# make(model, start, stop): the rows, or the classes, of that range.
MakeRows = Callable[[Any, int, int], Any]


def row_chunks(n_rows: int, chunks: Any, row_bytes: float) -> tuple[int, ...]:
    """Return the sizes of the row chunks; `row_bytes` is the mean size of a row."""
    if isinstance(chunks, str) and chunks == "auto":
        n_chunks = min(n_rows, math.ceil(n_rows * row_bytes / _CHUNK_BYTES))
        size = math.ceil(n_rows / n_chunks)
    elif isinstance(chunks, str | tuple | list) or chunks is None:
        raise TypeError(f"chunks must be 'auto' or a positive integer, got {chunks!r}")
    else:
        size = check_count("chunks", chunks)
    full, rest = divmod(n_rows, size)
    return (size,) * full + ((rest,) if rest else ())


def dask_rows(
    model: Any,
    make_rows: MakeRows,
    make_classes: MakeRows,
    rows: tuple[int, ...],
    meta: Any,
    n_features: int,
) -> tuple[da.Array, da.Array]:
    """Return lazy X and y whose chunks are made separately, by row numbers."""
    x = da.map_blocks(
        _make_block,
        model=model,
        make=make_rows,
        chunks=(rows, (n_features,)),
        dtype=meta.dtype,
        meta=meta,
    )
    y = da.map_blocks(
        _make_block,
        model=model,
        make=make_classes,
        chunks=(rows,),
        dtype=np.int8,
        meta=np.empty(0, np.int8),
    )
    return x, y


def _make_block(model: Any, make: MakeRows, block_info: Any = None) -> Any:
    start, stop = block_info[None]["array-location"][0]
    return make(model, int(start), int(stop))


def sparse_meta(block: str, dtype: np.dtype) -> Any:
    """Return an empty block of the kind."""
    if block == "scipy":
        return sp.csr_array((0, 0), dtype=dtype)
    return sparse.GCXS.from_numpy(np.empty((0, 0), dtype), compressed_axes=(0,))


def row_pointers(counts: np.ndarray) -> np.ndarray:
    """Return the 32-bit CSR row pointers of rows with these numbers of entries."""
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    if indptr[-1] > MAX_INDEX:
        raise ValueError(
            f"chunks must give fewer than {MAX_INDEX} nonzeros a chunk, got {len(counts)} rows "
            f"with {indptr[-1]} nonzeros"
        )
    return indptr.astype(np.int32)


def sparse_block(
    block: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int
) -> Any:
    """Wrap CSR arrays, without copying them, as a block of the kind."""
    shape = (len(indptr) - 1, n_features)
    if block == "scipy":
        matrix = sp.csr_array((data, indices, indptr), shape=shape)
        # Known by construction; finding it out later would take a pass over the block.
        matrix.has_canonical_format = True
        return matrix
    return sparse.GCXS((data, indices, indptr), shape=shape, compressed_axes=(0,))
