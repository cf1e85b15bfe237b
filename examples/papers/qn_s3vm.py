"""Gieseke, Airola, Pahikkala, Kramer, *Fast and Simple Gradient-Based Optimization for S3VMs*.

Table 2 (test errors) and Figures 4 (moons), 5 (amount of data), 6 and 7 (runtimes) of QN-S3VM.

python examples/papers/qn_s3vm.py                        # full mode: all rows, about 10 minutes
python examples/papers/qn_s3vm.py --quick                # seconds
python examples/papers/qn_s3vm.py --only "figure 5" --splits 10
python examples/papers/qn_s3vm.py --only "table 2" --whole-grid --sets G4C pcmac --jobs 2

UniverSVM is this package's CCCPS3VM, LIBSVM scikit-learn's SVC. As in the paper, parameters are
chosen by cross-validation on the labeled rows and the class ratio is that of the labeled rows.
"""

import time
from itertools import product

import dask
import numpy as np
from baselines import rival
from choosing import by_test, error, realistic
from common import (
    command,
    excuse,
    kept_in,
    over_splits,
    rows_at_hand,
    sets_at_hand,
    splits_of,
    timed,
)
from datasets import load
from figures import Figure, scatter
from splits import draws_of, given, three_way, training
from tables import Table

from dask_s3vm import CCCPS3VM, DAS3VM, L2SVM, QNS3VM, TSVM
from dask_s3vm.datasets import make_g4c, make_moons

EXTRA = ("RLSC", "self-training", "label spreading")
OURS = {"UniverSVM": CCCPS3VM, "TSVMlin": TSVM, "DA": DAS3VM, "QN-S3VM": QNS3VM}
QUICK_SETS = ("G2C", "C(3,6)")
#: Sets whose labels are half of each class: LIBSVM's cells are reached so (see draws.py).
BALANCED = ("G2C", "G4C")
KINDS = {"C": "COIL", "U": "USPS", "M": "MNIST"}

#: Stand-ins for sets that are not at hand: name -> numbers of labeled rows; half is for testing.
STAND_INS = {
    "20news comp-rest": (90, 180, 361, 1446),
    "gcat, 2,316 documents": (57, 231, 462),
    "ccat, 2,316 documents": (57, 115, 231, 462),
    "20news rec-sci": (177, 355, 1423),
}


def full_name(name):
    """Name of a set: the paper's "C(3,6)" is "COIL (3, 6)"."""
    kind, bracket, pair = name.partition("(")
    if not bracket:
        return name
    return f"{KINDS[kind]} ({pair.replace(',', ', ')}"


def grids(args, large):
    """Return {method: grid}, values nearest to 1 first: the first wins a tie."""
    if args.quick or large:
        fixed = {"lam": [1e-3 if large else 0.25]}
        return {"LIBSVM": {"estimator__C": [1.0]}, **dict.fromkeys(OURS, fixed)}
    if args.whole_grid:
        powers = sorted(range(-10, 11), key=abs)
        ours = {"lam_unlabeled": [1.0, 0.01, 100.0], "lam": [2.0**power for power in powers]}
    else:
        powers = (0, -3, 3, -6, 6, -9, 9)
        ours = {"lam": [1.0, 0.25, 4.0, 2.0**-6, 2.0**-10]}
    return {
        "LIBSVM": {"estimator__C": [2.0**power for power in powers]},
        **dict.fromkeys(OURS, ours),
    }


def folds(args):
    """Return the number of folds of a search."""
    return 5 if args.whole_grid else 3


def one_split(seed, X, y, sizes, grids_of, n_folds, balanced):
    """{method: (test error in %, seconds)} of one random split."""
    labeled, unlabeled, test = three_way(y, sizes, seed, balanced)
    rows, part = training(X, y, labeled, unlabeled)
    ratio = float(y[labeled].mean())
    found, chosen = {}, {}
    for method, grid in grids_of.items():
        began = time.process_time()
        model = (
            OURS[method](balance="paper", positive_ratio=ratio) if method in OURS else rival("SVM")
        )
        if method == "DA" and "TSVMlin" in chosen:  # they have one objective
            model.set_params(**chosen["TSVMlin"]).fit(rows, part)
        elif all(len(values) == 1 for values in grid.values()):
            chosen[method] = {name: values[0] for name, values in grid.items()}
            model.set_params(**chosen[method]).fit(rows, part)
        else:
            model, chosen[method] = realistic(model, grid, rows, part, seed, n_folds)
        found[method] = (100 * error(model, X[test], y[test]), time.process_time() - began)
    for method in EXTRA if len(part) < 3000 else EXTRA[:1]:
        model, seconds = timed(rival(method, lam=4.0 ** np.arange(-5, 6)), rows, part)
        found[method] = (100 * error(model, X[test], y[test]), seconds)
    return found


