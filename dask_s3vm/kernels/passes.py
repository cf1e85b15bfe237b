"""Fused passes over one block: the product with X and with X^T from one read of each row.

A pass reads `v` from the input half of a pair buffer and adds to the output half (see `rows`). A
new loss is one more function of this form: output of a row, scalar function, update by the row.
`rows` arguments are unsigned row numbers within the block.
"""

import numpy as np

from dask_s3vm.kernels.rows import (
    CSR,
    Rows,
    new_pair,
    pair_add,
    pair_ahead,
    pair_dot,
    placed_dot,
    vector_add,
    vector_dot,
)
from dask_s3vm.numerics.compiler import kernel


@kernel
def gram(X: Rows, rows: np.ndarray, cost: np.ndarray, pair: np.ndarray, bias: float) -> float:
    """Out += X_J^T C X_J v over the listed rows J; returns v^T X_J^T C X_J v."""
    curvature = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        if k + 1 < rows.size:
            pair_ahead(X, np.int64(rows[k + 1]), pair)
        q = pair_dot(X, i, pair, bias)
        t = cost[i] * q
        curvature += t * q
        pair_add(X, i, t, pair, bias)
    return curvature


@kernel
def outputs_of(X: Rows, n: int, pair: np.ndarray, bias: float, outputs: np.ndarray) -> None:
    """outputs[i] = x_i . v for the first `n` rows."""
    for i in range(n):
        pair_ahead(X, i + 1, pair)
        outputs[i] = pair_dot(X, i, pair, bias)


@kernel
def outputs_of_models(
    X: Rows, rows: np.ndarray, place: np.ndarray, W: np.ndarray, b: np.ndarray, outputs: np.ndarray
) -> None:
    """outputs[k] = x_i . W + b with i = rows[k], for the g columns of W.

    `place` has the row of W that belongs to a column of X; a column without weights has a number
    beyond the last row.
    """
    for k in range(rows.size):
        outputs[k] = b
        placed_dot(X, np.int64(rows[k]), place, W, outputs[k])


@kernel
def add_rows(X: Rows, weights: np.ndarray, pair: np.ndarray, bias: float) -> None:
    """Out += X^T weights; rows of weight 0 are not read."""
    for i in range(weights.size):
        if weights[i] != 0.0:
            pair_add(X, i, weights[i], pair, bias)


@kernel
def diagonal_csr(X: CSR, rows: np.ndarray, cost: np.ndarray, bias: float, out: np.ndarray) -> None:
    """Out += diag(X_J^T C X_J) for CSR rows, bias entry last."""
    total = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        c = cost[i]
        total += c
        start, stop = X.indptr[i], X.indptr[i + 1]
        columns, values = X.indices[start:stop], X.values[start:stop]
        for j in range(columns.size):
            v = float(values[j])
            out[columns[j]] += c * v * v
    out[out.size - 1] += total * bias * bias


@kernel
def diagonal_dense(
    X: np.ndarray, rows: np.ndarray, cost: np.ndarray, bias: float, out: np.ndarray
) -> None:
    """Out += diag(X_J^T C X_J) for dense rows, bias entry last."""
    total = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        c = cost[i]
        total += c
        for j in range(X.shape[1]):
            v = float(X[i, j])
            out[j] += c * v * v
    out[out.size - 1] += total * bias * bias


@kernel
def pack_entries(
    indptr: np.ndarray, entries: np.ndarray, rows: np.ndarray, places: np.ndarray, out: np.ndarray
) -> None:
    """Copy the entries of the listed rows one after another, to the places given."""
    for k in range(rows.size):
        start, stop = indptr[rows[k]], indptr[rows[k] + 1]
        for j in range(stop - start):
            out[places[k] + j] = entries[start + j]


# The squared hinge loss: fused passes over the rows, and loops over their outputs alone -------
#
# Line search, label switching and the transductive objective need outputs only, no rows.


@kernel
def squared_hinge(
    X: Rows,
    target: np.ndarray,
    cost: np.ndarray,
    pair: np.ndarray,
    bias: float,
    outputs: np.ndarray,
    active: np.ndarray,
) -> tuple[float, int]:
    """Squared hinge loss and its gradient; rows of cost 0 are skipped.

    With o = x.v and J = {i : y_i o_i < 1}: loss = sum_i c_i max(0, 1 - y_i o_i)^2, and
    out += sum_J c_i (o_i - y_i) x_i, half of its gradient. Writes `outputs`, and the row numbers of
    J into the head of `active`; returns the loss and the size of J.
    """
    loss = 0.0
    n_active = 0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        pair_ahead(X, i + 1, pair)
        o = pair_dot(X, i, pair, bias)
        outputs[i] = o
        y = target[i]
        slack = 1.0 - y * o
        if slack > 0.0:
            t = c * slack
            loss += t * slack
            active[n_active] = i
            n_active += 1
            pair_add(X, i, -t * y, pair, bias)
    return loss, n_active


@kernel
def hinge_over(
    X: Rows,
    rows: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    outputs: np.ndarray,
    sign: float,
    pair: np.ndarray,
    bias: float,
) -> tuple[float, int]:
    """Add `sign` times the part of the listed rows in `squared_hinge`, at known outputs.

    Returns (sign * loss, number of active rows among the listed ones).
    """
    loss = 0.0
    n_active = 0
    for k in range(rows.size):
        i = np.int64(rows[k])
        y = target[i]
        slack = 1.0 - y * outputs[i]
        if slack > 0.0:
            t = cost[i] * slack
            loss += t * slack
            n_active += 1
            pair_add(X, i, -sign * t * y, pair, bias)
    return sign * loss, n_active


