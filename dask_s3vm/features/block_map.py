"""The kernel map as the engine sees it: canonical blocks in, canonical blocks of features out."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.blocks import Block, frozen
from dask_s3vm.features.kernel_map import KernelMap
from dask_s3vm.kernels.rows import CSR


class FeatureBlocks:
    """Turns blocks of rows into blocks of their features; see `engine.ingest.BlockMap`."""

    def __init__(self, kernel_map: KernelMap, dtype: Any) -> None:
        self.kernel_map = kernel_map
        self.row_bytes = kernel_map.n_components * (4 if dtype == np.float32 else 8)
        self.piece_rows = kernel_map.piece_rows

    def __call__(self, block: Block, threads: int = 1) -> Block:
        """Return features of a block, with its labels and weights."""
        features = self.kernel_map.transform(_rows_of(block), threads)
        return block._replace(rows=frozen(features), n_features=self.kernel_map.n_components)


def _rows_of(block: Block) -> Any:
    if not isinstance(block.rows, CSR):
        return block.rows
    indptr, indices, values = block.rows
    shape = (len(indptr) - 1, block.n_features)
    return sp.csr_array((values, indices.astype(np.int64), indptr.astype(np.int64)), shape)
