"""What must be true of the arrays of a block: compiled code trusts it."""

import numpy as np

#: Column numbers above this do not fit the unsigned type of the kernels.
MAX_FEATURES = 2**32 - 2

#: Stored entries of one block or shard are counted by 32 bits.
MAX_ENTRIES = 2**32 - 1


def check_indptr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> int:
    """Check the sizes of a CSR triple; returns the number of stored entries."""
    n, d = shape
    if d > MAX_FEATURES:
        raise ValueError(f"X has {d} columns; at most {MAX_FEATURES} are possible")
    stored = int(indptr[-1])
    if stored >= MAX_ENTRIES:
        raise ValueError(
            f"a block of X has {stored} stored entries, more than 32 bits can count; hand it in as "
            "a dask array of smaller row chunks"
        )
    if len(indptr) != n + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError("X has a block with an invalid indptr array")
    if len(indices) < stored or len(data) < stored:
        raise ValueError(
            f"X has a block whose indptr tells of {stored} entries, but with {len(indices)} column "
            f"numbers and {len(data)} values"
        )
    return stored


def check_columns(indices: np.ndarray, n_features: int) -> None:
    """Refuse column numbers outside the width of X."""
    if len(indices) and (indices.min() < 0 or indices.max() >= n_features):
        raise ValueError(f"X has a block with column numbers outside 0..{n_features - 1}")


def check_finite(values: np.ndarray) -> None:
    """Refuse NaN and infinity."""
    # a sum is one cheap pass and finite for all but strange data; look closer only then
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(values, axis=None, dtype=np.float64) if values.size else 0.0
    if not np.isfinite(total) and not np.all(np.isfinite(values)):
        raise ValueError("X contains NaN or infinity; wanted finite numbers only")
