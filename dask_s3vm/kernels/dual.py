"""Dual SVM without offset: ascent in single variables, and labels that rows get in stages.

    D(alpha) = sum_i alpha_i - 1/2 |w|^2,    0 <= alpha_i <= C_i,    w = sum_i y_i alpha_i x_i

`ascend` works on one block of rows, with w in the input half of a pair buffer (see `rows`) and the
change of w by this block in the output half. `greedy_ascent` works on columns of the kernel matrix.
By Lemma 3 (Cheung & Li) both measure the duality gap as a sum of terms >= 0,

    gap = sum_i (C_i max(0, g_i) - alpha_i g_i),    g_i = 1 - y_i f_i
"""

import numpy as np

from dask_s3vm.kernels.rows import Rows, pair_dot, pair_move
from dask_s3vm.numerics.compiler import kernel


@kernel
def box_step(slope: float, curvature: float, alpha: float, cost: float) -> float:
    """Return the s that maximizes slope s - curvature s^2 / 2 under 0 <= alpha + s <= cost."""
    if slope > 0.0:
        room = cost - alpha
        return room if slope >= curvature * room else slope / curvature
    if slope < 0.0:
        return -alpha if slope <= -curvature * alpha else slope / curvature
    return 0.0


@kernel
def gap_term(slope: float, alpha: float, cost: float) -> float:
    """Return cost max(0, slope) - alpha slope, without the difference of large numbers."""
    return (cost - alpha) * slope if slope > 0.0 else -alpha * slope


@kernel
def first_state(seed: int) -> np.uint64:
    """Return the state of the random numbers of `shuffle` for a seed."""
    return np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)


@kernel
def shuffle(work: np.ndarray, state: np.uint64) -> np.uint64:
    """Bring the entries into a random order, by xorshift64; returns the new state."""
    for k in range(work.size - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64((state >> np.uint64(32)) % np.uint64(k + 1))
        work[k], work[j] = work[j], work[k]
    return state


# Coordinate ascent over the rows of a block ---------------------------------------------------


@kernel
def duality_gap(
    X: Rows,
    target: np.ndarray,
    cost: np.ndarray,
    alpha: np.ndarray,
    pair: np.ndarray,
    bias: float,
    floor: float,
    outputs: np.ndarray,
    work: np.ndarray,
) -> tuple[float, float, int]:
    """Outputs and duality gap of the rows in training (cost > 0) at the weights in `pair`.

    Returns (sum_i C_i max(0, g_i), gap, m). The first m entries of `work` are the rows to take
    steps in: those whose term of the gap is above `floor`, and those with 0 < alpha_i < C_i, whose
    optimum moves with every change of w.
    """
    loss, gap = 0.0, 0.0
    n = 0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        o = pair_dot(X, i, pair, bias)
        outputs[i] = o
        a = alpha[i]
        g = 1.0 - target[i] * o
        loss += c * max(0.0, g)
        term = gap_term(g, a, c)
        gap += term
        if term > floor or 0.0 < a < c:
            work[n] = i
            n += 1
    return loss, gap, n


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
    bias: float,
    change: np.ndarray,
) -> float:
    """Ascend the local model of CoCoA+ by steps in single variables, in random order.

    The model (Ma et al. 2015, eq. 8) is sum d - w.v - scale/2 |v|^2 with v = sum_i y_i d_i x_i and
    d the `change` of alpha. Runs up to `epochs` sweeps over the rows `work`, each in a new order,
    and stops after a sweep that gains at most `enough` times the gain of the first one. Returns the
    sum of d.
    """
    state = first_state(seed)
    total = 0.0
    first = 0.0
    for epoch in range(epochs):
        gained = 0.0
        state = shuffle(work, state)
        for k in range(work.size):
            i = np.int64(work[k])
            y = target[i]
            a = alpha[i] + change[i]
            g = 1.0 - y * pair_dot(X, i, pair, bias)
            s = box_step(g, scale * norms[i], a, cost[i])
            if s != 0.0:
                gained += s * (g - 0.5 * s * scale * norms[i])
                total += s
                change[i] += s
                pair_move(X, i, y * s, scale, pair, bias)
        if epoch == 0:
            first = gained
        if gained <= enough * first:
            break
    return total


