"""Formats that rows are written in: svmlight text, Arrow IPC, Parquet, ``.npz`` and ``.npy``."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.io.archive import write_arrays
from dask_s3vm.io.batches import write_ipc
from dask_s3vm.io.store import replacing
from dask_s3vm.io.writing import Kind, RowFormat
from dask_s3vm.numerics.compiler import kernel

__all__ = ["ArrowFormat", "NpyFormat", "NpzFormat", "ParquetFormat", "SvmlightFormat"]

#: Blocks longer than this are written as several record batches.
_BATCH_BYTES = 48 << 20
#: Entries that become text at once.
_TEXT_ENTRIES = 1 << 16

# Without name and time: the same rows give the same bytes.
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda text: gzip.compress(text, 6, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


class SvmlightFormat(RowFormat):
    """svmlight (libsvm) text: every number is the shortest that reads back as the same float64.

    Columns at the end that are empty in all rows leave no trace in the text. ``.gz``, ``.bz2`` or
    ``.xz`` at the end of the name compresses, block by block.

    Parameters
    ----------
    name : str
        Name of the target.
    zero_based : bool
        Whether columns count from 0.
    unlabeled : number, optional
        What to write as label of every row if y is None.
    """

    typed = False
    dense = False

    def __init__(
        self, name: str, *, zero_based: bool = False, unlabeled: int | float | None = None
    ) -> None:
        self.first_column = int(not zero_based)
        self.unlabeled = unlabeled
        self.compression = next((end for end in _COMPRESS if name.lower().endswith(end)), "")
        self.ending = ".svm" + self.compression

    def check(self, labeled: bool, folder: bool) -> None:
        """Refuse rows without labels, unless there is a mark for them."""
        if not labeled and self.unlabeled is None:
            raise ValueError(
                "y is None, but svmlight text has a label in every row; unlabeled=... says which"
            )

    def encode(self, rows: Any, labels: np.ndarray | None, kind: Kind) -> list[bytes]:
        """Return the text of a block, in pieces."""
        if labels is None:
            labels = np.full(rows.shape[0], self.unlabeled)
        if labels.dtype.kind == "U":
            raise TypeError(
                f"y has labels such as {str(labels[0])!r}; svmlight text knows numbers only"
            )
        text = svmlight_text(rows, labels, self.first_column)
        return [_COMPRESS[self.compression](b"".join(text))] if self.compression else text

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[list[bytes]], Any]]:
        """Write texts one after the other."""
        with replacing(url) as stream:
            yield stream.writelines


def svmlight_text(rows: Any, labels: np.ndarray, first_column: int) -> list[bytes]:
    """Return svmlight text of sparse rows, in pieces that fit the processor's cache.

    Arrow writes the numbers, each as short as it can be.
    """
    pieces = []
    for low, high in pairwise(_cuts(rows.indptr, _TEXT_ENTRIES)):
        own = slice(rows.indptr[low], rows.indptr[high])
        marks, mark_edges = _number_texts(labels[low:high])
        values, value_edges = _number_texts(rows.data[own].astype(np.float64, copy=False))
        # for each entry a blank, the digits of its column and a colon; for each row a line end
        width = len(str(rows.shape[1])) + 2
        size = len(marks) + len(values) + width * (len(value_edges) - 1) + high - low
        text = np.empty(size, dtype=np.uint8)
        indptr, indices = frozen(rows.indptr[low : high + 1]), frozen(rows.indices[own])
        stop = _join(indptr, indices, first_column, marks, mark_edges, values, value_edges, text)
        pieces.append(text[:stop].tobytes())
    return pieces


def _number_texts(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts of numbers one after the other, and their edges."""
    if not len(numbers):
        return frozen(np.empty(0, np.uint8)), frozen(np.zeros(1, np.int32))
    _, edges, text = pa.array(numbers).cast(pa.string()).buffers()
    edges = np.frombuffer(edges, np.int32)[: len(numbers) + 1]
    return np.frombuffer(text, np.uint8)[: edges[-1]], edges


@kernel
def _join(
    indptr: Any,
    indices: Any,
    first_column: int,
    marks: Any,
    mark_edges: Any,
    values: Any,
    value_edges: Any,
    text: Any,
) -> int:
    """Write lines, ``mark column:value column:value ...``; return where the text ends."""
    pos, first = 0, indptr[0]
    for row in range(indptr.size - 1):
        pos = _copy(marks, mark_edges[row], mark_edges[row + 1], text, pos)
        for entry in range(indptr[row] - first, indptr[row + 1] - first):
            text[pos] = 32  # a blank
            pos = _write_whole(np.int64(indices[entry]) + first_column, text, pos + 1)
            text[pos] = 58  # a colon
            pos = _copy(values, value_edges[entry], value_edges[entry + 1], text, pos + 1)
        text[pos] = 10  # a line end
        pos += 1
    return pos


