"""Rows of one block, and the loops that read single rows of it.

A block is a `CSR` triple or a dense C-ordered matrix. Kernels are written once, in terms of the
row primitives below, which numba resolves by the type of the block. There are two families:

pair_dot, pair_add, pair_move, pair_both, pair_ahead
    For fused passes, which multiply a row with an input vector `v` and then add a multiple of the
    row to an output vector `out`. Both vectors are in one *pair* buffer, and the bias column is
    included: entry d of both vectors belongs to it, and its value is `bias` (0 or 1) in every row.

    * CSR: shape (d + 1, 2), `v[j]` and `out[j]` side by side. A column that was read for the
      product is in the cache line that is written afterwards: 15-20 % off a pass over text.
    * dense: shape (2, d + 1), so that both loops run over contiguous memory.

    `pair_dot` keeps several partial sums (four for CSR, eight for dense rows), so that an
    addition does not wait for the one before it. `pair_ahead` asks for the entries of the row that
    comes next, where the buffer is larger than a cache: a third off a pass over 2,000,000 columns.

vector_dot, vector_add, matrix_dot, placed_dot
    For loops over a few listed rows and one vector of length d or more, without a bias. Sums are
    added in the order of the columns.

No fast-math: the order of the additions is the one written here, so a pass gives the same bits
wherever it runs.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.ones import is_ones, ones
from dask_s3vm.numerics.simd import LANES, dot_in_eights, prefetch

#: Columns above which a pair buffer, 16 bytes a column, is larger than the cache of a core.
WIDE = 2**18


class CSR(NamedTuple):
    """Rows in compressed sparse row form.

    indptr : uint32 (n + 1,), indices : uint16 or uint32, values : float32 or float64.
    Column numbers are unsigned because numba tests signed ones for negative values at each access.
    Values that are all 1 (indicators, hashed tables) are not stored: see `numerics.ones`.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle; values that are not stored do not travel either."""
        values = len(self.values) if is_ones(self.values) else self.values
        return _unpickled, (self.indptr, self.indices, values)


Rows = CSR | np.ndarray


def _unpickled(indptr: np.ndarray, indices: np.ndarray, values: Any) -> CSR:
    return CSR(indptr, indices, ones(values) if isinstance(values, int) else values)


def is_csr(X: Any) -> bool:
    """Whether a numba type is that of a `CSR` triple; chooses between implementations."""
    return isinstance(X, types.BaseNamedTuple)


# Pair buffers ---------------------------------------------------------------------------------


def new_pair(X: Rows, n_features: int) -> np.ndarray:
    """Allocate a pair buffer with the shape for the storage of `X`."""
    width = n_features + 1
    return np.empty((width, 2) if isinstance(X, CSR) else (2, width))


def pair_halves(X: Rows, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return views of the input half and the output half of a pair buffer."""
    first, second = pair.T if isinstance(X, CSR) else pair
    return first, second


def load_pair(X: Rows, pair: np.ndarray, v: np.ndarray | float) -> None:
    """Copy `v` into the input half of a pair buffer and set the output half to zero."""
    if isinstance(X, CSR) and isinstance(v, np.ndarray):
        if len(v) != len(pair):  # compiled code does not check
            raise ValueError(f"a vector of {len(v)} entries for {len(pair)} columns with the bias")
        _load_side_by_side(pair, v)
        return
    source, out = pair_halves(X, pair)
    source[:] = v
    out[:] = 0.0


@kernel
def _load_side_by_side(pair: np.ndarray, v: np.ndarray) -> None:
    for j in range(v.size):
        pair[j, 0] = v[j]
        pair[j, 1] = 0.0


def pair_output(X: Rows, pair: np.ndarray) -> np.ndarray:
    """Copy the output half of a pair buffer."""
    return pair_halves(X, pair)[1].copy()


def pair_input(X: Rows, pair: np.ndarray) -> np.ndarray:
    """Copy the input half of a pair buffer."""
    return pair_halves(X, pair)[0].copy()


def pair_dot(X: Any, i: Any, pair: np.ndarray, bias: float) -> float:
    """Return the product of row `i` and the input half of `pair` (compiled code only)."""
    raise NotImplementedError("pair_dot is resolved by numba")


def pair_add(X: Any, i: Any, t: float, pair: np.ndarray, bias: float) -> None:
    """Add `t` times row `i` to the output half of `pair` (compiled code only)."""
    raise NotImplementedError("pair_add is resolved by numba")


