"""One round, by every engine, against two scipy products."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np

from dask_s3vm.bench.timing import best_of, unit_seconds
from dask_s3vm.datasets import make_text
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import make_block, opened, renumber_columns
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import load_pair, new_pair
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.problems.l2svm import L2SVMProblem

Row = dict[str, Any]


def measure_rounds(n_rows: int, repeat: int, dtype: str) -> list[Row]:
    """Time X^T (X p) over text-like rows of RCV1's width, all rows active."""
    lazy, labels = make_text(n_rows, block="scipy", dtype=np.dtype(dtype), random_state=0)
    X, y = dask.compute(lazy, labels, scheduler="threads")
    unit = unit_seconds(X, repeat)
    table = [_row(n_rows, "scipy, two products, one thread", unit, unit)]

    def add(name: str, seconds: float) -> None:
        table.append(_row(n_rows, name, seconds, unit))

    add("fused kernel, one thread", _kernel_seconds(X, repeat))
    for threads in (1, 2):
        with dask.config.set({"s3vm.threads": threads}):
            add(f"threads engine, {threads} thread(s)", _engine_seconds(X, y, repeat))
    for name, kind in _CLUSTERS.items():
        with _cluster(**kind):
            add(name, _engine_seconds(lazy, labels, repeat))
    return table


_CLUSTERS: dict[str, dict[str, Any]] = {
    "actors, in-process worker, 2 threads": {"workers": 1, "threads": 2, "processes": False},
    "actors, 1 process x 2 threads": {"workers": 1, "threads": 2, "processes": True},
    "actors, 2 processes x 1 thread": {"workers": 2, "threads": 1, "processes": True},
}


@contextmanager
def _cluster(workers: int, threads: int, processes: bool) -> Iterator[None]:
    with (
        dask.config.set({"s3vm.local-bytes": 0}),
        local_cluster(workers, threads, processes=processes, memory_limit=0),
    ):
        yield


def _kernel_seconds(X: Any, repeat: int) -> float:
    """Time the bare kernel on one block, laid out as in a shard."""
    block = make_block(X, narrow=False)
    order = plan.order_columns(plan.count_columns(block, plan.ROWS_TO_COUNT))
    rows = renumber_columns(opened(block.rows), plan.positions(order))
    pair = new_pair(rows, block.n_features)
    load_pair(rows, pair, np.ones(block.n_features + 1))
    active, cost = np.arange(X.shape[0], dtype=np.uint32), np.ones(X.shape[0])
    return best_of(lambda: passes.gram(rows, active, cost, pair, 1.0), repeat)


def _engine_seconds(X: Any, y: Any, repeat: int) -> float:
    """Seconds of a Hessian product, client's part included, all rows active."""
    engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
    try:
        problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
        point = problem.evaluate(np.zeros(engine.layout.n_features + 1))
        p = np.ones(engine.layout.n_features + 1)
        return best_of(lambda: problem.hessian_product(point, p), repeat)
    finally:
        engine.close()


def _row(n_rows: int, name: str, seconds: float, unit: float) -> Row:
    return {"rows": n_rows, "round": name, "ms": 1000.0 * seconds, "units": seconds / unit}
