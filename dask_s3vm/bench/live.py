"""What it costs that a fit tells the live page how it is getting on."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from dask_s3vm.bench.safety import worker_processes
from dask_s3vm.datasets import make_text
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.estimators import L2SVM
from dask_s3vm.live.publisher import published
from dask_s3vm.problems.hinge import L2SVMProblem

Row = dict[str, Any]


def measure_live(n_rows: int, seconds: float, n_pairs: int = 8) -> list[Row]:
    """Time rounds on two workers, by turns with and without messages to the live page.

    Client, scheduler and page share one process, and its CPU time is counted too: on a busy
    machine it tells more than the clock on the wall.

    Parameters
    ----------
    n_rows : number of text-like rows.
    seconds : length of a turn.
    n_pairs : turns of each kind.
    """
    X, y = make_text(n_rows, 5000, block="scipy", chunks=max(n_rows // 8, 1), random_state=0)
    turns: dict[str, list[tuple[float, float]]] = {"alone": [], "told": []}
    with worker_processes(2):
        engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
        assert isinstance(engine, ClusterEngine), "rows stayed in this process"
        try:
            problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
            w = np.zeros(engine.layout.n_features + 1)

            def step() -> None:
                problem.evaluate(w)

            _turn(engine, step, 1.0, told=True)  # adds the page, and warms up
            for number in range(2 * n_pairs):
                # in the order told, alone, alone, told: a drift of the machine cancels
                kind = "told" if number % 4 in (0, 3) else "alone"
                turns[kind].append(_turn(engine, step, seconds, kind == "told"))
        finally:
            engine.close()
    medians = {kind: np.median(np.array(found), axis=0) for kind, found in turns.items()}
    alone, told = medians["alone"], medians["told"]
    return [
        {
            "rows": n_rows,
            "measure": measure,
            "alone_ms": 1000.0 * float(alone[place]),
            "told_ms": 1000.0 * float(told[place]),
            "%_of_a_round": 100.0 * float((told[place] - alone[place]) / alone[0]),
        }
        for place, measure in enumerate(("wall", "CPU of client and scheduler"))
    ]


def _turn(
    engine: ClusterEngine, step: Callable[[], None], seconds: float, told: bool
) -> tuple[float, float]:
    """Make rounds for some seconds; returns wall and CPU seconds of a round."""
    with ExitStack() as stack:
        publisher = None
        if told:
            publisher = stack.enter_context(published(L2SVM(), engine, lambda: engine.rounds, 1))
            assert publisher is not None, "there is a client, so there is a page"
            publisher.start()
        n, began, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            step()
            n += 1
            if publisher is not None:
                publisher.add_row({"class": 1, "iteration": n, "objective": 1.0 / n})
        return (time.perf_counter() - began) / n, (time.process_time() - cpu) / n
