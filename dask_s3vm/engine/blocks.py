"""Canonical blocks: a block of X of any supported type, checked and converted for the kernels.

Canonical rows are `CSR` with unsigned 32-bit row pointers, or a C-ordered matrix; values are
float32 or float64, and all arrays are aligned and read-only. Rows that stay in a memory-mapped file
are `MappedRows`, which open as one of these.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.containers import check_values, plain_rows, refuse_masked
from dask_s3vm.engine.mapped import MappedRows, mapped_rows
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import CSR, MAX_ENTRIES, Rows
from dask_s3vm.labels import as_labels
from dask_s3vm.numerics.ones import is_ones, joined, ones, without_ones

#: Largest sample weight: the costs of rows that weigh more are lost beside it, or overflow.
MAX_WEIGHT = 1e20


class Block(NamedTuple):
    """Consecutive rows, with their labels and weights unless these are kept elsewhere."""

    rows: Rows | MappedRows
    n_features: int
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None


def make_block(
    X: Any, labels: Any = None, weights: Any = None, narrow: bool = True, mapped: bool = False
) -> Block:
    """Make a canonical block from a block of X and, if given, the entries of y and weights.

    Parameters
    ----------
    X, labels, weights : a block of rows, and what belongs to them.
    narrow : store float64 values as float32 where that is exact (indicator columns, counts, data
        that once was float32): half the memory traffic, same results. It costs a copy, so it is for
        blocks that are copied anyway.
    mapped : leave views of a memory-mapped file in the file; the block describes where they are.
    """
    in_file = mapped_rows(X) if mapped else None
    rows, n_features = (in_file, X.shape[1]) if in_file else canonical_rows(X, narrow)
    n = row_count(rows)
    for name, values in (("y", labels), ("sample_weight", weights)):
        if values is not None and np.shape(values) != (n,):
            raise ValueError(
                f"{name} does not fit X: a block of X has {n} rows, the matching block of {name} "
                f"has shape {np.shape(values)}; give X and {name} the same row chunks"
            )
    return Block(
        rows,
        n_features,
        None if labels is None else _labels_of_block(labels),
        None if weights is None else as_weights(weights),
    )


def canonical_rows(X: Any, narrow: bool = True) -> tuple[Rows, int]:
    """Convert a block to `CSR` or a C-ordered float matrix; return it and its number of columns."""
    X = plain_rows(X)
    if sp.issparse(X):
        return _csr_of(X, narrow), X.shape[1]
    matrix = np.ascontiguousarray(_as_values(X, narrow))
    return frozen(aligned(matrix)), matrix.shape[1]


def _labels_of_block(labels: Any) -> np.ndarray:
    refuse_masked(labels, "y")
    return as_labels(labels)


def as_weights(weights: Any) -> np.ndarray:
    """Check sample weights: 1-dimensional, finite, not negative, of a size to compute with."""
    refuse_masked(weights, "sample_weight")
    weights = np.asarray(weights)
    if weights.dtype.kind in "cmMV":
        raise TypeError(f"sample_weight has dtype {weights.dtype}; wanted real numbers")
    try:
        weights = weights.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight has entries that are no numbers: {error}") from error
    if weights.ndim != 1:
        raise ValueError(f"sample_weight must be 1-dimensional, got shape {weights.shape}")
    if not np.all(np.isfinite(weights)):
        raise ValueError("sample_weight contains NaN or infinity; wanted finite numbers")
    if np.any(weights < 0):
        raise ValueError(
            f"sample_weight must not be negative, got {weights.min()}; wanted 0 or more"
        )
    if len(weights) and weights.max() > MAX_WEIGHT:
        raise ValueError(
            f"sample_weight is up to {weights.max():.3g}; wanted at most {MAX_WEIGHT:.0e}: divide "
            "the weights by their mean"
        )
    return weights


def opened(rows: Rows | MappedRows) -> Rows:
    """Return rows for the kernels: views of the memory map if they are in a file."""
    return rows.open() if isinstance(rows, MappedRows) else rows


def load_rows(rows: Rows | MappedRows, n_features: int) -> Rows:
    """Load rows from their file into memory, with the narrow types that `make_block` gives."""
    if not isinstance(rows, MappedRows):
        return rows
    found = rows.open()
    if isinstance(found, CSR):
        indices: np.ndarray = found.indices.astype(column_type(n_features))
        values = without_ones(found.values)
        own = values if is_ones(values) else frozen(_as_own_values(values))
        copy: Rows = CSR(found.indptr, frozen(indices), own)
    else:
        copy = frozen(_as_own_values(found))
    del found
    rows.release()
    return copy


def narrow_rows(rows: Rows | MappedRows, n_features: int) -> Rows | MappedRows:
    """Return rows in memory with the narrow types that `make_block` gives, to be sent."""
    if isinstance(rows, MappedRows):
        return rows
    if not isinstance(rows, CSR):
        return frozen(narrowed(rows))
    values = rows.values if is_ones(rows.values) else frozen(narrowed(rows.values))
    indices: np.ndarray = rows.indices.astype(column_type(n_features), copy=False)
    return CSR(rows.indptr, frozen(indices), values)


def row_count(rows: Rows | MappedRows) -> int:
    """Return the number of rows."""
    if isinstance(rows, MappedRows):
        return rows.n_rows
    return len(rows.indptr) - 1 if isinstance(rows, CSR) else len(rows)


def row_work(rows: Rows | MappedRows) -> np.ndarray:
    """Return the cost of each row in a pass: its stored entries, plus 4."""
    rows = opened(rows)  # touches no page of a file
    if isinstance(rows, CSR):
        return np.diff(rows.indptr.astype(np.int64)) + 4
    return np.full(len(rows), rows.shape[1] + 4, dtype=np.int64)


def slice_rows(rows: Any, start: int, stop: int) -> Any:
    """Return rows `start` to `stop`: views where possible, or a smaller range of the file."""
    if isinstance(rows, MappedRows):
        return rows.part(start, stop)
    if not isinstance(rows, CSR):
        return frozen(rows[start:stop])
    low, high = int(rows.indptr[start]), int(rows.indptr[stop])
    indptr = rows.indptr[start : stop + 1]
    shifted = indptr - indptr[0] if low else indptr
    return CSR(frozen(shifted), frozen(rows.indices[low:high]), frozen(rows.values[low:high]))


def slice_block(block: Block, start: int, stop: int) -> Block:
    """Return rows `start` to `stop` of a block, with their labels and weights."""
    return Block(
        slice_rows(block.rows, start, stop),
        block.n_features,
        None if block.labels is None else block.labels[start:stop],
        None if block.weights is None else block.weights[start:stop],
    )


def stack_rows(parts: list[Rows]) -> Rows:
    """Concatenate canonical rows in new arrays; rows of one part stay as they are."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return frozen(np.concatenate(parts))
    triples = [as_sparse(part) for part in parts]
    ends = np.cumsum([0] + [int(part.indptr[-1]) for part in triples])
    _check_size(int(ends[-1]))
    indptr = [part.indptr[:-1] + np.uint32(end) for part, end in zip(triples, ends, strict=False)]
    return CSR(
        frozen(np.concatenate([*indptr, [np.uint32(ends[-1])]], dtype=np.uint32)),
        frozen(np.concatenate([part.indices for part in triples])),
        frozen(joined([part.values for part in triples])),
    )


