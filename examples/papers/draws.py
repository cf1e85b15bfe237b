"""What the draw does: of the generated sets themselves, and of the rows that are labeled.

The papers generate G2C and G4C once, and do not say how labels were drawn. LIBSVM's cells tell:
nothing in them is ours. Two ways to draw labels are compared,

random    at least two rows of each class
balanced  half of the labels of each class

on several generations of the sets, and on those images whose cells differ most from the paper's.
`all labels` is the plane between the class means of all training rows, with their true labels: no
method that sees these rows alone should be expected to do much better.

The part `generations` repeats the rows of G2C and G4C of both papers' tables, with their searches,
on other generations of the sets.

python examples/papers/draws.py --out results            # some minutes
"""

import argparse

import dask
import numpy as np
import qn_s3vm
import s2rlsc
from baselines import rival
from choosing import error, realistic
from common import command, excuse, kept_in, over_splits, splits_of
from datasets import load
from splits import three_way, training
from tables import Table

from dask_s3vm import CCCPS3VM, QNS3VM
from dask_s3vm.datasets import make_g2c, make_g4c

GENERATED = {"G2C": make_g2c, "G4C": make_g4c}
IMAGES = {"C(5,9)": "COIL (5, 9)", "C(6,19)": "COIL (6, 19)", "M(2,7)": "MNIST (2, 7)"}
METHODS = ("LIBSVM", "CCCP", "CCCP, true ratio", "QN", "QN, true ratio", "all labels")


def plane_of_means(rows, y):
    """Return the plane halfway between the means of two classes."""
    low, high = rows[y == 0].mean(axis=0), rows[y == 1].mean(axis=0)
    return high - low, -0.5 * (high - low) @ (high + low)


def one_draw(seed, X, y, sizes, how):
    """{method: test error in %}."""
    labeled, unlabeled, test = three_way(y, sizes, seed, balanced=how == "balanced")
    rows, part = training(X, y, labeled, unlabeled)
    svm, _ = realistic(rival("SVM"), {"estimator__C": 2.0 ** np.arange(-10, 11, 2)}, rows, part,
                       seed)  # fmt: skip
    found = {"LIBSVM": 100 * error(svm, X[test], y[test])}
    for ending, ratio in (("", float(y[labeled].mean())), (", true ratio", float(y.mean()))):
        more = {"balance": "paper", "positive_ratio": ratio}
        for name, kind in (("CCCP", CCCPS3VM), ("QN", QNS3VM)):
            found[name + ending] = 100 * error(kind(0.25, **more).fit(rows, part), X[test], y[test])
    w, b = plane_of_means(rows, y[np.concatenate([labeled, unlabeled])])
    found["all labels"] = 100 * float(np.mean((X[test] @ w + b > 0) != y[test]))
    return found


def generated(name, number):
    """Generate a set."""
    X, y = dask.compute(*GENERATED[name](500, 500, random_state=number))
    return X, np.asarray(y).astype(int)


def table(args):
    """Rows by set, number of labels and way to draw."""
    columns = {"LIBSVM": "LIBSVM", "CCCP": "UniverSVM", "CCCP, true ratio": "UniverSVM",
               "QN": "QN-S3VM", "QN, true ratio": "QN-S3VM"}  # fmt: skip
    found = Table("000_draws", "Table 2, what the draw does: test error in %", args.out,
                  columns=("000_table_2", columns), extra=METHODS)  # fmt: skip
    splits = splits_of(args)
    count = 1 if args.quick else 5
    found.say(
        f"{splits} draws of each kind; G2C and G4C: {count} generations, means of {splits} draws "
        "of each, ± over the generations; generation 0 is that of the tables"
    )
    found.say("C of LIBSVM by 5 folds; CCCP and QN without a search: lam 1/4, lam' 1; ratio of "
              "the labels, or the true one")  # fmt: skip
    printed, found.paper = found.paper, {}
    for (name, *sizes), numbers in printed.items():
        if name not in GENERATED and (name not in IMAGES or args.quick):
            continue
        if excuse(name, IMAGES.get(name, name), args, ("G2C",)):
            continue
        for how in ("random", "balanced"):
            if name in GENERATED:
                runs = []
                for number in range(count):
                    kept = kept_in(args, "draws", name, *sizes, how, number)
                    X, y = generated(name, number)
                    several = over_splits(
                        one_draw, range(splits), args.jobs, X, y, sizes, how, kept=kept
                    )
                    runs.append({m: float(np.mean([one[m] for one in several])) for m in METHODS})
            else:
                kept = kept_in(args, "draws", name, *sizes, how)
                X, y = load(IMAGES[name], args.data)
                runs = over_splits(one_draw, range(splits), args.jobs, X, y, sizes, how, kept=kept)
            key = (f"{name} {how}", *sizes)
            found.paper[key] = numbers
            columns = {method: [one[method] for one in runs] for method in METHODS}
            found.add(key, columns, kept=kept)
    found.finish()


def generation_errors(number, name, sizes, methods, draws, args):
    """{method: mean test error in % over some draws} of one generation, as in Tables 2."""
    X, y = generated(name, number)
    plan, grid = s2rlsc.Plan(args), qn_s3vm.grids(args, False)
    own = {method: grid[method] for method in methods if method in grid}
    found = {}
    for seed in range(draws):
        if "S2RLSC" in methods:
            runs = {method: s2rlsc.one_split(seed, X, y, sizes, False, plan, True, method)
                    for method in methods}  # fmt: skip
        else:
            runs = qn_s3vm.one_split(seed, X, y, sizes, own, qn_s3vm.folds(args), True)
        for method in methods:
            found.setdefault(method, []).append(runs[method][0])
    return {method: float(np.mean(errors)) for method, errors in found.items()}


#: Tables of generated sets: paper -> its names of the sets, and the methods to run.
REPEATED = {
    "000": ({"G2C": "G2C", "G4C": "G4C"}, ("LIBSVM", "UniverSVM", "TSVMlin", "QN-S3VM")),
    "001": (s2rlsc.NAMES, ("RLSC", "UniverSVM", "S2RLSC")),
}


def generations(args):
    """Rows of the generated sets of Tables 2, over several generations."""
    count, draws = (1, 1) if args.quick else (args.splits or 10, 3)
    for paper, (names, methods) in REPEATED.items():
        own = argparse.Namespace(**vars(args) | {"whole_grid": not args.quick})
        columns = f"{paper}_table_2", {method: method for method in methods}
        found = Table(f"{paper}_generations", "Table 2 on other generations of the sets: test error"
                      " in %", args.out, columns=columns)  # fmt: skip
        found.say(f"{count} generations, means of {draws} draws of each, ± over the generations; "
                  "labels, grids and searches as in Table 2")  # fmt: skip
        found.paper = {key: row for key, row in found.paper.items() if key[0] in names}
        for name, *sizes in list(found.paper):
            why = excuse(name, names[name], args, (name,))
            if why:
                found.miss((name, *sizes), why)
                continue
            kept = kept_in(own, "generations", paper, name, *sizes)
            runs = over_splits(generation_errors, range(count), args.jobs, names[name], sizes,
                               methods, draws, own, kept=kept)  # fmt: skip
            columns = {method: [one[method] for one in runs] for method in methods}
            found.add((name, *sizes), columns, kept=kept)
        found.finish()


PARTS = {"draws": table, "generations": generations}
main = command(PARTS, __doc__, "Draws")

if __name__ == "__main__":
    main()
