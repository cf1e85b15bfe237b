"""What one evaluation of QN-S3VM costs, against the bare fused pass over the same rows."""

from typing import Any

import numpy as np

from dask_s3vm.bench.timing import best_of
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.l2svm import L2SVMProblem
from dask_s3vm.problems.smooth import SmoothProblem


def measure_evaluation(X: Any, y: np.ndarray, unit: float, repeat: int = 7) -> dict[str, float]:
    """Units of one evaluation, and how many Gram products X^T (X p) over all rows that is."""
    n_free = int((y < 0).sum())
    costs = np.full(2, 1.0 / (len(y) - n_free))
    # all rows labeled and at w = 0: every row is active in the Gram product
    everything = ingest(X, np.arange(len(y)) % 2).place(np.array([0, 1]))
    engine = ingest(X, y).place(np.array([0, 1]))
    try:
        p = np.ones(X.shape[1] + 1)
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
