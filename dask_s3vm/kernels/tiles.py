"""Some sparse rows as a dense matrix."""

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.rows import CSR


@kernel
def dense_tile(X: CSR, rows: np.ndarray, tile: np.ndarray) -> None:
    """Write the listed rows of X into the rows of `tile`, which is zero."""
    for place in range(rows.size):
        i = rows[place]
        for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
            tile[place, np.int64(X.indices[k])] = X.values[k]
