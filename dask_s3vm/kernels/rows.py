"""What a block of rows is, and how kernels read one row of it.

A block is either a `CSR` triple or a dense C-ordered matrix. Kernels are written once, in
terms of `row_dot` and `row_add`, which numba resolves by the type of the block.

A fused pass multiplies a row with an input vector `v` and then adds a multiple of the row to
an output vector `out`. Both live in one *pair* buffer:

* CSR: shape (d + 1, 2), `v[j]` and `out[j]` side by side. A column that was read for the
  product is in the cache line that is written afterwards: 15-20 % off a pass over text.
* dense: shape (2, d + 1), so that both loops run over contiguous memory.

Entry d belongs to the implicit bias column, whose value is `bias` (0 or 1) in every row.

Dot products keep four partial sums in the order that is written here. No fast-math: a pass
gives the same bits wherever it runs.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload


class CSR(NamedTuple):
    """Rows in compressed sparse form.

    indptr : uint32 (n + 1,), indices : uint16 or uint32, values : float32 or float64.
    Column numbers are unsigned because numba spends a test per access on signed ones.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


Rows = CSR | np.ndarray


def new_pair(X: Rows, n_features: int) -> np.ndarray:
    """Allocate a pair buffer of the shape that kernels over `X` want."""
    width = n_features + 1
    return np.empty((width, 2) if isinstance(X, CSR) else (2, width))


def load_pair(X: Rows, pair: np.ndarray, v: np.ndarray | float) -> None:
    """Put `v` into the input half of a pair buffer and clear the output half."""
    source, out = (pair[:, 0], pair[:, 1]) if isinstance(X, CSR) else (pair[0], pair[1])
    source[:] = v
    out[:] = 0.0


def pair_output(X: Rows, pair: np.ndarray) -> np.ndarray:
    """Copy the output half of a pair buffer."""
    return (pair[:, 1] if isinstance(X, CSR) else pair[1]).copy()


def row_dot(X: Any, i: Any, pair: np.ndarray, bias: float) -> float:
    """Product of row `i` and the input half of `pair` (compiled code only)."""
    raise NotImplementedError("row_dot is resolved by numba")


def row_add(X: Any, i: Any, t: float, pair: np.ndarray, bias: float) -> None:
    """Add `t` times row `i` to the output half of `pair` (compiled code only)."""
    raise NotImplementedError("row_add is resolved by numba")


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


def _add_csr(X: Any, i: Any, t: Any, pair: Any, bias: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        pair[columns[k], 1] += t * values[k]
    pair[pair.shape[0] - 1, 1] += t * bias


def _dot_dense(X: Any, i: Any, pair: Any, bias: Any) -> Any:
    row, v = X[i], pair[0]
    n = row.size
    # eight sums, so that the compiler can keep them in vector registers
    lanes = np.zeros(8)
    for block in range(n // 8):
        k = 8 * block
        for lane in range(8):
            lanes[lane] += row[k + lane] * v[k + lane]
    s = 0.0
    for k in range(8 * (n // 8), n):
        s += row[k] * v[k]
    low = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    high = (lanes[4] + lanes[5]) + (lanes[6] + lanes[7])
    return (low + high) + s + bias * v[n]


def _add_dense(X: Any, i: Any, t: Any, pair: Any, bias: Any) -> Any:
    row, out = X[i], pair[1]
    for k in range(row.size):
        out[k] += t * row[k]
    out[row.size] += t * bias


# numba wants the choosing and the chosen function to have the same signature, hints included
@overload(row_dot, inline="always")
def _choose_dot(X: Any, i: Any, pair: Any, bias: Any) -> Any:
    return _dot_csr if isinstance(X, types.BaseNamedTuple) else _dot_dense


@overload(row_add, inline="always")
def _choose_add(X: Any, i: Any, t: Any, pair: Any, bias: Any) -> Any:
    return _add_csr if isinstance(X, types.BaseNamedTuple) else _add_dense
