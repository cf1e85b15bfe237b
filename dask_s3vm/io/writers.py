"""Writers of rows: svmlight text, Arrow IPC, Parquet, ``.npz`` and ``.npy``."""

import bz2
import gzip
import lzma
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dask_s3vm.io.arrow_schema import make_schema
from dask_s3vm.io.checksum import CHECKED, Summing, summed_archive
from dask_s3vm.io.store import Url, replacing
from dask_s3vm.io.writing import Kind, Progress, write_rows

__all__ = ["write_arrow", "write_npy", "write_npz", "write_parquet", "write_svmlight"]

#: Blocks longer than this are written as several record batches.
_BATCH_BYTES = 48 << 20
#: Entries that become text at once.
_TEXT_ENTRIES = 1 << 20

# Without name and time: the same rows give the same bytes.
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda text: gzip.compress(text, 6, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def write_svmlight(
    X: Any,
    y: Any,
    path: Url,
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
        Path or URL of the file; with a slash at its end, a folder. ``.gz``, ``.bz2`` or ``.xz`` at
        the end of the name compresses.
    zero_based : bool
        Whether columns count from 0.
    unlabeled : number, optional
        What to write as label of every row if y is None.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        See `dask_s3vm.io.writing.Progress`.
    """
    name = str(path).rstrip("/").lower()
    compression = next((ending for ending in _COMPRESS if name.endswith(ending)), "")
    form = SvmlightFormat(zero_based, unlabeled, compression)
    write_rows(X, y, path, form, dense=False, overwrite=overwrite, progress=progress)


def write_arrow(
    X: Any, y: Any, path: Url, *, overwrite: bool = False, progress: Progress | None = None
) -> None:
    """Write rows as Arrow IPC: one file, or a folder of one file per block.

    Every block becomes a record batch (several if it is above 48 MiB); column numbers are uint32,
    values float32 where not a bit is lost, else float64.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows: numpy or scipy.sparse or `sparse`, or a dask array with blocks of these.
    y : array of shape (n_rows,) or None
        The labels, numbers or strings.
    path : str or path
        Path or URL of the file; with a slash at its end, a folder.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        See `dask_s3vm.io.writing.Progress`.
    """
    write_rows(X, y, path, ArrowFormat(), overwrite=overwrite, progress=progress)


def write_parquet(
    X: Any,
    y: Any,
    path: Url,
    *,
    compression: str = "zstd",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows as Parquet: one file, or a folder of one file per block.

    Every block becomes a row group. A folder is quicker: its files are compressed in parallel.

    Parameters
    ----------
    X, y, path, overwrite, progress : object
        As in `write_arrow`.
    compression : str
        A method that Parquet knows, such as "zstd", "snappy" or "none".
    """
    form = ParquetFormat(compression)
    write_rows(X, y, path, form, overwrite=overwrite, progress=progress)


def write_npz(
    X: Any, y: Any, path: Url, *, overwrite: bool = False, progress: Progress | None = None
) -> None:
    """Write rows as ``.npz`` (see `dask_s3vm.io.read_npz`): one file, or a folder of several.

    Parameters
    ----------
    X, y, path, overwrite, progress : object
        As in `write_arrow`.
    """
    write_rows(X, y, path, NpzFormat(), overwrite=overwrite, progress=progress)


def write_npy(
    X: Any, y: Any, path: Url, *, overwrite: bool = False, progress: Progress | None = None
) -> None:
    """Write rows as one dense ``.npy`` matrix, and labels as ``NAME.y.npy`` beside ``NAME.npy``.

    Parameters
    ----------
    X, y, path, overwrite, progress : object
        As in `write_arrow`, but without folders. Sparse rows become dense.
    """
    write_rows(X, y, path, NpyFormat(), dense=True, overwrite=overwrite, progress=progress)


class SvmlightFormat:
    """svmlight text as a `RowFormat`.

    Parameters
    ----------
    zero_based : bool
        Whether columns count from 0.
    unlabeled : number or None
        The label of rows that have none.
    compression : {".gz", ".bz2", ".xz", ""}
        How blocks are compressed; compressed pieces may follow each other in one file.
    """

    typed = False

    def __init__(self, zero_based: bool, unlabeled: Any, compression: str) -> None:
        self.first_column = int(not zero_based)
        self.unlabeled = unlabeled
        self.compression = compression
        self.ending = ".svm" + compression

    def check(self, kind: Kind, labeled: bool, folder: bool) -> None:
        """Refuse rows without labels, unless there is a mark for them."""
        if not labeled and self.unlabeled is None:
            raise ValueError(
                "y is None, but svmlight text has a label in every row; unlabeled=... says which"
            )

    def encode(self, rows: Any, labels: np.ndarray | None, kind: Kind) -> bytes:
        """Return the text of a block."""
        if labels is None:
            labels = np.full(rows.shape[0], self.unlabeled)
        if labels.dtype.kind == "U":
            raise TypeError(
                f"y has labels such as {str(labels[0])!r}; svmlight text knows numbers only"
            )
        edges = _cuts(rows.indptr, _TEXT_ENTRIES)
        text = b"".join(
            svmlight_text(rows[low:high], labels[low:high], self.first_column)
            for low, high in pairwise(edges)
        )
        return _COMPRESS[self.compression](text) if self.compression else text

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[bytes], Any]]:
        """Write texts one after the other."""
        with replacing(url) as stream:
            yield stream.write