def table_2(args):
    """Test errors over random splits."""
    table = Table("000_table_2", "Table 2: test error in %", args.out, extra=EXTRA)
    splits = splits_of(args)
    table.expected, table.whole = splits, args.whole_grid
    table.say("seconds are CPU seconds; a cell with another number of splits says it in brackets")
    table.say(f"{splits} splits (paper: 10); class ratio from the labeled rows; linear kernel")
    if args.quick:
        table.say("--quick: no search, lam 0.25, lam' 1, C 1; two sets")
    elif args.whole_grid:
        table.say(
            "the paper's grid: 2^-10 .. 2^10 for C and lam, lam' 0.01, 1, 100; 5 folds; DA takes "
            "what TSVMlin chose: they have one objective; what is nearest to 1 wins a tie"
        )
    else:
        table.say(
            "3-fold cross-validation on the labeled rows (paper: 5 folds): C of LIBSVM 2^-9, "
            "2^-6, .. 2^9 (paper: 21 values); lam of the others 4, 1, 1/4, 1/64, 1/1024, lam' 1 "
            "(paper: 21 x 3); DA takes what TSVMlin chose: they have one objective; "
            "what is nearest to 1 wins a tie"
        )
    table.say("G2C, G4C: as many labels of either class; other sets: random draws")
    table.say("RLSC: lam by leave-one-out; self-training, label spreading: defaults")
    for key, X, y in rows_at_hand(table, args, full_name, QUICK_SETS):
        fill(table, key, X, y, splits, args)
    table.finish()


def fill(table, key, X, y, splits, args, large=False, only=None):
    """Run one row of Table 2, of one method if there is to be only one."""
    name, *sizes = key
    seeds = range(1 if large else draws_of(full_name(name), sizes[0], splits))
    kept = kept_in(args, "000", only or "", *key)
    grids_of = {m: grid for m, grid in grids(args, large).items() if m == (only or m)}
    runs = over_splits(one_split, seeds, args.jobs, X, y, sizes, grids_of,
                       folds(args), name in BALANCED, kept=kept)  # fmt: skip
    found, seconds = (
        {method: [one[method][place] for one in runs if method in one] for method in table.methods}
        for place in (0, 1)
    )
    table.add(key, found, seconds, kept=kept)


def stand_ins(args):
    """Table 2 on text sets that replace those not at hand."""
    table = Table("000_table_2_stand_ins", "Table 2, stand-ins: test error in %", args.out,
                  extra=("LIBSVM", *OURS, *EXTRA))  # fmt: skip
    splits = min(splits_of(args, 5), 5)
    table.say(
        f"20 newsgroups: 1 split, no search: lam 1/1000, lam' 1, C 1; RCV1's 2,316: {splits} "
        "splits, as Table 2; half of the rows is for testing; ratio of the labels"
    )
    table.say("comp-rest is for real-sim, rec-sci for aut-avn")
    for name, numbers_of_labels in STAND_INS.items():
        for n_labels in numbers_of_labels:
            row = f"stand-in: {name}"
            why = excuse(name, name, args, ())
            if why:
                table.miss((row, n_labels), why)
                continue
            X, y = load(name, args.data)
            half = len(y) // 2
            key = (row, n_labels, half - n_labels, len(y) - half)
            fill(table, key, X, y, splits, args, large=name.startswith("20news"))
    table.finish()


#: Sets on which DA is worse than in the paper with what TSVMlin chose.
SEARCHED = ("G2C", "U(3,8)", "pcmac")


def own_search(args):
    """DA of Table 2 with a search of its own, in place of what TSVMlin chose."""
    table = Table("000_table_2_DA", "Table 2 again: DA with a search of its own", args.out,
                  columns=("000_table_2", {"DA": "DA"}))  # fmt: skip
    splits = table.expected = splits_of(args)
    table.say(
        f"the first {splits} splits of Table 2; grid and folds as those of TSVMlin there; the rows "
        "in which DA is worse"
    )
    table.paper = {key: row for key, row in table.paper.items() if key[0] in SEARCHED}
    for key, X, y in rows_at_hand(table, args, full_name, QUICK_SETS):
        fill(table, key, X, y, splits, args, only="DA")
    table.finish()


#: Columns of the table of ratios: method, and whether it is told the true ratio.
VARIANTS = {
    f"{method}, {'true ratio' if told else 'ratio of the labels'}": (method, told)
    for method in ("QN-S3VM", "TSVMlin", "DA")
    for told in (False, True)
}


def ratio_split(seed, X, y, sizes, lam):
    """Test errors in % of the methods with both ratios."""
    labeled, unlabeled, test = three_way(y, sizes, seed)
    rows, part = training(X, y, labeled, unlabeled)
    ratios = float(y[labeled].mean()), float(y.mean())
    models = [
        OURS[method](lam, 1.0, balance="paper", positive_ratio=ratios[told]).fit(rows, part)
        for method, told in VARIANTS.values()
    ]
    return [100 * error(model, X[test], y[test]) for model in models]


