"""Cheung & Li, *Self-Training with Adaptive Regularization for S3VM* (STAR-SVM).

Tables III (F1), IV (G-mean) and V (AUC) on fifteen imbalanced sets with 20 labels; what the scaling
of the columns and the width of the kernel do, which the paper does not say; and the weight of
LapSVM's graph.

python examples/papers/star_svm.py                       # full mode: 30 draws of the labels
python examples/papers/star_svm.py --quick               # seconds
python examples/papers/star_svm.py --only scalings --splits 10

C = 1, confidence 0.7, graphs of 6 neighbors and the ratio of the labeled rows, as in the paper.
Columns have mean 0 and variance 1. The kernel of width 1 is exp(-|x - z|^2 / 4), as in the authors'
public program; edges of the graph have these weights. The rivals follow the programs of their
authors: class masses of GFHF are those of the labels plus one; LGC ranks by the difference of its
two columns; LapSVM is trained with an offset and classifies without it. GGMC and WellSVM are not in
this package. Beside them: this package's LapSVM with 300 landmarks, an SVM, RLSC, self-training.
"""

import numpy as np
import scipy.sparse as sp
from baselines import rival
from common import command, excuse, kept_in, over_splits, splits_of, timed
from datasets import IMBALANCED, load
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse.linalg import spsolve
from sklearn.metrics import f1_score, pairwise_distances, roc_auc_score
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import SVC
from splits import draw, marked
from tables import ABSENT, Table, numbers

from dask_s3vm import RLSC, STARSVM, LapSVM
from dask_s3vm.baselines import ScoredSVC

SCORES = {"III": "F1", "IV": "G-mean", "V": "AUC"}
LANDMARKS = "LapSVM, 300 landmarks"
EXTRA = (LANDMARKS, "SVM", "RLSC", "self-training", "eq. (21) as printed")
RANKED = ("GFHF", "LGC", "LapSVM", "STAR-SVM", "SVM", "RLSC", "self-training")
QUICK_SETS = ("Glass4", "ClevelandOvs4")
GAMMA = 0.25  # width 1 in the authors' program
NEIGHBORS = 6
GAMMA_A, GAMMA_I = 1.0, 0.1
SPREAD = 0.99
#: Draws of the methods that are not in the paper, and of those on sets of more than 3,000 rows.
FEW, FEW_LARGE = 10, 3


def scaled(X, how):
    """Columns in [0, 1], of mean 0 and variance 1, or as they are."""
    if how == "none":
        return X
    if how == "[0, 1]":
        low, span = X.min(axis=0), np.ptp(X, axis=0)
    else:
        low, span = X.mean(axis=0), X.std(axis=0)
    return (X - low) / np.where(span > 0, span, 1.0)


def graph_of(X):
    """Symmetric graph of the nearest neighbors, with the weights of the kernel."""
    graph = kneighbors_graph(X, NEIGHBORS, mode="distance")
    graph.data = np.exp(-GAMMA * graph.data**2)
    return graph.maximum(graph.T).tocsr()


def harmonic(few, graph):
    """GFHF: the harmonic function with the values of the labels, class masses normalized.

    (D - W)_uu f = W_ul y; a row is positive if q+ f / sum f > q- (1 - f) / sum (1 - f), where q are
    the numbers of labels plus one, as in the program of Zhu. Rows are ranked by f.
    """
    known, free = np.flatnonzero(few >= 0), np.flatnonzero(few < 0)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    # parts of the graph without a label get 0
    laplacian = (sp.diags(degrees + 1e-10) - graph).tocsc()[free][:, free]
    f = spsolve(laplacian, graph[free][:, known] @ few[known].astype(float))
    down, up = np.bincount(few[known], minlength=2) + 1
    positive = up * f / max(f.sum(), 1e-300) > down * (1.0 - f) / (1.0 - f).sum()
    return spread_out(few, positive, f)


def spreading(few, graph):
    """LGC: F = (I - a S)^-1 Y with S = D^-1/2 W D^-1/2; the sign of F+ - F-."""
    known, free = np.flatnonzero(few >= 0), np.flatnonzero(few < 0)
    root = sp.diags(1.0 / np.sqrt(np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-300)))
    Y = np.zeros((len(few), 2))
    Y[known, few[known]] = 1.0
    F = spsolve((sp.eye(len(few)) - SPREAD * (root @ graph @ root)).tocsc(), Y)[free]
    return spread_out(few, F[:, 1] > F[:, 0], F[:, 1] - F[:, 0])


