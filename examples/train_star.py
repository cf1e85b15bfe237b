"""Self-training at scale: STARSVM beside L2SVM and TSVM on text-like rows, 1000 of them labelled.

python examples/train_star.py                            # a local cluster
python examples/train_star.py --scheduler tcp://host:8786
python examples/train_star.py --rows 20000               # smaller
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compare import parse
from dask.distributed import Client, LocalCluster

from dask_s3vm import L2SVM, STARSVM, TSVM
from dask_s3vm.datasets import hide_labels, make_text


def main():
    args = parse(__doc__, rows=804_414)
    X, y = make_text(args.rows)
    with Client(args.scheduler or LocalCluster(dashboard_address=":0")) as client:
        print(client)
        few = hide_labels(y, min(args.labels, args.rows // 2))
        ratio = float(y.mean().compute())
        star = {"kernel": "linear", "verbose": args.verbose}
        for model in (
            L2SVM(lam=args.lam, verbose=args.verbose),
            TSVM(lam=args.lam, positive_ratio=ratio, verbose=args.verbose),
            STARSVM(C=1.0, confidence=0.7, **star),
            STARSVM(C=1.0, confidence=0.9, **star),
        ):
            began = time.perf_counter()
            model.fit(X, few)
            seconds = time.perf_counter() - began
            wrong = float((model.predict(X) != y).mean().compute())
            name = type(model).__name__ + str(getattr(model, "confidence", ""))
            print(
                f"{name:11s} error {100 * wrong:6.2f} %  objective {model.objective_:.6g}  "
                f"{model.n_rounds_} rounds  {seconds:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