def true_ratio(args):
    """Table 2 with the true class ratio: the cost of estimating it."""
    columns = {name: method for name, (method, _) in VARIANTS.items()}
    table = Table("000_table_2_ratio", "Table 2 again: what the ratio does", args.out,
                  columns=("000_table_2", columns))  # fmt: skip
    splits = splits_of(args)
    table.say(f"{splits} splits; no search: lam 1/4 (pcmac: 1/1024), lam' 1; linear kernel")
    for key, X, y in rows_at_hand(table, args, full_name, QUICK_SETS):
        name, *sizes = key
        lam = 2.0**-10 if name == "pcmac" else 0.25
        kept = kept_in(args, "000 ratio", *key)
        runs = over_splits(ratio_split, range(splits), args.jobs, X, y, sizes, lam, kept=kept)
        columns = {method: [one[place] for one in runs] for place, method in enumerate(VARIANTS)}
        table.add(key, columns, kept=kept)
    table.finish()


MOONS = {"noise 0.05": 0.05, "noise 0.10": 0.10, "noise 0.15": 0.15}


def moons_split(seed, noise, sigmas, lams):
    """{method: (error in %, labels of the training rows)} the grid looked up on the test set."""
    X, y = dask.compute(*make_moons(1000, noise=noise, random_state=7))
    labeled, unlabeled, test = three_way(y, (5, 495, 500), seed)
    rows, part = training(X, y, labeled, unlabeled)
    s = float(np.linalg.norm(np.ptp(rows, axis=0)))
    held = rows, part, X[test], y[test]
    svm_grid = {"estimator__gamma": [0.5 / (f * s) ** 2 for f in sigmas]}
    svm_grid["estimator__C"] = [0.1, 1.0, 10.0, 100.0]
    svm, _ = by_test(rival("SVM", kernel="rbf"), svm_grid, *held)
    ratio = float(y.mean())
    qn = QNS3VM(
        kernel="rbf", n_components=100, random_state=0, balance="paper", positive_ratio=ratio
    )
    grid = {"lam_unlabeled": [1.0, 0.1], "sigma": [f * s for f in sigmas], "lam": list(lams)}
    qn, _ = by_test(qn, grid, *held)
    models = {"LIBSVM": svm, "QN-S3VM": qn}
    found = {k: (100 * error(model, X[test], y[test]), given(model.predict(rows), part))
             for k, model in models.items()}  # fmt: skip
    return found, rows


def figure_4(args):
    """Two moons with five labels: the supervised and the semi-supervised method."""
    figure = Figure("000_figure_4", "Figure 4: moons, test error in %", args.out,
                    x="noise", y="test error in %")  # fmt: skip
    splits = splits_of(args)
    sigmas, lams = (
        ((0.1,), (0.01,)) if args.quick else ((0.01, 0.1, 1.0), 2.0 ** np.arange(-14, 1, 2))
    )
    figure.say(
        f"{splits} splits of 5 + 495 + 500 rows; RBF kernel, 100 landmarks; grid on the test"
    )
    figure.say(
        f"set, as the paper: sigma {sigmas} x s, {len(lams)} lam, lam' 1 and 0.1, true ratio"
    )
    panels = []
    for title, noise in MOONS.items():
        runs = over_splits(moons_split, range(splits), args.jobs, noise, sigmas, lams)
        for method in ("LIBSVM", "QN-S3VM"):
            errors = [found[method][0] for found, _ in runs]
            figure.add("moons", method, noise, errors)
            found, rows = runs[0]
            panels.append(
                (f"{method}, {title}: {np.mean(errors):.1f} ± {np.std(errors):.1f} %", rows,
                 found[method][1], np.arange(5))
            )  # fmt: skip
    scatter("000_figure_4", args.out, panels[::2] + panels[1::2])


SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FIXED = 0.2


def share_split(seed, n_labeled, n_unlabeled, n_rows, n_features, lam):
    """Test errors in % of the supervised and the semi-supervised method for one draw of G4C."""
    X, y = dask.compute(*make_g4c(n_rows, n_features, random_state=seed))
    order = np.random.default_rng(seed).permutation(len(y))
    half = len(y) // 2
    train, test = order[:half], order[half:]
    first = [train[y[train] == k][0] for k in (0, 1)]  # a label of either class at least
    train = np.concatenate([first, train[~np.isin(train, first)]])
    used = train[: n_labeled + n_unlabeled]
    part = np.where(np.arange(len(used)) < n_labeled, y[used], -1)
    # most rows may be labeled: say what marks the others
    models = (
        L2SVM(lam, unlabeled=-1),
        QNS3VM(lam, balance="paper", positive_ratio=0.5, unlabeled=-1),
    )
    return [100 * error(model.fit(X[used], part), X[test], y[test]) for model in models]


