"""The cost of a flip: the shortcut against the naive fitness, and flips per second over r.

Figure 8 of Gieseke et al.: G2C rows, linear kernel, lam = lam' = 1, (1+1)-EA, 50 restarts. The
shortcut is the search of this package, including preprocessing. The naive way computes eq. 12 and
10 with the n x n matrix G for every flip, O(n^2). That would take hours, so it is timed on some
flips and multiplied by the number of flips of the search (marked ~), plus its O(n^3) preprocessing.

python examples/papers/flip_cost.py                      # n = 100 .. 2000
python examples/papers/flip_cost.py --most 1000 --plot flips.png
"""

import argparse
import time

import dask
import numpy as np

from dask_s3vm import S2RLSC
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.problems.label_search import Factor, Task, restart, window_of


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


def against_r(n, sizes):
    """Measure the cost of a flip over r, on one thread, with a given factor."""
    rng = np.random.default_rng(0)
    table = []
    for r in sizes:
        for dtype in ("float64", "float32"):
            cells = [r, dtype]
            G = rng.normal(size=(n, r)) / n
            G[:, 0] += np.where(np.arange(n) % 2, 2.5, -2.5) / n
            factor = Factor.of(G.astype(dtype))
            task = Task(np.zeros(r), window_of(n, 0.5, 0.1), 10.0)
            for population in ((1, 1), (5, 25)):
                restart(factor, task, population, 0)
                found = [restart(factor, task, population, seed) for seed in range(3)]
                cells.append(min(1e9 * one.seconds / one.flips for one in found))
            table.append(cells)
            print(
                f"r {r:5d} {dtype}  in turn {cells[2]:7.1f} ns ({1e9 / cells[2]:12,.0f} flips/s)  "
                f"population {cells[3]:7.1f} ns ({1e9 / cells[3]:12,.0f} flips/s)"
            )
    return table


def plot(path, naive_table, r_table):
    """Draw both tables, if matplotlib is installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    n, shortcut, slow = np.array(naive_table).T
    left.loglog(n, slow, "o--", label="naive (extrapolated)")
    left.loglog(n, shortcut, "o-", label="shortcut")
    left.set(xlabel="n", ylabel="seconds, 50 restarts")
    for dtype in ("float64", "float32"):
        rows = [row for row in r_table if row[1] == dtype]
        right.loglog([row[0] for row in rows], [row[2] for row in rows], "o-", label=dtype)
    right.set(xlabel="r", ylabel="ns per flip, in turn")
    left.legend()
    right.legend()
    figure.tight_layout()
    figure.savefig(path)
    print(f"drawn: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=2000, help="largest n")
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--rows", type=int, default=5000, help="rows of the second table")
    parser.add_argument("--plot", help="file to draw to")
    args = parser.parse_args()
    sizes = [n for n in (100, 200, 500, 1000, 1500, 2000) if n <= args.most]
    naive_table = against_naive(sizes, args.restarts)
    r_table = against_r(args.rows, (10, 30, 100, 300, 1000))
    if args.plot:
        plot(args.plot, naive_table, r_table)