def svmlight_text(rows: Any, labels: np.ndarray, first_column: int) -> bytes:
    """Return svmlight text of sparse rows, by Arrow's casts, which give shortest numbers."""
    if not rows.shape[0]:
        return b""
    columns = pa.array(rows.indices.astype(np.int64) + first_column).cast(pa.string())
    values = pa.array(rows.data.astype(np.float64)).cast(pa.string())
    pairs = pc.binary_join_element_wise(columns, values, ":")
    # The label is the first word of its row: one join then makes all lines.
    n, stored = len(labels), np.diff(rows.indptr)
    starts = rows.indptr[:-1].astype(np.int64) + np.arange(n)
    order = np.empty(n + len(pairs), dtype=np.int64)
    is_label = np.zeros(len(order), dtype=bool)
    is_label[starts] = True
    order[is_label] = np.arange(n)
    order[~is_label] = n + np.arange(len(pairs))
    words = pa.concat_arrays([pa.array(labels).cast(pa.string()), pairs]).take(pa.array(order))
    offsets = np.concatenate([[0], np.cumsum(stored + 1)]).astype(np.int32)
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), words), " ")
    whole = pa.ListArray.from_arrays(pa.array([0, n], type=pa.int32()), lines)
    text: bytes = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"


class ArrowFormat:
    """Arrow IPC as a `RowFormat`."""

    typed = True
    ending = ".arrow"

    def check(self, kind: Kind, labeled: bool, folder: bool) -> None:
        """Anything can be held."""

    def encode(self, rows: Any, labels: np.ndarray | None, kind: Kind) -> list[Any]:
        """Return record batches that share the memory of the rows."""
        schema = make_schema(kind.n_features, kind.values, kind.labels, kind.dense)
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
        schema = make_schema(kind.n_features, kind.values, kind.labels, kind.dense)
        with replacing(url) as stream, self._writing(stream, schema) as write:

            def add(batches: list[Any]) -> None:
                for batch in batches:
                    columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
                    write(pa.RecordBatch.from_arrays(columns, schema=schema))

            yield add

    @contextmanager
    def _writing(self, stream: Any, schema: Any) -> Iterator[Callable[[Any], None]]:
        """Have a function that writes a record batch; each gets a checksum."""
        summing = Summing(stream)
        told = schema.with_metadata({**schema.metadata, CHECKED: b"crc32"})
        with pa.ipc.new_file(summing, told) as writer:

            def write(batch: Any) -> None:
                writer.write_batch(batch)
                summing.mark()

            yield write
            summing.hold()
        summing.add_table()


class ParquetFormat(ArrowFormat):
    """Parquet as a `RowFormat`; every record batch is a row group."""

    ending = ".parquet"

    def __init__(self, compression: str) -> None:
        self.compression = compression

    def check(self, kind: Kind, labeled: bool, folder: bool) -> None:
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


