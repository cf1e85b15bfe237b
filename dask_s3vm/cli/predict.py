"""`dask-s3vm predict` and `evaluate`, and the files of labels that `train` found.

`predict` writes a prediction for every row, `evaluate` scores a model on labeled rows, and
`open_found` writes the file of `train --predict-unlabeled`, block by block.
"""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol

import click
import numpy as np

from dask_s3vm.cli.cluster import cluster_of, cluster_options, running_on
from dask_s3vm.cli.data import (
    file_options,
    kept_columns,
    labeled_rows,
    options_for,
    read_rows,
    reading_options,
)
from dask_s3vm.cli.labels import check_label_options
from dask_s3vm.cli.options import GroupedCommand, Place, json_option, label_place_options, option
from dask_s3vm.cli.output import Row, check_output, show, show_json
from dask_s3vm.cli.stopping import EXIT_CODES, BadData, format_errors
from dask_s3vm.io.store import replacing

#: Endings of the names of files that `open_found` can write.
ENDINGS = (".csv", ".npy")


@click.command(cls=GroupedCommand, epilog=EXIT_CODES)
@click.argument("model", type=Place())
@click.argument("data", nargs=-1, required=True, type=Place())
@option(
    "-o",
    "--output",
    type=Place(),
    default="-",
    group="run",
    metavar="FILE",
    shown="standard output",
    help="File to write.",
)
@option("--decision", is_flag=True, group="run", help="Write outputs w.x + b instead of classes.")
@option(
    "--proba",
    is_flag=True,
    group="run",
    help="Write the probability of each class instead, for a model of train --probability.",
)
@option(
    "--keep",
    multiple=True,
    group="run",
    metavar="COLUMN",
    help="Table column, such as an id, to write before the prediction of each row; repeatable. "
    "The output is csv.",
)
@file_options
@cluster_options
def predict(
    model: str,
    data: tuple[str, ...],
    output: str,
    decision: bool,
    proba: bool,
    keep: tuple[str, ...],
    **chosen: Any,
) -> None:
    """Predict the rows of DATA with MODEL, one line per row.

    Tables are encoded like the training tables of the model. Labels in DATA, and columns that the
    model does not know, are ignored. With --proba the output is csv: the first line names the
    classes, and each row has a probability for each of them. With --keep it is csv too, with the
    columns that are kept first.

    \b
    Examples:
      dask-s3vm predict model.npz new.csv --output labels.txt
      dask-s3vm predict model.npz new.csv --keep id --output labels.csv
    """  # noqa: D301
    from dask_s3vm.io.models import load_predictor

    if decision and proba:
        raise click.UsageError("--decision and --proba exclude each other")
    if output != "-":
        check_output("--output", output, inputs=[model, *data])
    with format_errors():
        estimator = load_predictor(model)
        if proba and getattr(estimator, "calibration_", None) is None:
            raise BadData(f"{model} has no probabilities; train it with --probability")
        options = options_for(estimator, data, reading_options(chosen))
        encoder = getattr(estimator, "encoder_", None)
        if keep and encoder is None:
            raise click.UsageError(
                f"--keep is for tables; {model} was trained on rows that are none"
            )
        with running_on(cluster_of(chosen)):
            X, _ = read_rows(data, options, encoder=encoder, labels=False)
            kept = kept_columns(data, options, encoder, keep) if keep else {}
            wanted = (
                estimator.predict_proba
                if proba
                else (estimator.decision_function if decision else estimator.predict)
            )
            values = np.asarray(wanted(X))
        text, form = io.StringIO(), "%.17g" if decision or proba else "%s"
        if proba or keep:
            _write_csv(text, kept, values, form, proba, estimator.classes_)
        else:
            np.savetxt(text, values, form)
        if output == "-":
            click.echo(text.getvalue(), nl=False)
        else:
            with replacing(output, "w") as stream:
                stream.write(text.getvalue())


def _write_csv(
    stream: Any,
    kept: dict[str, list[Any]],
    values: np.ndarray,
    form: str,
    proba: bool,
    classes: Any,
) -> None:
    """Write columns that are kept, and predictions, decisions or probabilities behind them."""
    if values.ndim == 1:
        names = ["prediction" if form == "%s" else "decision"]
    else:
        names = [label if proba else f"decision_{label}" for label in classes.tolist()]
    told = [[form % value for value in column] for column in values.reshape(len(values), -1).T]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*kept, *names])
    writer.writerows(zip(*kept.values(), *told, strict=True))


