"""Formats that rows are written in: svmlight text, Arrow IPC, Parquet, ``.npz`` and ``.npy``."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dask_s3vm.io.archive import write_arrays
from dask_s3vm.io.batches import write_ipc
from dask_s3vm.io.store import replacing
from dask_s3vm.io.writing import Block, Kind, RowFormat

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
    ``.xz`` at the end of the name compresses, block by block. Options: `zero_based`, whether
    columns count from 0; `unlabeled`, what to write as label of every row if y is None.
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
            word = next((one for one in labels.tolist() if one not in ("", "-1")), "")
            raise TypeError(
                f"y has labels such as {word!r}; svmlight text knows numbers only: for tables, "
                f"positive={word!r} makes 1 of it and 0 of others"
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

    def heads(columns: np.ndarray) -> Any:
        numbers = pa.array(columns.astype(np.int64) + first_column).cast(pa.string())
        return pc.binary_join_element_wise(" ", numbers, ":", "")

    pieces = []
    known = heads(np.arange(rows.shape[1])) if rows.shape[1] <= rows.nnz else None
    for low, high in pairwise(_cuts(rows.indptr, _TEXT_ENTRIES)):
        first, last = rows.indptr[low], rows.indptr[high]
        columns = rows.indices[first:last]
        own = heads(columns) if known is None else known.take(pa.array(columns))
        values = pa.array(rows.data[first:last].astype(np.float64, copy=False))
        edges, text = _joined(own, values.cast(pa.string()))
        # pairs stand one after the other: those of a row are one text already
        edges = pa.py_buffer(edges[rows.indptr[low : high + 1] - first])
        entries = pa.StringArray.from_buffers(high - low, edges, text)
        marks = pa.array(labels[low:high]).cast(pa.string())
        pieces.append(_joined(marks, entries, "\n")[1].to_pybytes())
    return pieces


def _joined(*texts: Any) -> tuple[np.ndarray, Any]:
    """Join texts element by element; return where each begins and ends, and all of them."""
    joined = pc.binary_join_element_wise(*texts, "")
    _, edges, text = joined.buffers()
    if not len(joined):
        return np.zeros(1, np.int32), pa.py_buffer(b"")
    found = np.frombuffer(edges, np.int32)[: len(joined) + 1]
    return found, text.slice(0, int(found[-1]))


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

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[Block], None]]:
        """Write blocks as record batches."""
        schema = _schema(kind)
        with replacing(url) as stream, self._writing(stream, schema) as write:

            def add(block: Block) -> None:
                rows, labels = block
                if kind.dense:
                    sizes = np.arange(len(rows) + 1) * (rows.itemsize * rows.shape[1])
                else:
                    width = rows.data.itemsize if "values" in schema.names else 0
                    sizes = rows.indptr.astype(np.int64) * (4 + width)
                for low, high in pairwise(_cuts(sizes, _BATCH_BYTES)):
                    own = None if labels is None else labels[low:high]
                    write(_batch(schema, rows[low:high], own))

            yield add

    def _writing(self, stream: Any, schema: Any) -> AbstractContextManager[Callable[[Any], None]]:
        """Have a function that writes a record batch; each gets a checksum."""
        return write_ipc(stream, schema)


class ParquetFormat(ArrowFormat):
    """Parquet: every record batch is a row group. Files of a folder are compressed in parallel.

    Option `compression`: a method that Parquet knows, such as "zstd", "snappy" or "none".
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

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[Block], None]]:
        """Collect all blocks, and write them."""
        blocks: list[Block] = []
        yield blocks.append
        labels = {} if kind.labels is None else {"y": np.concatenate([y for _, y in blocks])}
        self.save(url, kind, [rows for rows, _ in blocks], labels)

    def save(self, url: str, kind: Kind, rows: list[Any], labels: dict[str, np.ndarray]) -> None:
        """Write an archive of all rows and labels."""
        if kind.dense:
            arrays = {"X": np.concatenate(rows), **labels}
        else:
            lengths = [np.diff(block.indptr) for block in rows]
            offsets = np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64)
            arrays = {
                "data": np.concatenate([block.data for block in rows]),
                "indices": _index(np.concatenate([r.indices for r in rows]), kind.n_features),
                "indptr": _index(offsets, offsets[-1]),
                **labels,
                "shape": np.array([len(offsets) - 1, kind.n_features]),
            }
        with replacing(url) as stream:
            write_arrays(stream, arrays)


def _index(numbers: np.ndarray, largest: int) -> np.ndarray:
    """Return column numbers or offsets in the narrower type that holds the largest one."""
    wide = largest > np.iinfo(np.int32).max
    return numbers.astype(np.int64 if wide else np.int32, copy=False)


class NpyFormat(NpzFormat):
    """One dense ``.npy`` matrix, and labels as ``NAME.y.npy`` beside ``NAME.npy``."""

    ending = ".npy"
    dense = True

    def check(self, labeled: bool, folder: bool) -> None:
        """Refuse a folder."""
        if folder:
            raise ValueError("npy is one file of rows and one of labels; for a folder take npz")

    def save(self, url: str, kind: Kind, rows: list[Any], labels: dict[str, np.ndarray]) -> None:
        """Write labels first: rows without them could be taken for complete."""
        files = {url.rpartition(".")[0] + ".y.npy": own for own in labels.values()}
        for target, array in {**files, url: np.concatenate(rows)}.items():
            with replacing(target) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _cuts(sizes: np.ndarray, most: int) -> list[int]:
    """Cut rows, given the sizes of all rows before each, into ranges of about `most` each."""
    n, total = len(sizes) - 1, int(sizes[-1])
    count = max(1, -(-total // most))
    cuts = np.searchsorted(sizes, np.linspace(0, total, count + 1)[1:-1])
    edges: list[int] = np.unique([0, *cuts.tolist(), n]).tolist()
    return edges if n else [0, 0]


def _batch(schema: Any, rows: Any, labels: np.ndarray | None) -> Any:
    """Return rows in the types of a file; values that all are 1 may have no column."""
    columns: list[Any] = []
    for field in schema:
        if field.name == "label":
            assert labels is not None, "the schema has them"
            given = labels.tolist() if labels.dtype.kind == "U" else labels
            columns.append(pa.array(given, type=field.type))
            continue
        dtype = field.type.value_type.to_pandas_dtype()
        if field.name == "row":
            flat = pa.array(np.ascontiguousarray(rows.astype(dtype, copy=False)).ravel())
            columns.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
        else:
            numbers = rows.indices if field.name == "indices" else rows.data
            lists = pa.array(rows.indptr.astype(np.int32)), pa.array(numbers.astype(dtype))
            columns.append(pa.ListArray.from_arrays(*lists, type=field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
