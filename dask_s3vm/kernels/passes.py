"""Fused passes over one block: the product with X and with X^T from one read of each row.

A pass reads `v` from the input half of the pair buffer and adds into the output half (see
`rows`). A new loss is one more function of this shape: row output, scalar function, row
update. Arguments that name rows are unsigned row numbers within the block.
"""

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.rows import CSR, Rows, row_add, row_dot


@kernel
def gram(X: Rows, rows: np.ndarray, cost: np.ndarray, pair: np.ndarray, bias: float) -> float:
    """Gram product over the listed rows: out += X_J^T C X_J v; returns v^T X_J^T C X_J v."""
    curvature = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        q = row_dot(X, i, pair, bias)
        t = cost[i] * q
        curvature += t * q
        row_add(X, i, t, pair, bias)
    return curvature


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
    """Squared hinge loss and its gradient; rows of cost 0 are passed over.

    With o = x.v: loss = sum_i c_i max(0, 1 - y_i o_i)^2 and out += sum_J c_i (o_i - y_i) x_i,
    half the gradient of it, J = {i : y_i o_i < 1}. Writes `outputs`, and the row numbers of J
    into the head of `active`; returns the loss and the size of J.
    """
    loss = 0.0
    n_active = 0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        o = row_dot(X, i, pair, bias)
        outputs[i] = o
        y = target[i]
        slack = 1.0 - y * o
        if slack > 0.0:
            t = c * slack
            loss += t * slack
            active[n_active] = i
            n_active += 1
            row_add(X, i, -t * y, pair, bias)
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
    """Add what the listed rows contribute to `squared_hinge`, times a sign, at known outputs."""
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
            row_add(X, i, -sign * t * y, pair, bias)
    return sign * loss, n_active


@kernel
def outputs_of(X: Rows, n: int, pair: np.ndarray, bias: float, outputs: np.ndarray) -> None:
    """outputs[i] = x_i . v for the first `n` rows."""
    for i in range(n):
        outputs[i] = row_dot(X, i, pair, bias)


@kernel
def add_rows(X: Rows, weights: np.ndarray, pair: np.ndarray, bias: float) -> None:
    """Out += X^T weights; rows of weight 0 are not read."""
    for i in range(weights.size):
        if weights[i] != 0.0:
            row_add(X, i, weights[i], pair, bias)


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
def pack_csr(
    X: CSR, rows: np.ndarray, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray
) -> None:
    """Copy the listed rows one after another; `indptr` has the places, made beforehand."""
    for k in range(rows.size):
        start, stop = X.indptr[rows[k]], X.indptr[rows[k] + 1]
        place = indptr[k]
        for j in range(stop - start):
            indices[place + j] = X.indices[start + j]
            values[place + j] = X.values[start + j]
