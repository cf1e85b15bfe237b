"""From the user's X, y and sample_weight, of any type, to checked rows that can be placed.

`ingest` looks at the data once and returns a `Source`: canonical blocks, in this process or on
workers, and their measurements. All that can be wrong with the input is reported before training
begins. `Source.place` then cuts the shards and returns an engine.
"""

import threading
from typing import TYPE_CHECKING, Any, Protocol

import dask
import dask.array as da
import numpy as np
from dask.core import get_dependencies

from dask_s3vm import _config
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import Block, as_weights, column_type, make_block, row_count
from dask_s3vm.engine.computing import compute_all, current_client, in_one_span, submitted, task_key
from dask_s3vm.engine.sources import Columns, LocalSource, Source
from dask_s3vm.kernels.passes import warm
from dask_s3vm.labels import as_labels

if TYPE_CHECKING:
    import distributed


class BlockMap(Protocol):
    """A function that replaces the rows of a block by other rows, in the process of the block.

    row_bytes : size of a new row.
    piece_rows : blocks may be cut only at multiples of this number of rows.
    """

    row_bytes: int
    piece_rows: int

    def __call__(self, block: Block, threads: int = 1) -> Block:
        """Return a block of new rows, with the labels and weights of the old ones."""
        ...


def ingest(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    block_map: BlockMap | None = None,
    with_ranges: bool = False,
) -> Source:
    """Take in rows.

    Parameters
    ----------
    X : a numpy, scipy.sparse or `sparse` array, or a dask array with blocks of these. A dask array
        is computed on the workers of the current client, else by the configured local scheduler.
        Small data is then gathered in this process.
    y, sample_weight : arrays in memory, or dask arrays.
    block_map : replaces the rows of an X in memory; on the workers if the new rows are large.
    with_ranges : whether to measure the columns of dense rows, see `Summary.ranges`.
    """
    client = current_client()
    columns = Columns(
        None if y is None or is_dask(y) else as_labels(y),
        None if sample_weight is None or is_dask(sample_weight) else as_weights(sample_weight),
    )
    if is_dask(X):
        return _ingest_lazy(client, X, y, sample_weight, columns, with_ranges)
    mapped = block_map is None and _may_map()
    block = make_block(X, _computed(y), _computed(sample_weight), narrow=False, mapped=mapped)
    columns.check(row_count(block.rows))
    nbytes = plan.facts_of(block).nbytes
    if block_map is not None:
        nbytes = row_count(block.rows) * block_map.row_bytes
    if client is not None and nbytes > _config.local_bytes():
        from dask_s3vm.engine.placement import ClusterSource, ScatteredBlocks
        from dask_s3vm.engine.workers import worker_threads

        n_workers = len(worker_threads(client))
        blocks = ScatteredBlocks(client, block, n_workers, nbytes, block_map)
        return ClusterSource(client, blocks, columns, with_ranges)
    if block_map is not None:
        return LocalSource(
            [block_map(block, _config.local_threads())], columns, own=True, with_ranges=with_ranges
        )
    return LocalSource([block], columns, own=False, with_ranges=with_ranges)


def _ingest_lazy(
    client: "distributed.Client | None",
    X: da.Array,
    y: Any,
    sample_weight: Any,
    columns: Columns,
    with_ranges: bool,
) -> Source:
    """Take in the rows of a dask array."""
    lazy = _lazy_blocks(X, y, sample_weight)
    if client is None:
        _compile_in_background(None, X)
        blocks = list(compute_all(lazy))
        return LocalSource(blocks, columns, own=True, with_ranges=with_ranges)
    from dask_s3vm.engine.placement import ClusterSource, ComputedBlocks

    compiling = _compile_in_background(client, X)
    source = ClusterSource(client, ComputedBlocks(client, lazy), columns, with_ranges)
    del compiling
    small = sum(fact.nbytes for fact in source.facts) <= _config.local_bytes()
    return source.gather() if small else source


def survey(X: Any, y: Any = None) -> list[plan.Facts]:
    """Measure the blocks as `ingest` does, without keeping them."""
    if not is_dask(X):
        return [plan.facts_of(make_block(X, narrow=False, mapped=_may_map()))]
    measure = dask.delayed(plan.facts_of, pure=False)
    return list(compute_all([measure(block) for block in _lazy_blocks(X, y, None)]))


def is_dask(value: Any) -> bool:
    """Whether a value is a dask array."""
    return isinstance(value, da.Array)


def _may_map() -> bool:
    """Whether rows may stay in memory-mapped files."""
    return _config.mapped() != "never"


