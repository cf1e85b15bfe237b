"""Canonical blocks: whatever type a block of X has, checked and in the form kernels want."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.checks import MAX_ENTRIES, check_columns, check_finite, check_indptr
from dask_s3vm.engine.mapped import MappedRows
from dask_s3vm.engine.mapped_blocks import mapped_rows
from dask_s3vm.kernels.rows import CSR, Rows

_WANTED = "a 2-d numpy array, a scipy.sparse array or matrix, or a sparse.COO / sparse.GCXS array"


class Block(NamedTuple):
    """Some consecutive rows with what belongs to them; labels and weights may be elsewhere."""

    rows: Rows | MappedRows
    n_features: int
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None


def make_block(
    X: Any, labels: Any = None, weights: Any = None, narrow: bool = True, mapped: bool = False
) -> Block:
    """Make a canonical block of one block of X and, where they come along, y and weights.

    `narrow` stores float64 values as float32 where not a bit is lost by it (indicator columns,
    counts, data that once was float32): half the memory traffic, same results. It costs a copy,
    so it is for blocks that are copied anyway. With `mapped`, views of a memory-mapped file are not
    copied at all: the block tells where they lie.
    """
    in_file = mapped_rows(X) if mapped else None
    rows, n_features = (in_file, X.shape[1]) if in_file else canonical_rows(X, narrow)
    n = row_count(rows)
    for name, values in (("y", labels), ("sample_weight", weights)):
        if values is not None and np.shape(values) != (n,):
            raise ValueError(
                f"{name} does not fit X: a block of X has {n} rows, the block of {name} beside "
                f"it has shape {np.shape(values)}; give X and {name} the same row chunks"
            )
    return Block(
        rows,
        n_features,
        None if labels is None else as_labels(labels),
        None if weights is None else as_weights(weights),
    )


def canonical_rows(X: Any, narrow: bool = True) -> tuple[Rows, int]:
    """Turn one block into `CSR` or a C-ordered float matrix; returns it and its width."""
    if sp.issparse(X):
        return _from_scipy(X, narrow), X.shape[1]
    if type(X).__module__.split(".")[0] == "sparse":
        return _from_sparse(X, narrow), X.shape[1]
    if not isinstance(X, np.ndarray):
        raise TypeError(f"X has blocks of type {type(X).__name__}; wanted {_WANTED}")
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    matrix = np.ascontiguousarray(_as_values(np.asarray(X), narrow))
    return frozen(aligned(matrix)), matrix.shape[1]


def as_labels(labels: Any) -> np.ndarray:
    """Check labels: one per row, integers or strings; objects become one or the other."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"y must be 1-dimensional, got shape {labels.shape}")
    if labels.dtype.kind == "O":
        labels = _of_objects(labels)
    if labels.dtype.kind not in "biufUS":
        raise TypeError(f"y has dtype {labels.dtype}; wanted integers or strings")
    if labels.dtype.kind == "f":
        if not np.all(np.isfinite(labels)):
            raise ValueError(
                "Input y contains NaN or infinity; mark rows without a label by the value "
                "`unlabeled`"
            )
        fractions = labels != np.floor(labels)
        if fractions.any():
            raise ValueError(
                f"Unknown label type: y has values such as {labels[fractions][0]}; wanted class "
                "labels, integers or strings"
            )
    return labels


def _of_objects(labels: np.ndarray) -> np.ndarray:
    """Turn objects into integers if all are, else into strings (a mark may be a number)."""
    if all(isinstance(label, (int, np.integer)) for label in labels):
        return labels.astype(np.int64)
    if all(isinstance(label, (float, np.floating, int, np.integer)) for label in labels):
        return labels.astype(np.float64)
    for label in labels:
        if not isinstance(label, (str, int, np.integer)):
            raise ValueError(
                f"y has {label!r} of type {type(label).__name__} among its labels; wanted integers "
                "or strings, and the value `unlabeled` for rows without a label"
            )
    return labels.astype(str)


def as_weights(weights: Any) -> np.ndarray:
    """Check sample weights: finite, not negative."""
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"sample_weight must be 1-dimensional, got shape {weights.shape}")
    if not np.all(np.isfinite(weights)):
        raise ValueError("sample_weight contains NaN or infinity; wanted finite numbers")
    if np.any(weights < 0):
        raise ValueError(f"sample_weight must not be negative, got {weights.min()}")
    return weights


def opened(rows: Rows | MappedRows) -> Rows:
    """Return rows for the kernels, views of a map if they lie in a file."""
    return rows.open() if isinstance(rows, MappedRows) else rows


def brought_in(rows: Rows | MappedRows, n_features: int) -> Rows:
    """Return rows in memory, of the narrowest types, as `make_block` would have made them."""
    if not isinstance(rows, MappedRows):
        return rows
    found = rows.open()
    if isinstance(found, CSR):
        indices: np.ndarray = found.indices.astype(column_type(n_features))
        copy: Rows = CSR(found.indptr, frozen(indices), frozen(_as_own_values(found.values)))
    else:
        copy = frozen(_as_own_values(found))
    del found
    rows.release()
    return copy


def row_count(rows: Rows | MappedRows) -> int:
    """Count the rows of a canonical block."""
    if isinstance(rows, MappedRows):
        return rows.n_rows
    return len(rows.indptr) - 1 if isinstance(rows, CSR) else len(rows)


