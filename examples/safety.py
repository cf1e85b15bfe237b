"""Do unlabeled rows help or harm? A study of all methods against the supervised SVM.

python examples/safety.py                            # some hours; stop and resume at will
python examples/safety.py --methods TSVM S3VM --draws 3
python examples/safety.py --quick                    # generated sets, a minute
python examples/safety.py --report                   # tables and plot of what there is

Every method is trained at its defaults on the same few labels, the ratio never given, and counted
on the unlabeled rows against `L2SVM`. Where a set comes with published splits, these are the draws;
elsewhere labels are drawn at random, 30 and 100 of them, both classes at least twice.

Text has rows of length 1. Columns of tables have deviation 1. Dense rows are divided by one number,
such that their mean squared length is 1. At most 3,000 rows of a set are used.

The constants of `S3VM` (methods/safe.py: the range in which a row counts partly, how near to one
row a gain must be for another division) were chosen on a random half of the sets, `CHOSEN_ON`, on
other draws of labels than those here. That a gain must be clear of a row, by that half row, and
that no more rows may become wrong than right, was chosen on generated sets and on those of
scikit-learn, none of which is in the study. Of constants that did equally well on `CHOSEN_ON`, the
last choice was made with a look at both halves. What models take from the supervised SVM
(methods/blend.py, methods/unseen.py) was chosen on `CHOSEN_ON` alone. So was the row and a half
that predicting one class must gain, after a look at harmed cases of both halves, and the row that a
method with few labels must not lose on folds, after a look at 12 cases of the other half, and the
chance with which 3 points at most may be lost; that fewer than 20 labels are left out of it was
decided after a look at both. The other half is reported first.

Results are one file of comma-separated values per set in --out, one line per fit.
"""

import argparse
import csv
import os
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import NamedTuple

import dask
import numpy as np
from scipy.sparse import issparse
from scipy.stats import wilcoxon
from sklearn.preprocessing import StandardScaler

import dask_s3vm as s3
from dask_s3vm.datasets import make_g2c, make_g4c, make_text

PAPERS = Path(__file__).resolve().parent / "papers"
DATA = Path(os.environ.get("DASK_S3VM_DATA", PAPERS.parents[2] / "shared" / "data"))
sys.path.insert(0, str(PAPERS))

from datasets import IMBALANCED, NotAtHand, _csr, _svmlight, load, published_splits  # noqa: E402

MOST_ROWS = 3000
BASELINE, YARDSTICK = "L2SVM", "TSVM"
METHODS = {
    "L2SVM": s3.L2SVM,
    "S3VM": s3.S3VM,
    "TSVM": s3.TSVM,
    "DAS3VM": s3.DAS3VM,
    "CCCPS3VM": s3.CCCPS3VM,
    "QNS3VM": s3.QNS3VM,
    "QPS3VM": s3.QPS3VM,
    "SubmodularS3VM": s3.SubmodularS3VM,
    "S2RLSC": lambda **more: s3.S2RLSC(n_restarts=10, random_state=0, **more),
    "STARSVM": lambda **more: s3.STARSVM(kernel="linear", **more),
}
DEFAULT = tuple(METHODS)
METHODS |= {
    f"{name}, safe": (lambda make: lambda: make(safe=True))(METHODS[name]) for name in DEFAULT[2:]
}
METHODS["TSVM alone"] = lambda: s3.TSVM(supervised_part=0.0)
TABLES = ("australian", "svmguide1", *IMBALANCED)
PAIRS = ("USPS (2, 5)", "USPS (3, 8)", "USPS (2, 7)", "MNIST (1, 7)", "MNIST (4, 9)",
         "MNIST (3, 8)")  # fmt: skip
SPLITS = ("ssl1 Digit1", "ssl2 USPS", "ssl3 COIL2", "ssl4 BCI", "ssl5 g241c", "ssl7 g241n",
          "ssl9 Text", "g50c", "pcmac")  # fmt: skip


