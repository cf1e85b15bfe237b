"""Semi-supervised training on dense rows with an RBF kernel, 1000 of them labeled.

python examples/train_dense.py                                    # two clusters, 60,000 x 784
python examples/train_dense.py --file mnist.npz --classes 3,8     # X (n, d) and y from a file
python examples/train_dense.py --methods qn --n-components 2000   # one method, more landmarks
python examples/train_dense.py --kernel linear --rows 5000        # smaller, and without a kernel
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from compare import compare_methods, parse

from dask_s3vm.datasets import make_g2c


def read(path, classes, n_rows):
    """Return rows of two classes, divided by the largest value; the second class is 1."""
    first, second = (int(name) for name in classes.split(","))
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    rows = np.flatnonzero((y == first) | (y == second))[:n_rows]
    return X[rows].astype(np.float32) / float(X.max()), (y[rows] == second).astype(int)


if __name__ == "__main__":
    sys.argv[1:1] = ["--kernel", "rbf", "--lam", "0.01"]  # the command line overrides these
    args = parse(
        __doc__, rows=60_000, file="npz file with X and y", classes="the two classes, such as 3,8"
    )
    if args.file:
        compare_methods(read(args.file, args.classes or "0,1", args.rows), args)
    else:
        compare_methods(make_g2c(args.rows, 784), args)
