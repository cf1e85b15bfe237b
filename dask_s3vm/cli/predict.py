"""`dask-s3vm predict`: a prediction for every row of a file."""

from typing import Any

import click
import numpy as np

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.data import data_options, rows_for, split_options
from dask_s3vm.cli.errors import told_plainly


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("data", nargs=-1, required=True)
@click.option("--output", type=click.File("w"), default="-", help="Where to write; - = stdout.")
@click.option("--decision", is_flag=True, help="Write outputs w.x + b instead of classes.")
@data_options
@cluster_options
def predict(
    model: str,
    data: tuple[str, ...],
    output: Any,
    decision: bool,
    **given: Any,
) -> None:
    """Predict the rows of DATA with MODEL, one line per row.

    Tables are encoded as those that the model was trained on; labels in them are left alone.
    """
    from dask_s3vm.io.models import load_predictor

    with told_plainly():
        estimator = load_predictor(model)
        source, where = split_options(given)
        with running_on(ClusterOptions(**where)):
            X, _ = rows_for(estimator, data, source, labels=False)
            answer = estimator.decision_function(X) if decision else estimator.predict(X)
            values = np.asarray(answer)
    np.savetxt(output, values, fmt="%.17g" if decision else "%s")
