"""Containers of rows: one block of X of any supported type becomes an ndarray or a csr_array.

All paths in come through `plain_rows`: fits, predictions, scalers, kernels, samples. Entries of
sparse rows that are stored twice are added up here, in a copy; masks are refused.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.kernels.rows import check_finite, check_indptr

_WANTED = "a 2-d numpy array, a scipy.sparse array or matrix, or an array of the package `sparse`"

#: Largest value to train on: products of a few of them must not overflow.
MAX_VALUE = 1e50

#: Stored entries whose order is checked at a time.
_AT_ONCE = 1 << 22


def plain_rows(block: Any) -> Any:
    """Return rows as a 2-d ndarray, or as a csr_array in canonical form; copies if need be.

    Values and their types are as they were. Canonical: within a row column numbers increase, so
    that none occurs twice.
    """
    if type(block).__module__.split(".")[0] == "sparse":
        block = _scipy_of(block)
    if not (sp.issparse(block) or isinstance(block, np.ndarray)):
        raise TypeError(f"X has blocks of type {type(block).__name__}; wanted {_WANTED}")
    if block.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {block.ndim} dimension(s)")
    refuse_types(block)
    if not sp.issparse(block):
        refuse_masked(block, "X")
        return np.asarray(block)
    return _canonical(block.tocsr())


def as_block(matrix: sp.csr_array, block: str) -> Any:
    """Return sparse rows as a block of type "gcxs" or "scipy"; memory is shared."""
    if block == "scipy":
        return matrix
    import sparse

    parts = (matrix.data, matrix.indices, matrix.indptr)
    return sparse.GCXS(parts, shape=matrix.shape, compressed_axes=(0,))


def checkable(X: Any) -> Any:
    """X as scikit-learn can check it: it ignores masks, and knows scipy's sparse arrays only."""
    refuse_masked(X, "X")
    refuse_types(X)
    foreign = type(X).__module__.split(".")[0] == "sparse"
    return plain_rows(X) if foreign or sp.issparse(X) else X


def refuse_types(X: Any) -> None:
    """Raise TypeError for times and for Python objects in sparse rows.

    Scikit-learn takes them for numbers, even NaT.
    """
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind in "mM" or (kind == "O" and sp.issparse(X)):
        raise TypeError(f"X has dtype {X.dtype}; wanted real numbers")


def refuse_masked(values: Any, name: str) -> None:
    """Raise ValueError for a masked array with masked entries: what they stand for is unknown."""
    if not isinstance(values, np.ma.MaskedArray):
        return
    count = int(np.ma.count_masked(values))
    if count:
        how = "labels: mark them, for example by y.filled(-1)"
        if name != "y":
            how = f"numbers: fill them, for example by {name}.filled(0)"
        raise ValueError(
            f"{name} is a masked array with {count} masked entries, which are missing values; "
            f"wanted {how}"
        )


def check_values(values: np.ndarray) -> None:
    """Raise ValueError for NaN, infinity, and values that products would overflow with."""
    # One pass for nearly all data: the sum of squares is small only if all values are. Not by BLAS:
    # its threads spin for milliseconds afterwards, on the cores that the first rounds need.
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.einsum("i,i->", flat, flat))  # float: the limit is infinite as a float32
    if total <= MAX_VALUE**2:
        return
    check_finite(values)
    largest = max(float(flat.max()), -float(flat.min()))
    if largest > MAX_VALUE:
        raise ValueError(
            f"X has values up to {largest:.3g}; wanted at most {MAX_VALUE:.0e}: divide its columns "
            "by their ranges, for example by dask_s3vm.features.UnitScaler"
        )


def check_columns(indptr: np.ndarray, indices: np.ndarray, n_features: int) -> bool:
    """Raise ValueError for column numbers outside X; return whether they increase in every row."""
    rising = _rises(indptr, indices)
    if rising:  # then the first and the last of each row tell
        filled = indptr[:-1] < indptr[1:]
        ends = np.concatenate([indptr[:-1][filled], indptr[1:][filled] - 1])
        indices = indices[ends]
    if len(indices) and (indices.min() < 0 or indices.max() >= n_features):
        raise ValueError(f"X has a block with column numbers outside 0..{n_features - 1}")
    return rising


def _rises(indptr: np.ndarray, indices: np.ndarray) -> bool:
    """Whether column numbers increase within every row."""
    starts = indptr[1:-1]
    for low in range(0, len(indices) - 1, _AT_ONCE):
        high = min(low + _AT_ONCE, len(indices) - 1)
        rises = indices[low + 1 : high + 1] > indices[low:high]
        first, last = np.searchsorted(starts, (low + 1, high + 1))
        rises[starts[first:last] - (low + 1)] = True
        if not rises.all():
            return False
    return True


def _scipy_of(block: Any) -> Any:
    """Convert an array of the package `sparse`."""
    if block.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {block.ndim} dimension(s)")
    if block.fill_value != 0:
        raise ValueError(f"X has sparse blocks with fill_value {block.fill_value}; wanted 0")
    if not hasattr(block, "to_scipy_sparse"):  # sparse.DOK
        block = block.to_coo()
    return block.to_scipy_sparse()


def _canonical(csr: Any) -> sp.csr_array:
    stored = check_indptr(csr.data, csr.indices, csr.indptr, csr.shape)
    if check_columns(csr.indptr, csr.indices[:stored], csr.shape[1]):
        return csr if isinstance(csr, sp.csr_array) else sp.csr_array(csr)
    parts = (csr.data[:stored].copy(), csr.indices[:stored].copy(), csr.indptr.copy())
    if parts[0].dtype.kind == "b":  # True and True is 2 in a matrix of numbers
        parts = (parts[0].astype(np.float32), *parts[1:])
    own = sp.csr_array(parts, csr.shape)
    own.sum_duplicates()
    return own
