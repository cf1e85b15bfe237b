"""Arrow IPC and Parquet files as dask arrays: opened by their footers, read batch by batch.

Local Arrow files are mapped.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
from dask.base import tokenize
from pyarrow import ipc, parquet

from dask_s3vm.io.arrow_rows import Place, batch_labels, batch_rows, highest_column
from dask_s3vm.io.arrow_schema import Layout, layout_of
from dask_s3vm.io.blocks import (
    as_block,
    check_known,
    check_options,
    common_type,
    empty_block,
    lazy_array,
    sorted_labels,
)
from dask_s3vm.io.checksum import CHECKED, Table, read_table
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import TextFile, UrlPath, find_files

__all__ = ["read_arrow", "read_parquet"]

#: How a file begins.
_MAGIC = b"ARROW1\0\0"


def read_arrow(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = None,
    known_labels: Any = None,
    unlabeled: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open Arrow IPC files (also called Feather) as dask arrays, one block per record batch.

    Opening reads footers only. When the arrays are computed, local files are mapped: blocks of
    sparse rows with ``uint32`` column numbers, and dense blocks, are views of the map, which
    the operating system reads and drops as it likes. Every block is checked when it is made, with
    its checksum if `write_arrow` wrote it.

    Parameters
    ----------
    urlpath : str, path or list of these
        File, glob pattern, folder, or list of these; anything fsspec can open. See
        `dask_s3vm.io.arrow_schema` for the columns.
    n_features : int, optional
        Number of columns of `X`; by default what the files' metadata tell or, where they do not,
        one more than the largest column number, for which the files are looked through.
    block : {"gcxs", "scipy"}
        Type of the sparse blocks. Dense rows are numpy blocks.
    dtype : dtype, optional
        Type of the values, float64 or float32; by default as stored.
    known_labels : list, optional
        The labels that may occur, the mark of unlabeled rows included; any other is an error.
    unlabeled : int or str, optional
        What to put in place of labels that are null. Without it, a null is an error.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    y : dask.array.Array of shape (n_rows,) or None
        The labels; strings as objects. None if there are none.

    Raises
    ------
    DataFileError
        If a file is not such a file, or (when the arrays are computed) a row is not in order.
    """
    source = IpcSource()
    files = find_files(urlpath, FORMATS["arrow"].fits)
    return _open_batches(source, files, n_features, block, dtype, known_labels, unlabeled)


def read_parquet(
    urlpath: UrlPath,
    *,
    n_features: int | None = None,
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = None,
    known_labels: Any = None,
    unlabeled: Any = None,
) -> tuple[da.Array, da.Array | None]:
    """Open Parquet files as dask arrays, one block per row group.

    Opening reads footers only; blocks are read, and checked, when the arrays are computed.

    Parameters
    ----------
    urlpath : str, path or list of these
        File, glob pattern, folder, or list of these; anything fsspec can open. See
        `dask_s3vm.io.arrow_schema` for the columns.
    n_features, block, dtype, known_labels, unlabeled : object
        As in `read_arrow`.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    y : dask.array.Array of shape (n_rows,) or None
        The labels; None if there are none.

    Raises
    ------
    DataFileError
        If a file is not such a file, or (when the arrays are computed) a row is not in order.
    """
    files = find_files(urlpath, FORMATS["parquet"].fits)
    return _open_batches(ParquetSource(), files, n_features, block, dtype, known_labels, unlabeled)


@dataclass(frozen=True)
class Head:
    """What is known of a file without reading its rows: its schema, and rows of its batches."""

    layout: Layout
    rows: tuple[int, ...]


class IpcSource:
    """Opens IPC files."""

    name = "arrow"
    unit = "record batch"

    def look(self, file: TextFile) -> Head:
        """Read a file's schema and the sizes of its record batches."""
        with _opened(file, ["label"]) as (reader, schema, _, _, _):
            layout = layout_of(schema, file.name)
            numbers = range(reader.num_record_batches)
            return Head(layout, tuple(reader.get_batch(i).num_rows for i in numbers))

    def read(self, file: TextFile, number: int, columns: list[str]) -> tuple[Any, Place]:
        """Return a record batch, with at least these columns of it, and its place."""
        with _opened(file, columns) as opened:
            place = Place(file.name, f"record batch {number}", opened.mapped)
            if opened.table is None or columns == ["label"]:
                return opened.reader.get_batch(number), place
            return opened.checked_batch(number, place), place


