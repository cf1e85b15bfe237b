"""Gieseke, Kramer, Airola, Pahikkala, *Efficient Recurrent Local Search Strategies for RLSC*.

Tables 2 ("non-realistic": parameters by the test error, the true balance, tolerance 0.1) and 3
("realistic": cross-validation on the labeled rows, their balance, 0.2), and Figures 6 (moons),
7 (amount of data), 8 (the shortcut), 9 (basis vectors), 10 (large sets) of S2RLSC.

python examples/papers/s2rlsc.py                         # full mode, about 10 minutes
python examples/papers/s2rlsc.py --quick                 # seconds
python examples/papers/s2rlsc.py --only "table 3" --sets USPS --splits 10 --whole-grid

LIBSVM is scikit-learn's SVC, UniverSVM this package's CCCPS3VM.
"""

import time
from itertools import product

import dask
import numpy as np
from baselines import rival
from choosing import by_test, error, realistic
from common import command, kept_in, over_splits, rows_at_hand, sets_at_hand, splits_of, timed
from figures import Figure, scatter
from flip_cost import against_naive
from splits import draws_of, given, three_way, training
from tables import Table

from dask_s3vm import CCCPS3VM, RLSC, S2RLSC, rlsc_path, s2rlsc_path
from dask_s3vm.datasets import make_g2c, make_g4c, make_moons

EXTRA = ("self-training", "label spreading")
NAMES = {"Gaussian2C": "G2C", "Gaussian4C": "G4C"}
QUICK_SETS = ("Gaussian2C", "COIL (3, 6)")


class Plan:
    """Grids, restarts and folds of the searches."""

    def __init__(self, args):
        powers = np.arange(-10, 11, 1 if args.whole_grid else 4)
        powers = [-2] if args.quick else sorted(powers.tolist(), key=abs)
        self.lams = [2.0**power for power in powers]
        self.weights = [1.0] if args.quick else [1.0, 0.1]
        self.costs = [1.0, 0.01, 100.0] if args.whole_grid else [1.0]
        self.population = (5, 25) if args.whole_grid else (1, 1)
        self.restarts = (2, 5) if args.quick else (10, 50)
        self.n_folds = 5 if args.whole_grid else 3


def search_of(method, ratio, is_realistic, plan):
    """Return the estimator of a method, its grid, and what the last fit has otherwise."""
    if method == "RLSC":
        return RLSC(), {"lam": plan.lams}, {}
    if method == "LIBSVM":
        return rival("SVM"), {"estimator__C": plan.lams}, {}
    known = {"balance": "paper", "positive_ratio": ratio}
    if method == "UniverSVM":
        return CCCPS3VM(**known), {"lam_unlabeled": plan.costs, "lam": plan.lams}, {}
    model = S2RLSC(
        balance_tol=0.2 if is_realistic else 0.1,
        n_restarts=plan.restarts[0],
        population=plan.population,
        random_state=0,
        **known,
    )
    grid = {"lam_unlabeled": plan.weights, "lam": plan.lams}
    return model, grid, {"final_params": {"n_restarts": plan.restarts[1]}}


def one_split(seed, X, y, sizes, is_realistic, plan, balanced, method):
    """(Test error in %, CPU seconds) of a method on one random split."""
    labeled, unlabeled, test = three_way(y, sizes, seed, balanced)
    rows, part = training(X, y, labeled, unlabeled)
    began = time.process_time()
    if method in EXTRA:
        model = rival(method).fit(rows, part)
    else:
        ratio = float(y[labeled].mean() if is_realistic else y.mean())
        estimator, grid, more = search_of(method, ratio, is_realistic, plan)
        if is_realistic:
            model, _ = realistic(estimator, grid, rows, part, seed, plan.n_folds, **more)
        else:
            model, _ = by_test(estimator, grid, rows, part, X[test], y[test], **more)
    seconds = time.process_time() - began
    return 100 * error(model, X[test], y[test]), seconds


