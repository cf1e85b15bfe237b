"""`dask-s3vm demo`: train on a generated data set and show the errors; needs no file."""

import time
from typing import Any

import click

from dask_s3vm.cli.cluster import cluster_of, cluster_options, running_on
from dask_s3vm.cli.options import GroupedCommand, json_option, option
from dask_s3vm.cli.output import Row, show
from dask_s3vm.cli.stopping import format_errors

#: A share of positive rows that is far from the truth.
WRONG_RATIO = 0.15


@click.command(cls=GroupedCommand)
@option(
    "--rows",
    type=click.IntRange(100),
    default=20_000,
    show_default=True,
    group="data",
    help="Number of rows.",
)
@option(
    "--features",
    type=click.IntRange(2),
    default=47_236,
    show_default=True,
    group="data",
    help="Number of columns.",
)
@option(
    "--labels",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    group="data",
    help="Number of labeled rows.",
)
@option(
    "--lam",
    type=float,
    default=1e-3,
    show_default=True,
    group="method",
    help="Weight of the regularizer.",
)
@option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    group="data",
    help="Seed of the data.",
)
@json_option
@cluster_options
def demo(
    rows: int, features: int, labels: int, lam: float, seed: int, as_json: bool, **where: Any
) -> None:
    """Train on text-like rows, few of them labeled, with and without the unlabeled rows.

    A fifth of the rows is held out to measure the error. In lines with a ratio of 0.15, far from
    the truth, a plain method is led astray; S3VM notices by folds of the labeled rows. The last
    line of the table is the supervised SVM with all labels known.
    """
    with format_errors(), running_on(cluster_of(where)):
        table = _train_all(rows, features, labels, lam, seed)
    if not as_json:
        click.echo(f"text-like rows: {rows:,} x {features:,}, a fifth held out; lam {lam:g}\n")
    show(table, as_json)


def _train_all(rows: int, features: int, n_labels: int, lam: float, seed: int) -> list[Row]:
    import dask

    from dask_s3vm import DAS3VM, L2SVM, S3VM, TSVM
    from dask_s3vm.datasets import hide_labels, make_text

    X, y = dask.persist(*make_text(rows, features, block="scipy", random_state=seed))
    cut = rows - rows // 5
    train, test = (X[:cut], y[:cut]), (X[cut:], y[cut:])
    few = hide_labels(train[1], min(n_labels, cut), random_state=seed)
    ratio = float(train[1].mean().compute())
    cases = [
        (L2SVM(lam=lam), few, n_labels),
        (S3VM(lam=lam), few, n_labels),
        (TSVM(lam=lam, positive_ratio=ratio), few, n_labels),
        (DAS3VM(lam=lam, positive_ratio=ratio), few, n_labels),
        (TSVM(lam=lam, positive_ratio=WRONG_RATIO), few, n_labels),
        (S3VM(lam=lam, positive_ratio=WRONG_RATIO), few, n_labels),
        (L2SVM(lam=lam), train[1], cut),
    ]
    return [_case(model, train[0], labels, n, *test) for model, labels, n in cases]


def _case(model: Any, X: Any, labels: Any, n_labels: int, test: Any, truth: Any) -> Row:
    """Train a model, and measure its error on the held-out rows."""
    began = time.perf_counter()
    model.fit(X, labels)
    seconds = time.perf_counter() - began
    ratio = getattr(model, "positive_ratio_", None)
    wrong = (model.predict(test) != truth).mean().compute()
    return {
        "method": type(model).__name__,
        "rows": X.shape[0],
        "labels": n_labels,
        "ratio": None if ratio is None else round(float(ratio), 3),
        "decision": getattr(model, "decision_", "supervised"),
        "error_%": round(100 * float(wrong), 2),
        "objective": model.objective_,
        "iterations": model.n_iter_,
        "cg": sum(row["cg_steps"] for row in model.history_),
        "seconds": round(seconds, 2),
    }
