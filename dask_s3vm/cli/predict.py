"""`dask-s3vm predict` and `evaluate`, and the files of labels that `train` found.

`predict` writes a prediction for every row, `evaluate` scores a model on labeled rows, and
`open_found` writes the file of `train --predict-unlabeled`, block by block.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol

import click
import numpy as np

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.data import data_options, rows_for, split_options
from dask_s3vm.cli.output import Row, show
from dask_s3vm.cli.stopping import BadData, format_errors
from dask_s3vm.io.store import replacing

#: Endings of the names of files that `open_found` can write.
ENDINGS = (".csv", ".npy")

#: Bytes of the header of an .npy file; fixed, as the number of rows is known only at the end.
_HEADER = 512


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--output", type=click.File("w"), default="-", help="File to write [default: standard output]."
)
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

    Tables are encoded like the training tables of the model. Labels in DATA are ignored.
    """
    from dask_s3vm.io.models import load_predictor

    with format_errors():
        estimator = load_predictor(model)
        source, where = split_options(given)
        with running_on(ClusterOptions(**where)):
            X, _ = rows_for(estimator, data, source, labels=False)
            answer = estimator.decision_function(X) if decision else estimator.predict(X)
            values = np.asarray(answer)
    np.savetxt(output, values, fmt="%.17g" if decision else "%s")


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

    Tables are encoded like the training tables of the model.
    """
    import dask

    from dask_s3vm.io.models import load_predictor

    with format_errors():
        estimator = load_predictor(model)
        source, where = split_options(given)
        with running_on(ClusterOptions(**where)):
            X, y = rows_for(estimator, data, source)
            if y is None:
                raise BadData(
                    f"{data[0]} has no labels: an array `y` or a label column is needed to evaluate"
                )
            predicted, truth = dask.compute(estimator.predict(X), y)
        known = np.isin(truth, estimator.classes_)
        if not known.any():
            raise BadData(
                f"no row of {data[0]} has a label among the classes of the model, "
                f"{estimator.classes_.tolist()}"
            )
    show(_scores(estimator.classes_, predicted[known], truth[known]), as_json)


def _scores(classes: np.ndarray, predicted: np.ndarray, truth: np.ndarray) -> list[Row]:
    """Return one row of scores per class, and one over all classes."""
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
        stream.write(self._header())

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write rows; see `Sink`."""
        rows = np.empty(len(numbers), dtype=self._dtype)
        rows["row"], rows["label"], rows["decision"] = numbers, labels, outputs
        self._stream.write(rows.tobytes())
        self.n_rows += len(rows)

    def finish(self) -> None:
        """Write the header again, now with the number of rows."""
        self._stream.seek(0)
        self._stream.write(self._header())

    def _header(self) -> bytes:
        """Make a header of version 1.0, padded to `_HEADER` bytes."""
        about = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.n_rows,),
        }
        text = repr(about).encode("latin1")
        room = _HEADER - 10
        assert len(text) < room, "a header of a few fields is short"
        return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"
