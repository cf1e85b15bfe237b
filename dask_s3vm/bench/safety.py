"""The cost of fault tolerance in rounds without faults, and the time of a recovery."""

import asyncio
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
from dask_s3vm.engine.calls import RemoteActor
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.tree import add
from dask_s3vm.engine.workers import hand_out
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.problems.hinge import L2SVMProblem, evaluate, gram

Row = dict[str, Any]


@contextmanager
def worker_processes(n_workers: int) -> Iterator[distributed.Client]:
    """Start worker processes of one thread each; rows of any size are placed on them."""
    with (
        dask.config.set({"s3vm.local-bytes": 0}),
        local_cluster(n_workers, 1, processes=True, memory_limit=0) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client


def measure_overhead(n_rows: int, n_steps: int) -> list[Row]:
    """Time rounds on two workers without a fault: by the engine, and by bare calls to its actors.

    A step has five rounds: an evaluation and four Hessian products. Steps of both kinds alternate;
    on a busy machine, the medians of hundreds of steps are more precise than times of fits.
    """
    X, y = make_text(n_rows, 5000, block="scipy", chunks=max(n_rows // 8, 1), random_state=0)
    with worker_processes(2) as client:
        engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
        assert isinstance(engine, ClusterEngine), "rows stayed in this process"
        try:
            problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
            w = np.zeros(engine.layout.n_features + 1)
            actors = [group.actor for group in engine._groups.values()]

            def safe() -> None:
                point = problem.evaluate(w)
                for _ in range(4):
                    problem.hessian_product(point, np.ones(len(w)))

            def bare() -> None:
                _bare_round(client, actors, evaluate, w, 1.0, 0)
                for _ in range(4):
                    _bare_round(client, actors, gram, np.ones(len(w)), 1.0, 0)

            for _ in range(10):
                safe()
            times: dict[str, list[float]] = {"safe": [], "bare": []}
            for number in range(2 * n_steps):
                # in the order safe, bare, bare, safe: a drift of the machine cancels
                if number % 4 in (0, 3):
                    times["safe"].append(_seconds(safe))
                else:
                    times["bare"].append(_seconds(bare))
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


def _bare_round(client: distributed.Client, actors: list[RemoteActor], *call: Any) -> None:
    """Call every actor and add up the answers, without looking for lost workers."""

    async def call_actors() -> list[Any]:
        return await asyncio.gather(*(actor.call("run", ("sum", None, *call)) for actor in actors))

    answers = client.sync(call_actors)
    total = answers[0]
    for answer in answers[1:]:
        total = add(total, answer[: len(total)])


def _fastest_tenth(times: list[float]) -> float:
    return float(np.quantile(times, 0.1))


def measure_recovery(n_rows: int) -> list[Row]:
    """Kill one of four workers; compare the next step with reloading its shards plus one step."""
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
        problem.evaluate(w)

    step()
    step_s = min(_seconds(step) for _ in range(5))
    held = engine._held()
    lost = sorted(held)[0]
    share = held.pop(lost)
    threads = dict.fromkeys(held, 1)

    def reload() -> None:
        shards = hand_out(share, threads, held)
        for group in engine._maker.build(shards, threads):
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
