"""`--predict-unlabeled OUT`: the labels that were found, as csv or npy, written as they come."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

import numpy as np

from dask_s3vm.io.archive import write_atomically

ENDINGS = (".csv", ".npy")

#: Room for the header of an .npy file, whose number of rows is known at the end only.
_HEADER = 512


class Sink(Protocol):
    """Takes rows that had no label."""

    n_rows: int

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write some rows: their numbers, labels found, outputs (n,) or (n, k)."""
        ...


@contextmanager
def open_found(path: str, classes: np.ndarray) -> Iterator[Sink]:
    """Open a file of found labels, which appears when all is written.

    csv: columns row, label, decision; with more than two classes decision_LABEL for each.
    npy: the same as a structured array, with a field `decision` of as many numbers.
    """
    with write_atomically(path) as stream:
        if path.lower().endswith(".npy"):
            sink = _Npy(stream, classes)
            yield sink
            sink.finish()
        else:
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            yield _Csv(text, classes)
            text.detach()  # written out, and left open for who opened it


class _Csv:
    def __init__(self, stream: Any, classes: np.ndarray) -> None:
        self.n_rows = 0
        self._writer = csv.writer(stream)
        several = [f"decision_{label}" for label in classes.tolist()]
        self._writer.writerow(["row", "label", *(several if len(classes) > 2 else ["decision"])])

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write some rows; see `Sink`."""
        columns = [outputs.tolist()] if outputs.ndim == 1 else outputs.T.tolist()
        self._writer.writerows(zip(numbers.tolist(), labels.tolist(), *columns, strict=True))
        self.n_rows += len(numbers)


class _Npy:
    def __init__(self, stream: BinaryIO, classes: np.ndarray) -> None:
        self.n_rows = 0
        self._stream = stream
        decision = ("decision", "<f8", (len(classes),)) if len(classes) > 2 else ("decision", "<f8")
        self._dtype = np.dtype([("row", "<i8"), ("label", classes.dtype), decision])
        stream.write(self._header())

    def write(self, numbers: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
        """Write some rows; see `Sink`."""
        rows = np.empty(len(numbers), dtype=self._dtype)
        rows["row"], rows["label"], rows["decision"] = numbers, labels, outputs
        self._stream.write(rows.tobytes())
        self.n_rows += len(rows)

    def finish(self) -> None:
        """Say in the header how many rows there are."""
        self._stream.seek(0)
        self._stream.write(self._header())

    def _header(self) -> bytes:
        """Make an .npy header of version 1.0 that is always equally long."""
        about = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.n_rows,),
        }
        text = repr(about).encode("latin1")
        room = _HEADER - 10
        assert len(text) < room, "a header of a few fields is short"
        return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"