def row_costs(rows: Rows | MappedRows) -> np.ndarray:
    """Return the work that each row causes in a pass: stored entries, and a little per row."""
    rows = opened(rows)  # reads no page of a file
    if isinstance(rows, CSR):
        return np.diff(rows.indptr.astype(np.int64)) + 4
    return np.full(len(rows), rows.shape[1] + 4, dtype=np.int64)


def slice_rows(rows: Any, start: int, stop: int) -> Any:
    """Rows `start` to `stop`, as views where possible; of rows in a file, where those lie."""
    if isinstance(rows, MappedRows):
        return rows.part(start, stop)
    if not isinstance(rows, CSR):
        return frozen(rows[start:stop])
    low, high = int(rows.indptr[start]), int(rows.indptr[stop])
    indptr = rows.indptr[start : stop + 1]
    shifted = indptr - indptr[0] if low else indptr
    return CSR(frozen(shifted), frozen(rows.indices[low:high]), frozen(rows.values[low:high]))


def slice_block(block: Block, start: int, stop: int) -> Block:
    """Rows `start` to `stop` of a block, with what belongs to them."""
    return Block(
        slice_rows(block.rows, start, stop),
        block.n_features,
        None if block.labels is None else block.labels[start:stop],
        None if block.weights is None else block.weights[start:stop],
    )


def stack_rows(parts: list[Rows]) -> Rows:
    """Put canonical blocks on top of each other in new, aligned arrays."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return frozen(np.concatenate(parts))
    triples = [as_sparse(part) for part in parts]
    ends = np.cumsum([0] + [int(part.indptr[-1]) for part in triples])
    assert ends[-1] < MAX_ENTRIES, "more entries than 32 bits can count in one shard"
    indptr = [part.indptr[:-1] + np.uint32(end) for part, end in zip(triples, ends, strict=False)]
    return CSR(
        frozen(np.concatenate([*indptr, [np.uint32(ends[-1])]], dtype=np.uint32)),
        frozen(np.concatenate([part.indices for part in triples])),
        frozen(np.concatenate([part.values for part in triples])),
    )


def as_sparse(rows: Rows) -> CSR:
    """Return sparse rows, made of dense ones if need be."""
    if isinstance(rows, CSR):
        return rows
    csr = sp.csr_array(rows)
    return _checked_csr(csr.data, csr.indices, csr.indptr, csr.shape, narrow=False)


def renumber_columns(rows: Rows, position: np.ndarray) -> Rows:
    """Give column j the number `position[j]`; the order within a row stays."""
    if isinstance(rows, CSR):
        return rows._replace(indices=frozen(position[rows.indices]))
    raise TypeError("only the columns of sparse rows are renumbered")


def column_type(n_features: int) -> type:
    """Return the narrowest unsigned type for column numbers."""
    return np.uint16 if n_features <= 2**16 else np.uint32


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view: numba then compiles one version, whatever the array came from."""
    view = array.view()
    view.flags.writeable = False
    return view


def aligned(array: np.ndarray) -> np.ndarray:
    """Copy an array that starts at an odd address, as buffers from the wire may: 2x slower."""
    return array if array.flags.aligned else array.copy()


def _from_scipy(X: Any, narrow: bool) -> CSR:
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    csr = X.tocsr()
    return _checked_csr(csr.data, csr.indices, csr.indptr, csr.shape, narrow)


def _from_sparse(X: Any, narrow: bool) -> CSR:
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    if X.fill_value != 0:
        raise ValueError(f"X has sparse blocks with fill_value {X.fill_value}; wanted 0")
    if getattr(X, "compressed_axes", None) == (0,):
        return _checked_csr(X.data, X.indices, X.indptr, X.shape, narrow)
    return _from_scipy(X.tocsr() if hasattr(X, "tocsr") else X.to_scipy_sparse(), narrow)


def _checked_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], narrow: bool
) -> CSR:
    """Check a CSR triple (compiled code trusts it) and bring it to the kernels' types."""
    stored = check_indptr(data, indices, indptr, shape)
    indices, data = indices[:stored], data[:stored]
    check_columns(indices, shape[1])
    return CSR(
        frozen(aligned(indptr.astype(np.uint32))),
        frozen(aligned(_as_columns(indices, shape[1], narrow))),
        frozen(aligned(np.ascontiguousarray(_as_values(data, narrow)))),
    )


def _as_columns(indices: np.ndarray, n_features: int, narrow: bool) -> np.ndarray:
    """Unsigned column numbers: a view of the user's where that can be, and is wanted."""
    indices = np.ascontiguousarray(indices)
    if not narrow and indices.dtype == np.int32:
        return indices.view(np.uint32)
    return indices.astype(column_type(n_features), copy=False)


def _as_values(values: np.ndarray, narrow: bool) -> np.ndarray:
    """Bring values to float32 or float64, without loss; refuse what is not a finite number."""
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
            result = _narrowed(result)
    check_finite(result)
    return result


def _as_own_values(values: np.ndarray) -> np.ndarray:
    """Copy checked values, to float32 where no bit is lost by it."""
    short = values if values.dtype == np.float32 else _narrowed(values)
    return values.copy() if short is values else short


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Store as float32 if every value survives that unchanged."""
    head = values[:1000] if values.ndim == 1 else values[:10]
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.array_equal(head.astype(np.float32), head):
            return values
        short = values.astype(np.float32)
        return short if np.array_equal(short, values) else values
