"""Tables 2 and 3 of Gieseke et al.: test errors of RLSC and S2RLSC over random splits.

Linear kernel; lam of 2^-10 .. 2^10, lam' of 0.1 and 1, 10 restarts to choose them, 50 for the
final model. Table 2 ("non-realistic"): parameters are chosen by the test error, the balance is the
true one, its tolerance 0.1. Table 3 ("realistic"): 5-fold cross-validation on the labelled rows,
the balance of these, 0.2. In brackets: RLSC with the labels of all training rows. Real data is
looked for in --data (or DASK_S3VM_DATA); sets that are not there are skipped.

python examples/table_s2rlsc.py                          # some rows, every other lam
python examples/table_s2rlsc.py --sets all --full        # all rows as in the paper
python examples/table_s2rlsc.py --sets "USPS (2, 5)" --splits 3
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import dask
import numpy as np
from sklearn.model_selection import StratifiedKFold

from dask_s3vm import S2RLSC, rlsc_path, s2rlsc_path
from dask_s3vm.datasets import make_g2c, make_g4c

#: (set, l, u, t) -> errors of the paper in %: RLSC and S2RLSC of Table 2, of Table 3.
PAPER = {
    ("Gaussian2C", 25, 225, 250): (10.6, 0.8, 11.4, 3.3),
    ("Gaussian2C", 50, 200, 250): (4.9, 0.8, 5.3, 2.4),
    ("Gaussian4C", 25, 225, 250): (16.1, 16.4, 16.5, 22.4),
    ("Gaussian4C", 50, 200, 250): (6.1, 1.0, 6.5, 3.2),
    ("COIL (3, 6)", 14, 101, 29): (14.5, 5.1, 15.5, 10.7),
    ("COIL (3, 6)", 28, 87, 29): (4.1, 0.0, 6.2, 1.7),
    ("COIL (5, 9)", 14, 101, 29): (13.1, 1.7, 16.2, 15.5),
    ("COIL (5, 9)", 28, 87, 29): (3.1, 0.0, 4.5, 2.8),
    ("COIL (6, 19)", 14, 101, 29): (10.0, 0.3, 13.4, 4.8),
    ("COIL (6, 19)", 28, 87, 29): (2.4, 1.0, 3.8, 1.7),
    ("COIL (18, 19)", 14, 101, 29): (10.0, 2.1, 10.7, 13.1),
    ("COIL (18, 19)", 28, 87, 29): (3.4, 0.0, 3.8, 1.4),
    ("USPS (2, 5)", 16, 806, 823): (7.9, 4.6, 9.3, 13.7),
    ("USPS (2, 5)", 32, 790, 823): (4.4, 3.7, 5.8, 5.0),
    ("USPS (2, 7)", 17, 843, 861): (3.6, 1.0, 4.0, 4.0),
    ("USPS (2, 7)", 34, 826, 861): (2.2, 1.0, 3.1, 1.3),
    ("USPS (3, 8)", 15, 751, 766): (9.8, 4.5, 11.0, 13.4),
    ("USPS (3, 8)", 30, 736, 766): (6.3, 4.3, 7.7, 7.2),
    ("USPS (8, 0)", 22, 1108, 1131): (4.8, 1.2, 6.6, 2.7),
    ("USPS (8, 0)", 45, 1085, 1131): (2.6, 1.2, 3.3, 2.0),
    ("MNIST (1, 7)", 10, 490, 500): (4.5, 2.0, 5.4, 9.2),
    ("MNIST (1, 7)", 20, 480, 500): (2.7, 1.9, 3.9, 2.7),
    ("MNIST (2, 5)", 10, 490, 500): (14.9, 4.7, 17.4, 26.0),
    ("MNIST (2, 5)", 20, 480, 500): (7.7, 3.4, 9.2, 10.1),
    ("MNIST (2, 7)", 10, 490, 500): (8.7, 3.1, 10.2, 17.8),
    ("MNIST (2, 7)", 20, 480, 500): (5.6, 3.0, 6.6, 6.8),
    ("MNIST (3, 8)", 10, 490, 500): (19.4, 8.3, 21.3, 28.6),
    ("MNIST (3, 8)", 20, 480, 500): (13.7, 7.7, 18.4, 11.7),
}
SOME = ["Gaussian2C", "Gaussian4C", "COIL (3, 6)", "COIL (6, 19)", "USPS (2, 5)", "MNIST (1, 7)"]


def load(name, folder):
    """Rows and labels 0 and 1 of a set, or None if its file is not there."""
    if name.startswith("Gaussian"):
        make = make_g2c if name == "Gaussian2C" else make_g4c
        return dask.compute(*make(500, 500))
    kind, pair = name.split(" ", 1)
    pair = [int(number) for number in pair.strip("()").split(",")]
    file = {"COIL": "coil_6obj_128x128.npz", "USPS": "usps.npz", "MNIST": "mnist.npz"}[kind]
    if not (folder / file).exists():
        return None
    with np.load(folder / file) as stored:
        X, y = stored["X20" if kind == "COIL" else "X"], stored["y"]
    chosen = np.flatnonzero(np.isin(y, pair))
    if kind == "MNIST":
        chosen = chosen[:1000]
    X = X[chosen].astype(np.float64)
    if X.ndim > 2:
        X = X.reshape(len(X), -1)
    X = (X - X.min()) / (X.max() - X.min())
    return X, (y[chosen] == pair[0]).astype(int)


def split(y, sizes, seed):
    """Row numbers of a random labelled, unlabelled and test part; both classes are labelled."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(y))
        parts = np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])
        counts = np.bincount(y[parts[0]], minlength=2)
        if counts.min() >= 2:
            return parts