def smooth_kernel(X, gamma_i=GAMMA_I):
    """Return what LapSVM needs of all rows: K, and a factor of 2 gamma_A I + 2 gamma_I L K.

    L is the normalized Laplacian of the graph with weights 1.
    """
    graph = kneighbors_graph(X, NEIGHBORS)
    graph = graph.maximum(graph.T)
    root = sp.diags(1.0 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    kernel = np.exp(-GAMMA * pairwise_distances(X) ** 2)
    system = 2.0 * gamma_i * (kernel - root @ graph @ root @ kernel)
    system[np.diag_indices(len(X))] += 2.0 * GAMMA_A
    return kernel, lu_factor(system, overwrite_a=True)


def laplacian_svm(few, kernel, factor):
    """LapSVM as in the program of Sindhwani: an SVM with C = 1 on the kernel K (...)^-1.

    The offset takes part in the training, and is left out of the outputs.
    """
    known = np.flatnonzero(few >= 0)
    marks = np.zeros((len(few), len(known)))
    marks[known, np.arange(len(known))] = 1.0
    outputs = kernel @ lu_solve(factor, marks)
    gram = 0.5 * (outputs[known] + outputs[known].T)
    svm = SVC(C=1.0, kernel="precomputed").fit(gram, few[known])
    ranking = outputs[:, svm.support_] @ svm.dual_coef_[0]
    return (ranking > 0).astype(int), ranking


def spread_out(few, positive, score):
    """Labels and scores of all rows, from those of the unlabeled ones."""
    labels, ranking = few.copy(), few.astype(float)
    labels[few < 0], ranking[few < 0] = positive, score
    return labels, ranking


def star(X, few, weighting="minority", gamma=GAMMA):
    """Labels and ranking of STAR-SVM."""
    model = STARSVM(
        1.0, 0.7, kernel="rbf", gamma=gamma, weighting=weighting, positive_ratio="labels",
        balance="paper",
    ).fit(X, few)  # fmt: skip
    return np.asarray(model.transduction_), np.asarray(model.ranking_)


def labels_and_ranking(method, X, few, graph):
    """Labels of all rows, and scores to rank them by."""
    if method in ("STAR-SVM", "eq. (21) as printed"):
        return star(X, few, "minority" if method == "STAR-SVM" else "printed")
    if method in ("GFHF", "LGC"):
        return (harmonic if method == "GFHF" else spreading)(few, graph)
    if method == "LapSVM":
        return laplacian_svm(few, *graph)
    known = np.flatnonzero(few >= 0)
    if method == LANDMARKS:
        model = LapSVM(GAMMA_A / len(known), GAMMA_I, kernel="rbf", gamma=GAMMA, random_state=0,
                       n_components=min(300, len(few)), balance="paper").fit(X, few)  # fmt: skip
        ranking = np.asarray(model.decision_function(X)) - model.intercept_[0]
        return (ranking > 0).astype(int), ranking
    if method == "self-training":
        model = rival(method, kernel="rbf", gamma=GAMMA, class_weight="balanced").fit(X, few)
        return model.predict(X), model.predict_proba(X)[:, 1]
    if method == "SVM":
        model = ScoredSVC(C=1.0, gamma=GAMMA)
    else:
        model = RLSC(0.05, kernel="rbf", gamma=GAMMA, n_components=None)
    model.fit(X[known], few[known])
    return model.predict(X), model.decision_function(X)


def scores_of(truth, labels, ranking):
    """F1, G-mean and AUC."""
    recall = [(labels == side)[truth == side].mean() for side in (1, 0)]
    f1 = f1_score(truth, labels, zero_division=0.0)
    return f1, np.sqrt(recall[0] * recall[1]), roc_auc_score(truth, np.nan_to_num(ranking))


class Job:
    """A method with the interface that `timed` needs."""

    def __init__(self, method, graph):
        self.method, self.graph = method, graph

    def fit(self, X, few):
        """Store labels and ranking."""
        self.result = labels_and_ranking(self.method, X, few, self.graph)


def one_draw(seed, X, y, graph, method):
    """(F1, G-mean, AUC, CPU seconds) of a method and one draw of 20 labels."""
    few = marked(y, draw(y, 20, seed))
    hidden = few < 0
    job, seconds = timed(Job(method, graph), X, few)
    labels, ranking = job.result
    return (*scores_of(y[hidden], labels[hidden], ranking[hidden]), seconds)


def ranks(values):
    """Average rank of each method (1 is best, ties share) over sets; values (sets, methods)."""
    better = (values[:, :, None] < values[:, None, :]).sum(axis=2)
    tied = (values[:, :, None] == values[:, None, :]).sum(axis=2)
    return (better + (tied + 1) / 2).mean(axis=0)


def tables(args):
    """Fill the tables III, IV and V together."""
    made = [
        Table(f"004_table_{number}", f"Table {number}: {score}, 20 labels", args.out,
              digits=2, higher_is_better=True, extra=EXTRA)
        for number, score in SCORES.items()
    ]  # fmt: skip
    splits = splits_of(args, 30, 2)
    for table in made:
        table.expected = splits
    made[0].say(
        f"{splits} draws of 20 labels (paper: 30), {min(splits, FEW)} of the methods that "
        "the paper does not have; a cell with another number says it"
    )
    made[0].say(
        "columns of mean 0, variance 1; kernel exp(-d^2/4), C 1, confidence 0.7, ratio of "
        "the labels; SVM, RLSC (lam 1/20), balanced self-training: same kernel; seconds of LapSVM "
        "without the factor that all draws share"
    )
    methods = ("GFHF", "LGC", "LapSVM", "STAR-SVM", *EXTRA)
    absent = dict.fromkeys(("GGMC", "WellSVM"), ABSENT)
    for name in IMBALANCED:
        why = excuse(name, name, args, QUICK_SETS)
        if why:
            for table in made:
                table.miss((name,), why)
            continue
        X, y = load(name, args.data)
        X = scaled(X, "variance 1")
        graph, runs = graph_of(X) if args.jobs else None, {}
        for method in methods:
            shared = smooth_kernel(X) if method == "LapSVM" and args.jobs else graph
            few = FEW if len(y) <= 3000 else FEW_LARGE
            seeds = range(min(splits, few) if method in EXTRA else splits)
            kept = kept_in(args, "004", name, method)
            several = over_splits(one_draw, seeds, args.jobs, X, y, shared, method, kept=kept)
            if several:
                runs[method] = np.array(several)
        seconds = {m: found[:, 3].tolist() for m, found in runs.items()}
        for place, table in enumerate(made):
            table.add((name,), {m: found[:, place].tolist() for m, found in runs.items()}, seconds,
                      absent, kept=kept)  # fmt: skip
    for table in made:
        means = [[cells[m].mean for m in methods] for cells in table.rows.values()
                 if all(cells[m].count for m in methods)]  # fmt: skip
        if not means:
            for row in ("Average", "Avg. Rank"):
                table.miss((row,), "no set is at hand")
            continue
        table.expected = None
        values = np.array(means)
        table.add(("Average",), {m: [v] for m, v in zip(methods, values.mean(axis=0), strict=True)},
                  notes=absent, judged=False)  # fmt: skip
        among = [methods.index(m) for m in RANKED]
        order = dict(zip(RANKED, ranks(values[:, among]), strict=True))
        table.add(("Avg. Rank",), {m: [rank] for m, rank in order.items()}, notes=absent,
                  judged=False)  # fmt: skip
        table.finish()


#: Scalings and widths: column -> scaling, gamma.
VARIANTS = {
    f"{how}, d^2/{round(1 / gamma)}": (how, gamma)
    for how in ("variance 1", "[0, 1]", "none")
    for gamma in (0.25, 0.5)
}


def variant_draw(seed, X, y, gamma):
    """F1 of STAR-SVM."""
    few = marked(y, draw(y, 20, seed))
    hidden = few < 0
    labels, _ = star(X, few, gamma=gamma)
    return float(f1_score(y[hidden], labels[hidden], zero_division=0.0))


def scalings(args):
    """F1 of STAR-SVM by scaling and width, on the sets of at most 2,000 rows."""
    columns = dict.fromkeys(VARIANTS, "STAR-SVM")
    title = "Table III, STAR-SVM by scaling and kernel: F1"
    table = Table("004_scalings", title, args.out, digits=2, higher_is_better=True,
                  columns=("004_table_III", columns))  # fmt: skip
    splits = splits_of(args)
    table.say(f"{splits} draws; sets of at most 2,000 rows; kernel exp(-d^2/2) or exp(-d^2/4)")
    printed, table.paper = table.paper, {}
    for name in IMBALANCED:
        if excuse(name, name, args, QUICK_SETS):
            continue
        X, y = load(name, args.data)
        if len(y) > 2000:
            continue
        table.paper[(name,)] = printed[(name,)]
        found = {}
        for column, (how, gamma) in VARIANTS.items():
            kept = kept_in(args, "004 scalings", name, column)
            found[column] = over_splits(variant_draw, range(splits), args.jobs, scaled(X, how), y,
                                        gamma, kept=kept)  # fmt: skip
        table.add((name,), found, kept=kept)
    table.finish()


#: Weight of the graph with which LapSVM is run once more.
HEAVY = 10.0


def heavy_graph(args):
    """LapSVM with a hundred times the weight of the graph, on all sets."""
    columns = dict.fromkeys(SCORES.values(), "LapSVM")
    title = f"Tables III-V, LapSVM with gamma_I {HEAVY:g}: F1, G-mean, AUC"
    table = Table("004_graph", title, args.out, digits=2, higher_is_better=True,
                  columns=("004_table_III", columns))  # fmt: skip
    printed = {score: numbers(f"004_table_{number}")[1] for number, score in SCORES.items()}
    splits = splits_of(args, 30)
    table.say(f"{splits} draws; gamma_I {GAMMA_I:g} in Tables III-V, all else as there")
    table.paper = {}
    for name in IMBALANCED:
        if excuse(name, name, args, QUICK_SETS):
            continue
        X, y = load(name, args.data)
        X = scaled(X, "variance 1")
        table.paper[(name,)] = {score: cells[(name,)]["LapSVM"] for score, cells in printed.items()}
        shared = smooth_kernel(X, HEAVY) if args.jobs else None
        kept = kept_in(args, "004 graph", name)
        runs = over_splits(one_draw, range(splits), args.jobs, X, y, shared, "LapSVM", kept=kept)
        found = {score: [one[place] for one in runs] for place, score in enumerate(columns)}
        table.add((name,), found, kept=kept)
    table.finish()


PARTS = {"tables III-V": tables, "scalings": scalings, "graph": heavy_graph}
main = command(PARTS, __doc__, "STAR-SVM (Cheung & Li)")

if __name__ == "__main__":
    main()
