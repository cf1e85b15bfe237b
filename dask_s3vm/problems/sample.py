"""A sample of the rows, in this process."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.blocks import copy_rows, stack_rows
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.rows import CSR, Rows
from dask_s3vm.numerics.random import draw_rows


@dataclass(frozen=True)
class Sample:
    """Rows that were drawn.

    numbers : global row numbers, ascending.
    rows : the rows, with columns in internal order.
    n_features : number of columns.
    codes : class numbers, -1 where unlabeled.
    weights : sample weights.
    """

    numbers: np.ndarray
    rows: Rows
    n_features: int
    codes: np.ndarray
    weights: np.ndarray

    def matrix(self) -> Any:
        """Return the rows as numpy or scipy knows them."""
        rows = self.rows
        if not isinstance(rows, CSR):
            return rows
        parts = rows.values.copy(), rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
        return sp.csr_array(parts, shape=(len(self.codes), self.n_features))

    def widths(self) -> np.ndarray:
        """Return the range of each column, zeros of sparse rows included."""
        rows = self.rows
        if not isinstance(rows, CSR):
            return np.asarray(rows.max(axis=0) - rows.min(axis=0), dtype=np.float64)
        low, high = np.zeros(self.n_features), np.zeros(self.n_features)
        np.minimum.at(low, rows.indices, rows.values)
        np.maximum.at(high, rows.indices, rows.values)
        return high - low


def draw_sample(engine: Engine, labeled: float, unlabeled: float) -> Sample:
    """Draw shares of the labeled and of the unlabeled rows, of those that count.

    Which rows are drawn depends on their numbers alone.

    Costs: 1 round; the rows of the sample travel to this process.
    """
    parts = engine.each(drawn_rows, labeled, unlabeled)
    numbers, rows, codes, weights = zip(*(part for part in parts if len(part[0])), strict=True)
    return Sample(
        np.concatenate(numbers),
        stack_rows(list(rows)),
        engine.layout.n_features,
        np.concatenate(codes),
        np.concatenate(weights),
    )


def drawn_rows(shard: Shard, labeled: float, unlabeled: float) -> tuple[Any, ...]:
    """Draw these shares of the rows: (global numbers, rows, class numbers, weights)."""
    assert shard.codes is not None, "labels are needed to tell the rows apart"
    weights = np.ones(shard.n_rows) if shard.weights is None else shard.weights
    share = np.where(shard.codes < 0, unlabeled, labeled)
    chosen = np.flatnonzero((draw_rows(shard.first_row, shard.n_rows) < share) & (weights > 0))
    rows = copy_rows(shard.rows, chosen.astype(np.uint32))
    return shard.first_row + chosen, rows, shard.codes[chosen], weights[chosen]