def copy_rows(rows: Rows, chosen: np.ndarray) -> Rows:
    """Copy the rows with the numbers `chosen` (uint32)."""
    if not isinstance(rows, CSR):
        return frozen(rows[chosen])
    lengths = row_lengths(rows, chosen)
    _check_size(int(lengths.sum()))
    indptr = np.append(0, np.cumsum(lengths)).astype(np.uint32)

    def pack(entries: np.ndarray) -> np.ndarray:
        packed = np.empty(indptr[-1], dtype=entries.dtype)
        passes.pack_entries(rows.indptr, entries, chosen, indptr, packed)
        return frozen(packed)

    values = ones(int(indptr[-1])) if is_ones(rows.values) else pack(rows.values)
    return CSR(frozen(indptr), pack(rows.indices), values)


def row_lengths(rows: CSR, chosen: np.ndarray) -> np.ndarray:
    """Return the number of stored entries of the rows with the numbers `chosen` (uint32)."""
    return (rows.indptr[chosen + np.uint32(1)] - rows.indptr[chosen]).astype(np.int64)


def _check_size(n_entries: int) -> None:
    """Raise ValueError if 32 bits cannot count the entries: `indptr` would wrap around silently."""
    if n_entries >= MAX_ENTRIES:
        raise ValueError(
            f"{n_entries:,} stored entries are too many for one block of rows (at most "
            f"{MAX_ENTRIES - 1:,}); use smaller blocks, or a search that runs in the shards"
        )


