"""Cheung & Li, *Self-Training with Adaptive Regularization for S3VM* (STAR-SVM).

Tables III (F1), IV (G-mean) and V (AUC) on fifteen imbalanced sets with 20 labels.

python examples/papers/star_svm.py                       # full mode: 15 draws of the labels
python examples/papers/star_svm.py --quick               # seconds
python examples/papers/star_svm.py --sets Glass4 Ecoli --splits 5 --scaling range

RBF kernel of width 1, C = 1, confidence 0.7 for all sets, the ratio of the labeled rows, as in the
paper. It does not say how columns were scaled: mean 0 and variance 1 here, or [0, 1]. GFHF is
scikit-learn's label propagation and LGC its label spreading, on a graph of 6 neighbors; GGMC,
LapSVM and WellSVM are not in this package. Beside them: an SVM, RLSC and self-training.
"""

import sys

import numpy as np
from baselines import rival
from common import excuse, kept_in, options, over_splits, run, timed
from datasets import IMBALANCED, load
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from splits import draw, marked
from tables import ABSENT, Table

from dask_s3vm import RLSC, STARSVM
from dask_s3vm.baselines import ScoredSVC

SCORES = {"III": "F1", "IV": "G-mean", "V": "AUC"}
EXTRA = ("SVM", "RLSC", "self-training", "eq. (21) as printed")
RANKED = ("GFHF", "LGC", "STAR-SVM", "SVM", "RLSC", "self-training")
QUICK_SETS = ("Glass4", "ClevelandOvs4")
GAMMA = 0.5  # width 1


def scaled(X, how):
    """Columns in [0, 1], or of mean 0 and variance 1."""
    if how == "range":
        low, span = X.min(axis=0), np.ptp(X, axis=0)
    else:
        low, span = X.mean(axis=0), X.std(axis=0)
    return (X - low) / np.where(span > 0, span, 1.0)


def graph_of(X):
    """Symmetric graph of 6 neighbors."""
    graph = kneighbors_graph(X, 6, include_self=True)
    return graph.maximum(graph.T)


def labels_and_ranking(method, X, few, graph):
    """Labels of all rows, and scores to rank them by."""
    if method in ("STAR-SVM", "eq. (21) as printed"):
        weighting = "minority" if method == "STAR-SVM" else "printed"
        model = STARSVM(
            1.0,
            0.7,
            kernel="rbf",
            sigma=1.0,
            weighting=weighting,
            positive_ratio="labels",
            balance="paper",
        ).fit(X, few)
        return model.transduction_, model.ranking_
    if method in ("GFHF", "LGC"):
        kind = LabelPropagation if method == "GFHF" else LabelSpreading
        model = kind(kernel=lambda a, b: graph, max_iter=1000).fit(X, few)
        return model.transduction_, model.label_distributions_[:, 1]
    known = np.flatnonzero(few >= 0)
    if method == "SVM":
        model = ScoredSVC(C=1.0, gamma=GAMMA).fit(X[known], few[known])
        return model.predict(X), model.decision_function(X)
    if method == "RLSC":
        model = RLSC(0.05, kernel="rbf", gamma=GAMMA, n_components=None)
        model.fit(X[known], few[known])
        return model.predict(X), model.decision_function(X)
    model = rival("self-training", kernel="rbf", gamma=GAMMA, class_weight="balanced")
    model.fit(X, few)
    return model.predict(X), model.predict_proba(X)[:, 1]


def scores_of(truth, labels, ranking):
    """F1, G-mean and AUC."""
    recall = [(labels == side)[truth == side].mean() for side in (1, 0)]
    f1 = f1_score(truth, labels, zero_division=0.0)
    return f1, np.sqrt(recall[0] * recall[1]), roc_auc_score(truth, np.nan_to_num(ranking))