def classification(args, number, is_realistic):
    """Table 2 or 3."""
    word = "realistic" if is_realistic else "non-realistic"
    extra = EXTRA if is_realistic else ()
    table = Table(f"001_table_{number}", f"Table {number}, {word}: test error in %", args.out,
                  extra=extra)  # fmt: skip
    splits, plan = splits_of(args), Plan(args)
    table.expected, table.whole = splits, args.whole_grid
    table.say(f"{splits} splits (paper: 10); linear kernel; "
              + ("ratio of the labeled rows, tolerance 0.2" if is_realistic
                 else "true ratio, tolerance 0.1; parameters by the test error"))  # fmt: skip
    table.say(
        f"lam and C 2^{np.log2(min(plan.lams)):.0f} .. 2^{np.log2(max(plan.lams)):.0f}, "
        f"{len(plan.lams)} values (paper: 21), nearest to 1 wins a tie; lam' {plan.weights}, of "
        f"UniverSVM {plan.costs}; "
        f"{plan.restarts[0]} restarts to choose, {plan.restarts[1]} at last; "
        f"{plan.population}-EA (paper: (5, 25)); {plan.n_folds} folds (paper: 5)"
    )
    table.say("Gaussian2C, Gaussian4C: as many labels of either class; other sets: random draws")
    for key, X, y in rows_at_hand(table, args, lambda name: NAMES.get(name, name), QUICK_SETS):
        name, *sizes = key
        found, seconds = {}, {}
        for method in table.methods:
            seeds = range(draws_of(name, sizes[0], splits))
            kept = kept_in(args, "001", word, *key, method)
            runs = over_splits(one_split, seeds, args.jobs, X, y, sizes, is_realistic, plan,
                               name in NAMES, method, kept=kept)  # fmt: skip
            found[method] = [one[0] for one in runs]
            seconds[method] = [one[1] for one in runs]
        table.add(key, found, seconds, kept=kept)
    table.finish()


def table_2(args):
    """Parameters by the test error."""
    classification(args, 2, False)


def table_3(args):
    """Parameters by cross-validation on the labeled rows."""
    classification(args, 3, True)


def moons_split(seed, sigmas, lams):
    """{method: (error in %, labels of the training rows)}, the grid looked up on the test set."""
    X, y = dask.compute(*make_moons(200, noise=0.1, random_state=3))
    labeled, unlabeled, test = three_way(y, (5, 95, 100), seed)
    rows, part = training(X, y, labeled, unlabeled)
    s = float(np.linalg.norm(np.ptp(rows, axis=0)))
    held = rows, part, X[test], y[test]
    widths = {"sigma": [f * s for f in sigmas], "lam": list(lams)}
    costs = {"estimator__gamma": [0.5 / (f * s) ** 2 for f in sigmas], "estimator__C": list(lams)}
    kernel = {"kernel": "rbf", "n_components": None}
    search = {"balance_tol": 0.02, "n_restarts": 50, "population": (1, 1)}
    semi = S2RLSC(balance="paper", positive_ratio=0.5, **search, **kernel, random_state=0)
    searches = {
        "RLSC": (RLSC(1.0, **kernel), widths),
        "LIBSVM": (rival("SVM", kernel="rbf"), costs),
        "S2RLSC": (semi, widths),
    }
    models = {k: by_test(estimator, grid, *held)[0] for k, (estimator, grid) in searches.items()}
    found = {k: (100 * error(model, X[test], y[test]), given(model.predict(rows), part))
             for k, model in models.items()}  # fmt: skip
    return found, rows


