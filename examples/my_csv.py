"""From a csv table with few labels to a model, and from the model to predictions.

python examples/my_csv.py                                # generates a small table
python examples/my_csv.py mine.csv --label bought --positive yes
python examples/my_csv.py mine.csv --label bought --positive yes --scheduler tcp://host:8786

Columns may be numbers or words. A row with an empty label is unlabeled, and used in training too.
"""

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
from dask.distributed import Client, LocalCluster

from dask_s3vm import L2SVM, TSVM, load_model, save_model
from dask_s3vm.io import read_table


def make_table(path, n_rows, n_labels):
    """Write a table of customers, few of them labeled; returns the labels of all customers."""
    rng = np.random.default_rng(0)
    truth = rng.random(n_rows) < 0.4
    labeled = rng.choice(n_rows, n_labels, replace=False)
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["age", "visits", "country", "device", "bought"])
        for i, buys in enumerate(truth):
            label = ("yes" if buys else "no") if i in labeled else ""
            table.writerow(
                [
                    int(np.clip(rng.normal(45 if buys else 30, 8), 16, 90)),
                    rng.poisson(9 if buys else 3),
                    rng.choice(["de", "fr", "pl"], p=[0.6, 0.2, 0.2] if buys else [0.2, 0.3, 0.5]),
                    rng.choice(["phone", "laptop"], p=[0.2, 0.8] if buys else [0.7, 0.3]),
                    label,
                ]
            )
    return truth.astype(int)


def main(args, folder):
    path, truth = args.file, None
    if path is None:
        path = folder / "customers.csv"
        truth = make_table(path, args.rows, min(20, args.rows // 10))
    # 1. Read. The encoder knows the columns, their categories and ranges.
    X, y, encoder = read_table(path, label=args.label, positive=args.positive)
    print(f"{X.shape[0]:,} rows, {int((y >= 0).sum().compute()):,} of them labeled")
    print("features:", ", ".join(encoder.get_feature_names_out()))

    # 2. Train, without and with the unlabeled rows.
    ratio = args.positive_ratio
    for model in (L2SVM(lam=1e-2), TSVM(lam=1e-2, positive_ratio=ratio)):
        model.fit(X, y)
        error = ""
        if truth is not None:
            error = f", error {100 * np.mean(np.asarray(model.predict(X)) != truth):.2f} %"
        print(f"{type(model).__name__}: {model.termination_}{error}")

    # 3. Save the model, with the encoder in it.
    model.encoder_ = encoder
    save_model(model, folder / "model.npz")

    # 4. Later, elsewhere: predict new rows, encoded like the training rows.
    model = load_model(folder / "model.npz")
    if truth is not None:
        new = [
            {"age": 52, "visits": 11, "country": "de", "device": "laptop"},
            {"age": 21, "visits": 1, "country": "pl", "device": "phone"},
        ]
        for row, label in zip(new, model.predict(model.encoder_.transform(new)), strict=True):
            print(row, "->", args.positive if label else f"not {args.positive}")
    rows, _, _ = read_table(path, encoder=model.encoder_, label=False)
    found = np.asarray(model.predict(rows))
    print(f"predicted {args.positive}: {found.sum():,} of {len(found):,} rows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, help="a csv table")
    parser.add_argument("--label", default="bought", help="label column [default: bought]")
    parser.add_argument("--positive", default="yes", help="label of class 1 [default: yes]")
    parser.add_argument("--positive-ratio", type=float, help="share of class 1, if it is known")
    parser.add_argument("--scheduler", help="address of a dask scheduler")
    parser.add_argument(
        "--rows", type=int, default=2000, help="rows of the generated table [default: 2000]"
    )
    options = parser.parse_args()
    if options.file is None and options.positive_ratio is None:
        options.positive_ratio = 0.4
    address = options.scheduler or LocalCluster(dashboard_address=":0")
    with tempfile.TemporaryDirectory() as scratch, Client(address):
        main(options, Path(scratch))