class ParquetSource:
    """Opens Parquet files."""

    name = "parquet"
    unit = "row group"

    def look(self, file: TextFile) -> Head:
        """Read a file's schema and the sizes of its row groups."""
        with _told_where(file, self), file.fs.open(file.path, "rb") as stream:
            found = parquet.ParquetFile(stream)
            layout = layout_of(found.schema_arrow, file.name)
            groups = range(found.num_row_groups)
            return Head(layout, tuple(found.metadata.row_group(i).num_rows for i in groups))

    def read(self, file: TextFile, number: int, columns: list[str]) -> tuple[Any, Place]:
        """Return some columns of a row group as one record batch, and its place."""
        with _told_where(file, self), file.fs.open(file.path, "rb") as stream:
            # One thread: blocks are what runs in parallel.
            opened = parquet.ParquetFile(stream, page_checksum_verification=True)
            table = opened.read_row_group(number, columns=columns, use_threads=False)
        batches = table.combine_chunks().to_batches()
        if not batches:
            batches = [pa.RecordBatch.from_pylist([], schema=table.schema)]
        if len(batches) > 1:
            raise ValueError(f"row group {number} does not fit one batch")
        return batches[0], Place(file.name, f"row group {number}")


def _open_batches(
    source: Any,
    files: list[TextFile],
    n_features: int | None,
    block: str,
    dtype: Any,
    known_labels: Any,
    unlabeled: Any,
) -> tuple[da.Array, da.Array | None]:
    """Build lazy arrays over batches of rows; see `read_arrow`.

    Parameters
    ----------
    source : IpcSource or ParquetSource
        Opens the files.
    files : list of TextFile
        The files.
    n_features, block, dtype, known_labels, unlabeled : object
        As in `read_arrow`.

    Returns
    -------
    X, y : dask.array.Array
        Rows and labels.
    """
    check_options(n_features=n_features, block=block, dtype=dtype)
    known = sorted_labels(known_labels)
    heads = _look_at_all(source, files)
    dense = _all_dense(files, heads)
    columns = _count_features(source, files, heads, n_features, dense)
    stored = np.result_type(np.float32, *(head.layout.values for head in heads))
    dtype = stored if dtype is None else np.dtype(dtype)
    places = [
        (f, i, n) for f, head in zip(files, heads, strict=True) for i, n in enumerate(head.rows)
    ]
    if not places:
        raise DataFileError(files[0].name, f"has no {source.unit}, so no rows")
    rows = [n for _, _, n in places]
    token = tokenize([(f.name, f.version) for f in files], rows, columns, block, dtype, known)
    meta = np.empty((0, 0), dtype=dtype) if dense else empty_block(dtype, block)
    tasks = [(_read_rows, source, *place, columns, dtype, dense, block) for place in places]
    X = lazy_array(f"{source.name}-X-{token}", tasks, rows, meta, n_features=columns)
    kind = common_type([f.name for f in files], [head.layout.labels for head in heads])
    if kind is None:
        return X, None
    token = tokenize(token, unlabeled)
    readings = [(_read_labels, source, *place, kind, known, unlabeled) for place in places]
    return X, lazy_array(f"{source.name}-y-{token}", readings, rows, np.empty(0, dtype=kind))


def _look_at_all(source: Any, files: list[TextFile]) -> list[Head]:
    if all(file.is_local for file in files):  # a millisecond each
        return [source.look(file) for file in files]
    return list(dask.compute(*(dask.delayed(source.look, pure=False)(file) for file in files)))


def _all_dense(files: list[TextFile], heads: Sequence[Head]) -> bool:
    dense = heads[0].layout.dense
    for file, head in zip(files, heads, strict=True):
        if head.layout.dense != dense:
            kinds = ("sparse", "dense")
            raise DataFileError(
                file.name,
                f"has {kinds[not dense]} rows, but {files[0].name} has {kinds[dense]} ones",
            )
    return dense


def _count_features(
    source: Any, files: list[TextFile], heads: Sequence[Head], wanted: int | None, dense: bool
) -> int:
    """Agree on a number of columns: that of the option, or the largest that a file needs."""
    needed, name = 0, files[0].name
    for file, head in zip(files, heads, strict=True):
        told = head.layout.n_features
        if dense and told != heads[0].layout.n_features:
            raise DataFileError(
                file.name, f"has {told} columns, but {name} has {heads[0].layout.n_features}"
            )
        if told is not None and told > needed:
            needed, name = told, file.name
    if wanted is not None:
        if wanted < needed or (dense and wanted != needed):
            raise DataFileError(name, f"has {needed} columns, but n_features is {wanted}")
        return int(wanted)
    highest = dask.delayed(_highest, pure=False)
    scans = [
        highest(source, file, i)
        for file, head in zip(files, heads, strict=True)
        if head.layout.n_features is None
        for i in range(len(head.rows))
    ]
    needed = max([needed, *(found + 1 for found in dask.compute(*scans))])
    if needed == 0:
        raise DataFileError(name, "no row has an entry: n_features must be given")
    check_options(n_features=needed)
    return needed