@kernel
def _copy(source: Any, low: int, high: int, text: Any, pos: int) -> int:
    """Copy bytes to a place; return where they end there."""
    for at in range(low, high):
        text[pos] = source[at]
        pos += 1
    return pos


@kernel
def _write_whole(number: int, text: Any, pos: int) -> int:
    """Write a number that is not negative; return where it ends."""
    digits, power = 1, 10
    while number >= power:
        digits, power = digits + 1, power * 10
    for at in range(pos + digits - 1, pos - 1, -1):
        text[at] = 48 + number % 10
        number //= 10
    return pos + digits


def _schema(kind: Kind) -> Any:
    """Return the schema of rows; sparse rows of bool have no column of values."""
    item = pa.field("item", pa.from_numpy_dtype(kind.values), nullable=False)
    if kind.dense:
        fields = [pa.field("row", pa.list_(item, kind.n_features), nullable=False)]
    else:
        columns = pa.field("item", pa.uint32(), nullable=False)
        fields = [pa.field("indices", pa.list_(columns), nullable=False)]
        if kind.values is None or kind.values.kind != "b":
            fields.append(pa.field("values", pa.list_(item), nullable=False))
    if kind.labels is not None:
        text = kind.labels.kind in "UO"
        label = pa.string() if text else pa.from_numpy_dtype(kind.labels)
        fields.insert(0, pa.field("label", label, nullable=False))
    return pa.schema(fields, metadata={"n_features": str(kind.n_features)})


class ArrowFormat(RowFormat):
    """Arrow IPC: every block is a record batch, or several if it is above 48 MiB.

    Column numbers are uint32, values float32 where not a bit is lost, else float64.
    """

    ending = ".arrow"
    without_ones = True

    def encode(self, rows: Any, labels: np.ndarray | None, kind: Kind) -> list[Any]:
        """Return record batches that share the memory of the rows."""
        schema = _schema(kind)
        sizes = (
            np.arange(len(rows) + 1) * (rows.itemsize * rows.shape[1])
            if kind.dense
            else rows.indptr.astype(np.int64) * (4 + rows.data.itemsize)
        )
        return [
            _batch(schema, rows[low:high], None if labels is None else labels[low:high])
            for low, high in pairwise(_cuts(sizes, _BATCH_BYTES))
        ]

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[list[Any]], None]]:
        """Write record batches one after the other."""
        schema = _schema(kind)
        with replacing(url) as stream, self._writing(stream, schema) as write:

            def add(batches: list[Any]) -> None:
                for batch in batches:
                    columns = [_column(batch, field) for field in schema]
                    write(pa.RecordBatch.from_arrays(columns, schema=schema))

            yield add

    def _writing(self, stream: Any, schema: Any) -> AbstractContextManager[Callable[[Any], None]]:
        """Have a function that writes a record batch; each gets a checksum."""
        return write_ipc(stream, schema)


class ParquetFormat(ArrowFormat):
    """Parquet: every record batch is a row group. Files of a folder are compressed in parallel.

    Parameters
    ----------
    name : str
        Name of the target.
    compression : str
        A method that Parquet knows, such as "zstd", "snappy" or "none".
    """

    ending = ".parquet"

    def __init__(self, name: str, *, compression: str = "zstd") -> None:
        self.compression = compression

    def check(self, labeled: bool, folder: bool) -> None:
        """Refuse an unknown compression."""
        try:
            there = self.compression == "none" or pa.Codec.is_available(self.compression)
        except ValueError:
            there = False
        if not there:
            raise ValueError(f"compression is {self.compression!r}, which pyarrow does not have")

    @contextmanager
    def _writing(self, stream: Any, schema: Any) -> Iterator[Callable[[Any], None]]:
        """Have a function that writes a row group; its pages get checksums."""
        import pyarrow.parquet

        with pyarrow.parquet.ParquetWriter(
            stream,
            schema,
            compression=self.compression,
            use_dictionary=["label"],
            write_page_checksum=True,
        ) as writer:
            yield writer.write_batch


