"""How near are estimates of the ratio, and do their intervals hold it? On the sets of the study.

python examples/ratios.py               # some minutes
python examples/ratios.py --quick       # generated sets, seconds

"auto" is for labels drawn at random: its error is compared with that of the share of the labels.
"shift" is for labels drawn by class, here half of them of each class. Only the ratio is estimated,
nothing is trained. Sets and rows are those of `safety.py`, its published splits left aside. The
constants were chosen on the same half of the sets, on other draws.
"""

import argparse
import sys
import zlib
from pathlib import Path

import numpy as np

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import class_totals
from dask_s3vm.methods.ratio import estimate_ratios

sys.path.insert(0, str(Path(__file__).resolve().parent))

from safety import CHOSEN_ON, DATA, QUICK, SETS, NotAtHand, read


def drawn(rng, y, n_labels, by_class):
    """Labels of a draw, -1 where hidden; by class: as many of each."""
    few = np.full(len(y), -1)
    while True:
        rows = rng.choice(len(y), n_labels, replace=False)
        if by_class:
            half = n_labels // 2
            members = (np.flatnonzero(y == label) for label in (0, 1))
            rows = np.concatenate([rng.choice(own, half, replace=False) for own in members])
        if np.bincount(y[rows], minlength=2).min() >= 2:
            few[rows] = y[rows]
            return few


def estimate(X, few, how):
    """Share of the rows of class 1 among the unlabeled, with its interval."""
    engine = ingest(X, few).place(np.array([0, 1]))
    try:
        return estimate_ratios(engine, class_totals(engine, 2), [1], how).estimates[0]
    finally:
        engine.close()


def trials(name, X, y, how, n_labels, n_draws):
    """Yield (error, error of the share of the labels, whether the interval holds the truth)."""
    by_class = how == "shift"
    if 3 * n_labels > len(y) or (by_class and np.bincount(y).min() < n_labels):
        return
    for number in range(n_draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n_labels, number, by_class, 7])
        few = drawn(rng, y, n_labels, by_class)
        found, truth = estimate(X, few, how), y[few < 0].mean()
        share = few[few >= 0].mean()
        yield abs(found.value - truth), abs(share - truth), found.low <= truth <= found.high


def line(half, how, n_labels, found):
    """One line of the table: {set: trials} together, and the set that fares worst.

    For "auto", the error of a set is taken relative to that of the share of its labels.
    """
    every = np.concatenate(list(found.values()))
    off, share, held = every.mean(axis=0)
    by_set = {name: own[:, 0].mean() for name, own in found.items()}
    if how == "auto":
        by_set = {name: off / found[name][:, 1].mean() for name, off in by_set.items()}
    worst = max(by_set, key=by_set.get)
    over = f"{off / share:.3f}" if how == "auto" else ""
    return (
        f"| {half}, {len(found)} | {how} | {n_labels} | {len(every)} | {off:.4f} | {over} "
        f"| {by_set[worst]:.2f} ({worst}) | {100 * held:.1f} |"
    )


def main():
    """Estimate, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--labels", type=int, nargs="+", default=[30, 100], help="how many labels")
    parser.add_argument("--draws", type=int, default=10, help="draws of labels [default: 10]")
    parser.add_argument("--quick", action="store_true", help="generated sets, two draws")
    args = parser.parse_args()
    if args.quick:
        args.draws = 2
    found = {}
    for name in QUICK if args.quick else SETS:
        try:
            X, y = read(name, args.data)
        except NotAtHand as missing:
            print(missing, flush=True)
            continue
        half = "chosen on" if name in CHOSEN_ON else "held out"
        for how in ("auto", "shift"):
            for n_labels in args.labels:
                own = np.array(list(trials(name, X, y, how, n_labels, args.draws)), dtype=float)
                if len(own):
                    found.setdefault((half, how, n_labels), {})[name] = own
    print("| sets | ratio | labels | cases | error | over the share's | worst set | covered % |")
    print("|---|---|---|---|---|---|---|---|")
    for key in sorted(found, reverse=True):
        print(line(*key, found[key]))


if __name__ == "__main__":
    main()