def _highest(source: Any, file: TextFile, number: int) -> int:
    with _told_where(file, source):
        return highest_column(*source.read(file, number, ["indices", "values"]))


def _read_rows(
    source: Any,
    file: TextFile,
    number: int,
    rows: int,
    n_features: int,
    dtype: np.dtype,
    dense: bool,
    block: str,
) -> Any:
    columns = ["row"] if dense else ["indices", "values"]
    with _told_where(file, source):
        batch, place = source.read(file, number, columns)
        _check_same(batch, place, rows)
        matrix = batch_rows(batch, place, n_features, dtype, dense)
    return matrix if dense else as_block(matrix, block)


def _read_labels(
    source: Any,
    file: TextFile,
    number: int,
    rows: int,
    dtype: np.dtype,
    known: np.ndarray | None,
    unlabeled: Any,
) -> np.ndarray:
    with _told_where(file, source):
        batch, place = source.read(file, number, ["label"])
        _check_same(batch, place, rows)
        labels = batch_labels(batch, place, dtype, unlabeled)
    strange = check_known(labels, known)
    if strange >= 0:
        raise place.wrong(f"label {labels[strange]!r} is not one of {known.tolist()}", strange)  # type: ignore[union-attr]
    return labels


def _check_same(batch: Any, place: Place, rows: int) -> None:
    if batch.num_rows != rows:
        raise place.wrong(f"has {batch.num_rows} rows, but had {rows} when it was opened")


@contextmanager
def _told_where(file: TextFile, source: Any) -> Iterator[None]:
    """Say which file it was that could not be read."""
    try:
        yield
    except (DataFileError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError, ValueError, IndexError, KeyError) as error:
        raise DataFileError(file.name, f"cannot be read as {source.name}: {error}") from error


class _Opened(NamedTuple):
    """An IPC file.

    mapped : the whole file, if it is local.
    read : returns bytes of the file.
    table : its checksums, if it has some.
    """

    reader: Any
    schema: Any
    mapped: np.ndarray | None
    read: Callable[[int, int], Any]
    table: Table | None

    def checked_batch(self, number: int, place: Place) -> Any:
        """Return a record batch whose bytes are those that were written."""
        assert self.table is not None
        if self.mapped is not None:
            self.table.check(number, self.read, place.release)
            return self.reader.get_batch(number)
        # fetched once, for its checksum and for its rows
        low, high, _ = self.table.parts[number]
        content = self.read(low, high)
        self.table.check(number, lambda start, stop: content[start - low : stop - low])
        head = len(_MAGIC) if number == 0 else 0
        *_, message = ipc.MessageReader.open_stream(pa.py_buffer(content).slice(head))
        return ipc.read_record_batch(message, self.schema)


@contextmanager
def _opened(file: TextFile, columns: list[str]) -> Iterator[_Opened]:
    """Open a file: mapped if it is local, else with a reader for these columns alone."""
    with _told_where(file, IpcSource):
        if file.is_local:
            # An empty file cannot be mapped.
            mapped = np.asarray(np.memmap(file.path, mode="r")) if file.size else np.zeros(0, "u1")
            table = read_table(lambda low, high: mapped[low:high], len(mapped))
            reader = ipc.open_file(pa.BufferReader(pa.py_buffer(mapped)))
            _check_announced(reader.schema, table)
            yield _Opened(reader, reader.schema, mapped, lambda low, high: mapped[low:high], table)
            return
        with file.fs.open(file.path, "rb") as stream:

            def read(low: int, high: int) -> bytes:
                stream.seek(low)
                content: bytes = stream.read(high - low)
                return content

            table = read_table(read, stream.seek(0, io.SEEK_END))
            stream.seek(0)
            schema = ipc.open_file(pa.PythonFile(stream, mode="r")).schema
            _check_announced(schema, table)
            chosen = [schema.names.index(name) for name in columns if name in schema.names]
            options = ipc.IpcReadOptions(included_fields=chosen or [0])
            reader = ipc.open_file(pa.PythonFile(stream, mode="r"), options=options)
            yield _Opened(reader, schema, None, read, table)


def _check_announced(schema: Any, table: Table | None) -> None:
    if table is None and CHECKED in (schema.metadata or {}):
        raise ValueError("is damaged: the checksums that its schema announces are not there")
