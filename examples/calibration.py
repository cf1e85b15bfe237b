"""How good are the probabilities? Against scikit-learn's `CalibratedClassifierCV(LinearSVC)`.

python examples/calibration.py                       # nine sets, three draws of labels each
python examples/calibration.py --quick               # generated sets, a minute

All models have the same labels and are measured on the unlabeled rows. `LinearSVC` sees the labels
alone, at its default C and at the C that regularizes as `lam` does here. Sets, scaling and draws
are those of safety.py, with the most labels that there are splits for.

brier: mean squared error of the probability of class 1. ece: expected calibration error, the mean
distance between probability and frequency in ten bins of equal width.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import LinearSVC

from dask_s3vm import L2SVM, S3VM, lam_to_C

sys.path.insert(0, str(Path(__file__).resolve().parent))

from safety import QUICK, SPLITS, NotAtHand, draws_of, read

LAM = 1e-3
MODELS = {
    "LinearSVC, C=1": lambda n: CalibratedClassifierCV(LinearSVC()),
    "LinearSVC, same C": lambda n: CalibratedClassifierCV(LinearSVC(C=lam_to_C(LAM, n))),
    "L2SVM": lambda n: L2SVM(LAM, probability=True),
    "S3VM": lambda n: S3VM(LAM, probability=True),
}


def calibration_error(p, y):
    """Mean distance between probability and frequency, by rows, in ten bins."""
    bins = np.minimum((10 * p).astype(int), 9)
    return sum(abs(np.sum(p[bins == k] - y[bins == k])) for k in range(10)) / len(y)


def measured(X, y, rows):
    """(models, 2) Brier scores and calibration errors on the unlabeled rows."""
    few = np.full(len(y), -1)
    few[rows] = y[rows]
    free, found = few < 0, []
    for make in MODELS.values():
        model = make(len(rows))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(model, CalibratedClassifierCV):
                model.fit(X[rows], y[rows])
            else:
                model.fit(X, few)
        p = np.asarray(model.predict_proba(X))[free, 1]
        found.append((np.mean((p - y[free]) ** 2), calibration_error(p, y[free])))
    return np.array(found)


def main():
    """Print a line for each set, and the mean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DASK_S3VM_DATA", "data"))
    parser.add_argument("--draws", type=int, default=3, help="draws of labels per set")
    parser.add_argument("--quick", action="store_true", help="generated sets, one draw")
    options = parser.parse_args()
    names, n_draws = (QUICK, 1) if options.quick else (SPLITS, options.draws)
    print("| set | labels |", " | ".join(f"{name}: brier, ece" for name in MODELS), "|")
    print("|---" * (2 + len(MODELS)) + "|")
    means = []
    for name in names:
        try:
            X, y = read(name, Path(options.data))
        except NotAtHand as error:
            print(error)
            continue
        draws = list(draws_of(name, y, n_draws, Path(options.data)))
        most = max(n_labels for n_labels, _, _ in draws)
        found = [measured(X, y, rows) for n_labels, _, rows in draws if n_labels == most]
        means.append(np.mean(found, axis=0))
        show(f"{name} | {most}", means[-1])
    show("mean | ", np.mean(means, axis=0))


def show(title, numbers):
    """Print a line of the table."""
    cells = " | ".join(f"{brier:.4f}, {ece:.4f}" for brier, ece in numbers)
    print(f"| {title} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
