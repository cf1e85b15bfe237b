"""What it costs that a fit tells the live page how it is getting on."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dask_s3vm.bench.safety import worker_processes
from dask_s3vm.datasets import make_text
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.estimators import L2SVM
from dask_s3vm.live.publisher import EVERY, SPAN, published
from dask_s3vm.problems.hinge import L2SVMProblem

Row = dict[str, Any]

#: Seconds between two messages here: time for client and scheduler to be done with one.
PAUSE = 0.02


def measure_live(n_rows: int, n_messages: int) -> list[Row]:
    """Time what the live page adds to a fit on two workers.

    Messages and asks for the times of the workers are measured each by itself, and set in relation
    to the time between two of them. (The times of rounds with and without the page differ by ten
    percent from turn to turn, and so say nothing.) Client, scheduler and page share one process:
    its CPU time is that of all three.

    Parameters
    ----------
    n_rows : number of text-like rows.
    n_messages : number of messages, and of rounds with and without an ask.
    """
    X, y = make_text(n_rows, 5000, block="scipy", chunks=max(n_rows // 8, 1), random_state=0)
    with worker_processes(2):
        engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
        assert isinstance(engine, ClusterEngine), "rows stayed in this process"
        try:
            plain, asking = _time_rounds(engine, n_messages)
            message = _time_messages(engine, n_messages, max(round(EVERY / plain[0]), 1))
        finally:
            engine.close()
    ask = asking - plain
    parts = [("round", plain[0], plain), ("message", EVERY, message), ("ask", SPAN, ask)]
    return [
        {
            "rows": n_rows,
            "part": part,
            "every_ms": 1000.0 * every,
            "wall_ms": 1000.0 * float(wall),
            "cpu_ms": 1000.0 * float(cpu),
            "%_of_time": 100.0 * float(max(wall, cpu)) / every,
        }
        for part, every, (wall, cpu) in parts
    ]


def _time_rounds(engine: ClusterEngine, n: int) -> np.ndarray:
    """Wall and CPU seconds of a round, and of one before which workers are asked; by turns."""
    problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
    w = np.zeros(engine.layout.n_features + 1)
    for _ in range(10):
        problem.evaluate(w)
    found = np.empty((n, 2, 2))
    for number in range(n):
        for asks in (False, True):
            engine.times.wanted = asks
            found[number, int(asks)] = _seconds(lambda: problem.evaluate(w))
    return np.median(found, axis=0)


def _time_messages(engine: ClusterEngine, n: int, rows: int) -> np.ndarray:
    """Wall and CPU seconds of a message with some rows of the history.

    Wall seconds are those of the thread that sends it, which the fit does not wait for.
    """
    with published(L2SVM(), engine, lambda: engine.rounds, 1) as publisher:
        assert publisher is not None, "there is a client, so there is a page"

        def send() -> None:
            for _ in range(rows):
                publisher.add_row({"class": 1, "iteration": 1, "objective": 1.0})
            publisher.refresh()

        def pause() -> None:
            time.sleep(PAUSE)

        def send_and_pause() -> None:
            send()
            pause()

        send_and_pause()  # adds the page
        found = [_seconds(send_and_pause) - _seconds(pause) for _ in range(n)]
        return np.mean(found, axis=0)


def _seconds(work: Callable[[], Any]) -> np.ndarray:
    """Wall and CPU seconds of a call."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - began, time.process_time() - cpu])