def as_sparse(rows: Rows) -> CSR:
    """Return sparse rows, converted from dense ones if need be."""
    if isinstance(rows, CSR):
        return rows
    return _csr_of(sp.csr_array(rows), narrow=False)


def renumber_columns(rows: Rows, position: np.ndarray) -> Rows:
    """Give column j the number `position[j]`; the order of the entries in a row stays."""
    if isinstance(rows, CSR):
        return rows._replace(indices=frozen(position[rows.indices]))
    raise TypeError("rows are dense; only columns of sparse rows can be renumbered")


def column_type(n_features: int) -> type:
    """Return the narrowest type for column numbers that kernels support."""
    return np.uint16 if n_features <= 2**16 else np.uint32


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, so that numba compiles one version for arrays of any origin."""
    view = array.view()
    view.flags.writeable = False
    return view


def aligned(array: np.ndarray) -> np.ndarray:
    """Copy an array that is not aligned, as received buffers may be: kernels would be 2x slower."""
    return array if array.flags.aligned else array.copy()


def _csr_of(X: Any, narrow: bool) -> CSR:
    """Convert a checked csr_array to the kernels' types."""
    stored = int(X.indptr[-1])
    return CSR(
        frozen(aligned(X.indptr.astype(np.uint32))),
        frozen(aligned(_as_columns(X.indices[:stored], X.shape[1], narrow))),
        frozen(aligned(_as_stored(X.data[:stored], narrow))),
    )


def _as_stored(data: np.ndarray, narrow: bool) -> np.ndarray:
    """Return the values of sparse rows as kernels read them."""
    if not is_ones(data):
        data = without_ones(np.ascontiguousarray(_as_values(data, narrow)))
    return data


def _as_columns(indices: np.ndarray, n_features: int, narrow: bool) -> np.ndarray:
    """Return unsigned column numbers: a view of int32 ones unless `narrow`."""
    indices = np.ascontiguousarray(indices)
    if not narrow and indices.dtype == np.int32:
        return indices.view(np.uint32)
    return indices.astype(column_type(n_features), copy=False)


def _as_values(values: np.ndarray, narrow: bool) -> np.ndarray:
    """Convert values to float32 or float64; refuse other types, NaN, infinity, overflow."""
    kind = values.dtype.kind
    if kind not in "fiub":
        raise TypeError(
            f"X has dtype {values.dtype}; wanted real numbers (float32, float64, integers, bool)"
        )
    if values.dtype == np.float32:
        result = values
    elif kind == "f" and values.dtype.itemsize < 4:
        result = values.astype(np.float32)
    else:
        result = values.astype(np.float64, copy=False)
        if narrow or kind != "f":
            result = narrowed(result)
    check_values(result)
    return result


def _as_own_values(values: np.ndarray) -> np.ndarray:
    """Copy checked values, as float32 where that is exact."""
    short = values if values.dtype == np.float32 else narrowed(values)
    return values.copy() if short is values else short


def narrowed(values: np.ndarray) -> np.ndarray:
    """Return the values as float32 if that changes none of them, else as they are."""
    head = values[:1000] if values.ndim == 1 else values[:10]
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.array_equal(head.astype(np.float32), head):
            return values
        short = values.astype(np.float32)
        return short if np.array_equal(short, values) else values