def error(model, X, y):
    return float(np.mean(model.predict(X) != y))


class Grid:
    """All models of the grid on one training set."""

    def __init__(self, args):
        step = 1 if args.full else 2
        self.lams = 2.0 ** np.arange(-10, 11, step)
        self.search = {
            "n_restarts": 10,
            "population": (5, 25) if args.full else (1, 1),
            "fit_intercept": args.bias,
        }
        self.bias = args.bias

    def supervised(self, X, y):
        """RLSC by lam."""
        models = rlsc_path(X, y, self.lams, fit_intercept=self.bias)
        return dict(zip(self.lams, models, strict=True))

    def semi_supervised(self, X, part, ratio, tolerance):
        """S2RLSC by (lam, lam')."""
        return {
            (model.lam, weight): model
            for weight in (0.1, 1.0)
            for model in s2rlsc_path(
                X, part, self.lams, lam_unlabeled=weight, positive_ratio=ratio,
                balance_tol=tolerance, **self.search,
            )
        }  # fmt: skip


def best(scores):
    """Parameters of the smallest mean error, the first of several."""
    return min(scores, key=lambda key: np.mean(scores[key]))


def one_split(X, y, sizes, realistic, args, seed):
    """Test errors of RLSC, of S2RLSC, and of RLSC if all training rows had their labels."""
    grid = Grid(args)
    labelled, unlabelled, test = split(y, sizes, seed)
    rows = np.concatenate([labelled, unlabelled])
    part = np.concatenate([y[labelled], np.full(len(unlabelled), -1)])
    ratio = y[labelled].mean() if realistic else y.mean()
    tolerance = 0.2 if realistic else 0.1
    supervised, semi = {}, {}
    if realistic:
        n_folds = int(min(5, np.bincount(y[labelled]).min()))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        for train, held in folds.split(labelled, y[labelled]):
            inside = np.concatenate([train, np.arange(len(labelled), len(rows))])
            tried = (
                (supervised, grid.supervised(X[labelled[train]], y[labelled[train]])),
                (semi, grid.semi_supervised(X[rows[inside]], part[inside], ratio, tolerance)),
            )
            for scores, models in tried:
                for key, model in models.items():
                    own = error(model, X[labelled[held]], y[labelled[held]])
                    scores.setdefault(key, []).append(own)
        lam = best(supervised)
        final = rlsc_path(X[labelled], y[labelled], [lam], fit_intercept=args.bias)[0]
        lam, weight = best(semi)
    else:
        models = grid.supervised(X[labelled], y[labelled])
        supervised = {key: error(model, X[test], y[test]) for key, model in models.items()}
        final = models[best(supervised)]
        models = grid.semi_supervised(X[rows], part, ratio, tolerance)
        semi = {key: error(model, X[test], y[test]) for key, model in models.items()}
        lam, weight = best(semi)
    ours = S2RLSC(
        lam, weight, positive_ratio=ratio, balance_tol=tolerance, n_restarts=50,
        fit_intercept=args.bias,
    ).fit(X[rows], part)  # fmt: skip
    every = min(
        error(model, X[test], y[test]) for model in grid.supervised(X[rows], y[rows]).values()
    )
    return error(final, X[test], y[test]), error(ours, X[test], y[test]), every


def main(args):
    folder = Path(args.data)
    wanted = {name for name, *_ in PAPER} if args.sets == ["all"] else set(args.sets or SOME)
    tables = [("2, non-realistic", False, 0), ("3, realistic", True, 2)]
    for title, realistic, column in tables:
        if args.table and not title.startswith(args.table):
            continue
        print(f"\nTable {title}: mean error in % (paper) over {args.splits} splits")
        for (name, *sizes), paper in PAPER.items():
            if name not in wanted or (not args.sets and sizes[0] > 25 and name != "Gaussian4C"):
                continue
            data = load(name, folder)
            if data is None:
                print(f"{name:15s} skipped: no file in {folder}")
                continue
            began = time.perf_counter()
            found = 100 * np.array(
                [one_split(*data, sizes, realistic, args, seed) for seed in range(args.splits)]
            )
            means, deviations = found.mean(axis=0), found.std(axis=0)
            print(
                f"{name:15s} l={sizes[0]:3d} u={sizes[1]:4d} t={sizes[2]:4d}  "
                f"RLSC {means[0]:5.1f} +- {deviations[0]:4.1f} ({paper[column]:4.1f})   "
                f"S2RLSC {means[1]:5.1f} +- {deviations[1]:4.1f} ({paper[column + 1]:4.1f})   "
                f"[all labels {means[2]:4.1f}]  {time.perf_counter() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", default=os.environ.get("DASK_S3VM_DATA", default))
    parser.add_argument("--sets", nargs="+", help="names of the table, or all")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--table", choices=["2", "3"])
    parser.add_argument(
        "--full",
        action="store_true",
        help="every lam, and the (5+25)-EA, not the (1+1)-EA, to choose",
    )
    parser.add_argument("--bias", action="store_true", help="models have a bias")
    warnings.simplefilter("ignore")
    main(parser.parse_args())
