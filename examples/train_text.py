"""Train a linear SVM on text-like rows of the shape of full RCV1.

python examples/train_text.py                            # a local cluster
python examples/train_text.py --scheduler tcp://host:8786
python examples/train_text.py --rows 20000               # smaller
"""

import argparse
import time

from dask.distributed import Client, LocalCluster

from dask_s3vm import L2SVM
from dask_s3vm.datasets import make_text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheduler", help="address of a dask scheduler")
    parser.add_argument("--rows", type=int, default=804_414)
    parser.add_argument("--lam", type=float, default=1e-4)
    args = parser.parse_args()

    where = args.scheduler or LocalCluster(dashboard_address=":0")
    with Client(where) as client:
        print(client)
        X, y = make_text(args.rows)
        began = time.perf_counter()
        model = L2SVM(lam=args.lam, verbose=True).fit(X, y)
        print(f"trained in {time.perf_counter() - began:.1f} s, objective {model.objective_:.8g}")
        test, truth = make_text(20_000, random_state=0)
        wrong = (model.predict(test) != truth).mean().compute()
        print(f"error on the first 20,000 rows: {100 * wrong:.2f} %")


if __name__ == "__main__":
    main()