# Sets ---------------------------------------------------------------------------------------------


def topic(key):
    """RCV1 documents of one topic against the others."""

    def read(folder):
        X, y = _csr(folder / "rcv1_2316_topics.npz", key)
        return X, (y > 0).astype(int)

    return read


def labeled_only(name):
    """A set without the rows whose class nobody knows."""

    def read(folder):
        X, y = load(name, folder)
        return X[np.flatnonzero(y >= 0)], y[y >= 0]

    return read


def small_digits(folder):
    """USPS test digits, below 5 against the others."""
    X, y = load("uspst", folder)
    return X, (y < 5).astype(int)


OTHERS = {
    "ssl8 SecStr": labeled_only("ssl8 SecStr"),
    "ccat": topic("y"),
    "gcat": topic("y_gcat"),
    "ecat": topic("y_ecat"),
    "mcat": topic("y_mcat"),
    "ccat, sample": lambda folder: _svmlight(folder / "rcv1_ccat_sample.svm.gz", 47_236),
    "20news rec-sci": labeled_only("20news rec-sci"),
    "20news comp-rest": labeled_only("20news comp-rest"),
    "imdb": labeled_only("imdb"),
    "w8a": lambda folder: _svmlight(folder / "w8a.svm.gz", 300),
    "a9a": lambda folder: _svmlight(folder / "a9a.svm.gz", 123),
    "kdd99": labeled_only("kdd99, 805,050 rows"),
    "uspst": small_digits,
}
SETS = (*SPLITS, *OTHERS, *PAIRS, *TABLES)

#: Sets that the constants of `S3VM` were chosen on: half of those at hand, drawn at random.
CHOSEN_ON = (
    "20news rec-sci", "Contraceptive", "Crime", "Ecoli", "Euthyroid", "MNIST (3, 8)", "Oil",
    "Optical Digits", "USPS (2, 5)", "USPS (3, 8)", "Vowel", "Wine", "a9a", "australian", "ccat",
    "gcat", "imdb", "pcmac", "ssl2 USPS", "ssl3 COIL2", "ssl7 g241n", "svmguide1",
)  # fmt: skip


def generated(make, *size, **more):
    """A reader of generated rows."""

    def read(folder):
        X, y = dask.compute(*make(*size, **more, random_state=0))
        return X, np.asarray(y).astype(int)

    return read


#: Sets of --quick: two clusters, four that are not the classes, text.
QUICK = {
    "G2C": generated(make_g2c, 400, 20),
    "G4C": generated(make_g4c, 400, 20),
    "generated text": generated(make_text, 600, 2000, block="scipy"),
}


def read(name, folder):
    """Rows and labels 0 and 1 of a set, as the study uses them."""
    reader = QUICK.get(name) or OTHERS.get(name)
    X, y = reader(folder) if reader else load(name, folder)
    seed = zlib.crc32(name.encode())
    if X.shape[0] > MOST_ROWS and name not in SPLITS:
        chosen = np.random.default_rng(seed).choice(X.shape[0], MOST_ROWS, replace=False)
        X, y = X[np.sort(chosen)], y[np.sort(chosen)]
    if name in TABLES:
        X = StandardScaler().fit_transform(X)
    if not issparse(X):
        X = X / np.sqrt((X**2).sum(axis=1).mean())
    return X, y


def draws_of(name, y, n_draws, folder):
    """(number of labels, number of the draw, labeled rows) of each draw."""
    if name in SPLITS:
        for n_labels, splits in published_splits(name, folder).items():
            for number, rows in enumerate(splits[:n_draws]):
                yield n_labels, number, rows
        return
    for n_labels in (30, 100):
        if 3 * n_labels > len(y):
            continue
        for number in range(n_draws):
            rng = np.random.default_rng([zlib.crc32(name.encode()), n_labels, number])
            while True:
                rows = np.sort(rng.choice(len(y), n_labels, replace=False))
                if np.bincount(y[rows], minlength=2).min() >= 2:
                    break
            yield n_labels, number, rows


