"""Tables III-V of STAR-SVM (Cheung & Li): F1, G-mean and AUC on imbalanced sets, 20 labels.

python examples/table_star.py FOLDER                  # all sets that are there, 30 draws
python examples/table_star.py FOLDER --draws 5 --sets glass4,ecoli

FOLDER has one NAME.npz per set with X and y (+1 the rare class, -1). RBF kernel of width 1, C = 1,
confidence 0.7 for all sets. The paper does not say how columns were scaled: both [0, 1] and mean 0,
variance 1 are run. Beside STARSVM: its column in the paper, STARSVM with the class weights as eq.
(21) prints them, and what scikit-learn has: label propagation and spreading on a graph of 6
neighbours, as the paper's GFHF and LGC, and self-training of its own SVC.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from dask_s3vm import STARSVM

#: F1, G-mean and AUC of STAR-SVM in the paper's Tables III, IV and V.
PAPER = {
    "ecoli": (0.53, 0.87, 0.94),
    "crime": (0.29, 0.53, 0.76),
    "libras": (0.49, 0.68, 0.86),
    "oil": (0.22, 0.47, 0.76),
    "optdigits": (0.47, 0.78, 0.84),
    "winequality": (0.10, 0.44, 0.66),
    "satimage": (0.44, 0.76, 0.79),
    "vowel0": (0.51, 0.76, 0.89),
    "shuttle0vs4": (1.00, 1.00, 1.00),
    "pageblocks0": (0.52, 0.69, 0.90),
    "glass4": (0.49, 0.82, 0.96),
    "cleveland0vs4": (0.50, 0.71, 0.93),
    "contraceptive": (0.36, 0.55, 0.57),
    "euthyroid": (0.23, 0.56, 0.57),
    "spectrometer": (0.62, 0.75, 0.92),
}
SCORES = ("F1", "G-mean", "AUC")

#: Methods that are ranked against each other; eq. (21) is there to be looked at.
RANKED = ("STARSVM", "LabelProp", "LabelSpread", "SelfTrain")
METHODS = (*RANKED, "eq. (21)")


def scaled(X, how):
    X = X.astype(np.float64)
    if how == "[0, 1]":
        low, span = X.min(axis=0), np.ptp(X, axis=0)
    else:
        low, span = X.mean(axis=0), X.std(axis=0)
    return (X - low) / np.where(span > 0, span, 1.0)


def draw(y, seed, n_labels=20):
    """Marks: y of some rows, at least one of each class, and 0 for the others."""
    rng = np.random.default_rng(seed)
    while True:
        chosen = rng.choice(len(y), n_labels, replace=False)
        if len(set(y[chosen])) == 2:
            few = np.zeros(len(y), dtype=int)
            few[chosen] = y[chosen]
            return few


class ScoredSVC(SVC):
    """An SVC whose outputs, squashed, are its confidence: 20 labels are too few to calibrate."""

    def predict_proba(self, X):
        """Confidence in each class."""
        positive = 1.0 / (1.0 + np.exp(-2.0 * self.decision_function(X)))
        return np.column_stack([1.0 - positive, positive])


def star(X, few, args, weighting):
    model = STARSVM(args.C, args.confidence, sigma=args.sigma, weighting=weighting, unlabeled=0)
    model.fit(X, few)
    return model.transduction_, model.ranking_


def spread(kind, X, few, graph):
    model = kind(kernel=lambda a, b: graph, max_iter=1000)
    model.fit(X, np.where(few == 0, -1, (few + 1) // 2))
    return 2 * model.transduction_ - 1, model.label_distributions_[:, 1]


def self_trained(X, few, args):
    base = ScoredSVC(C=args.C, gamma=0.5 / args.sigma**2, class_weight="balanced")
    model = SelfTrainingClassifier(base, max_iter=None)
    model.fit(X, np.where(few == 0, -1, (few + 1) // 2))
    scores = model.predict_proba(X)[:, 1]
    return np.where(scores > 0.5, 1, -1), scores


def run(method, X, few, graph, args):
    """Labels and ranking scores of all rows."""
    if method in ("STARSVM", "eq. (21)"):
        return star(X, few, args, "minority" if method == "STARSVM" else "printed")
    if method == "SelfTrain":
        return self_trained(X, few, args)
    kind = LabelPropagation if method == "LabelProp" else LabelSpreading
    return spread(kind, X, few, graph)


def scores_of(truth, labels, ranking):
    recall = [(labels == side)[truth == side].mean() for side in (1, -1)]
    f1 = f1_score(truth, labels, zero_division=0.0)
    return f1, np.sqrt(recall[0] * recall[1]), roc_auc_score(truth, np.nan_to_num(ranking))


def measure(name, how, args):
    """Mean scores of each method over the draws, (methods, 3), and seconds of a STARSVM fit."""
    with np.load(Path(args.folder) / f"{name}.npz") as held:
        X, y = scaled(held["X"], how), held["y"].astype(int)
    graph = kneighbors_graph(X, 6, include_self=True)
    graph = graph.maximum(graph.T)
    found, seconds = np.zeros((args.draws, len(METHODS), 3)), 0.0
    for number in range(args.draws):
        few = draw(y, number)
        hidden = few == 0
        for place, method in enumerate(METHODS):
            began = time.perf_counter()
            labels, ranking = run(method, X, few, graph, args)
            seconds += (time.perf_counter() - began) * (place == 0)
            found[number, place] = scores_of(y[hidden], labels[hidden], ranking[hidden])
    return found.mean(axis=0), seconds / args.draws


def ranks(values):
    """Average rank of each method (1 is best, ties share) over sets; values (sets, methods)."""
    better = (values[:, :, None] < values[:, None, :]).sum(axis=2)
    tied = (values[:, :, None] == values[:, None, :]).sum(axis=2)
    return (better + (tied + 1) / 2).mean(axis=0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--sets", help="names, with commas between; default: all of the paper")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--confidence", type=float, default=0.7)
    parser.add_argument("--scaling", choices=["both", "range", "standard"], default="both")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's: propagation that ends by max_iter
    names = args.sets.split(",") if args.sets else list(PAPER)
    missing = [name for name in names if not (Path(args.folder) / f"{name}.npz").exists()]
    if missing:
        print("not there, skipped:", ", ".join(missing))
    names = [name for name in names if name not in missing]
    scalings = {"range": ["[0, 1]"], "standard": ["standard"], "both": ["[0, 1]", "standard"]}
    for how in scalings[args.scaling] if names else []:
        print(f"\ncolumns scaled: {how}; {args.draws} draws of 20 labels")
        header = "".join(f"{method:>12s}" for method in ("paper", *METHODS))
        print(f"{'set':14s} {'score':7s}{header}{'seconds':>9s}")
        found = []
        for name in names:
            means, seconds = measure(name, how, args)
            found.append(means)
            for place, score in enumerate(SCORES):
                line = "".join(f"{value:12.3f}" for value in (PAPER[name][place], *means[:, place]))
                ending = f"{seconds:9.2f}" if place == 0 else ""
                print(f"{name if place == 0 else '':14s} {score:7s}{line}{ending}", flush=True)
        table, paper = np.stack(found), np.array([PAPER[name] for name in names])
        for place, score in enumerate(SCORES):
            values = (paper[:, place].mean(), *table[:, :, place].mean(axis=0))
            print(f"{'average':14s} {score:7s}" + "".join(f"{value:12.3f}" for value in values))
        for place, score in enumerate(SCORES):
            line = "".join(f"{rank:12.2f}" for rank in ranks(table[:, : len(RANKED), place]))
            print(f"{'average rank':14s} {score:7s}{'':12s}{line}")


if __name__ == "__main__":
    main()
