"""`dask-s3vm demo`: a data set, a training and a result to look at; no file, no network."""

import time
from typing import Any

import click

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.errors import told_plainly
from dask_s3vm.cli.tables import Row, show


@click.command()
@click.option("--rows", type=click.IntRange(100), default=20_000, show_default=True)
@click.option("--features", type=click.IntRange(2), default=47_236, show_default=True)
@click.option("--lam", type=float, default=1e-3, show_default=True, help="Regularisation.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@cluster_options
def demo(rows: int, features: int, lam: float, seed: int, as_json: bool, **where: Any) -> None:
    """Train on text-like rows with few and with all labels, and compare the errors.

    A fifth of the rows is held out to measure the error.
    """
    if where["nworkers"] is None and not (where["scheduler"] or where["scheduler_file"]):
        where["nworkers"] = 0  # small: the threads of this process
    with told_plainly(), running_on(ClusterOptions(**where)):
        table = _train_all(rows, features, lam, seed)
    if not as_json:
        click.echo(f"text-like rows: {rows:,} x {features:,}, a fifth held out; lam {lam:g}\n")
    show(table, as_json)


def _train_all(rows: int, features: int, lam: float, seed: int) -> list[Row]:
    import dask

    from dask_s3vm import L2SVM
    from dask_s3vm.datasets import hide_labels, make_text

    X, y = dask.persist(*make_text(rows, features, block="scipy", random_state=seed))
    cut = rows - rows // 5
    train, test = (X[:cut], y[:cut]), (X[cut:], y[cut:])
    table: list[Row] = []
    for n_labeled in sorted({min(100, cut), min(1000, cut), cut}):
        labels = hide_labels(train[1], n_labeled, random_state=seed)
        began = time.perf_counter()
        model = L2SVM(lam=lam).fit(train[0], labels)
        seconds = time.perf_counter() - began
        wrong = (model.predict(test[0]) != test[1]).mean().compute()
        table.append(
            {
                "method": "L2SVM",
                "rows": cut,
                "labels": n_labeled,
                "error_%": round(100 * float(wrong), 2),
                "objective": model.objective_,
                "newton": model.n_iter_,
                "cg": sum(row["cg_steps"] for row in model.history_),
                "seconds": round(seconds, 2),
            }
        )
    return table