@click.command(cls=GroupedCommand, epilog=EXIT_CODES)
@click.argument("model", type=Place())
@click.argument("data", nargs=-1, required=True, type=Place())
@file_options
@label_place_options
@json_option
@cluster_options
def evaluate(model: str, data: tuple[str, ...], as_json: bool, **chosen: Any) -> None:
    """Measure the accuracy of MODEL on the rows of DATA whose label is one of its classes.

    Tables are encoded like the training tables of the model. `share` is the share of a class among
    the labels, `predicted_share` among the predictions.

    \b
    Example:
      dask-s3vm evaluate model.npz test.csv
    """  # noqa: D301
    import dask

    from dask_s3vm.io.arrays import read_labels
    from dask_s3vm.io.models import load_predictor

    check_label_options(chosen)
    with format_errors():
        estimator = load_predictor(model)
        apart = read_labels(chosen["labels"]) if chosen["labels"] else None
        options = options_for(estimator, data, chosen)
        with running_on(cluster_of(chosen)):
            encoder, mark = (getattr(estimator, "encoder_", None), estimator.unlabeled)
            X, y = labeled_rows(data, options, apart, encoder=encoder, unlabeled=mark)
            predicted, truth = dask.compute(estimator.predict(X), y)
        known = np.isin(truth, estimator.classes_)
        if not known.any():
            raise BadData(
                f"no row of {data[0]} has a label among the classes of the model, "
                f"{estimator.classes_.tolist()}"
            )
    scores = _scores(estimator.classes_, predicted[known], truth[known])
    if as_json:
        show_json(scores)
        return
    show(scores["classes"])
    right = scores["accuracy"]
    click.echo(f"\naccuracy {right:.4f} (error {100 * (1 - right):.2f} %) on {known.sum():,} rows")


def _scores(classes: np.ndarray, predicted: np.ndarray, truth: np.ndarray) -> Row:
    """Return the accuracy, and one row of scores per class."""
    rows: list[Row] = []
    for label in classes:
        given, found = truth == label, predicted == label
        right = int(np.sum(given & found))
        rows.append(
            {
                "class": str(label),
                "rows": int(given.sum()),
                "share": float(given.mean()),
                "predicted_share": float(found.mean()),
                "precision": right / max(1, int(found.sum())),
                "recall": right / max(1, int(given.sum())),
            }
        )
    accuracy = float(np.mean(predicted == truth))
    total = {"rows": len(truth), "accuracy": accuracy, "error_%": 100.0 * (1.0 - accuracy)}
    return {**total, "classes": rows}


class Sink(Protocol):
    """Receives the rows that had no label."""

    n_rows: int

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write rows: their numbers, the labels found, and the outputs, (n,) or (n, k)."""
        ...


@contextmanager
def open_found(path: str, classes: np.ndarray) -> Iterator[Sink]:
    """Open a file for the labels found; the file appears when it is complete.

    A csv file has the columns row, label and decision; with more than two classes, decision_LABEL
    for each class. An npy file has the same as a structured array, with one field `decision` of k
    numbers for k > 2 classes.
    """
    is_array = path.lower().endswith(".npy")
    with replacing(path, "wb" if is_array else "w") as stream:
        if is_array:
            sink = _NpySink(stream, classes)
            yield sink
            sink.finish()
        else:
            yield _CsvSink(stream, classes)


class _CsvSink:
    def __init__(self, stream: Any, classes: np.ndarray) -> None:
        self.n_rows = 0
        self._writer = csv.writer(stream)
        several = [f"decision_{label}" for label in classes.tolist()]
        self._writer.writerow(["row", "label", *(several if len(classes) > 2 else ["decision"])])

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write rows; see `Sink`."""
        columns = [outputs.tolist()] if outputs.ndim == 1 else outputs.T.tolist()
        self._writer.writerows(zip(numbers.tolist(), labels.tolist(), *columns, strict=True))
        self.n_rows += len(numbers)


class _NpySink:
    def __init__(self, stream: IO[bytes], classes: np.ndarray) -> None:
        self.n_rows = 0
        self._stream = stream
        decision = ("decision", "<f8", (len(classes),)) if len(classes) > 2 else ("decision", "<f8")
        self._dtype = np.dtype([("row", "<i8"), ("label", classes.dtype), decision])
        self._write_header()

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write rows; see `Sink`."""
        rows = np.empty(len(numbers), dtype=self._dtype)
        rows["row"], rows["label"], rows["decision"] = numbers, labels, outputs
        self._stream.write(rows.tobytes())
        self.n_rows += len(rows)

    def finish(self) -> None:
        """Write the header again, now with the number of rows: numpy leaves room for that."""
        self._stream.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        about = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.n_rows,),
        }
        np.lib.format.write_array_header_1_0(self._stream, about)
