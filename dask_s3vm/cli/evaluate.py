"""`dask-s3vm evaluate`: how good a model is on labeled rows."""

from typing import Any

import click
import numpy as np

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.data import data_options, rows_for, split_options
from dask_s3vm.cli.errors import BadData, told_plainly
from dask_s3vm.cli.tables import Row, show


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("data", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@data_options
@cluster_options
def evaluate(
    model: str,
    data: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Score MODEL on the rows of DATA whose label is one of its classes.

    Tables are encoded as those that the model was trained on.
    """
    import dask

    from dask_s3vm.io.models import load_predictor

    with told_plainly():
        estimator = load_predictor(model)
        source, where = split_options(given)
        with running_on(ClusterOptions(**where)):
            X, y = rows_for(estimator, data, source)
            if y is None:
                raise BadData(f"{data[0]} has no labels: an array `y` is wanted beside the rows")
            predicted, truth = dask.compute(estimator.predict(X), y)
        known = np.isin(truth, estimator.classes_)
        if not known.any():
            raise BadData(
                f"no row of {data[0]} has a label among the model's classes "
                f"{estimator.classes_.tolist()}"
            )
    show(_scores(estimator.classes_, predicted[known], truth[known]), as_json)


def _scores(classes: np.ndarray, predicted: np.ndarray, truth: np.ndarray) -> list[Row]:
    """One row per class, and one over all."""
    rows: list[Row] = []
    for label in classes:
        given, found = truth == label, predicted == label
        right = int(np.sum(given & found))
        rows.append(
            {
                "class": str(label),
                "rows": int(given.sum()),
                "precision": right / max(1, int(found.sum())),
                "recall": right / max(1, int(given.sum())),
                "error_%": 100.0 * float(np.mean(given != found)),
            }
        )
    accuracy = float(np.mean(predicted == truth))
    total = {"precision": accuracy, "recall": accuracy, "error_%": 100.0 * (1.0 - accuracy)}
    return [*rows, {"class": "all", "rows": len(truth), **total}]
