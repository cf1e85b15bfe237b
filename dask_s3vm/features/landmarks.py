"""Rows of X by global row number, and the ranges of its columns, for X of any type."""

from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.column_scale import Ranges, ranges_of
from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.containers import plain_rows
from dask_s3vm.engine.ingest import is_dask


class Sample(NamedTuple):
    """Rows, an ndarray or csr_array, and if requested the ranges of the columns of X."""

    rows: Any
    ranges: Ranges | None


def narrow_rows(block: Any) -> Any:
    """Return one block of X as `plain_rows` does, with 32-bit column numbers where they fit."""
    rows = plain_rows(block)
    if (
        sp.issparse(rows)
        and rows.indices.dtype != np.int32
        and max(rows.shape[1], rows.nnz) < 2**31
    ):
        rows = sp.csr_array(  # compiled code of scikit-learn needs 32 bits
            (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), rows.shape
        )
    return rows


def draw_rows(n_rows: int, n_wanted: int | None, random_state: Any) -> np.ndarray:
    """Draw the numbers of distinct rows, ascending; all rows if there are no more than wanted."""
    if n_wanted is None or n_wanted >= n_rows:
        return np.arange(n_rows)
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.sort(np.random.default_rng(random_state).choice(n_rows, n_wanted, replace=False))


def sample(
    X: Any,
    n_wanted: int | None,
    random_state: Any,
    with_range: bool,
    always: np.ndarray | None = None,
) -> Sample:
    """Draw rows of X, the same however X is chunked, and compute column ranges if requested.

    `always` are numbers of rows that are taken beside those drawn.

    Costs: for a dask array one computation of the blocks that have drawn rows, or of all blocks if
    ranges are requested; one more over all blocks if chunk sizes are unknown.
    """
    if not is_dask(X):
        rows = narrow_rows(X)
        _check_shape(rows.shape)
        chosen = _with(draw_rows(rows.shape[0], n_wanted, random_state), always)
        ranges = column_ranges(rows) if with_range else None
        return Sample(rows if len(chosen) == rows.shape[0] else rows[chosen], ranges)
    X = one_column_block(X)
    blocks = list(X.to_delayed().ravel())
    counts, measured = list(X.chunks[0]), []
    if np.isnan(X.shape[0]):
        facts = compute_all([_delayed(_measure, block, with_range) for block in blocks])
        counts, measured = [fact[0] for fact in facts], [fact[1] for fact in facts]
        with_range = False
    starts = np.cumsum([0, *counts])
    _check_shape((int(starts[-1]), X.shape[1]))
    chosen = _with(draw_rows(int(starts[-1]), n_wanted, random_state), always)
    found = compute_all(_picks(blocks, starts, chosen, with_range))
    measured = [one for one in measured or [part[1] for part in found] if one is not None]
    rows = _stack([part[0] for part in found if part[0].shape[0]])
    return Sample(rows, Ranges.joined(measured) if measured else None)


def _with(drawn: np.ndarray, always: np.ndarray | None) -> np.ndarray:
    return drawn if always is None else np.union1d(drawn, always)


def take_rows(X: Any, numbers: np.ndarray) -> Any:
    """Return the rows of X with these ascending numbers, as an ndarray or csr_array.

    Costs: for a dask array one computation of the blocks that have them; one more over all blocks
    if chunk sizes are unknown.
    """
    if not is_dask(X):
        return narrow_rows(X)[numbers]
    X = one_column_block(X)
    blocks, counts = list(X.to_delayed().ravel()), list(X.chunks[0])
    if np.isnan(X.shape[0]):
        facts = compute_all([_delayed(_measure, block, False) for block in blocks])
        counts = [fact[0] for fact in facts]
    starts = np.cumsum([0, *counts])
    found = compute_all(_picks(blocks, starts, numbers, False))
    return _stack([part[0] for part in found])


def one_column_block(X: da.Array) -> da.Array:
    """Check a dask array and rechunk it so that blocks have whole rows."""
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    if X.numblocks[0] == 0 or 0 in X.shape:
        _check_shape((0 if X.numblocks[0] == 0 else X.shape[0], X.shape[1]))
    return X.rechunk({1: -1}) if X.numblocks[1] != 1 else X


def _delayed(function: Any, *args: Any) -> Any:
    return dask.delayed(function, pure=False)(*args)


def _measure(block: Any, with_range: bool) -> tuple[int, Any]:
    rows = narrow_rows(block)
    return rows.shape[0], column_ranges(rows) if with_range and rows.shape[0] else None


def _picks(
    blocks: list[Any], starts: np.ndarray, numbers: np.ndarray, with_range: bool
) -> list[Any]:
    """Return a task for each block that has some of the rows, or for all blocks for ranges."""
    cuts = np.searchsorted(numbers, starts)
    return [
        _delayed(_pick, block, numbers[cuts[i] : cuts[i + 1]] - starts[i], with_range)
        for i, block in enumerate(blocks)
        if with_range or cuts[i] < cuts[i + 1]
    ]


def _pick(block: Any, numbers: np.ndarray, with_range: bool) -> tuple[Any, Any]:
    rows = narrow_rows(block)
    return rows[numbers], column_ranges(rows) if with_range and rows.shape[0] else None


def column_ranges(rows: Any) -> Ranges | None:
    """Return the ranges of the columns; entries that sparse rows do not store are zeros."""
    if not sp.issparse(rows):
        return ranges_of(rows)
    edges = (edge.toarray().ravel() for edge in (rows.min(axis=0), rows.max(axis=0)))
    return Ranges(*(edge.astype(np.float64) for edge in edges))


def _stack(parts: list[Any]) -> Any:
    """Stack rows of several blocks, sparse if any part is."""
    if any(sp.issparse(part) for part in parts):
        return sp.csr_array(sp.vstack(parts, format="csr"))
    return np.concatenate(parts)


def _check_shape(shape: tuple[Any, ...]) -> None:
    if 0 in shape:
        raise ValueError(f"X is empty: it has shape {shape}; wanted at least one row and column")