def figure_5(args):
    """Test error over the numbers of labeled and unlabeled rows."""
    figure = Figure("000_figure_5", "Figure 5: G4C, share of the training rows", args.out,
                    x="% of the training rows", y="test error in %")  # fmt: skip
    splits = splits_of(args)
    n, d, lam = (80, 4, 1e-3) if args.quick else (500, 500, 1e-3)
    shares = SHARES[::4] if args.quick else SHARES
    figure.say(f"{splits} draws of {n} rows and {d} columns; lam {lam}, lam' 1, true ratio;")
    figure.say("supervised: L2SVM (paper: LIBSVM, and parameters searched)")
    half = n // 2
    for panel, share in product(("labeled", "unlabeled"), shares):
        part, fixed = max(2, round(share * half)), round(FIXED * half)
        sizes = (part, half - part) if panel == "labeled" else (fixed, part)
        runs = np.array(over_splits(share_split, range(splits), args.jobs, *sizes, n, d, lam))
        for place, method in enumerate(("L2SVM", "QN-S3VM")):
            figure.add(f"{panel} rows vary", method, round(100 * share), runs[:, place])
    figure.draw()


def seconds_of(methods, X, part, ratio):
    """Return the seconds of a fit with lam = lam' = 1, the better of two: the first may compile."""
    found = {}
    for method in methods:
        make = OURS[method](1.0, 1.0, balance="paper", positive_ratio=ratio)
        found[method] = min(timed(make, X, part)[1] for _ in range(2))
    return found


def figure_6(args):
    """Runtimes on six sets over the number of training rows."""
    figure = Figure("000_figure_6", "Figure 6: seconds of a fit, lam = lam' = 1", args.out,
                    x="training rows", y="seconds", log="xy")  # fmt: skip
    sets = [
        "G2C",
        "USPS (2, 5)",
        "MNIST (1, 7)",
        "pcmac",
        "gcat, 2,316 documents",
        "20news rec-sci",
    ]
    if args.quick:
        sets = sets[:1]
    figure.say("the sets of the last two panels are stand-ins (gcat, aut-avn); a tenth is labeled;")
    figure.say("the smaller of two times")
    for name, X, y in sets_at_hand(figure, sets, args):
        n = min(len(y), 4000)
        for share in (0.25, 0.5, 1.0):
            total = int(share * n / 2)
            labeled, unlabeled, _ = three_way(y, (total // 10, total - total // 10, 0), 0)
            rows, part = training(X, y, labeled, unlabeled)
            for method, seconds in seconds_of(OURS, rows, part, float(y.mean())).items():
                figure.add(name, method, total, [seconds])
    figure.draw()


def figure_7(args):
    """Runtimes on MNIST pairs of growing size; QN also with r = 2,000 basis vectors."""
    figure = Figure("000_figure_7", "Figure 7: seconds of a fit on MNIST, lam = lam' = 1", args.out,
                    x="training rows", y="seconds")  # fmt: skip
    sizes, r = ((200,), 50) if args.quick else ((2000, 6000, 10_000), 2000)
    figure.say(f"1 % labeled; QN with r: linear kernel through {r} random basis vectors, as the")
    figure.say(f"paper; the others on all 784 columns; sizes {sizes} (paper: 2,000 .. 10,000)")
    sets = ("G2C",) if args.quick else ("MNIST (1, 7)", "MNIST (3, 8)")
    for (name, X, y), n in product(sets_at_hand(figure, sets, args), sizes):
        labeled, unlabeled, _ = three_way(y, (n // 100, n - n // 100, 0), 0)
        rows, part = training(X, y, labeled, unlabeled)
        found = seconds_of(OURS, rows, part, float(y.mean()))
        subset = QNS3VM(
            1.0, 1.0, kernel="poly", degree=1, coef0=0.0, gamma=1.0, n_components=r,
            random_state=0, balance="paper", positive_ratio=float(y.mean()),
        )  # fmt: skip
        found[f"QN-S3VM, r={r}"] = timed(subset, rows, part)[1]
        for method, seconds in found.items():
            figure.add(name, method, n, [seconds])
    figure.draw()


PARTS = {
    "table 2": table_2,
    "stand-ins": stand_ins,
    "search of DA": own_search,
    "true ratio": true_ratio,
    "figure 4": figure_4,
    "figure 5": figure_5,
    "figure 6": figure_6,
    "figure 7": figure_7,
}
main = command(PARTS, __doc__, "QN-S3VM (Gieseke et al.)")

if __name__ == "__main__":
    main()
