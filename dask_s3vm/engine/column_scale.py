"""Columns of dense rows brought to one scale while the rows are placed.

Blocks are measured as they come in (`ranges_of`), so that no pass over the rows is added. Shards
then hold ``(x - offset) * scale`` in place of x, and models are brought back by `to_given`:

    w.((x - m) s) + b = (w s).x + b - (w s).m
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.mapped import MappedRows
from dask_s3vm.kernels.rows import CSR, Rows


class Ranges(NamedTuple):
    """Smallest and largest value of each column."""

    low: np.ndarray
    high: np.ndarray

    @property
    def widths(self) -> np.ndarray:
        """Return the difference of the two."""
        return self.high - self.low

    @classmethod
    def joined(cls, parts: "Iterable[Ranges]") -> "Ranges":
        """Return the ranges of all rows from those of parts."""
        lows, highs = zip(*parts, strict=True)
        return cls(np.min(lows, axis=0), np.max(highs, axis=0))


class ColumnScale(NamedTuple):
    """Rows are placed as ``(x - offset) * scale``."""

    offset: np.ndarray
    scale: np.ndarray

    @classmethod
    def to_unit(cls, ranges: Ranges, shift: bool) -> "ColumnScale":
        """Bring columns to [0, 1], or, without a shift, to [-1, 1]; constant columns become 0.

        Without a shift a constant column is divided by its value.
        """
        low, high = ranges
        reach = high - low if shift else np.maximum(np.abs(low), np.abs(high))
        # the inverse of a smaller range would be beyond the largest number
        scale = 1.0 / np.where(reach < np.finfo(np.float64).tiny, 1.0, reach)
        return cls(low if shift else np.zeros_like(low), scale)

    def of_rows(self, rows: Any) -> np.ndarray:
        """Scale rows, which are dense afterwards; float64, whatever their type."""
        return ((rows.toarray() if sp.issparse(rows) else rows) - self.offset) * self.scale

    def to_scaled(self, w: np.ndarray) -> np.ndarray:
        """Bring vectors (..., d + 1), weights and bias, from the columns given to the scaled."""
        bias = w[..., -1:] + _row_sums(w[..., :-1] * self.offset)
        return np.concatenate([w[..., :-1] / self.scale, bias], axis=-1)

    def to_given(self, w: np.ndarray) -> np.ndarray:
        """Bring vectors (..., d + 1), weights and bias, from the scaled columns to those given."""
        weights = w[..., :-1] * self.scale
        return np.concatenate([weights, w[..., -1:] - _row_sums(weights * self.offset)], axis=-1)


def ranges_of(rows: Rows | MappedRows) -> Ranges | None:
    """Measure the columns of a block; None for sparse rows, and where there are no rows."""
    if isinstance(rows, MappedRows):
        if rows.indptr is not None or not rows.n_rows:
            return None
        return Ranges.joined(
            Ranges(part.min(axis=0), part.max(axis=0))
            for part in rows.opened_parts()
            if not isinstance(part, CSR)
        )
    if isinstance(rows, CSR) or not len(rows):
        return None
    return Ranges(*(edge.astype(np.float64) for edge in (rows.min(axis=0), rows.max(axis=0))))


def _row_sums(products: np.ndarray) -> np.ndarray:
    return np.add.reduce(products, axis=-1, keepdims=True)
