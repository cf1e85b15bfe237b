"""Rows in dense tiles, for products that BLAS is best at: those with a matrix.

A tile fits the cache. BLAS runs on one thread, so that sums have the same bits wherever they are
computed; parallelism is over shards.
"""

from collections.abc import Iterator

import numpy as np

from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.passes import dense_tile
from dask_s3vm.kernels.rows import CSR, Rows
from dask_s3vm.numerics.linalg import one_blas_thread

#: Tiles have about this many numbers, which fit the cache, but at least some rows, because each
#: tile updates a whole d x d matrix.
TILE = 1 << 15
LEAST_ROWS = 256


def tiles(
    shard: Shard, numbers: np.ndarray, origin: np.ndarray | None = None, rows: Rows | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the listed rows in dense tiles: (row numbers, (t, d + 1) float64 with a last 1).

    `origin` is subtracted from the rows, if there is one; `rows` are in place of the shard's own.
    """
    if rows is None:
        rows = shard.rows
    width = shard.n_features + 1
    size = max(LEAST_ROWS, TILE // width)
    for low in range(0, len(numbers), size):
        part = numbers[low : low + size]
        tile = np.empty((len(part), width))
        if isinstance(rows, CSR):
            tile[:] = 0.0
            dense_tile(rows, part, tile)
        else:
            tile[:, :-1] = rows[part]
        if origin is not None:
            tile[:, :-1] -= origin
        tile[:, -1] = 1.0
        yield part, tile


def add_gram(
    out: np.ndarray,
    shard: Shard,
    numbers: np.ndarray,
    weight: np.ndarray,
    origin: np.ndarray | None = None,
    rows: Rows | None = None,
) -> None:
    """Out += sum_i weight_i z_i z_i^T over the listed rows, extended by a 1; see `tiles`."""
    with one_blas_thread():
        for part, tile in tiles(shard, numbers, origin, rows):
            tile *= np.sqrt(weight[part])[:, None]
            out += tile.T @ tile
