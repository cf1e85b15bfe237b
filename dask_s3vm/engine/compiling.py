"""Kernels are compiled where rows will be, while these are still being read."""

import threading
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from dask_s3vm.engine.blocks import column_type
from dask_s3vm.kernels.warm import warm

if TYPE_CHECKING:
    import distributed


def compile_meanwhile(client: "distributed.Client | None", workers: list[str], X: da.Array) -> Any:
    """Start compiling for rows like those that X is said to have; a wrong guess does no harm.

    On workers, keep what is returned until the rows are there. With a filled cache this takes
    tens of milliseconds.
    """
    kind = _kind_of(X)
    if client is None:
        threading.Thread(target=warm, args=kind, daemon=True).start()
        return None
    return [
        client.submit(warm, *kind, workers=[worker], allow_other_workers=True, pure=False)
        for worker in workers
    ]


def _kind_of(X: da.Array) -> tuple[str, str]:
    """Types of column numbers ("" for dense rows) and values, from what dask knows of X."""
    values = "float32" if X.dtype == np.float32 else "float64"
    dense = isinstance(X._meta, np.ndarray) or np.isnan(X.shape[1])
    return "" if dense else np.dtype(column_type(X.shape[1])).name, values
