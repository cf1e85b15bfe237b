"""What a semi-supervised fit costs, in units of scipy's two products on the same rows."""

import time
from typing import Any

import dask

from dask_s3vm.bench.qn import measure_evaluation
from dask_s3vm.bench.timing import unit_seconds
from dask_s3vm.datasets import hide_labels, make_intrusion, make_text
from dask_s3vm.estimators import DAS3VM, QNS3VM, TSVM

_METHODS: dict[str, Any] = {"tsvm": TSVM, "da": DAS3VM, "qn": QNS3VM}
_DATA: dict[str, Any] = {"text": make_text, "intrusion": make_intrusion}


def measure_transductive(
    method: str, data: str, n_rows: int, n_labels: int, lam: float
) -> dict[str, Any]:
    """Train on generated rows of which few are labeled; rows are in memory, as scipy CSR."""
    lazy, classes = _DATA[data](n_rows, block="scipy", random_state=0)
    X, y = dask.compute(lazy, classes, scheduler="threads")
    few = hide_labels(y, n_labels, random_state=0)
    unit = unit_seconds(X, 5)
    model = _METHODS[method](lam=lam, positive_ratio=float(y.mean()))
    model.fit(X[:500], hide_labels(y[:500], 50))  # compile
    began = time.perf_counter()
    model.fit(X, few)
    seconds = time.perf_counter() - began
    hidden = few == -1
    steps: dict[str, float] = {"newton": model.n_iter_}
    if method == "qn":
        steps = {"evaluations": model.n_iter_, **measure_evaluation(X, few, unit)}
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
