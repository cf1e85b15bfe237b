"""Readers and writers of data files, and model files."""

# ruff: noqa: I001 (one statement for each module)

from typing import TYPE_CHECKING

from dask_s3vm._lazy import lazy_names

# For type checkers and editors. A test compares it with _PUBLIC.
if TYPE_CHECKING:
    from dask_s3vm.io.arrays import read_npy as read_npy, read_npz as read_npz
    from dask_s3vm.io.arrow import read_arrow as read_arrow, read_parquet as read_parquet
    from dask_s3vm.io.errors import (
        DataFileError as DataFileError,
        ModelFileError as ModelFileError,
        SvmlightError as SvmlightError,
        TableError as TableError,
    )
    from dask_s3vm.io.formats import read_data as read_data, write_data as write_data
    from dask_s3vm.io.models import load_model as load_model, save_model as save_model
    from dask_s3vm.io.svmlight import read_svmlight as read_svmlight
    from dask_s3vm.io.tables import read_table as read_table

_PUBLIC = {
    "DataFileError": "dask_s3vm.io.errors",
    "ModelFileError": "dask_s3vm.io.errors",
    "SvmlightError": "dask_s3vm.io.errors",
    "TableError": "dask_s3vm.io.errors",
    "load_model": "dask_s3vm.io.models",
    "read_arrow": "dask_s3vm.io.arrow",
    "read_data": "dask_s3vm.io.formats",
    "read_npy": "dask_s3vm.io.arrays",
    "read_npz": "dask_s3vm.io.arrays",
    "read_parquet": "dask_s3vm.io.arrow",
    "read_svmlight": "dask_s3vm.io.svmlight",
    "read_table": "dask_s3vm.io.tables",
    "save_model": "dask_s3vm.io.models",
    "write_data": "dask_s3vm.io.formats",
}

__all__ = list(_PUBLIC)

__getattr__, __dir__ = lazy_names("dask_s3vm.io", _PUBLIC)
