"""A round on W workers against `latency + bytes / bandwidth + pass / threads`."""

from typing import Any

import dask
import numpy as np

from dask_s3vm import _config
from dask_s3vm.bench.timing import best_of
from dask_s3vm.datasets import make_text
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.shard import Shard
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.problems.l2svm import L2SVMProblem

Row = dict[str, Any]


def measure_formula(n_rows: int, workers: tuple[int, ...], repeat: int) -> list[Row]:
    """Measure the terms and the whole of a Gram product, by number of workers of one thread.

    latency : a round that sends and answers one number and reads no row.
    payload : what is added when a vector of length d goes to every worker and one comes back.
    pass : the Gram product by one thread of this process, with no cluster.
    predicted : latency + payload + pass / min(workers, cores).
    """
    X, y = make_text(n_rows, block="scipy", dtype=np.dtype(np.float64), random_state=0)
    with dask.config.set({"s3vm.threads": 1}):
        alone = _round_seconds(X, y, repeat)["whole"]
    table = []
    for count in workers:
        with (
            dask.config.set({"s3vm.local-bytes": 0}),
            local_cluster(count, 1, memory_limit=0),
        ):
            seconds = _round_seconds(X, y, repeat)
        share = alone / min(count, _config.available_cores())
        payload = max(0.0, seconds["payload"] - seconds["latency"])
        predicted = seconds["latency"] + payload + share
        table.append(
            {
                "rows": n_rows,
                "workers": count,
                "latency_ms": 1000 * seconds["latency"],
                "payload_ms": 1000 * payload,
                "pass_ms": 1000 * share,
                "predicted_ms": 1000 * predicted,
                "measured_ms": 1000 * seconds["whole"],
                "ratio": seconds["whole"] / predicted,
            }
        )
    return table


def _round_seconds(X: Any, y: Any, repeat: int) -> dict[str, float]:
    """Best times of an empty round, of one that carries a vector, and of a Gram product."""
    engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
    try:
        p = np.ones(engine.layout.n_features + 1)
        problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
        point = problem.evaluate(0 * p)
        return {
            "latency": best_of(lambda: engine.sum(_answer, p[:1]), repeat),
            "payload": best_of(lambda: engine.sum(_answer, p), repeat),
            "whole": best_of(lambda: problem.hessian_product(point, p), repeat),
        }
    finally:
        engine.close()


def _answer(shard: Shard, p: np.ndarray) -> tuple[np.ndarray]:
    """Send back what came; a copy, as partial sums are added in place."""
    return (p.copy(),)
