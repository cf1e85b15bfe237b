"""Coordinate ascent on the dual of a linear SVM without offset, over one block of rows.

The weights w = sum_i y_i alpha_i x_i are kept in the input half of a pair buffer (see `rows`), and
what a block changes of them in the output half.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.greedy import box_step
from dask_s3vm.kernels.rows import Rows, row_dot

#: Stage of an unlabeled row that waits for its label; other rows are >= 0 or left out.
WAITING = -1


def row_move(X: Any, i: Any, t: float, scale: float, pair: np.ndarray) -> None:
    """Add `t` times row `i` to the output half, `scale` times that to the input half."""
    raise NotImplementedError("row_move is resolved by numba")


def _move_csr(X: Any, i: Any, t: Any, scale: Any, pair: Any) -> Any:
    start, stop = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])
    columns, values = X.indices[start:stop], X.values[start:stop]
    for k in range(columns.size):
        move = t * values[k]
        pair[columns[k], 0] += scale * move
        pair[columns[k], 1] += move


def _move_dense(X: Any, i: Any, t: Any, scale: Any, pair: Any) -> Any:
    row, v, out = X[i], pair[0], pair[1]
    for k in range(row.size):
        move = t * row[k]
        v[k] += scale * move
        out[k] += move


@overload(row_move, inline="always")
def _choose_move(X: Any, i: Any, t: Any, scale: Any, pair: Any) -> Any:
    return _move_csr if isinstance(X, types.BaseNamedTuple) else _move_dense


@kernel
def duality_gap(
    X: Rows,
    target: np.ndarray,
    cost: np.ndarray,
    alpha: np.ndarray,
    pair: np.ndarray,
    floor: float,
    outputs: np.ndarray,
    work: np.ndarray,
) -> tuple[float, float, float, int]:
    """Look at the rows in training (cost > 0) at the weights in `pair`.

    Returns (sum_i C_i max(0, g_i), sum_i alpha_i, gap, m) with g_i = 1 - y_i o_i and the gap as a
    sum of terms >= 0 (Lemma 3). The first m of `work` are the rows that steps are to be taken in:
    those whose term is above `floor`, and those inside the box, which must follow when others move.
    """
    loss, total, gap = 0.0, 0.0, 0.0
    n = 0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        o = row_dot(X, i, pair, 0.0)
        outputs[i] = o
        a = alpha[i]
        g = 1.0 - target[i] * o
        total += a
        if g > 0.0:
            loss += c * g
            term = (c - a) * g
        else:
            term = -a * g
        gap += term
        if term > floor or 0.0 < a < c:
            work[n] = i
            n += 1
    return loss, total, gap, n


@kernel
def ascend(
    X: Rows,
    work: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    alpha: np.ndarray,
    norms: np.ndarray,
    scale: float,
    epochs: int,
    enough: float,
    seed: int,
    pair: np.ndarray,
    change: np.ndarray,
) -> float:
    """Go through the listed rows up to `epochs` times, each time in another order, a step in each.

    Ends when a time gains no more than `enough` times what the first one did.

    Raises the local model of CoCoA+ (Ma et al. 2015, eq. 8): sum d - w.v - scale/2 |v|^2 with
    v = sum_i y_i d_i x_i and d the `change` of alpha. Returns the sum of d.
    """
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    total = 0.0
    first = 0.0
    for epoch in range(epochs):
        gained = 0.0
        for k in range(work.size - 1, 0, -1):  # shuffle
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            j = np.int64((state >> np.uint64(32)) % np.uint64(k + 1))
            work[k], work[j] = work[j], work[k]
        for k in range(work.size):
            i = np.int64(work[k])
            y = target[i]
            a = alpha[i] + change[i]
            g = 1.0 - y * row_dot(X, i, pair, 0.0)
            s = box_step(g, scale * norms[i], a, cost[i])
            if s != 0.0:
                gained += s * (g - 0.5 * s * scale * norms[i])
                total += s
                change[i] += s
                row_move(X, i, y * s, scale, pair)
        if epoch == 0:
            first = gained
        if gained <= enough * first:
            break
    return total


@kernel
def apply_change(step: float, cost: np.ndarray, alpha: np.ndarray, change: np.ndarray) -> None:
    """Take a step of 0 to 1 towards alpha + change, inside the box, and clear the change."""
    for i in range(alpha.size):
        if change[i] != 0.0:
            alpha[i] = min(cost[i], max(0.0, alpha[i] + step * change[i]))
            change[i] = 0.0


@kernel
def score_waiting(
    X: Rows, stage: np.ndarray, pair: np.ndarray, outputs: np.ndarray
) -> tuple[float, float]:
    """Outputs of the rows that wait for a label; returns the largest and the smallest."""
    high, low = -np.inf, np.inf
    for i in range(stage.size):
        if stage[i] == WAITING:
            o = row_dot(X, i, pair, 0.0)
            outputs[i] = o
            high, low = max(high, o), min(low, o)
    return high, low


@kernel
def doubts(
    outputs: np.ndarray,
    stage: np.ndarray,
    high: float,
    low: float,
    values: np.ndarray,
    rows: np.ndarray,
) -> int:
    """List the waiting rows with minus their relative confidence: output over the extreme of its
    side, 0 for an output of 0. Returns how many.
    """  # noqa: D205
    n = 0
    for i in range(stage.size):
        if stage[i] == WAITING:
            o = outputs[i]
            c = 0.0
            if o > 0.0:
                c = o / high
            elif o < 0.0:
                c = o / low
            values[n] = -c
            rows[n] = i
            n += 1
    return n


@kernel
def accept(
    outputs: np.ndarray,
    above: float,
    below: float,
    number: int,
    positive_cost: float,
    negative_cost: float,
    weights: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    stage: np.ndarray,
) -> tuple[int, int, float, float, float]:
    """Label the waiting rows with output >= `above` or <= `below` by their sign (Algorithm 2).

    `weights` has one entry per row, or is empty for ones. Returns (rows labeled +1, rows labeled
    -1, sum of C_i max(0, 1 - y_i o_i) over them, largest and smallest output still waiting).
    """
    n_positive, n_negative = 0, 0
    loss = 0.0
    high, low = -np.inf, np.inf
    for i in range(stage.size):
        if stage[i] != WAITING:
            continue
        o = outputs[i]
        if not (o >= above or o <= below):
            high, low = max(high, o), min(low, o)
            continue
        stage[i] = number
        if o > 0.0:
            target[i] = 1
            c = positive_cost
            n_positive += 1
        else:
            target[i] = -1
            c = negative_cost
            n_negative += 1
        if weights.size:
            c *= weights[i]
        cost[i] = c
        loss += c * max(0.0, 1.0 - abs(o))
    return n_positive, n_negative, loss, high, low
