"""Data files and model files."""

from dask_s3vm.io.errors import DataFileError, ModelFileError, SvmlightError
from dask_s3vm.io.formats import read_data, write_data
from dask_s3vm.io.models import load_model, save_model, save_weights_text
from dask_s3vm.io.npz import read_npz
from dask_s3vm.io.svmlight import read_svmlight

__all__ = [
    "DataFileError",
    "ModelFileError",
    "SvmlightError",
    "load_model",
    "read_data",
    "read_npz",
    "read_svmlight",
    "save_model",
    "save_weights_text",
    "write_data",
]
