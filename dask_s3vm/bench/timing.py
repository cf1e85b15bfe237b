"""How things are timed, and the unit in which they are told."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def best_of(run: Callable[[], Any], repeat: int) -> float:
    """Seconds of the fastest of `repeat` runs, after one that warms up."""
    run()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def unit_seconds(X: Any, repeat: int) -> float:
    """Seconds of one unit: scipy's X @ v and X.T @ u on one thread."""
    v, u = np.ones(X.shape[1]), np.ones(X.shape[0])
    return best_of(lambda: (X @ v, X.T @ u), repeat)
