"""Readers and writers of data files, and model files."""

from dask_s3vm._lazy import lazy_names

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
    "save_weights_text": "dask_s3vm.io.models",
    "write_data": "dask_s3vm.io.formats",
}

__all__ = list(_PUBLIC)

__getattr__, __dir__ = lazy_names("dask_s3vm.io", _PUBLIC)