@kernel
def hinge_slope(
    target: np.ndarray, cost: np.ndarray, here: np.ndarray, there: np.ndarray, step: float
) -> tuple[float, float]:
    """Slope and curvature of 1/2 sum_i c_i max(0, 1 - y_i o_i)^2 along outputs.

    The outputs are o = here + step (there - here); rows of cost 0 are skipped.
    """
    slope = 0.0
    curvature = 0.0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        move = there[i] - here[i]
        o = here[i] + step * move
        y = target[i]
        if y * o < 1.0:
            slope += c * (o - y) * move
            curvature += c * move * move
    return slope, curvature


@kernel
def transductive_loss(
    codes: np.ndarray, target: np.ndarray, cost: np.ndarray, o: np.ndarray
) -> float:
    """sum_i c_i max(0, 1 - y_i o_i)^2, with y_i = sign(o_i) for unlabeled rows (code < 0)."""
    loss = 0.0
    for i in range(codes.size):
        c = cost[i]
        if c == 0.0:
            continue
        margin = abs(o[i]) if codes[i] < 0 else target[i] * o[i]
        if margin < 1.0:
            loss += c * (1.0 - margin) * (1.0 - margin)
    return loss


@kernel
def doubtful_rows(
    active: np.ndarray, codes: np.ndarray, target: np.ndarray, side: int, rows: np.ndarray
) -> int:
    """List the active rows (y o < 1) that are unlabeled (code < 0) and have target y = side.

    Writes the row numbers into the head of `rows`; returns how many there are.
    """
    n = 0
    for k in range(active.size):
        i = active[k]
        if codes[i] < 0 and target[i] == side:
            rows[n] = i
            n += 1
    return n


# Compilation ahead of the first pass ----------------------------------------------------------


def warm(columns: str, values: str) -> None:
    """Compile the kernels of the l2-SVM for one type of rows, or load them, by a run on no rows.

    Parameters
    ----------
    columns : dtype of column numbers, or "" for dense rows.
    values : dtype of values.
    """
    rows = _no_rows(columns, values)
    none, numbers = np.zeros(0, dtype=np.uint32), np.zeros(0)
    target = np.zeros(0, dtype=np.int8)
    pair = new_pair(rows, 1)
    gram(rows, none, numbers, pair, 1.0)
    squared_hinge(rows, target, numbers, pair, 1.0, numbers, none)
    hinge_slope(target, numbers, numbers, numbers, 1.0)
    if isinstance(rows, CSR):
        diagonal_csr(rows, none, numbers, 1.0, np.zeros(2))
    else:
        diagonal_dense(rows, none, numbers, 1.0, np.zeros(2))


def _no_rows(columns: str, values: str) -> Rows:
    """Return an empty block of the types of real ones, read-only like them."""
    if not columns:
        empty = np.zeros((0, 1), dtype=values)
        empty.flags.writeable = False
        return empty
    parts = (np.zeros(1, np.uint32), np.zeros(0, columns), np.zeros(0, values))
    for part in parts:
        part.flags.writeable = False
    return CSR(*parts)


@kernel
def count_entries(columns: np.ndarray, counts: np.ndarray) -> None:
    """Add the number of entries of each column to `counts`."""
    for k in range(columns.size):
        counts[columns[k]] += 1


@kernel
def dense_tile(X: CSR, rows: np.ndarray, tile: np.ndarray) -> None:
    """Write the listed rows of X into the rows of `tile`, which must be zero."""
    for place in range(rows.size):
        i = rows[place]
        for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
            tile[place, np.int64(X.indices[k])] = X.values[k]


# Loops over listed rows -----------------------------------------------------------------------


@kernel
def add_row(X: Rows, i: int, out: np.ndarray) -> None:
    """Out += x_i."""
    vector_add(X, i, 1.0, out)


@kernel
def sum_rows(X: Rows, rows: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None:
    """Out += sum_k weight[k] (x_i, 1) with i = rows[k]; the last entry is that of the 1."""
    for k in range(rows.size):
        vector_add(X, np.int64(rows[k]), weight[k], out)
        out[out.size - 1] += weight[k]


@kernel
def products(X: Rows, rows: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """out[k] = x_i.v with i = rows[k]."""
    for k in range(rows.size):
        out[k] = vector_dot(X, np.int64(rows[k]), v)


@kernel
def square_norms(X: Rows, rows: np.ndarray, width: int) -> np.ndarray:
    """Return |x_i|^2 of the listed rows; `width` exceeds every column number."""
    out = np.empty(rows.size)
    work = np.zeros(width)
    for k in range(rows.size):
        i = np.int64(rows[k])
        vector_add(X, i, 1.0, work)
        out[k] = vector_dot(X, i, work)
        vector_add(X, i, -1.0, work)
    return out


@kernel
def gram_matrix(X: Rows, rows: np.ndarray, width: int) -> np.ndarray:
    """Return the inner products x_i.x_j of the listed rows; `width` exceeds every column number."""
    n = rows.size
    out = np.empty((n, n))
    work = np.zeros(width)
    for i in range(n):
        vector_add(X, np.int64(rows[i]), 1.0, work)
        for j in range(i + 1):
            out[i, j] = out[j, i] = vector_dot(X, np.int64(rows[j]), work)
        vector_add(X, np.int64(rows[i]), -1.0, work)
    return out
