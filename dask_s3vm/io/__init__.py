"""Data files and model files."""

from dask_s3vm.io.arrow_ipc import read_arrow
from dask_s3vm.io.errors import DataFileError, ModelFileError, SvmlightError, TableError
from dask_s3vm.io.formats import read_data, write_data
from dask_s3vm.io.kdd99 import read_kdd99
from dask_s3vm.io.letters import read_letters
from dask_s3vm.io.models import load_model, save_model, save_weights_text
from dask_s3vm.io.npy import read_npy
from dask_s3vm.io.npz import read_npz
from dask_s3vm.io.parquet import read_parquet
from dask_s3vm.io.rcv1 import fetch_rcv1, read_rcv1
from dask_s3vm.io.svmlight import read_svmlight
from dask_s3vm.io.tables import read_table

__all__ = [
    "DataFileError",
    "ModelFileError",
    "SvmlightError",
    "TableError",
    "fetch_rcv1",
    "load_model",
    "read_arrow",
    "read_data",
    "read_kdd99",
    "read_letters",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_rcv1",
    "read_svmlight",
    "read_table",
    "save_model",
    "save_weights_text",
    "write_data",
]
