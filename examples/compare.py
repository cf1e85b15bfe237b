"""What the training examples share: options, a cluster, and a table of the three methods."""

import argparse
import time

from dask.distributed import Client, LocalCluster

from dask_s3vm import DAS3VM, L2SVM, TSVM
from dask_s3vm.datasets import hide_labels


def parse(description, rows):
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scheduler", help="address of a dask scheduler")
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--lam", type=float, default=1e-3)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def compare_methods(data, args):
    """Train the supervised SVM, TSVM and DA on the same few labels."""
    X, y = data
    with Client(args.scheduler or LocalCluster(dashboard_address=":0")) as client:
        print(client)
        few = hide_labels(y, min(args.labels, args.rows // 2))
        ratio = float(y.mean().compute())
        for model in (
            L2SVM(lam=args.lam, verbose=args.verbose),
            TSVM(lam=args.lam, positive_ratio=ratio, verbose=args.verbose),
            DAS3VM(lam=args.lam, positive_ratio=ratio, verbose=args.verbose),
        ):
            began = time.perf_counter()
            model.fit(X, few)
            seconds = time.perf_counter() - began
            wrong = float((model.predict(X) != y).mean().compute())
            steps = sum(row["cg_steps"] for row in model.history_)
            print(
                f"{type(model).__name__:7s} error {100 * wrong:6.2f} %  objective "
                f"{model.objective_:.6f}  {steps} CG steps  {seconds:.1f} s"
            )
