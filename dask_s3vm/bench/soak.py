"""Many fits in a row on one cluster: memory is to stay flat."""

import gc
import os
from typing import Any

import dask
import numpy as np
import psutil

from dask_s3vm.bench.safety import worker_processes
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.estimators import L2SVM, QPS3VM, S2RLSC, TSVM

Row = dict[str, Any]

#: Fits at the beginning in which kernels are compiled and pools of memory fill.
WARM_UP = 0.25

#: Growth per hundred fits, in parts of the memory held, below which memory counts as flat.
FLAT = 0.01


def measure_soak(n_fits: int, n_rows: int) -> list[Row]:
    """Fit four methods in turn; resident memory of each process after every fit, and its slope.

    The scheduler of a local cluster lives in this process, with the client.
    """
    X, y = make_text(n_rows, 2000, block="scipy", chunks=max(n_rows // 4, 1), random_state=0)
    few = hide_labels(np.asarray(y.compute(scheduler="threads")), 100, random_state=0)
    small, labels = np.asarray(np.random.default_rng(0).random((400, 10))), few[:400]
    methods = [
        lambda: L2SVM().fit(X, y),
        lambda: TSVM(lam=1e-2, positive_ratio=0.5).fit(X, few),
        lambda: QPS3VM(positive_ratio=0.5).fit(X, few),
        lambda: S2RLSC(lam=0.1, n_restarts=4, positive_ratio=0.5, random_state=0).fit(
            small, labels
        ),
    ]
    with dask.config.set({"s3vm.shard-bytes": "256 KiB"}), worker_processes(2) as client:
        pids = {"client and scheduler": os.getpid()}
        for number, pid in enumerate(client.run(os.getpid).values()):
            pids[f"worker {number}"] = pid
        memory = np.empty((n_fits, len(pids)))
        for fit in range(n_fits):
            methods[fit % len(methods)]()
            gc.collect()
            memory[fit] = [psutil.Process(pid).memory_info().rss for pid in pids.values()]
        left = {
            "tasks": client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)),
            "futures": len(client.futures),
        }
    return [_row(name, memory[:, i] / 2**20, left) for i, name in enumerate(pids)]


def _row(name: str, mib: np.ndarray, left: dict[str, int]) -> Row:
    """A line through the resident memory after the warm-up, by least squares."""
    later = mib[int(WARM_UP * len(mib)) :]
    x = np.arange(len(later)) - 0.5 * (len(later) - 1)
    slope = float(x @ later / (x @ x))
    rest = later - later.mean() - slope * x
    error = float(np.sqrt(rest @ rest / max(len(later) - 2, 1) / (x @ x)))
    growth = 100.0 * slope
    return {
        "process": name,
        "fits": len(mib),
        "first_MiB": mib[0],
        "warm_MiB": later[0],
        "last_MiB": mib[-1],
        "MiB_per_100_fits": growth,
        "standard_error": 100.0 * error,
        "flat": "yes" if growth < FLAT * later.mean() or slope < 2.0 * error else "no",
        **left,
    }