@kernel
def apply_change(step: float, cost: np.ndarray, alpha: np.ndarray, change: np.ndarray) -> None:
    """alpha += step change, kept in the box, for 0 <= step <= 1; sets the change to zero."""
    for i in range(alpha.size):
        if change[i] != 0.0:
            alpha[i] = min(cost[i], max(0.0, alpha[i] + step * change[i]))
            change[i] = 0.0


# Greedy coordinate ascent over kernel columns -------------------------------------------------

#: How `greedy_ascent` ended; a number >= 0 is a row whose kernel column is missing.
CONVERGED = -1
PRECISION = -2
MAX_STEPS = -3

#: A gain below this part of the primal value is a rounding error: outputs are exact to about 1e-15,
#: and gains are quadratic in that.
NO_GAIN = 1e-28


@kernel
def greedy_ascent(
    rows: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    diagonal: np.ndarray,
    place: np.ndarray,
    columns: np.ndarray,
    tol: float,
    max_steps: int,
    alpha: np.ndarray,
    outputs: np.ndarray,
) -> tuple[int, int, float, float]:
    """Maximize D(alpha) = sum alpha - 1/2 alpha Y K Y alpha by steps in one variable.

    Each step is the one of largest gain among the listed rows (Steinwart, Hush & Scovel 2011,
    Algorithm 1), found in the same sweep as the duality gap.

    Parameters
    ----------
    rows : rows in training.
    target, cost, diagonal : y, C and K_ii by row number.
    place : position of the column of a row in `columns`, -1 where it is missing.
    columns : (m, n) columns of K, one in each row of this array.
    tol : stop when the gap is at most this part of the primal value.
    max_steps : bound on the number of steps.
    alpha, outputs : alpha and f = K Y alpha of all rows; changed in place.

    Returns
    -------
    (how it ended (see `CONVERGED`), steps, primal value, gap).
    """
    steps = 0
    while True:
        gap, loss, square = 0.0, 0.0, 0.0
        best, best_gain, best_step = np.int64(-1), 0.0, 0.0
        for k in range(rows.size):
            i = rows[k]
            a, c = alpha[i], cost[i]
            m = target[i] * outputs[i]
            g = 1.0 - m
            square += a * m
            loss += c * max(0.0, g)
            gap += gap_term(g, a, c)
            s = box_step(g, diagonal[i], a, c)
            gain = s * (g - 0.5 * s * diagonal[i])
            if gain > best_gain:
                best, best_gain, best_step = i, gain, s
        primal = 0.5 * square + loss
        if gap <= tol * primal:
            return CONVERGED, steps, primal, gap
        if best < 0 or best_gain <= NO_GAIN * primal:
            return PRECISION, steps, primal, gap
        if steps >= max_steps:
            return MAX_STEPS, steps, primal, gap
        if place[best] < 0:
            return int(best), steps, primal, gap
        steps += 1
        # exactly at the bound: C - alpha + alpha need not be C in floating point
        if best_step == cost[best] - alpha[best]:
            alpha[best] = cost[best]
        else:
            alpha[best] = max(0.0, alpha[best] + best_step)
        column = columns[place[best]]
        t = target[best] * best_step
        for i in range(outputs.size):
            outputs[i] += t * column[i]


# Labels in stages -----------------------------------------------------------------------------

#: Stage of an unlabeled row that waits for its label; rows in training have a stage >= 0.
WAITING = -1


@kernel
def score_waiting(
    X: Rows, stage: np.ndarray, pair: np.ndarray, bias: float, outputs: np.ndarray
) -> tuple[float, float]:
    """Compute the outputs of the waiting rows; returns the largest and the smallest."""
    high, low = -np.inf, np.inf
    for i in range(stage.size):
        if stage[i] == WAITING:
            o = pair_dot(X, i, pair, bias)
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
    """List the waiting rows, with minus their relative confidence, for an ascending order.

    The confidence is o / high for o > 0, o / low for o < 0, and 0 for o = 0. Writes into the heads
    of `values` and `rows`; returns how many there are.
    """
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

    `number` is the stage of the new rows. `weights` has one entry per row, or is empty if all
    weights are 1. Returns (rows labeled +1, rows labeled -1, sum of C_i max(0, 1 - y_i o_i) over
    both, largest and smallest output of the rows that still wait).
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
