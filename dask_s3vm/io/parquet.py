"""Parquet files as dask arrays, one block per row group."""

from typing import Any, Literal

import dask.array as da

from dask_s3vm.io.arrow_ipc import Head, open_batches, told_where
from dask_s3vm.io.arrow_rows import Place
from dask_s3vm.io.arrow_schema import import_arrow, layout_of
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import TextFile, UrlPath, find_files

__all__ = ["read_parquet"]


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
        As in `dask_s3vm.io.arrow_ipc.read_arrow`.

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
    return open_batches(ParquetSource(), files, n_features, block, dtype, known_labels, unlabeled)


class ParquetSource:
    """Opens Parquet files."""

    name = "parquet"
    unit = "row group"

    def look(self, file: TextFile) -> Head:
        """Read a file's schema and the sizes of its row groups."""
        parquet = import_arrow("pyarrow.parquet")
        with told_where(file, self), file.fs.open(file.path, "rb") as stream:
            found = parquet.ParquetFile(stream)
            layout = layout_of(found.schema_arrow, file.name)
            groups = range(found.num_row_groups)
            return Head(layout, tuple(found.metadata.row_group(i).num_rows for i in groups))

    def read(self, file: TextFile, number: int, columns: list[str]) -> tuple[Any, Place]:
        """Return some columns of a row group as one record batch, and its place."""
        parquet = import_arrow("pyarrow.parquet")
        with told_where(file, self), file.fs.open(file.path, "rb") as stream:
            # One thread: blocks are what runs in parallel.
            table = parquet.ParquetFile(stream).read_row_group(
                number, columns=columns, use_threads=False
            )
        batches = table.combine_chunks().to_batches()
        pa = import_arrow()
        if not batches:
            batches = [pa.RecordBatch.from_pylist([], schema=table.schema)]
        if len(batches) > 1:
            raise ValueError(f"row group {number} does not fit one batch")
        return batches[0], Place(file.name, f"row group {number}")
