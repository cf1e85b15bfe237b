"""Show how many labels, and how many unlabelled rows, does it take (Gieseke et al., Figure 5).

Four clusters of which two and two are a class (G4C). Half of the rows are for training; first the
share of them that is labelled varies, the others being unlabelled; then a fifth is labelled and
the share of unlabelled rows varies. Error on the other half, mean over random draws.

python examples/share_of_labels.py                    # a table; with matplotlib also a picture
python examples/share_of_labels.py --output shares.png --repeat 10
python examples/share_of_labels.py --rows 200 --features 50 --repeat 2    # quick
"""

import argparse
import warnings

import dask
import numpy as np

from dask_s3vm import L2SVM, QNS3VM
from dask_s3vm.datasets import make_g4c

SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FIXED = 0.2


def errors(X, y, n_labelled, n_unlabelled, lam, seed):
    """Test errors of the supervised and the semi-supervised method for one draw of the rows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    half = len(y) // 2
    train, test = order[:half], order[half:]
    first = [train[y[train] == k][0] for k in (0, 1)]  # a label of either class at least
    train = np.concatenate([first, train[~np.isin(train, first)]])
    used = train[: n_labelled + n_unlabelled]
    labels = np.where(np.arange(len(used)) < n_labelled, y[used], -1)
    models = L2SVM(lam), QNS3VM(lam, positive_ratio=0.5)
    return [(model.fit(X[used], labels).predict(X[test]) != y[test]).mean() for model in models]


def sweep(args, which):
    """(mean, standard deviation) of both methods' errors for every share, in percent."""
    half, found = args.rows // 2, []
    for share in SHARES:
        runs = []
        for seed in range(args.repeat):
            X, y = dask.compute(*make_g4c(args.rows, args.features, random_state=seed))
            part = max(2, round(share * half))
            fixed = round(FIXED * half)
            sizes = (part, half - part) if which == "labelled" else (fixed, part)
            runs.append(errors(X, y, *sizes, args.lam, seed))
        found.append((100 * np.mean(runs, axis=0), 100 * np.std(runs, axis=0)))
        line = [f"{m:5.1f} +- {d:4.1f}" for m, d in zip(*found[-1], strict=True)]
        print(f"{100 * share:4.0f} % {which}   L2SVM {line[0]}   QNS3VM {line[1]}")
    return found


def draw(curves, path):
    """Save the picture, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed (pip install dask-s3vm[plot])")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True)
    for axis, (which, found) in zip(axes, curves.items(), strict=True):
        for number, name in enumerate(("L2SVM", "QNS3VM")):
            means, spreads = (np.array([row[part][number] for row in found]) for part in (0, 1))
            axis.errorbar(100 * np.array(SHARES), means, spreads, marker="o", capsize=3, label=name)
        axis.set_xlabel(f"{which} rows, % of the training set")
        axis.legend()
    axes[0].set_ylabel("test error, %")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--lam", type=float, default=1e-3)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", default="share_of_labels.png")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that collapse, which is what is looked at here
    draw({which: sweep(args, which) for which in ("labelled", "unlabelled")}, args.output)