class NpzFormat:
    """``.npz`` archives as a `RowFormat`."""

    typed = True
    ending = ".npz"

    def check(self, kind: Kind, labeled: bool, folder: bool) -> None:
        """Anything can be held."""

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
        with replacing(url) as stream, ExitStack() as stack:
            columns = _Columns(stack, kind)
            yield columns.add
            with summed_archive(stream) as archive:
                for name in columns.names:
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        columns.copy(name, member)
                if not kind.dense:
                    shape = np.array([columns.n_rows, kind.n_features])
                    with archive.open("shape.npy", "w") as member:
                        np.lib.format.write_array(member, shape)


class NpyFormat(NpzFormat):
    """A ``.npy`` matrix, and one of labels beside it, as a `RowFormat`."""

    ending = ".npy"

    def check(self, kind: Kind, labeled: bool, folder: bool) -> None:
        """Refuse a folder."""
        if folder:
            raise ValueError("npy is one file of rows and one of labels; for a folder take npz")

    @contextmanager
    def open(self, url: str, kind: Kind) -> Iterator[Callable[[dict[str, np.ndarray]], None]]:
        """Collect rows and labels in temporary files, and write both with their sizes."""
        with ExitStack() as stack:
            columns = _Columns(stack, kind)
            yield columns.add
            # Labels first: rows without them could be taken for complete.
            for name in sorted(columns.names, reverse=True):
                own = url if name == "X" else url.rpartition(".")[0] + ".y.npy"
                with replacing(own) as stream:
                    columns.copy(name, stream)


class _Columns:
    """Arrays that come in pieces, in temporary files until their lengths are known."""

    def __init__(self, stack: ExitStack, kind: Kind) -> None:
        self.n_rows = 0
        self._stack = stack
        self._types = {"y": kind.labels, "X": kind.values, "data": kind.values}
        self._files: dict[str, Any] = {}
        self._heads: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        self._lengths: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._files)

    def add(self, arrays: dict[str, np.ndarray]) -> None:
        """Append the arrays of a block; ``indptr`` is the number of entries of each row."""
        for name, array in arrays.items():
            if name not in self._files:
                self._files[name] = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
                self._heads[name] = (self._types.get(name) or array.dtype, array.shape[1:])
                self._lengths[name] = 0
            whole = np.ascontiguousarray(array.astype(self._heads[name][0], copy=False))
            self._lengths[name] += len(whole)
            if whole.size:
                self._files[name].write(whole.reshape(-1).view(np.uint8).data)
        self.n_rows += len(arrays["X"] if "X" in arrays else arrays["indptr"])

    def copy(self, name: str, stream: Any) -> None:
        """Write an array, with its header."""
        file, (dtype, tail) = self._files[name], self._heads[name]
        file.seek(0)
        if name == "indptr":
            offsets = np.cumsum(np.concatenate([[0], np.fromfile(file, dtype=np.int64)]))
            narrow = offsets[-1] <= np.iinfo(np.int32).max
            np.lib.format.write_array(stream, offsets.astype(np.int32 if narrow else np.int64))
            return
        shape = (self._lengths[name], *tail)
        descr = np.lib.format.dtype_to_descr(dtype)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        shutil.copyfileobj(file, stream, 4 << 20)


def _cuts(sizes: np.ndarray, most: int) -> list[int]:
    """Cut rows, given the sizes of all rows before each, into ranges of about `most` each."""
    n, total = len(sizes) - 1, int(sizes[-1])
    count = max(1, -(-total // most))
    cuts = np.searchsorted(sizes, np.linspace(0, total, count + 1)[1:-1])
    edges: list[int] = np.unique([0, *cuts.tolist(), n]).tolist()
    return edges if n else [0, 0]


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
        for name, numbers in (("indices", rows.indices.astype(np.uint32)), ("values", rows.data)):
            kind = schema.field(name).type
            columns.append(pa.ListArray.from_arrays(offsets, pa.array(numbers), type=kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
