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

from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.engine import calls, cluster, watch
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.spread import hand_out
from dask_s3vm.estimators import L2SVM, TSVM
from dask_s3vm.problems.l2svm import L2SVMProblem

Row = dict[str, Any]


@contextmanager
def local_cluster(n_workers: int) -> Iterator[distributed.Client]:
    """Worker processes of one thread each; no data is small enough to stay here."""
    with (
        dask.config.set({"s3vm.local-bytes": 0}),
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=0,
        ) as workers,
        distributed.Client(workers) as client,
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


def measure_overhead(n_rows: int, repeat: int) -> list[Row]:
    """Time fits on two workers without a fault, with the machinery and without it, in turn."""
    X, y = dask.compute(
        *make_text(n_rows, 5000, block="scipy", random_state=0), scheduler="threads"
    )
    few = hide_labels(y, max(100, n_rows // 100), random_state=0)
    models = {
        "l2svm": lambda: L2SVM(lam=1e-4).fit(X, y),
        "tsvm": lambda: TSVM(lam=1e-3, positive_ratio=float(np.mean(y == 1))).fit(X, few),
    }
    table = []
    with local_cluster(2):
        for name, run in models.items():
            run()
            safe, bare = [], []
            for number in range(2 * repeat):
                # in the order safe, bare, bare, safe: drifts of the machine cancel
                if number % 4 in (0, 3):
                    safe.append(_seconds(run))
                else:
                    with unsafe():
                        bare.append(_seconds(run))
            table.append(
                {
                    "method": name,
                    "rows": n_rows,
                    "safe_s": min(safe),
                    "bare_s": min(bare),
                    "overhead_%": 100.0 * (min(safe) / min(bare) - 1.0),
                    "median_%": 100.0 * (float(np.median(safe) / np.median(bare)) - 1.0),
                }
            )
    return table


def measure_recovery(n_rows: int) -> list[Row]:
    """Kill one worker of four; compare the next step with reloading its share and one step."""
    X, y = make_text(n_rows, 2000, block="scipy", chunks=max(n_rows // 32, 1), random_state=0)
    with local_cluster(4) as client, dask.config.set({"s3vm.shard-bytes": "256 KiB"}):
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
    reload_s = min(_seconds(reload) for _ in range(3))
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
