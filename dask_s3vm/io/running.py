"""Blocks of any X and y as tasks, and tasks carried out with news of each that is done."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any

import dask
import dask.array as da
import dask.threaded
import numpy as np
from dask.base import tokenize
from dask.callbacks import Callback

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.computing import current_client

__all__ = ["each_as_done", "is_dense", "row_blocks"]

_BLOCK_BYTES = 32 << 20


def row_blocks(X: Any, y: Any) -> tuple[list[tuple[Any, Any]], str]:
    """Cut X and y into blocks of rows.

    Parameters
    ----------
    X, y : array
        Rows, and labels or None; in memory or dask arrays.

    Returns
    -------
    blocks : list of (object, object)
        Rows and labels of each block, lazy or not.
    fingerprint : str
        The same for the same X and y.
    """
    if getattr(X, "ndim", 0) != 2:
        raise ValueError(f"X must be 2-dimensional, got shape {np.shape(X)}")
    if y is not None and not isinstance(y, da.Array):
        y = np.asarray(y)
    if y is not None and y.ndim != 1:
        raise ValueError(f"y must be 1-dimensional, got shape {y.shape}")
    fingerprint = tokenize(*(_identity(values) for values in (X, y)))
    if not isinstance(X, da.Array):
        edges = _edges(X)
        rows = [X[low:high] for low, high in pairwise(edges)]
        _check_length(X, y)
        y = y.compute() if isinstance(y, da.Array) else y
        return list(zip(rows, _slices(y, edges), strict=True)), fingerprint
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    # Not optimized one by one: blocks of X and y may come out of the same task.
    rows = X.to_delayed(optimize_graph=False).ravel().tolist()
    if isinstance(y, da.Array):
        if y.chunks[0] != X.chunks[0]:
            _check_length(X, y)
            y = y.rechunk((X.chunks[0],))
        labels = y.to_delayed(optimize_graph=False).ravel().tolist()
    else:
        _check_length(X, y)
        labels = _slices(y, [0, *np.cumsum(X.chunks[0]).tolist()])
    return list(zip(rows, labels, strict=True)), fingerprint


def is_dense(X: Any) -> bool:
    """Tell whether X, or the blocks of a dask array X, are numpy arrays."""
    return isinstance(getattr(X, "_meta", X), np.ndarray)


def each_as_done(tasks: list[Any], local: bool = False) -> Iterator[tuple[int, Any]]:
    """Carry out delayed tasks on the current client, or else on threads of this process.

    Parameters
    ----------
    tasks : list of Delayed
        The tasks. Their results should be small.
    local : bool
        Whether to stay in this process: the rows are in its memory.

    Yields
    ------
    number : int
        Place of a task in the list.
    result : object
        Its result.
    """
    if not tasks:
        return
    client = None if local else current_client()
    if client is None:
        yield from _on_threads(tasks)
        return
    from distributed import as_completed

    futures = client.compute(tasks)
    place = {future.key: i for i, future in enumerate(futures)}
    try:
        for future, result in as_completed(futures, with_results=True):
            yield place[future.key], result
    finally:
        client.cancel(futures)


def _on_threads(tasks: list[Any]) -> Iterator[tuple[int, Any]]:
    """Run the local scheduler beside, and pass on what it finishes."""
    place = {task.key: i for i, task in enumerate(tasks)}
    news: SimpleQueue[tuple[int | None, Any]] = SimpleQueue()
    stopped: list[bool] = []

    def tell(key: Any, result: Any, *_: Any) -> None:
        if stopped:
            raise InterruptedError("stopped")
        if key in place:
            news.put((place[key], result))

    def run() -> None:
        try:
            # A pool of its own: when it is left, nothing runs any more, also after an error.
            with _own_pool() as options, Callback(posttask=tell):
                dask.compute(*tasks, **options)
            news.put((None, None))
        except BaseException as error:
            news.put((None, error))

    runner = Thread(target=run, daemon=True)
    runner.start()
    try:
        while True:
            number, result = interrupts.take(news)
            if number is None:
                if result is not None:
                    raise result
                return
            yield number, result
    finally:
        stopped.append(True)
        runner.join()


@contextmanager
def _own_pool() -> Iterator[dict[str, Any]]:
    """Return options for the local scheduler, if that is the one with threads."""
    if dask.config.get("scheduler", None) not in (None, "threads", "threading", dask.threaded.get):
        yield {}
        return
    count = dask.config.get("num_workers", None) or _config.available_cores()
    with ThreadPoolExecutor(count) as pool:
        yield {"scheduler": dask.threaded.get, "pool": pool}


def _identity(values: Any) -> Any:
    return values.name if isinstance(values, da.Array) else values


def _check_length(X: Any, y: Any) -> None:
    if y is None:
        return
    if isinstance(X, da.Array) and np.isnan(X.shape[0]):
        raise ValueError(
            "chunk sizes of X are unknown: call compute_chunk_sizes(), or give y as a dask array "
            "with the same chunks"
        )
    if y.shape[0] != X.shape[0]:
        raise ValueError(f"y does not fit X: X has {X.shape[0]} rows, y has {y.shape[0]} entries")


def _slices(y: Any, edges: list[int]) -> list[Any]:
    if y is None:
        return [None] * (len(edges) - 1)
    return [y[low:high] for low, high in pairwise(edges)]


def _edges(X: Any) -> list[int]:
    """Cut rows in memory into blocks of about 32 MiB."""
    n = X.shape[0]
    parts = [X] if isinstance(X, np.ndarray) else [getattr(X, k, None) for k in ("data", "indices")]
    size = sum(getattr(part, "nbytes", 0) for part in parts)
    count = min(max(1, -(-size // _BLOCK_BYTES)), max(n, 1))
    return [n * i // count for i in range(count + 1)]