def one_draw(seed, X, y, graph, methods):
    """{method: (F1, G-mean, AUC, seconds)} of one draw of 20 labels."""
    few = marked(y, draw(y, 20, seed))
    hidden = few < 0
    found = {}
    for method in methods:
        job = Job(method, graph)
        _, seconds = timed(job, X, few)
        labels, ranking = job.result
        found[method] = (*scores_of(y[hidden], labels[hidden], ranking[hidden]), seconds)
    return found


class Job:
    """A method with the interface that `timed` needs."""

    def __init__(self, method, graph):
        self.method, self.graph = method, graph

    def fit(self, X, few):
        """Store labels and ranking."""
        self.result = labels_and_ranking(self.method, X, few, self.graph)


def ranks(values):
    """Average rank of each method (1 is best, ties share) over sets; values (sets, methods)."""
    better = (values[:, :, None] < values[:, None, :]).sum(axis=2)
    tied = (values[:, :, None] == values[:, None, :]).sum(axis=2)
    return (better + (tied + 1) / 2).mean(axis=0)


def tables(args):
    """Fill the tables III, IV and V together."""
    words = {"standard": "mean 0, variance 1", "range": "[0, 1]"}[args.scaling]
    ending = "" if args.scaling == "standard" else "_range"
    made = [
        Table(f"004_table_{number}{ending}", f"Table {number}: {score}, 20 labels, columns {words}",
              args.out, unit="", digits=2, higher_is_better=True, extra=EXTRA,
              columns=(f"004_table_{number}", None))
        for number, score in SCORES.items()
    ]  # fmt: skip
    splits = args.splits or (2 if args.quick else 15)
    large = min(splits, 5)
    made[0].say(f"{splits} draws of 20 labels (paper: 30), {large} of sets of more than 3,000 rows")
    made[0].say("RBF width 1, C 1, confidence 0.7, ratio of the "
                "labels; SVM, RLSC (lam 1/20), balanced self-training: same kernel")  # fmt: skip
    methods = ("GFHF", "LGC", "STAR-SVM", *EXTRA)
    absent = dict.fromkeys(("GGMC", "LapSVM", "WellSVM"), ABSENT)
    means = []
    for name in IMBALANCED:
        why = excuse(name, name, args, QUICK_SETS)
        if why:
            for table in made:
                table.miss((name,), why)
            continue
        X, y = load(name, args.data)
        X = scaled(X, args.scaling)
        seeds = range(large if len(y) > 3000 else splits)
        kept = kept_in(args, "004", name, args.scaling)
        runs = over_splits(one_draw, seeds, args.jobs, X, y, graph_of(X), methods, kept=kept)
        seconds = {m: float(np.mean([one[m][3] for one in runs])) for m in methods}
        for place, table in enumerate(made):
            found = {m: [one[m][place] for one in runs] for m in methods}
            table.add((name,), found, seconds, absent)
        means.append([[np.mean([one[m][k] for one in runs]) for m in methods] for k in range(3)])
    for place, table in enumerate(made):
        if not means:
            table.skip([("Average",), ("Avg. Rank",)], "no set is at hand")
            continue
        values = np.array(means)[:, place]
        table.add(("Average",), {m: [v] for m, v in zip(methods, values.mean(axis=0), strict=True)},
                  notes=absent, judged=False)  # fmt: skip
        among = [methods.index(m) for m in RANKED]
        order = dict(zip(RANKED, ranks(values[:, among]), strict=True))
        table.add(("Avg. Rank",), {m: [rank] for m, rank in order.items()}, notes=absent,
                  judged=False)  # fmt: skip
        table.finish()


PARTS = {"tables III-V": tables}


def main(arguments=None):
    """Run the parts that the command line selects."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    scaling = "standard"
    if "--scaling" in words:
        place = words.index("--scaling")
        scaling = words[place + 1]
        del words[place : place + 2]
    args = options(__doc__, PARTS, words)
    args.scaling = scaling
    run(PARTS, args, "STAR-SVM (Cheung & Li)")


if __name__ == "__main__":
    main()
