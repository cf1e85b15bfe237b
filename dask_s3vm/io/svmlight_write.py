"""Writing rows as svmlight text whose numbers read back bit by bit as they were."""

import bz2
import gzip
import os
from typing import Any, BinaryIO

import numpy as np

from dask_s3vm.io.parts import Part, Shape
from dask_s3vm.io.shortest import LONGEST, write_float, write_whole
from dask_s3vm.io.streams import copy_bytes
from dask_s3vm.io.writing import Progress, write_parts
from dask_s3vm.numerics.compiler import kernel

__all__ = ["write_svmlight"]

_STEP = 4 << 20
# A blank, a column number of up to ten digits, a colon, and the value.
_ROOM = 1 + 10 + 1 + LONGEST


def write_svmlight(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    zero_based: bool = False,
    unlabeled: int | float | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows as svmlight (libsvm) text: one file, or a folder of one file per block.

    Every number is the shortest that reads back as the same float64.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows: numpy or scipy.sparse or `sparse`, or a dask array with blocks of these.
        Columns at the end that are empty in all rows leave no trace in the text.
    y : array of shape (n_rows,) or None
        The labels: numbers, as the format knows no strings.
    path : str or path
        The file; with a slash at its end, a folder. ``.gz`` or ``.bz2`` at the end of the name
        compresses.
    zero_based : bool
        Whether columns count from 0.
    unlabeled : number, optional
        What to write as label of every row if y is None.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        See `dask_s3vm.io.writing.Progress`.
    """
    name = os.fspath(path).rstrip("/").lower()
    form = SvmlightParts(zero_based, unlabeled, name.rpartition(".")[2])
    write_parts(X, y, path, form, dense=False, overwrite=overwrite, progress=progress)


class SvmlightParts:
    """svmlight text as a `PartFormat`.

    Parameters
    ----------
    zero_based : bool
        Whether columns count from 0.
    unlabeled : number or None
        The label of rows that have none.
    compression : str
        "gz", "bz2", or anything else for plain text.
    """

    typed = False

    def __init__(self, zero_based: bool, unlabeled: Any, compression: str) -> None:
        self.zero_based = bool(zero_based)
        self.unlabeled = unlabeled
        self.compression = compression if compression in ("gz", "bz2") else ""
        self.ending = ".svm" + ("." + self.compression if self.compression else "")

    def check(self, shape: Shape, labeled: bool, folder: bool) -> None:
        """Refuse rows without labels, unless there is a mark for them."""
        if not labeled and self.unlabeled is None:
            raise ValueError(
                "y is None, but svmlight text has a label in every row; unlabeled=... says which"
            )

    def write(
        self, stream: BinaryIO, rows: Any, labels: np.ndarray | None, shape: Shape
    ) -> dict[str, Any]:
        """Write the text of one block."""
        if labels is None:
            labels = np.full(rows.shape[0], self.unlabeled)
        if labels.dtype.kind == "U":
            raise TypeError(
                f"y has labels such as {str(labels[0])!r}; svmlight text knows numbers only"
            )
        if self.compression == "gz":
            # Without name and time: the same rows give the same bytes.
            with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                self._write_lines(packed, rows, labels)
        elif self.compression == "bz2":
            with bz2.BZ2File(stream, "wb") as packed:
                self._write_lines(packed, rows, labels)
        else:
            self._write_lines(stream, rows, labels)
        return {}

    def join(self, target: Any, parts: list[Part], staged: Any, shape: Shape) -> None:
        """Put the parts behind each other: that holds for gz and bz2 files, too."""
        stream = target()
        for part in parts:
            with staged.open(part.name) as source:
                copy_bytes(source, stream)

    def _write_lines(self, stream: Any, rows: Any, labels: np.ndarray) -> None:
        bits = np.ascontiguousarray(rows.data.astype(np.float64, copy=False)).view(np.uint64)
        whole = labels.dtype.kind in "iu"
        marks = labels.astype(np.int64 if whole else np.float64).view(np.uint64)
        if whole and labels.dtype == np.uint64 and np.any(labels > np.iinfo(np.int64).max):
            raise ValueError(f"y has the label {labels.max()}, wanted 64 bits with a sign")
        indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        widest = int(np.diff(indptr).max()) if len(indptr) > 1 else 0
        text = np.empty(max(_STEP, LONGEST + 1 + widest * _ROOM), dtype=np.uint8)
        row = 0
        while row < rows.shape[0]:
            row, size = _write_rows(
                text, row, indptr, indices, bits, marks, whole, int(not self.zero_based)
            )
            stream.write(text[:size].data)


@kernel
def _write_rows(
    text: Any,
    row: int,
    indptr: Any,
    indices: Any,
    bits: Any,
    marks: Any,
    whole: bool,
    first_column: int,
) -> tuple[int, int]:
    """Write rows from `row` on, while there is room; return the next row, and bytes written."""
    pos = 0
    while row < marks.size:
        low, high = indptr[row], indptr[row + 1]
        if pos + LONGEST + 1 + (high - low) * _ROOM > text.size:
            break
        if whole:
            label = marks[row]
            if label >> np.uint64(63):
                text[pos] = 45  # minus
                pos += 1
                label = ~label + np.uint64(1)
            pos = write_whole(text, pos, label)
        else:
            pos = write_float(text, pos, marks[row])
        for entry in range(low, high):
            text[pos] = 32
            pos = write_whole(text, pos + 1, np.uint64(indices[entry] + first_column))
            text[pos] = 58  # colon
            pos = write_float(text, pos + 1, bits[entry])
        text[pos] = 10
        pos += 1
        row += 1
    return row, pos
