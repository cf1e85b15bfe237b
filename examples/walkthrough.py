"""An introduction to semi-supervised learning, cell by cell, with pictures.

Open it in an editor with `# %%` cells (VS Code, Spyder, Jupytext), or run it:

python examples/walkthrough.py                        # writes pictures to the folder walkthrough/
python examples/walkthrough.py --output pictures --rows 400 --draws 2
python examples/walkthrough.py --scheduler tcp://host:8786
"""

# %% Options, and a cluster: a given one, or a new local one
import argparse
import warnings
from pathlib import Path

import dask
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_moons, make_text
from dask_s3vm.plotting import plot_decision_boundary, plot_error_over_labels, plot_outputs

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--scheduler", help="address of a dask scheduler")
parser.add_argument(
    "--rows", type=int, default=4000, help="number of text-like rows [default: 4000]"
)
parser.add_argument(
    "--draws", type=int, default=5, help="draws of labels for the last picture [default: 5]"
)
parser.add_argument(
    "--output",
    type=Path,
    default=Path("walkthrough"),
    help="folder of pictures [default: walkthrough]",
)


def two_moons(folder):
    # %% Two moons, four labels: the boundary without and with the unlabeled rows
    X, y = dask.compute(*make_moons(n_rows=400, random_state=1))
    few = hide_labels(y, 4)
    kernel = {"kernel": "rbf", "sigma": 0.3, "n_components": 100, "random_state": 0}
    models = [
        L2SVM(lam=1e-2, **kernel),
        TSVM(lam=1e-2, lam_unlabeled=1.0, positive_ratio=0.5, **kernel),
    ]
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for model, axis in zip(models, axes, strict=True):
        model.fit(X, few)
        plot_decision_boundary(model, X, few, ax=axis)
        error = np.mean(model.predict(X) != y)
        axis.set_title(f"{type(model).__name__}: {100 * error:.1f} % wrong")
        print(f"two moons, 4 labels: {type(model).__name__} error {100 * error:.1f} %")
    save(figure, folder / "moons.png")


def outputs(folder, n_rows):
    # %% Text: unlabeled rows are pushed out of the margin
    X, y = make_text(n_rows=n_rows, n_features=5000)
    few = hide_labels(y, 50)
    ratio = float(y.mean().compute())
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True)
    for model, axis in zip(
        (L2SVM(lam=1e-3), TSVM(lam=1e-3, positive_ratio=ratio)), axes, strict=True
    ):
        model.fit(X, few)
        plot_outputs(model, X, few, ax=axis)
        axis.set_title(type(model).__name__)
    save(figure, folder / "outputs.png")


def error_over_labels(folder, n_rows, draws):
    # %% How many labels does it take?
    X, y = dask.persist(*make_text(n_rows=n_rows, n_features=5000))
    ratio, truth = float(y.mean().compute()), y.compute()
    errors = {"L2SVM": {}, "TSVM": {}}
    for n_labels in (10, 20, 50, 100, 200):
        for seed in range(draws):
            few = hide_labels(y, n_labels, random_state=seed)
            for model in (L2SVM(lam=1e-3), TSVM(lam=1e-3, positive_ratio=ratio)):
                wrong = np.mean(np.asarray(model.fit(X, few).predict(X)) != truth)
                errors[type(model).__name__].setdefault(n_labels, []).append(float(wrong))
        means = ", ".join(
            f"{m} error {100 * np.mean(e[n_labels]):.1f} %" for m, e in errors.items()
        )
        print(f"text, {n_labels} labels: {means}")
    figure, axis = plt.subplots(figsize=(5, 3.5))
    plot_error_over_labels(errors, ax=axis)
    save(figure, folder / "labels.png")


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"picture: {path}")


# %% Run all cells
if __name__ == "__main__":
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", message=".*may have collapsed")  # expected with so few labels
    with Client(args.scheduler or LocalCluster(dashboard_address=":0")):
        two_moons(args.output)
        outputs(args.output, args.rows)
        error_over_labels(args.output, args.rows, args.draws)
