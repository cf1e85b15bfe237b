"""Measurements of rounds and of single fits, in units of scipy's two products on the same rows.

A unit is the time of scipy's ``X @ v`` and ``X.T @ u`` on one thread. `measure_rounds` and
`measure_formula` time one round over the rows; `measure_l2svm` and `measure_transductive` time
whole fits.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dask_s3vm import _config
from dask_s3vm.datasets import hide_labels, make_intrusion, make_text
from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import make_block, opened, renumber_columns
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.shard import Shard
from dask_s3vm.estimators import DAS3VM, L2SVM, QNS3VM, TSVM
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import load_pair, new_pair
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.problems.hinge import L2SVMProblem
from dask_s3vm.problems.smooth import SmoothProblem

Row = dict[str, Any]

#: Name of a cluster -> parameters of `_cluster`.
_CLUSTERS: dict[str, dict[str, Any]] = {
    "actors, in-process worker, 2 threads": {"workers": 1, "threads": 2, "processes": False},
    "actors, 1 process x 2 threads": {"workers": 1, "threads": 2, "processes": True},
    "actors, 2 processes x 1 thread": {"workers": 2, "threads": 1, "processes": True},
}

_METHODS: dict[str, Any] = {"tsvm": TSVM, "da": DAS3VM, "qn": QNS3VM}
_DATA: dict[str, Any] = {"text": make_text, "intrusion": make_intrusion}


def measure_rounds(
    n_rows: int,
    repeat: int,
    dtype: str,
    columns: int = 47_236,
    nonzeros: int = 76,
    spread: str = "zipf",
) -> list[Row]:
    """Time X^T (X p) over sparse rows, by default of the shape of RCV1, in every engine.

    All rows are active. With spread "zipf" the rows are like text; with "uniform" every column is
    as frequent as any other.
    """
    make = make_text if spread == "zipf" else _uniform_rows
    lazy, labels = make(n_rows, columns, nonzeros, block="scipy", dtype=np.dtype(dtype))
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


def _uniform_rows(
    n_rows: int, columns: int, nonzeros: int, block: str, dtype: np.dtype
) -> tuple[da.Array, da.Array]:
    """Make rows whose entries are spread evenly over the columns, and labels by turns."""

    def chunk(block_info: Any = None) -> sp.csr_array:
        start, stop = block_info[None]["array-location"][0]
        rng = np.random.default_rng(start)
        # one entry in each of `nonzeros` equal ranges of columns, so that none occurs twice
        edges = np.linspace(0, columns, nonzeros + 1).astype(np.int64)
        shape = (stop - start, nonzeros)
        found = edges[:-1] + (rng.random(shape) * np.diff(edges)).astype(np.int64)
        pointers = np.arange(0, found.size + 1, nonzeros)
        data = rng.random(found.size).astype(dtype)
        return sp.csr_array((data, found.ravel(), pointers), (stop - start, columns))

    rows = tuple(map(len, np.array_split(np.arange(n_rows), -(-n_rows // 20_000))))
    meta = sp.csr_array((0, 0), dtype=dtype)
    X = da.map_blocks(chunk, chunks=(rows, (columns,)), dtype=dtype, meta=meta)
    return X, da.arange(n_rows, chunks=(rows,)) % 2


@contextmanager
def _cluster(workers: int, threads: int, processes: bool) -> Iterator[None]:
    with (
        dask.config.set({"s3vm.local-bytes": 0}),
        local_cluster(workers, threads, processes=processes, memory_limit=0),
    ):
        yield


def _kernel_seconds(X: Any, repeat: int) -> float:
    """Time the fused kernel alone on one block, laid out as in a shard."""
    block = make_block(X, narrow=False)
    order = plan.order_columns(plan.count_columns(block, min(X.shape[0], plan.ROWS_TO_COUNT)))
    rows = renumber_columns(opened(block.rows), plan.positions(order, block.n_features))
    pair = new_pair(rows, block.n_features)
    load_pair(rows, pair, np.ones(block.n_features + 1))
    active, cost = np.arange(X.shape[0], dtype=np.uint32), np.ones(X.shape[0])
    return best_of(lambda: passes.gram(rows, active, cost, pair, 1.0), repeat)


def _engine_seconds(X: Any, y: Any, repeat: int) -> float:
    """Time a Hessian product, including the client's part, all rows active."""
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