# Fits ---------------------------------------------------------------------------------------------

COLUMNS = ("labels", "draw", "method", "error", "share", "ratio", "low", "high", "true_ratio",
           "decision", "seconds")  # fmt: skip


def results_of(path):
    """Lines of a file of results."""
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def one_fit(method, X, y, few):
    """One line of results: errors and shares are of the unlabeled rows."""
    model = METHODS[method]()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, few)
    seconds = time.process_time() - began
    free = few < 0
    low, high = getattr(model, "positive_ratio_interval_", (0.0, 1.0))
    predicted = np.asarray(model.predict(X))[free]
    return {
        "method": method,
        "error": f"{np.mean(predicted != y[free]):.6f}",
        "share": f"{np.mean(predicted):.6f}",
        "ratio": f"{getattr(model, 'positive_ratio_', np.nan):.6f}",
        "low": f"{low:.6f}",
        "high": f"{high:.6f}",
        "true_ratio": f"{np.mean(y[free]):.6f}",
        "decision": getattr(model, "decision_", ""),
        "seconds": f"{seconds:.4f}",
    }


def study(name, args):
    """Make the fits of a set that are missing."""
    path = args.out / f"{name}.csv"
    done = {(row["labels"], row["draw"], row["method"]) for row in results_of(path)}
    try:
        X, y = read(name, args.data)
        draws = list(draws_of(name, y, args.draws, args.data))
    except NotAtHand as missing:
        print(missing, flush=True)
        return
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        if not done and stream.tell() == 0:
            writer.writeheader()
        for n_labels, number, rows in draws:
            few = np.full(len(y), -1)
            few[rows] = y[rows]
            for method in args.methods:
                if (str(n_labels), str(number), method) in done:
                    continue
                row = {"labels": n_labels, "draw": number} | one_fit(method, X, y, few)
                writer.writerow(row)
                stream.flush()
    print(f"{name}: {len(draws)} draws", flush=True)


# Tables -------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One fit: error and that of the majority class in %, seconds, whether the share is far off."""

    error: float
    majority: float
    seconds: float
    off: bool


def case_of(row):
    """What a line of results says; a share is far off by more than twice the interval."""
    share, ratio, low, high = (float(row[key]) for key in ("share", "ratio", "low", "high"))
    rare = min(float(row["true_ratio"]), 1.0 - float(row["true_ratio"]))
    off = not ratio - 2 * (ratio - low) - 1e-3 <= share <= ratio + 2 * (high - ratio) + 1e-3
    off = off and not np.isnan(ratio)
    return Case(100 * float(row["error"]), 100 * rare, float(row["seconds"]), off)


def collect(folder, names):
    """{method: {(set, labels, draw): Case}}."""
    found = {}
    for name in names:
        for row in results_of(folder / f"{name}.csv"):
            case = name, int(row["labels"]), int(row["draw"])
            found.setdefault(row["method"], {})[case] = case_of(row)
    return found


def verdicts(gains):
    """(wins, draws, losses) over sets, by Wilcoxon's test over the draws of each.

    Family-wise 0.05: Bonferroni over the sets, which no set of fewer than 11 cases can meet.
    """
    counts = [0, 0, 0]
    level = 0.05 / max(len(gains), 1)
    for own in gains.values():
        differ = np.any(own != 0)
        sure = differ and len(own) > 1 and wilcoxon(own).pvalue <= level
        counts[0 if sure and np.median(own) > 0 else 2 if sure else 1] += 1
    return counts


HEADS = ("method", "cases", "error", "better / same / worse by a point", "worse by 3", "worst harm",
         "100 labels", "worse than the majority, by 1", "share far off", "won / drawn / lost",
         "gain kept", "time")  # fmt: skip


