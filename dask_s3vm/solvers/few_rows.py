"""l2-SVMs of few rows, several at once: Newton steps on the inner products of the rows.

    f(b) = sum_i c_i/2 max(0, 1 - y_i o_i)^2 + lam/2 b.K b,    o = K b,    w = sum_i b_i x_i

The minimum over w has this form. With J the rows of y_i o_i < 1, a Newton step goes to the b that
is 0 outside of J, and solves (lam I + C K) b = C y in it; a line search makes it exact. The systems
of all problems are factored in one call: a step takes as long as two of `solvers.newton`, in which
the vectors are longer, and there is a round for each product.
"""

import numpy as np


def outputs_of_svms(
    K: np.ndarray, y: np.ndarray, costs: np.ndarray, lam: float, tol: float, max_iter: int
) -> np.ndarray:
    """Outputs (m, l) of all rows at the minima of m problems.

    Parameters
    ----------
    K : (l, l) inner products of the rows.
    y : (l,) labels, +1 and -1.
    costs : (m, l) c_i of each problem, 0 for rows that are left out.
    lam : weight of the regularizer.
    tol, max_iter : relative gap of the objective, and most steps; see `newton.FiniteNewton`.
    """
    b, o = np.zeros(costs.shape), np.zeros(costs.shape)
    values = 0.5 * np.add.reduce(costs, axis=1)
    diagonal = np.arange(len(y))
    left = np.arange(len(costs))
    for _ in range(max_iter):
        c, here = costs[left], b[left]
        short = 1.0 - y * o[left]
        root = np.sqrt(c) * (short > 0.0)
        H = root[:, :, None] * K * root[:, None, :]
        H[:, diagonal, diagonal] += lam
        move = root * np.linalg.solve(H, (root * y)[:, :, None])[:, :, 0] - here
        change = move @ K
        inner = np.add.reduce(here * change, axis=1), np.add.reduce(move * change, axis=1)
        step = _exact_steps(short, y * change, c, lam * inner[0], lam * inner[1])
        here = here + step[:, None] * move
        b[left], o[left] = here, here @ K
        short = np.maximum(1.0 - y * o[left], 0.0)
        gradient = lam * here - c * y * short  # of w, in terms of the rows
        square = np.add.reduce(gradient * (gradient @ K), axis=1)
        value = np.add.reduce(c * short**2 + lam * here * o[left], axis=1) * 0.5
        falls, values[left] = value < values[left], value
        left = left[falls & (square > 2.0 * lam * tol * value)]
        if len(left) == 0:
            break
    return o


def _exact_steps(
    short: np.ndarray, change: np.ndarray, costs: np.ndarray, slope: np.ndarray, curve: np.ndarray
) -> np.ndarray:
    """Steps t (m,) at which phi' is 0, which is piecewise linear and rises.

    phi'(t) = slope + t curve - sum_i c_i change_i max(0, short_i - t change_i)
    """
    ahead = (change != 0.0) & (short * change > 0.0)
    breaks = np.where(ahead, short / np.where(ahead, change, 1.0), 0.0)
    breaks.sort(axis=1)
    last = breaks[:, -1:]
    t = np.concatenate([np.zeros_like(last), breaks, last + np.maximum(last, 1.0)], axis=1)
    rest = np.maximum(short[:, None, :] - t[:, :, None] * change[:, None, :], 0.0)
    found = slope[:, None] + t * curve[:, None] - (rest @ (costs * change)[:, :, None])[:, :, 0]
    rows = np.arange(len(t))
    n_below = np.count_nonzero(np.logical_and.accumulate(found < 0.0, axis=1), axis=1)
    above = np.clip(n_below, 1, t.shape[1] - 1)  # beyond the last break it goes on as it does there
    low, high = found[rows, above - 1], found[rows, above]
    rises = (n_below > 0) & (high > low)
    width = t[rows, above] - t[rows, above - 1]
    return np.where(rises, t[rows, above - 1] - low * width / np.where(rises, high - low, 1.0), 0.0)