def figure_6(args):
    """Two moons and five labels."""
    figure = Figure("001_figure_6", "Figure 6: moons, 5 labels, test error in %", args.out,
                    x="labels", y="test error in %")  # fmt: skip
    splits = splits_of(args)
    sigmas = (0.1,) if args.quick else (0.1, 0.5, 1.0)
    lams = 2.0 ** (np.array([-6]) if args.quick else np.arange(-10, 3, 2))
    figure.say(
        f"{splits} splits of 5 + 95 + 100 rows; RBF kernel; grid on the test set, as the paper:"
    )
    figure.say(
        f"sigma {sigmas} x s, lam 2^-10 .. 2^2, lam' 1; best of 50; tolerance 0.02 (paper: 0.1)"
    )
    runs = over_splits(moons_split, range(splits), args.jobs, sigmas, lams)
    panels = []
    for method in runs[0][0]:
        errors = [found[method][0] for found, _ in runs]
        figure.add("moons", method, 5, errors)
        title = f"{method}: {np.mean(errors):.1f} ± {np.std(errors):.1f} %"
        panels.append((title, runs[0][1], runs[0][0][method][1], np.arange(5)))
    scatter("001_figure_6", args.out, panels)


def share_split(seed, make, n_labeled, n_unlabeled, n, d, lams, search):
    """Test errors in % of RLSC and S2RLSC, parameters by the test error."""
    X, y = dask.compute(*make(n, d, random_state=seed))
    labeled, unlabeled, test = three_way(y, (n_labeled, n_unlabeled, n // 2), seed)
    rows, part = training(X, y, labeled, unlabeled)
    supervised = rlsc_path(rows[:n_labeled], part[:n_labeled], lams)
    # most rows may be labeled: say what marks the others
    semi = s2rlsc_path(
        rows, part, lams, balance="paper", positive_ratio=float(y.mean()), unlabeled=-1,
        **search, random_state=0,
    )  # fmt: skip
    return [
        100 * min(error(model, X[test], y[test]) for model in models)
        for models in (supervised, semi)
    ]


def figure_7(args):
    """Test error over the numbers of labeled and unlabeled rows."""
    figure = Figure("001_figure_7", "Figure 7: share of the training rows", args.out,
                    x="% of the training rows", y="test error in %")  # fmt: skip
    splits = splits_of(args, 5)
    n, d = (100, 5) if args.quick else (500, 500)
    shares = (0.1, 0.8) if args.quick else (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
    lams = 2.0 ** (np.array([0]) if args.quick else np.arange(-10, 11, 4))
    search = {"n_restarts": 10, "population": (1, 1)}
    figure.say(f"{splits} draws (paper: 10) of {n} rows, {d} columns; {len(lams)} lam by the test "
               "error, lam' 1; best of 10, (1+1)-EA (paper: (5+25))")  # fmt: skip
    half = n // 2
    for (title, make), panel, share in product(
        {"G2C": make_g2c, "G4C": make_g4c}.items(), ("labeled", "unlabeled"), shares
    ):
        part, fixed = max(4, round(share * half)), round(0.2 * half)
        sizes = (part, half - part) if panel == "labeled" else (fixed, part)
        runs = np.array(
            over_splits(share_split, range(splits), args.jobs, make, *sizes, n, d, lams, search)
        )
        for place, method in enumerate(("RLSC", "S2RLSC")):
            figure.add(f"{title}: {panel} rows vary", method, round(100 * share), runs[:, place])
    figure.draw()


def figure_8(args):
    """The shortcut against the naive fitness."""
    figure = Figure("001_figure_8", "Figure 8: seconds of all restarts on G2C", args.out,
                    x="n", y="seconds", log="xy")  # fmt: skip
    sizes, restarts = ((100,), 2) if args.quick else ((100, 200, 500, 1000, 2000), 50)
    figure.say(
        f"{restarts} restarts, lam = lam' = 1, (1+1)-EA, with preprocessing; the naive way is timed"
    )
    figure.say("on some flips and multiplied by the flips that the search looked at")
    for n, shortcut, naive in against_naive(sizes, restarts):
        figure.add("G2C", "shortcut", n, [shortcut])
        figure.add("G2C", "naive (extrapolated)", n, [naive])
    figure.draw()


#: The linear kernel through r basis vectors.
LANDMARKS = {"kernel": "poly", "degree": 1, "coef0": 0.0, "gamma": 1.0, "random_state": 0}


def basis_split(seed, X, y, sizes, r, restarts):
    """Test error in % with r basis vectors."""
    labeled, unlabeled, test = three_way(y, sizes, seed)
    rows, part = training(X, y, labeled, unlabeled)
    model = S2RLSC(
        1.0, 1.0, balance="paper", positive_ratio=float(y[labeled].mean()),
        balance_tol=0.2, n_components=r,
        n_restarts=restarts, population=(1, 1), **LANDMARKS,
    )  # fmt: skip
    return 100 * error(model.fit(rows, part), X[test], y[test])


def figure_9(args):
    """Few basis vectors are enough."""
    figure = Figure("001_figure_9", "Figure 9: test error over the basis vectors", args.out,
                    x="r in % of n", y="test error in %")  # fmt: skip
    splits = splits_of(args, 5)
    sets = {"USPS (2, 5)": (32, 790, 823), "USPS (2, 7)": (34, 826, 861),
            "USPS (3, 8)": (30, 736, 766), "USPS (8, 0)": (45, 1085, 1131)}  # fmt: skip
    shares, restarts = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1), 50
    if args.quick:
        sets, shares, restarts = {"G2C": (25, 225, 250)}, (0.02, 0.1), 5
    figure.say(f"{splits} splits; lam = lam' = 1, linear kernel, (1+1)-EA, best of {restarts},"
               " ratio of the labeled rows (4 % of the training rows)")  # fmt: skip
    for (name, X, y), share in product(sets_at_hand(figure, sets, args), shares):
        sizes = sets[name]
        r = max(2, round(share * (sizes[0] + sizes[1])))
        errors = over_splits(basis_split, range(splits), args.jobs, X, y, sizes, r, restarts)
        figure.add(name, "S2RLSC", 100 * share, errors)
    figure.draw()


def figure_10(args):
    """A large set: seconds, and errors, over the number of rows."""
    figure = Figure("001_figure_10", "Figure 10: MNIST (1, 7), seconds of a fit", args.out,
                    x="training rows", y="seconds, %")  # fmt: skip
    name, sizes, r = "MNIST (1, 7)", (500, 1000, 2000, 3000, 4000, 5000), 100
    if args.quick:
        name, sizes, r = "G2C", (250,), 20
    figure.say(f"1 % labeled (at least 4), r = {r}, lam = lam' = 1, (1+1)-EA, best of 50, ratio of")
    figure.say("the labeled rows, tolerance 0.2; once more: the first fit may compile")
    for (_, X, y), n in product(sets_at_hand(figure, [name], args), sizes):
        few = max(4, n // 100)
        labeled, unlabeled, test = three_way(y, (few, n - few, n), 0)
        rows, part = training(X, y, labeled, unlabeled)
        model = S2RLSC(
            1.0, 1.0, balance="paper", positive_ratio=float(y[labeled].mean()),
            balance_tol=0.2, n_components=r,
            population=(1, 1), **LANDMARKS,
        )  # fmt: skip
        figure.add("seconds", "S2RLSC", n, [min(timed(model, rows, part)[1] for _ in range(2))])
        figure.add("test error in %", "S2RLSC", n, [100 * error(model, X[test], y[test])])
    figure.draw()


PARTS = {
    "table 2": table_2,
    "table 3": table_3,
    "figure 6": figure_6,
    "figure 7": figure_7,
    "figure 8": figure_8,
    "figure 9": figure_9,
    "figure 10": figure_10,
}
main = command(PARTS, __doc__, "S2RLSC (Gieseke, Kramer, Airola, Pahikkala)")

if __name__ == "__main__":
    main()