def table(found, names, title):
    """Lines of a table: what each method gains over the supervised SVM, on cases that all have."""
    base, yard = found[BASELINE], found.get(YARDSTICK)
    cases = sorted(case for case in set.intersection(*map(set, found.values())) if case[0] in names)
    if not cases:
        return []
    lines = [f"\n{title}: {len({case[0] for case in cases})} sets", ""]
    lines += ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    many = np.array([case[1] >= 100 for case in cases])
    gains = {
        method: np.array([base[case].error - own[case].error for case in cases])
        for method, own in found.items()
    }
    single = [gain.mean() for method, gain in gains.items() if method in DEFAULT[2:]]
    for method, gain in gains.items():
        own = [found[method][case] for case in cases]
        above = np.array([one.error - one.majority for one in own])
        won = verdicts({
            name: gain[[case[0] == name for case in cases]] for name in {case[0] for case in cases}
        })  # fmt: skip
        pairs = zip(cases, own, strict=True) if yard else ()
        times = [one.seconds / yard[case].seconds for case, one in pairs]
        kept = f"{100 * gain.mean() / max(single):.0f} %" if single and method != BASELINE else ""
        values = (
            method, len(cases), f"{np.mean([one.error for one in own]):.2f}",
            f"{np.sum(gain > 1)} / {np.sum(abs(gain) <= 1)} / {np.sum(gain < -1)}",
            np.sum(gain < -3), f"{0.0 - gain.min():+.1f}",
            f"{0.0 - gain[many].min():+.1f}" if many.any() else "",
            f"{np.sum(above > 1e-9)}, {np.sum(above > 1)}", sum(one.off for one in own),
            " / ".join(map(str, won)), kept, f"{np.median(times):.1f}" if times else "",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, values)) + " |")
    return lines


def report(args, names):
    """Print the tables, the held-out half first, and draw the gains by set."""
    found = collect(args.out, names)
    if BASELINE not in found:
        print("there are no results yet")
        return
    half = set(names) & set(CHOSEN_ON)
    lines = [*table(found, set(names) - half, "Held out")]
    if half:
        lines += [*table(found, half, "Chosen on"), *table(found, set(names), "All")]
    text = "\n".join(lines)
    print(text)
    (args.out / "README.md").write_text(text.lstrip("\n") + "\n")
    draw(found, names, args.out / "gains.png")


def draw(found, names, path):
    """Plot the mean gain over the supervised SVM by set."""
    from matplotlib.figure import Figure

    base = found[BASELINE]
    shown = [method for method in found if method != BASELINE]
    here = [name for name in names if any(case[0] == name for case in base)]
    figure = Figure(figsize=(8, 1 + 0.25 * len(here)), layout="constrained")
    axes = figure.subplots()
    for number, method in enumerate(shown):
        means = [
            np.mean([base[case].error - value.error for case, value in found[method].items()
                     if case[0] == name and case in base] or [np.nan])
            for name in here
        ]  # fmt: skip
        axes.plot(means, np.arange(len(here)), "o", ms=4 if number else 6, label=method)
    axes.axvline(0.0, color="gray", lw=0.8)
    axes.set_yticks(np.arange(len(here)), here)
    axes.set_xlabel("gain over the supervised SVM, points of error")
    axes.legend()
    figure.savefig(path, dpi=120)


def main():
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("safety-results"), help="results")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(DEFAULT))
    parser.add_argument("--sets", nargs="+", help="some of the sets")
    parser.add_argument("--draws", type=int, default=10, help="draws of labels [default: 10]")
    parser.add_argument("--quick", action="store_true", help="generated sets, two draws")
    parser.add_argument("--report", action="store_true", help="no fits: report what there is")
    args = parser.parse_args()
    if args.quick:
        args.draws, args.methods = 2, ["L2SVM", "S3VM", "TSVM"]
    names = list(QUICK) if args.quick else args.sets or list(SETS)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in [] if args.report else names:
        study(name, args)
    report(args, names if args.quick else [*SETS])


if __name__ == "__main__":
    main()
