"""What it costs to be safe, and how long it takes to recover."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import distributed
import numpy as np

from dask_s3vm.datasets import make_text
from dask_s3vm.engine import calls, cluster, watch
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.spread import hand_out
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.problems.l2svm import L2SVMProblem

Row = dict[str, Any]


@contextmanager
def worker_processes(n_workers: int) -> Iterator[distributed.Client]:
    """Worker processes of one thread each; no data is small enough to stay here."""
    with (
        dask.config.set({"s3vm.local-bytes": 0}),
        local_cluster(n_workers, 1, processes=True, memory_limit=0) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client


@contextmanager
def unsafe() -> Iterator[None]:
    """No transactions, no watch on waits, no look at who has joined."""
    cluster.TRANSACTIONS = calls.WATCHED = watch.WATCHED = False
    try:
        yield
    finally:
        cluster.TRANSACTIONS = calls.WATCHED = watch.WATCHED = True


def measure_overhead(n_rows: int, n_steps: int) -> list[Row]:
    """Time steps on two workers without a fault, with the machinery and without it, in turn.

    A step is a Newton step in small: an evaluation and four Hessian products, five rounds. Medians
    of hundreds of steps in turn say more, on a machine that is not quiet, than times of fits.
    """
    X, y = make_text(n_rows, 5000, block="scipy", chunks=max(n_rows // 8, 1), random_state=0)
    with worker_processes(2):
        engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
        try:
            problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
            w = np.zeros(engine.layout.n_features + 1)

            def advance() -> None:
                point = problem.evaluate(w)
                for _ in range(4):
                    problem.hessian_product(point, np.ones(len(w)))

            def step() -> None:
                problem.step(advance)

            for _ in range(10):
                step()
            times: dict[str, list[float]] = {"safe": [], "bare": []}
            for number in range(2 * n_steps):
                # in the order safe, bare, bare, safe: drifts of the machine cancel
                if number % 4 in (0, 3):
                    times["safe"].append(_seconds(step))
                else:
                    with unsafe():
                        times["bare"].append(_seconds(step))
        finally:
            engine.close()
    return [
        {
            "rows": n_rows,
            "steps": n_steps,
            "measure": name,
            "safe_ms": 1000.0 * float(of(times["safe"])),
            "bare_ms": 1000.0 * float(of(times["bare"])),
            "overhead_%": 100.0 * float(of(times["safe"]) / of(times["bare"]) - 1.0),
        }
        for name, of in (("median", np.median), ("fastest tenth", _fastest_tenth))
    ]


def _fastest_tenth(times: list[float]) -> float:
    return float(np.quantile(times, 0.1))


def measure_recovery(n_rows: int) -> list[Row]:
    """Kill one worker of four; compare the next step with reloading its share and one step."""
    X, y = make_text(n_rows, 2000, block="scipy", chunks=max(n_rows // 32, 1), random_state=0)
    with worker_processes(4) as client, dask.config.set({"s3vm.shard-bytes": "256 KiB"}):
        engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
        assert isinstance(engine, ClusterEngine), "rows stayed in this process"
        try:
            return [_recover(client, engine)]
        finally:
            engine.close()


def _recover(client: distributed.Client, engine: ClusterEngine) -> Row:
    problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
    w = np.ones(engine.layout.n_features + 1)

    def step() -> None:
        problem.step(lambda: problem.evaluate(w))

    step()
    step_s = min(_seconds(step) for _ in range(5))
    held = engine._held()
    lost = sorted(held)[0]
    share = held.pop(lost)
    threads = dict.fromkeys(held, 1)

    def reload() -> None:
        shards = hand_out(share, threads, held)
        for group in engine._maker.build(shards, threads, epoch=0):
            client.cancel([group.actor.future])

    reload()
    reload_s = float(np.median([_seconds(reload) for _ in range(3)]))
    pid = client.run(os.getpid, workers=[lost])[lost]
    os.kill(pid, signal.SIGKILL)
    recovery_s = _seconds(step)
    return {
        "shards": engine.layout.n_shards,
        "lost": len(share),
        "step_s": step_s,
        "reload_share_s": reload_s,
        "recovery_s": recovery_s,
        "ratio": recovery_s / (reload_s + step_s),
    }


def _seconds(run: Any) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
