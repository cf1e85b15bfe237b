"""The cost of a flip: the shortcut of S2RLSC against the naive fitness.

Figure 8 of Gieseke et al.: G2C rows, linear kernel, lam = lam' = 1, (1+1)-EA, 50 restarts. The
shortcut is the search of this package, including preprocessing. The naive way computes eq. 12 and
10 with the n x n matrix G for every flip, O(n^2). That would take hours, so it is timed on some
flips and multiplied by the number of flips of the search (marked ~), plus its O(n^3) preprocessing.
"""

import time

import dask
import numpy as np

from dask_s3vm import S2RLSC
from dask_s3vm.datasets import hide_labels, make_g2c


def naive(X, y, known, flips):
    """Return the seconds of preprocessing, and of one fitness by eq. 12 and 10."""
    began = time.perf_counter()
    A = np.column_stack([X, np.ones(len(X))])
    K = A @ A.T
    D = np.sqrt(np.where(known, 1 / known.sum(), 1 / (~known).sum()))
    G = np.linalg.inv(D[:, None] * K * D + np.eye(len(X)))
    prepared = time.perf_counter() - began
    began = time.perf_counter()
    for j in np.random.default_rng(0).integers(0, len(X), flips):
        y[j] = -y[j]
        c = D * (G @ (D * y))
        Kc = K @ c
        residual = D * (y - Kc)
        value = residual @ residual + c @ Kc
        y[j] = -y[j]
    assert value > 0
    return prepared, (time.perf_counter() - began) / flips


def against_naive(sizes, restarts):
    """Return the rows of Figure 8: n, seconds of the shortcut, seconds of the naive way."""
    table = []
    for n in sizes:
        X, y = dask.compute(*make_g2c(n, 500))
        part = hide_labels(y, max(4, n // 10))
        model = S2RLSC(
            lam=1.0,
            n_restarts=restarts,
            population=(1, 1),
            balance="paper",
            positive_ratio=0.5,
            random_state=0,
        )
        seconds = np.inf
        for _ in range(2):  # the first one compiles
            began = time.perf_counter()
            model.fit(X, part)
            seconds = min(seconds, time.perf_counter() - began)
        flips = sum(row["flips"] for row in model.history_)
        prepared, one = naive(X, 2.0 * y - 1, part >= 0, flips=20 if n > 500 else 100)
        table.append((n, seconds, prepared + one * flips))
        print(
            f"n {n:5d}  shortcut {seconds:8.3f} s  naive ~{table[-1][2]:10.1f} s  ratio "
            f"{table[-1][2] / seconds:8.0f}  ({flips:,} flips; one: "
            f"{1e9 * sum(row['seconds'] for row in model.history_) / flips:.0f} ns and "
            f"{1e6 * one:.0f} us)"
        )
    return table
