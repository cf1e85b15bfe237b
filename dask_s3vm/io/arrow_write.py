"""Writing rows as Arrow IPC and Parquet files."""

import os
from typing import Any, BinaryIO

import numpy as np

from dask_s3vm.io.arrow_schema import ROWS_KEY, import_arrow, make_schema
from dask_s3vm.io.ipc_frames import Frame, batch_message, file_head, file_tail, write_buffers
from dask_s3vm.io.parts import Part, Shape, cut_rows
from dask_s3vm.io.running import is_dense
from dask_s3vm.io.streams import copy_bytes
from dask_s3vm.io.writing import Progress, write_parts

__all__ = ["write_arrow", "write_parquet"]


def write_arrow(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows as Arrow IPC: one file, or a folder of one file per block.

    Every block becomes a record batch (several if it is above 48 MiB), with buffers at multiples
    of 64 bytes; column numbers are uint32, values float32 where not a bit is lost, else float64.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows: numpy or scipy.sparse or `sparse`, or a dask array with blocks of these.
    y : array of shape (n_rows,) or None
        The labels, numbers or strings.
    path : str or path
        The file; with a slash at its end, a folder.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        See `dask_s3vm.io.writing.Progress`.
    """
    write_parts(X, y, path, ArrowParts(), dense=is_dense(X), overwrite=overwrite, progress=progress)


def write_parquet(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    compression: str = "zstd",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows as Parquet: one file, or a folder of one file per block.

    Every block becomes a row group. Where there are many, a folder is quicker: the row groups of
    a single file are compressed once by each worker and once more when they are joined.

    Parameters
    ----------
    X, y, path, overwrite, progress : object
        As in `write_arrow`.
    compression : str
        A method that Parquet knows, such as "zstd", "snappy" or "none".
    """
    form = ParquetParts(compression)
    write_parts(X, y, path, form, dense=is_dense(X), overwrite=overwrite, progress=progress)


class ArrowParts:
    """Arrow IPC as a `PartFormat`."""

    typed = True
    ending = ".arrow"

    def check(self, shape: Shape, labeled: bool, folder: bool) -> None:
        """Refuse to begin without pyarrow."""
        import_arrow()

    def write(
        self, stream: BinaryIO, rows: Any, labels: np.ndarray | None, shape: Shape
    ) -> dict[str, Any]:
        """Write a whole file of one block."""
        ranges = cut_rows(rows)
        schema = _schema(shape, rows.dtype, labels, [high - low for low, high in ranges])
        head = file_head(schema)
        stream.write(head)
        position = len(head)
        frames = []
        for low, high in ranges:
            piece = None if labels is None else labels[low:high]
            lengths, buffers = _columns(rows[low:high], piece)
            sizes = [memoryview(buffer).nbytes for buffer in buffers]
            message, body = batch_message(schema, high - low, lengths, sizes)
            stream.write(message)
            write_buffers(stream, buffers)
            frames.append(Frame(position, len(message), body))
            position += len(message) + body
        stream.write(file_tail(schema, frames))
        return {"frames": frames, "rows": [high - low for low, high in ranges]}

    def join(self, target: Any, parts: list[Part], staged: Any, shape: Shape) -> None:
        """Copy the record batches of all parts behind one head."""
        stream = target()
        labels = None if parts[0].labels is None else np.empty(0, dtype=parts[0].labels)
        counts = [n for part in parts for n in part.more["rows"]]
        schema = _schema(shape, np.dtype(parts[0].values), labels, counts)
        head = file_head(schema)
        stream.write(head)
        position = len(head)
        frames = []
        for part in parts:
            own = [Frame(*frame) for frame in part.more["frames"]]
            start, stop = own[0].offset, own[-1].offset + own[-1].header + own[-1].body
            with staged.open(part.name) as source:
                source.seek(start)
                copy_bytes(source, stream, stop - start)
            frames += [frame._replace(offset=frame.offset - start + position) for frame in own]
            position += stop - start
        stream.write(file_tail(schema, frames))


class ParquetParts:
    """Parquet as a `PartFormat`."""

    typed = True
    ending = ".parquet"

    def __init__(self, compression: str) -> None:
        self.compression = compression

    def check(self, shape: Shape, labeled: bool, folder: bool) -> None:
        """Refuse to begin without pyarrow, or with an unknown compression."""
        pa = import_arrow()
        try:
            there = self.compression == "none" or pa.Codec.is_available(self.compression)
        except ValueError:
            there = False
        if not there:
            raise ValueError(f"compression is {self.compression!r}, which pyarrow does not have")

    def write(
        self, stream: BinaryIO, rows: Any, labels: np.ndarray | None, shape: Shape
    ) -> dict[str, Any]:
        """Write a whole file of one block."""
        schema = _schema(shape, rows.dtype, labels)
        with self._writer(stream, schema) as writer:
            for low, high in cut_rows(rows):
                piece = None if labels is None else labels[low:high]
                writer.write_batch(_batch(schema, rows[low:high], piece))
        return {}

    def join(self, target: Any, parts: list[Part], staged: Any, shape: Shape) -> None:
        """Read the row groups of all parts and write them again."""
        parquet = import_arrow("pyarrow.parquet")
        labels = None if parts[0].labels is None else np.empty(0, dtype=parts[0].labels)
        with self._writer(target(), _schema(shape, np.dtype(parts[0].values), labels)) as writer:
            for part in parts:
                with staged.open(part.name) as source:
                    found = parquet.ParquetFile(source)
                    for number in range(found.num_row_groups):
                        table = found.read_row_group(number, use_threads=False)
                        writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _writer(self, stream: BinaryIO, schema: Any) -> Any:
        return import_arrow("pyarrow.parquet").ParquetWriter(
            stream, schema, compression=self.compression, use_dictionary=["label"]
        )


def _schema(
    shape: Shape, values: np.dtype, labels: np.ndarray | None, batches: list[int] | None = None
) -> Any:
    kind = None if labels is None else labels.dtype
    told = {} if batches is None else {ROWS_KEY.decode(): " ".join(map(str, batches))}
    return make_schema(shape.n_features, values, kind, shape.dense, **told)


def _columns(rows: Any, labels: np.ndarray | None) -> tuple[list[int], list[Any]]:
    """Return lengths of the columns, and all buffers; see `ipc_frames.batch_message`."""
    n = rows.shape[0]
    lengths: list[int] = []
    buffers: list[Any] = []
    if labels is not None:
        lengths.append(n)
        buffers += [b"", *_label_buffers(labels)]
    if isinstance(rows, np.ndarray):
        return [*lengths, n, rows.size], [*buffers, b"", b"", np.ascontiguousarray(rows)]
    offsets = rows.indptr.astype(np.int32)
    indices = rows.indices.astype(np.uint32)
    for numbers in (indices, np.ascontiguousarray(rows.data)):
        lengths += [n, len(numbers)]
        buffers += [b"", offsets, b"", numbers]
    return lengths, buffers


def _label_buffers(labels: np.ndarray) -> list[Any]:
    if labels.dtype.kind != "U":
        return [np.ascontiguousarray(labels)]
    pa = import_arrow()
    _, offsets, text = pa.array(labels.tolist(), type=pa.string()).buffers()
    return [offsets.slice(0, 4 * (len(labels) + 1)), text if text is not None else b""]


def _batch(schema: Any, rows: Any, labels: np.ndarray | None) -> Any:
    """Return rows as a record batch that shares their memory."""
    pa = import_arrow()
    columns: list[Any] = []
    if labels is not None:
        given = labels.tolist() if labels.dtype.kind == "U" else labels
        columns.append(pa.array(given, type=schema.field("label").type))
    if isinstance(rows, np.ndarray):
        flat = pa.array(np.ascontiguousarray(rows).ravel())
        columns.append(pa.FixedSizeListArray.from_arrays(flat, type=schema.field("row").type))
    else:
        offsets = pa.array(rows.indptr.astype(np.int32))
        for name, numbers in (("indices", rows.indices.astype(np.uint32)), ("values", rows.data)):
            kind = schema.field(name).type
            columns.append(pa.ListArray.from_arrays(offsets, pa.array(numbers), type=kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