def _computed(values: Any) -> Any:
    """Compute y or weights if they are a dask array; None if they are in memory (see `Columns`)."""
    return compute_all([values])[0] if is_dask(values) else None


# Blocks of dask arrays ----------------------------------------------------------------------


def _lazy_blocks(X: da.Array, y: Any, sample_weight: Any) -> list[Any]:
    """Return a delayed `Block` for each row chunk of X, with the matching chunks of y and weights.

    A block that a reader opens as a view of a mapped file must not become the result of a task,
    since dask would copy its bytes to send or spill it. A block that is made by a single task
    without inputs, as readers make them, is therefore made inside the task that returns the
    `Block`.
    """
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    if X.numblocks[0] == 0 or 0 in X.shape:
        raise ValueError(f"X is empty: it has shape {X.shape}; wanted at least one row and column")
    columns = [aligned_column(X, y, "y"), aligned_column(X, sample_weight, "sample_weight")]
    # Blocks of X and y may come from one task, as those of text files do, which should run once.
    # Optimizing the arrays separately would give each a copy of that task.
    separate = not any(_share_tasks(X, column) for column in columns if column is not None)
    rows = X.to_delayed(optimize_graph=separate).ravel()
    labels, weights = (
        [None] * len(rows)
        if column is None
        else column.to_delayed(optimize_graph=separate).ravel().tolist()
        for column in columns
    )
    mapped = _may_map()
    make, read = dask.delayed(make_block, pure=False), dask.delayed(_read_block, pure=False)
    graph = dict(rows[0].dask)  # the graph of all blocks
    found = []
    for block, *parts in zip(rows, labels, weights, strict=True):
        if _stands_alone(block.key, graph, parts):
            task = _BlockTask(block.key, graph[block.key])
            found.append(read(task, *parts, mapped, dask_key_name=task_key("read_block")))
        else:
            name = task_key("make_block")
            found.append(make(block, *parts, mapped=mapped, dask_key_name=name))
    return found


def aligned_column(X: da.Array, column: Any, name: str) -> da.Array | None:
    """Return a dask array of y or weights with the row chunks of X; None for any other type."""
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


def _share_tasks(X: da.Array, column: da.Array) -> bool:
    return bool(X.dask.layers.keys() & column.dask.layers.keys())


def _stands_alone(key: Any, graph: dict[Any, Any], parts: list[Any]) -> bool:
    """Whether a block is made by one task without inputs, and labels and weights do not use it."""
    if key not in graph:  # a persisted block, which the cluster holds
        return False
    if not _is_task(graph[key]) or get_dependencies(graph, key):
        return False
    return not any(key in part.dask for part in parts if part is not None)


def _is_task(node: Any) -> bool:
    """Whether a node of a graph is a task, not data or an alias."""
    return hasattr(node, "func") or (isinstance(node, tuple) and bool(node) and callable(node[0]))


class _BlockTask:
    """The task that makes a block, wrapped so that dask does not run it as a task of its own."""

    __slots__ = ("key", "task")

    def __init__(self, key: Any, task: Any) -> None:
        self.key = key
        self.task = task

    def run(self) -> Any:
        """Make the block."""
        return dask.get({self.key: self.task}, self.key)


def _read_block(task: _BlockTask, labels: Any, weights: Any, mapped: bool) -> Block:
    return make_block(task.run(), labels, weights, mapped=mapped)


# Compilation of kernels ---------------------------------------------------------------------


def _compile_in_background(client: "distributed.Client | None", X: da.Array) -> Any:
    """Start to compile kernels for rows like those of X while the rows are read; once per worker.

    The types are a guess from dask's metadata; a wrong guess does no harm. Returns futures that
    must be kept until the rows are on the workers; None without a client. With a filled cache this
    takes tens of milliseconds.
    """
    kind = _kind_of(X)
    if client is None:
        threading.Thread(target=warm, args=kind, daemon=True).start()
        return None
    from dask_s3vm.engine.watch import cluster_state
    from dask_s3vm.engine.workers import done_for, first_time, worker_threads

    found = worker_threads(client)
    state = cluster_state(client)
    workers = first_time(client, kind, found, state)
    done_for(client, kind, workers, state)
    with in_one_span(client):
        return [
            submitted(client, warm, *kind, workers=[worker], allow_other_workers=True)
            for worker in workers
        ]


def _kind_of(X: da.Array) -> tuple[str, str]:
    """Return the types of column numbers ("" for dense rows) and values that X probably has."""
    values = "float32" if X.dtype == np.float32 else "float64"
    dense = isinstance(X._meta, np.ndarray) or np.isnan(X.shape[1])
    return "" if dense else np.dtype(column_type(X.shape[1])).name, values