def measure_formula(n_rows: int, workers: tuple[int, ...], repeat: int) -> list[Row]:
    """Compare the time of a Gram product on W workers of one thread with its prediction.

    latency : a round that sends one number, returns one, and reads no row.
    payload : the additional time if a vector of length d is sent to and returned by every worker.
    pass : the Gram product on one thread of this process, divided by min(workers, cores).
    exchange : the same if workers exchange it; on one machine that only takes CPU time.
    predicted : latency + payload + pass.
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
                "exchange_ms": 1000 * max(0.0, seconds["exchange"] - seconds["latency"]),
                "pass_ms": 1000 * share,
                "predicted_ms": 1000 * predicted,
                "measured_ms": 1000 * seconds["whole"],
                "ratio": seconds["whole"] / predicted,
            }
        )
    return table


def _round_seconds(X: Any, y: Any, repeat: int) -> dict[str, float]:
    """Return the best times of an empty round, of one with a vector, and of a Gram product."""
    engine = ingest(X, y).place(np.array([0, 1], dtype=np.int8))
    try:
        p = np.ones(engine.layout.n_features + 1)
        problem = L2SVMProblem(engine, 1e-3, 1, np.ones(2))
        point = problem.evaluate(0 * p)
        with dask.config.set({"s3vm.exchange-bytes": 0}):
            exchange = best_of(lambda: engine.sum(_answer, p), repeat)
        return {
            "exchange": exchange,
            "latency": best_of(lambda: engine.sum(_answer, p[:1]), repeat),
            "payload": best_of(lambda: engine.sum(_answer, p), repeat),
            "whole": best_of(lambda: problem.hessian_product(point, p), repeat),
        }
    finally:
        engine.close()


def _answer(shard: Shard, p: np.ndarray) -> tuple[np.ndarray]:
    """Return the argument; a copy, as partial sums are added in place."""
    return (p.copy(),)


def measure_l2svm(n_rows: int, lams: Sequence[float], gap: float) -> list[Row]:
    """Time L2SVM and liblinear to a relative gap of the objective, on text-like labeled rows.

    Both get the rows in memory, as scipy CSR.
    """
    lazy, labels = make_text(n_rows, block="scipy", random_state=0)
    X, y = dask.compute(lazy, labels, scheduler="threads")
    unit = unit_seconds(X, 5)
    L2SVM(max_iter=2, tol=1.0).fit(X[:1000], y[:1000])  # compiles
    return [_compare(X, y, lam, gap, unit) for lam in lams]


def _compare(X: Any, y: np.ndarray, lam: float, gap: float, unit: float) -> Row:
    best = float(L2SVM(lam=lam, tol=1e-13, max_iter=1000).fit(X, y).objective_)
    ours = min((_ours(X, y, lam, gap) for _ in range(3)), key=lambda run: run["seconds"])
    theirs = _liblinear(X, y, lam, gap, best)
    return {
        "rows": X.shape[0],
        "lam": lam,
        "L2SVM_s": ours["seconds"],
        "gap": ours["objective"] / best - 1.0,
        "liblinear_s": theirs["seconds"],
        "their_gap": theirs["objective"] / best - 1.0,
        "times_faster": theirs["seconds"] / ours["seconds"],
        "L2SVM_units": ours["seconds"] / unit,
    }


def _ours(X: Any, y: np.ndarray, lam: float, gap: float) -> Row:
    began = time.perf_counter()
    model = L2SVM(lam=lam, tol=gap).fit(X, y)
    return {"seconds": time.perf_counter() - began, "objective": model.objective_}


def _liblinear(X: Any, y: np.ndarray, lam: float, gap: float, best: float) -> Row:
    """Time liblinear at the loosest tolerance that reaches the gap, which favors liblinear."""
    run: Row = {}
    for tol in np.geomspace(1e-1, 1e-8, 15):
        solver = LinearSVC(
            loss="squared_hinge", dual=False, C=1.0 / (2.0 * lam * len(y)), tol=tol, max_iter=5000
        )
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solver.fit(X, y)
        run = {
            "seconds": time.perf_counter() - began,
            "objective": _objective(X, y, lam, solver.coef_[0], solver.intercept_[0]),
        }
        if run["objective"] <= best * (1.0 + gap):
            break
    return run


def _objective(X: Any, y: np.ndarray, lam: float, w: np.ndarray, b: float) -> float:
    slack = np.maximum(0.0, 1.0 - np.where(y > 0, 1.0, -1.0) * (X @ w + b))
    return float(0.5 * np.mean(slack**2) + 0.5 * lam * (w @ w + b * b))


def measure_transductive(
    method: str, data: str, n_rows: int, n_labels: int, lam: float
) -> dict[str, Any]:
    """Time a semi-supervised fit on generated rows, few of them labeled, in memory as scipy CSR."""
    lazy, classes = _DATA[data](n_rows, block="scipy", random_state=0)
    X, y = dask.compute(lazy, classes, scheduler="threads")
    few = hide_labels(y, n_labels, random_state=0)
    unit = unit_seconds(X, 5)
    model = _METHODS[method](lam=lam, positive_ratio=float(y.mean()))
    model.fit(X[:500], hide_labels(y[:500], 50))  # compiles
    began = time.perf_counter()
    model.fit(X, few)
    seconds = time.perf_counter() - began
    hidden = few == -1
    steps: dict[str, float] = {"iterations": model.n_iter_}
    if method == "qn":
        steps |= {"evaluations": len(model.history_), **measure_evaluation(X, few, unit)}
    else:
        steps["cg"] = sum(row["cg_steps"] for row in model.history_)
        steps["evaluations"] = sum(row.get("evaluations", 0) for row in model.history_)
    return {
        "rows": n_rows,
        "labels": n_labels,
        "seconds": seconds,
        "units": seconds / unit,
        "rounds": model.n_rounds_,
        **steps,
        "objective": model.objective_,
        "error_%": 100.0 * float((model.predict(X)[hidden] != y[hidden]).mean()),
    }


def measure_evaluation(X: Any, y: np.ndarray, unit: float, repeat: int = 7) -> dict[str, float]:
    """Time one evaluation of QN-S3VM, in units and in fused passes.

    A fused pass is a Gram product X^T (X p) over all rows.
    """
    n_free = int((y < 0).sum())
    costs = np.full(2, 1.0 / (len(y) - n_free))
    # with all rows labeled, at w = 0, every row is active in the Gram product
    everything = ingest(X, np.arange(len(y)) % 2).place(np.array([0, 1]))
    engine = ingest(X, y).place(np.array([0, 1]))
    try:
        p = np.ones(engine.layout.n_features + 1)
        l2svm = L2SVMProblem(everything, 1.0, 1, costs)
        point = l2svm.evaluate(np.zeros_like(p))
        problem = SmoothProblem(engine, 1.0, 1, costs, float(n_free), "balanced")
        x = np.full(problem.size, 1e-3)
        fused = best_of(lambda: l2svm.hessian_product(point, p), repeat)
        evaluation = best_of(lambda: problem.evaluate(x, 1.0), repeat)
    finally:
        everything.close()
        engine.close()
    return {"units_per_evaluation": evaluation / unit, "fused_passes": evaluation / fused}


def best_of(run: Callable[[], Any], repeat: int) -> float:
    """Return the seconds of the fastest of `repeat` runs, after a warm-up run."""
    run()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def unit_seconds(X: Any, repeat: int) -> float:
    """Return the seconds of one unit: scipy's X @ v and X.T @ u on one thread."""
    v, u = np.ones(X.shape[1]), np.ones(X.shape[0])
    return best_of(lambda: (X @ v, X.T @ u), repeat)