class NpzFormat(RowFormat):
    """``.npz`` archives, see `dask_s3vm.io.read_npz`; one file is put together in memory."""

    ending = ".npz"

    def encode(self, rows: Any, labels: np.ndarray | None, kind: Kind) -> dict[str, np.ndarray]:
        """Return the arrays of a block; in place of offsets the numbers of entries."""
        found = {} if labels is None else {"y": labels}
        if kind.dense:
            return {"X": rows, **found}
        wide = kind.n_features > np.iinfo(np.int32).max
        indices = rows.indices.astype(np.int64 if wide else np.int32, copy=False)
        lengths = np.diff(rows.indptr).astype(np.int64)
        return {"data": rows.data, "indices": indices, "indptr": lengths, **found}

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[dict[str, np.ndarray]], None]]:
        """Collect the arrays of all blocks, and make an archive of them."""
        blocks: list[dict[str, np.ndarray]] = []
        with replacing(url) as stream:
            yield blocks.append
            arrays = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
            if not kind.dense:
                arrays["shape"] = np.array([len(arrays["indptr"]), kind.n_features])
                offsets = np.concatenate([[0], np.cumsum(arrays["indptr"])])
                narrow = offsets[-1] <= np.iinfo(np.int32).max
                arrays["indptr"] = offsets.astype(np.int32 if narrow else np.int64)
            write_arrays(stream, arrays)


class NpyFormat(NpzFormat):
    """One dense ``.npy`` matrix, and labels as ``NAME.y.npy`` beside ``NAME.npy``."""

    ending = ".npy"
    dense = True

    def check(self, labeled: bool, folder: bool) -> None:
        """Refuse a folder."""
        if folder:
            raise ValueError("npy is one file of rows and one of labels; for a folder take npz")

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[dict[str, np.ndarray]], None]]:
        """Append blocks to both files; headers are written again when the lengths are known."""
        files: dict[str, tuple[str, Any, tuple[int, ...]]]
        files = {"X": (url, kind.values, (kind.n_features,))}
        if kind.labels is not None:
            files["y"] = (url.rpartition(".")[0] + ".y.npy", kind.labels, ())
        rows = 0
        # Left in the other order, labels first: rows without them could be taken for complete.
        with ExitStack() as stack:
            streams = {
                name: stack.enter_context(replacing(own)) for name, (own, *_) in files.items()
            }

            def write_heads() -> None:
                for name, (_, dtype, tail) in files.items():
                    descr = np.lib.format.dtype_to_descr(dtype)
                    head = {"descr": descr, "fortran_order": False, "shape": (rows, *tail)}
                    streams[name].seek(0)
                    # numpy leaves room for more digits
                    np.lib.format.write_array_header_1_0(streams[name], head)

            def add(arrays: dict[str, np.ndarray]) -> None:
                nonlocal rows
                rows += len(arrays["X"])
                for name, array in arrays.items():
                    streams[name].write(array.astype(files[name][1]).tobytes())

            write_heads()
            yield add
            write_heads()


def _cuts(sizes: np.ndarray, most: int) -> list[int]:
    """Cut rows, given the sizes of all rows before each, into ranges of about `most` each."""
    n, total = len(sizes) - 1, int(sizes[-1])
    count = max(1, -(-total // most))
    cuts = np.searchsorted(sizes, np.linspace(0, total, count + 1)[1:-1])
    edges: list[int] = np.unique([0, *cuts.tolist(), n]).tolist()
    return edges if n else [0, 0]


def _column(batch: Any, field: Any) -> Any:
    """Return a column of a batch in the type of its file; values that were left out are 1."""
    if field.name in batch.schema.names:
        return batch.column(field.name).cast(field.type)
    indices = batch.column("indices")
    values = pa.array(np.ones(len(indices.values), dtype=field.type.value_type.to_pandas_dtype()))
    return pa.ListArray.from_arrays(indices.offsets, values, type=field.type)


def _batch(schema: Any, rows: Any, labels: np.ndarray | None) -> Any:
    columns: list[Any] = []
    if labels is not None:
        given = labels.tolist() if labels.dtype.kind == "U" else labels
        columns.append(pa.array(given, type=schema.field("label").type))
    if isinstance(rows, np.ndarray):
        flat = pa.array(np.ascontiguousarray(rows).ravel())
        columns.append(pa.FixedSizeListArray.from_arrays(flat, type=schema.field("row").type))
    else:
        offsets = pa.array(rows.indptr.astype(np.int32))
        lists = {"indices": rows.indices.astype(np.uint32), "values": rows.data}
        for name in schema.names[len(columns) :]:
            kind, numbers = schema.field(name).type, pa.array(lists[name])
            columns.append(pa.ListArray.from_arrays(offsets, numbers, type=kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
