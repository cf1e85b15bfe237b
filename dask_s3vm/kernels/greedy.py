"""Greedy coordinate ascent on the dual of an SVM without offset, over kernel columns."""

import numpy as np

from dask_s3vm.kernels.compiler import kernel

#: What `greedy_ascent` ended with; a number >= 0 is a row whose kernel column is missing.
CONVERGED = -1
PRECISION = -2
MAX_STEPS = -3

#: A step that gains less than this part of the primal value is a rounding error: outputs are good
#: to 1e-15 or so, and a gain goes with the square of that.
NO_GAIN = 1e-28


@kernel
def box_step(slope: float, curvature: float, alpha: float, cost: float) -> float:
    """Return the s that is best for slope s - curvature s^2 / 2 with 0 <= alpha + s <= cost."""
    if slope > 0.0:
        room = cost - alpha
        return room if slope >= curvature * room else slope / curvature
    if slope < 0.0:
        return -alpha if slope <= -curvature * alpha else slope / curvature
    return 0.0


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
    """Raise D(alpha) = sum alpha - 1/2 alpha Y K Y alpha by steps in one variable at a time.

    Each step is the one of largest gain among the listed rows, found in the same sweep as the
    duality gap, which by Lemma 3 is a sum of terms >= 0:

        gap = sum_i (C_i max(0, g_i) - alpha_i g_i),    g_i = 1 - y_i f_i

    Parameters
    ----------
    rows : rows in training.
    target, cost, diagonal : y, C and K_ii by row number.
    place : number of a row's column in `columns`, -1 where it is missing.
    columns : (m, n) columns of K, one per row of this array.
    tol : stop when the gap is at most this part of the primal value.
    max_steps : most steps.
    alpha, outputs : alpha and f = K Y alpha of all rows; both are changed.

    Returns
    -------
    How it ended (see `CONVERGED`), steps, primal value, gap.
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
            if g > 0.0:
                loss += c * g
                gap += (c - a) * g
            else:
                gap -= a * g
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
        # at a bound exactly: C - alpha + alpha need not be C
        if best_step == cost[best] - alpha[best]:
            alpha[best] = cost[best]
        else:
            alpha[best] = max(0.0, alpha[best] + best_step)
        column = columns[place[best]]
        t = target[best] * best_step
        for i in range(outputs.size):
            outputs[i] += t * column[i]
