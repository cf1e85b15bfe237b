"""The restart pool: the time of 50 restarts on 1, 2, ... workers, and of one restart.

Rows of two overlapping Gaussians with r = --components columns, linear kernel. Each worker gets the
factor once; a restart is a task.

python examples/papers/restart_pool.py                            # 5,000 rows, 1 and 2 workers
python examples/papers/restart_pool.py --rows 1000000 --restarts 4 --population 1 1
python examples/papers/restart_pool.py --rows 1000000 --restarts 4 --sharded yes
"""

import argparse
import time

import dask
import numpy as np
from dask.distributed import Client, LocalCluster

from dask_s3vm import S2RLSC
from dask_s3vm.datasets import hide_labels, make_g2c


def measure(model, X, part, y, workers):
    """Fit on a cluster of `workers` workers, and print the times."""
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        warm = S2RLSC(**model.get_params() | {"n_restarts": workers})
        few = min(2000, len(y))
        warm.fit(X[:few], np.where(np.arange(few) < 50, y[:few], -1))  # compiles
        began = time.perf_counter()
        first = []
        model.set_params(callbacks=lambda row: first.append(time.perf_counter()))
        model.fit(X, part)
        seconds = time.perf_counter() - began
        wrong = float((np.asarray(model.transduction_) != y).mean())
    own = [row["seconds"] for row in model.history_]
    flips = sum(row["flips"] for row in model.history_)
    searching = first[-1] - first[0] + own[0]
    print(
        f"{workers} worker(s): {seconds:.2f} s in all, restarts {searching:.2f} s;"
        f" one restart {np.median(own):.3f} s, {1e9 * sum(own) / flips:.0f} ns a flip; "
        f"fitness {model.objective_:.9f}, error {100 * wrong:.2f} %",
        flush=True,
    )
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--components", type=int, default=100)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--population", type=int, nargs=2, default=(5, 25))
    parser.add_argument("--sharded", choices=["auto", "yes", "no"], default="auto")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    X, y = make_g2c(args.rows, args.components)
    part = hide_labels(y, args.labels).compute()
    y = y.compute()
    if args.rows <= 100_000:
        X = X.compute()
    with dask.config.set({"s3vm.local-bytes": "256 MiB"}):
        for workers in args.workers:
            model = S2RLSC(
                lam=1.0,
                n_restarts=args.restarts,
                population=tuple(args.population),
                sharded={"yes": True, "no": False}.get(args.sharded, "auto"),
                dtype=args.dtype,
                balance="paper",
                positive_ratio=0.5,
                random_state=0,
            )
            measure(model, X, part, y, workers)
