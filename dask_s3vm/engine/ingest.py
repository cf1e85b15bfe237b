"""From the user's X, y and weights, of any type, to checked rows that can be placed.

`ingest` looks at the data once and returns a `Source`: canonical blocks, in this process or on
the workers, and the facts about them, so that everything that can be wrong with the input is
said before work begins. `Source.place` then cuts the shards and hands over to an engine.
"""

from typing import Any, Protocol

import dask
import dask.array as da
import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block, as_labels, as_weights, make_block, row_count
from dask_s3vm.engine.clients import current_client
from dask_s3vm.engine.compiling import compile_meanwhile
from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.lazy import delayed_blocks
from dask_s3vm.engine.sources import Columns, LocalSource, Source


class BlockMap(Protocol):
    """Makes other rows of the rows of a block, where the block is.

    row_bytes : size of a row that it makes.
    piece_rows : blocks are cut at multiples of this.
    """

    row_bytes: int
    piece_rows: int

    def __call__(self, block: Block, threads: int = 1) -> Block:
        """Return a block of new rows, with labels and weights as they were."""
        ...


def ingest(
    X: Any, y: Any = None, sample_weight: Any = None, block_map: BlockMap | None = None
) -> Source:
    """Take in rows: numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.

    y and sample_weight are in memory or dask arrays. A dask array is computed where dask's user
    expects it: on the current client's workers, else by the configured local scheduler. Small
    data comes to this process even if there is a client. `block_map` is for rows in memory, which
    it replaces, on the workers if the new rows are many.
    """
    client = current_client()
    columns = Columns(
        None if y is None or is_dask(y) else as_labels(y),
        None if sample_weight is None or is_dask(sample_weight) else as_weights(sample_weight),
    )
    if is_dask(X):
        lazy = _lazy_blocks(X, y, sample_weight)
        if client is None:
            compile_meanwhile(None, [], X)
            return LocalSource(list(dask.compute(*lazy)), columns, own=True)
        from dask_s3vm.engine.placement import ClusterSource, ComputedBlocks
        from dask_s3vm.engine.workers import worker_threads

        compiling = compile_meanwhile(client, list(worker_threads(client)), X)
        source = ClusterSource(client, ComputedBlocks(client, lazy), columns)
        del compiling
        small = sum(fact.nbytes for fact in source.facts) <= _config.local_bytes()
        return source.gather() if small else source
    mapped = block_map is None and _config.mapped() != "never"
    columns_beside = _computed(y), _computed(sample_weight)
    block = make_block(X, *columns_beside, narrow=False, mapped=mapped)
    columns.check(row_count(block.rows))
    nbytes = plan.facts_of(block).nbytes
    if block_map is not None:
        nbytes = row_count(block.rows) * block_map.row_bytes
    if client is not None and nbytes > _config.local_bytes():
        from dask_s3vm.engine.placement import ClusterSource, ScatteredBlocks
        from dask_s3vm.engine.workers import worker_threads

        n_workers = len(worker_threads(client))
        blocks = ScatteredBlocks(client, block, n_workers, nbytes, block_map)
        return ClusterSource(client, blocks, columns)
    if block_map is not None:
        return LocalSource([block_map(block, _config.local_threads())], columns, own=True)
    return LocalSource([block], columns, own=False)


def survey(X: Any, y: Any = None) -> list[plan.Facts]:
    """Look at the data as `ingest` does, but keep none of it."""
    if not is_dask(X):
        return [plan.facts_of(make_block(X, narrow=False, mapped=_config.mapped() != "never"))]
    measure = dask.delayed(plan.facts_of, pure=False)
    return list(compute_all([measure(block) for block in _lazy_blocks(X, y, None)]))


def is_dask(value: Any) -> bool:
    """Whether a value is a lazy dask array."""
    return isinstance(value, da.Array)


def _computed(values: Any) -> Any:
    """Compute a dask column beside in-memory rows; one that is in memory is kept elsewhere."""
    return compute_all([values])[0] if is_dask(values) else None


def _lazy_blocks(X: da.Array, y: Any, sample_weight: Any) -> list[Any]:
    """One delayed `Block` per row chunk of X, with the chunks of y and weights beside it."""
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    if X.numblocks[0] == 0 or 0 in X.shape:
        raise ValueError(f"X is empty: it has shape {X.shape}; wanted at least one row and column")
    columns = [_beside(X, y, "y"), _beside(X, sample_weight, "sample_weight")]
    # Blocks of X and y may come out of one task, as those of text do. It is to run once; but if
    # arrays are optimized one by one, each gets such a task of its own.
    apart = not any(_share_tasks(X, column) for column in columns if column is not None)
    rows = X.to_delayed(optimize_graph=apart).ravel()
    labels, weights = (
        [None] * len(rows)
        if column is None
        else column.to_delayed(optimize_graph=apart).ravel().tolist()
        for column in columns
    )
    return delayed_blocks(rows, labels, weights, mapped=_config.mapped() != "never")


def _share_tasks(X: da.Array, column: da.Array) -> bool:
    return bool(X.dask.layers.keys() & column.dask.layers.keys())


def _beside(X: da.Array, column: Any, name: str) -> da.Array | None:
    """Return a dask column, aligned with the row chunks of X; None for others."""
    n_blocks = X.numblocks[0]
    if not is_dask(column):
        return None
    if column.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional, got shape {column.shape}")
    known = not (np.isnan(X.shape[0]) or np.isnan(column.shape[0]))
    if known and X.shape[0] != column.shape[0]:
        raise ValueError(
            f"{name} does not fit X: X has {X.shape[0]} rows, {name} has {column.shape[0]} entries"
        )
    if known:
        column = column.rechunk((X.chunks[0],))
    elif column.numblocks[0] != n_blocks:
        raise ValueError(
            f"{name} cannot be aligned with X: chunk sizes are unknown, X has {n_blocks} row "
            f"chunks and {name} has {column.numblocks[0]}; give both the same chunks, or call "
            "compute_chunk_sizes() on them"
        )
    return column
