"""The cost of fault tolerance in rounds without faults, and the time of a recovery."""

import asyncio
import copy
import itertools
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
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.tree import Parts, sum_nodes
from dask_s3vm.engine.workers import hand_out
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.problems.hinge import L2SVMProblem

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

    A step has five rounds: an evaluation and four Hessian products, with the same vectors and the
    same sums in both. Steps of both kinds alternate; on a busy machine, the medians of hundreds of
    steps are more precise than times of fits.
    """
    X, y = make_text(n_rows, 5000, block="scipy", chunks=max(n_rows // 8, 1), random_state=0)
    with worker_processes(2) as client:
        engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
        assert isinstance(engine, ClusterEngine), "rows stayed in this process"
        try:
            problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
            w = np.zeros(engine.layout.n_features + 1)
            unwatched = copy.copy(problem)
            unwatched.engine = _Bare(client, engine)  # type: ignore[assignment]

            def step(of: L2SVMProblem) -> None:
                point = of.evaluate(w)
                for _ in range(4):
                    of.hessian_product(point, np.ones(len(w)))

            for _ in range(10):
                step(problem)
            times: dict[str, list[float]] = {"safe": [], "bare": []}
            for number in range(2 * n_steps):
                # in the order safe, bare, bare, safe: a drift of the machine cancels
                if number % 4 in (0, 3):
                    times["safe"].append(_seconds(lambda: step(problem)))
                else:
                    times["bare"].append(_seconds(lambda: step(unwatched)))
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


class _Bare:
    """The rounds of an engine, without any care for lost workers or row state."""

    def __init__(self, client: distributed.Client, engine: ClusterEngine) -> None:
        self._client = client
        self._groups = list(engine._groups.values())
        self._n_shards = engine.layout.n_shards

    def sum(self, *call: Any) -> Parts:
        """Call every actor, and add up the answers along the tree."""

        async def call_actors() -> list[Any]:
            args = ("sum", None, *call)
            return await asyncio.gather(*(one.actor.call("run", args) for one in self._groups))

        answers = zip(self._groups, self._client.sync(call_actors), strict=True)
        nodes = (group.by_node(parts, group.numbers) for group, parts in answers)
        return sum_nodes(itertools.chain.from_iterable(nodes), self._n_shards)


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
