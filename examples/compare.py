"""Common parts of the training examples: options, a cluster, and a comparison of methods."""

import argparse
import time

import dask
from dask.distributed import Client, LocalCluster

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, QPS3VM, STARSVM, TSVM, SubmodularS3VM
from dask_s3vm.datasets import hide_labels

METHODS = {
    "l2svm": L2SVM,
    "tsvm": TSVM,
    "da": DAS3VM,
    "qn": QNS3VM,
    "qp": QPS3VM,
    "sqp": SubmodularS3VM,
    "star": STARSVM,
}


def parse(description, rows, files=None, **more):
    """Parse the command line.

    `files` is the help text of the argument of files, if the example reads any; `more` are further
    options of the example, with their help texts.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if files:
        parser.add_argument("files", nargs="*", help=files)
    parser.add_argument(
        "--scheduler", help="address of a dask scheduler [default: a local cluster]"
    )
    parser.add_argument(
        "--rows", type=int, default=rows, help=f"number of rows [default: {rows:,}]"
    )
    parser.add_argument("--labels", type=int, default=1000, help="labeled rows [default: 1000]")
    parser.add_argument("--lam", type=float, default=1e-3, help="regularization [default: 1e-3]")
    parser.add_argument(
        "--lam-unlabeled", type=float, default=1.0, help="weight of unlabeled rows [default: 1]"
    )
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=["l2svm", "tsvm", "da", "qn"]
    )
    parser.add_argument("--kernel", default="linear")
    parser.add_argument("--n-components", type=int, default=500, help="landmarks of the kernel")
    parser.add_argument("--sigma", type=float, help="width of the rbf kernel")
    parser.add_argument("--verbose", action="store_true")
    for name, text in more.items():
        parser.add_argument(f"--{name}", help=text)
    return parser.parse_args()


def compare_methods(data, args):
    """Train the methods on the same few labels; `data` is (X, y), or a function that returns it."""
    with Client(args.scheduler or LocalCluster(dashboard_address=":0")) as client:
        print(client)
        X, y = data() if callable(data) else data
        print(f"{X.shape[0]:,} rows x {X.shape[1]:,} features")
        few = hide_labels(y, min(args.labels, X.shape[0] // 2))
        (ratio,) = dask.compute(y.mean())
        for name in args.methods:
            model = METHODS[name](**parameters(name, args, float(ratio)))
            began = time.perf_counter()
            model.fit(X, few)
            seconds = time.perf_counter() - began
            (wrong,) = dask.compute((model.predict(X) != y).mean())
            print(
                f"{type(model).__name__:14s} error {100 * wrong:6.2f} %  objective "
                f"{model.objective_:.6g}  {model.n_rounds_} rounds  {seconds:.1f} s",
                flush=True,
            )


def parameters(name, args, ratio):
    """Return the parameters of an estimator."""
    chosen = {"verbose": args.verbose, "kernel": args.kernel}
    if name != "l2svm":
        chosen |= {"positive_ratio": ratio}
    if name in ("l2svm", "tsvm", "da", "qn"):
        chosen |= {"lam": args.lam}
    if name in ("tsvm", "da", "qn"):
        chosen |= {"lam_unlabeled": args.lam_unlabeled}
    if args.kernel != "linear":
        chosen |= {"n_components": args.n_components, "random_state": 0}
        chosen |= {"sigma": args.sigma} if args.sigma else {}
    return chosen
