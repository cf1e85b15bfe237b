"""Has numba keep what the package `sparse` compiles, which takes seconds in every process.

Imported by the tests, and by the workers that they start (see conftest.py).
"""

import contextlib
import sys

import numba
import sparse  # noqa: F401 (loads the modules that are looked at here)
from numba.core.dispatcher import Dispatcher

from dask_s3vm.numerics.compiler import cache_root


def keep_compiled():
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_root() / "sparse")  # else beside the installed package
    try:
        _enable_caching()
    finally:
        numba.config.CACHE_DIR = before


def _enable_caching():
    for name, module in list(sys.modules.items()):
        if name.startswith("sparse."):
            for value in list(vars(module).values()):
                if isinstance(value, Dispatcher) and value.py_func.__module__ == name:
                    with contextlib.suppress(RuntimeError):  # there is no place for it
                        value.enable_caching()


keep_compiled()