def pair_move(X: Any, i: Any, t: float, scale: float, pair: np.ndarray, bias: float) -> None:
    """Add t x_i to the output half, and scale t x_i to the input half (compiled code only)."""
    raise NotImplementedError("pair_move is resolved by numba")


def pair_both(X: Any, i: Any, s: float, t: float, pair: np.ndarray, bias: float) -> None:
    """Add s x_i to the input half, and t x_i to the output half (compiled code only)."""
    raise NotImplementedError("pair_both is resolved by numba")


def pair_ahead(X: Any, i: Any, pair: np.ndarray) -> None:
    """Bring the entries of `pair` that row `i` will need into the cache (compiled code only)."""
    raise NotImplementedError("pair_ahead is resolved by numba")


def _dot_csr(X: Any, i: Any, pair: Any, bias: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    n = columns.size
    quads = n // 4
    s0 = s1 = s2 = s3 = 0.0
    for q in range(quads):
        k = 4 * q
        s0 += values[k] * pair[columns[k], 0]
        s1 += values[k + 1] * pair[columns[k + 1], 0]
        s2 += values[k + 2] * pair[columns[k + 2], 0]
        s3 += values[k + 3] * pair[columns[k + 3], 0]
    for k in range(4 * quads, n):
        s0 += values[k] * pair[columns[k], 0]
    return ((s0 + s1) + (s2 + s3)) + bias * pair[pair.shape[0] - 1, 0]


def _dot_dense(X: Any, i: Any, pair: Any, bias: Any) -> Any:
    row, v = X[i], pair[0]
    n = row.size
    s = 0.0
    for k in range(LANES * (n // LANES), n):
        s += row[k] * v[k]
    return dot_in_eights(row, v) + s + bias * v[n]


def _add_csr(X: Any, i: Any, t: Any, pair: Any, bias: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        pair[columns[k], 1] += t * values[k]
    pair[pair.shape[0] - 1, 1] += t * bias


def _add_dense(X: Any, i: Any, t: Any, pair: Any, bias: Any) -> Any:
    row, out = X[i], pair[1]
    for k in range(row.size):
        out[k] += t * row[k]
    out[row.size] += t * bias


def _move_csr(X: Any, i: Any, t: Any, scale: Any, pair: Any, bias: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        move = t * values[k]
        pair[columns[k], 0] += scale * move
        pair[columns[k], 1] += move
    last = pair.shape[0] - 1
    pair[last, 0] += scale * t * bias
    pair[last, 1] += t * bias


def _move_dense(X: Any, i: Any, t: Any, scale: Any, pair: Any, bias: Any) -> Any:
    row, v, out = X[i], pair[0], pair[1]
    for k in range(row.size):
        move = t * row[k]
        v[k] += scale * move
        out[k] += move
    v[row.size] += scale * t * bias
    out[row.size] += t * bias


def _both_csr(X: Any, i: Any, s: Any, t: Any, pair: Any, bias: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        pair[columns[k], 0] += s * values[k]
        pair[columns[k], 1] += t * values[k]
    last = pair.shape[0] - 1
    pair[last, 0] += s * bias
    pair[last, 1] += t * bias


def _both_dense(X: Any, i: Any, s: Any, t: Any, pair: Any, bias: Any) -> Any:
    row, v, out = X[i], pair[0], pair[1]
    for k in range(row.size):
        v[k] += s * row[k]
        out[k] += t * row[k]
    v[row.size] += s * bias
    out[row.size] += t * bias


def _ahead_csr(X: Any, i: Any, pair: Any) -> Any:
    if pair.shape[0] > WIDE and i < X.indptr.size - 1:
        for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
            prefetch(pair, np.int64(X.indices[k]))


def _ahead_dense(X: Any, i: Any, pair: Any) -> Any:
    pass


# numba requires the same signature, type hints included, of an overload and its implementations
@overload(pair_dot, inline="always")
def _choose_dot(X: Any, i: Any, pair: Any, bias: Any) -> Any:
    return _dot_csr if is_csr(X) else _dot_dense


@overload(pair_add, inline="always")
def _choose_add(X: Any, i: Any, t: Any, pair: Any, bias: Any) -> Any:
    return _add_csr if is_csr(X) else _add_dense


@overload(pair_move, inline="always")
def _choose_move(X: Any, i: Any, t: Any, scale: Any, pair: Any, bias: Any) -> Any:
    return _move_csr if is_csr(X) else _move_dense


@overload(pair_both, inline="always")
def _choose_both(X: Any, i: Any, s: Any, t: Any, pair: Any, bias: Any) -> Any:
    return _both_csr if is_csr(X) else _both_dense


@overload(pair_ahead, inline="always")
def _choose_ahead(X: Any, i: Any, pair: Any) -> Any:
    return _ahead_csr if is_csr(X) else _ahead_dense


# Single vectors -------------------------------------------------------------------------------


def vector_dot(X: Any, i: Any, q: np.ndarray) -> float:
    """Return the product of row `i` and a vector (compiled code only)."""
    raise NotImplementedError("vector_dot is resolved by numba")


def vector_add(X: Any, i: Any, t: float, q: np.ndarray) -> None:
    """Add `t` times row `i` to a vector (compiled code only)."""
    raise NotImplementedError("vector_add is resolved by numba")


def matrix_dot(X: Any, i: Any, columns: np.ndarray, out: np.ndarray) -> None:
    """Add row `i` times a matrix (d, g) to `out` (g,) (compiled code only)."""
    raise NotImplementedError("matrix_dot is resolved by numba")


def placed_dot(X: Any, i: Any, place: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
    """As `matrix_dot`, with row `place[j]` of W for column j of X (compiled code only).

    Columns whose place is beyond the last row of W are skipped.
    """
    raise NotImplementedError("placed_dot is resolved by numba")


def _vector_dot_csr(X: Any, i: Any, q: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    s = 0.0
    for k in range(columns.size):
        s += values[k] * q[columns[k]]
    return s


def _vector_dot_dense(X: Any, i: Any, q: Any) -> Any:
    s = 0.0
    for k in range(X.shape[1]):
        s += X[i, k] * q[k]
    return s


def _vector_add_csr(X: Any, i: Any, t: Any, q: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        q[columns[k]] += t * values[k]


def _vector_add_dense(X: Any, i: Any, t: Any, q: Any) -> Any:
    for k in range(X.shape[1]):
        q[k] += t * X[i, k]


def _products_csr(X: Any, i: Any, columns: Any, out: Any) -> Any:
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
        value, column = X.values[k], X.indices[k]
        for g in range(out.size):
            out[g] += value * columns[column, g]


def _products_dense(X: Any, i: Any, columns: Any, out: Any) -> Any:
    for k in range(X.shape[1]):
        value = X[i, k]
        for g in range(out.size):
            out[g] += value * columns[k, g]


def _placed_csr(X: Any, i: Any, place: Any, W: Any, out: Any) -> Any:
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
        row = np.int64(place[X.indices[k]])
        if row < W.shape[0]:
            value = X.values[k]
            for g in range(out.size):
                out[g] += value * W[row, g]


def _placed_dense(X: Any, i: Any, place: Any, W: Any, out: Any) -> Any:
    for k in range(X.shape[1]):
        row = np.int64(place[k])
        if row < W.shape[0]:
            value = X[i, k]
            for g in range(out.size):
                out[g] += value * W[row, g]


@overload(vector_dot)
def _choose_vector_dot(X: Any, i: Any, q: Any) -> Any:
    return _vector_dot_csr if is_csr(X) else _vector_dot_dense


@overload(vector_add)
def _choose_vector_add(X: Any, i: Any, t: Any, q: Any) -> Any:
    return _vector_add_csr if is_csr(X) else _vector_add_dense


@overload(matrix_dot)
def _choose_products(X: Any, i: Any, columns: Any, out: Any) -> Any:
    return _products_csr if is_csr(X) else _products_dense


@overload(placed_dot)
def _choose_placed(X: Any, i: Any, place: Any, W: Any, out: Any) -> Any:
    return _placed_csr if is_csr(X) else _placed_dense


# Checks of the arrays of a block: compiled code relies on them and does not test again ---------

#: Largest number of columns: column numbers, and the bias column behind them, are uint32.
MAX_FEATURES = 2**32 - 2

#: Stored entries of one block or shard must be fewer: `indptr` is uint32.
MAX_ENTRIES = 2**32 - 1


def check_indptr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> int:
    """Check the sizes of a CSR triple; return the number of stored entries."""
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
            f"X has a block whose indptr counts {stored} entries, but it has {len(indices)} column "
            f"numbers and {len(data)} values"
        )
    return stored


def check_finite(values: np.ndarray) -> None:
    """Raise ValueError for NaN and infinity."""
    # the sum is finite for nearly all valid data: the exact test runs only where it is not
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(values, axis=None, dtype=np.float64) if values.size else 0.0
    if not np.isfinite(total) and not np.all(np.isfinite(values)):
        raise ValueError("X contains NaN or infinity; wanted finite numbers only")
