"""Local search on a vertex: pairs of entries that give to each other.

At P with gradient o of a concave F, moving t from p_i to p_j changes F by exactly

    t (o_j - o_i) - 1/2 C*^2 t^2 |z_i - z_j|^2

A vertex at which no Frank-Wolfe step is left has o_j >= o_i for all such pairs, and yet a move
along an edge of the polytope may go down: the full move t = min(p_i, 1 - p_j) is the best one.
"""

import numpy as np


def swap_pairs(
    p: np.ndarray, o: np.ndarray, gram: np.ndarray, curvature: float, least: float, most: int
) -> tuple[np.ndarray, float, int]:
    """Carry out the best move between two entries until none gains more than `least`.

    Parameters
    ----------
    p, o : probabilities and gradient of some rows.
    gram : inner products of these rows; with another origin of the rows the moves are the same.
    curvature : C*^2.
    least : smallest gain to move for.
    most : most moves.

    Returns
    -------
    New p, how much F has fallen, and the number of moves. p stays a vertex: a move between 1 and 0
    swaps them, one with the fractional entry passes the fraction on.
    """
    p, o = p.copy(), o.copy()
    square = np.diag(gram)
    distance = np.maximum(square[:, None] + square[None, :] - 2.0 * gram, 0.0)
    fall, moves = 0.0, 0
    while moves < most:
        t = np.minimum(p[:, None], 1.0 - p[None, :])
        change = t * (o[None, :] - o[:, None]) - 0.5 * curvature * t**2 * distance
        np.fill_diagonal(change, 0.0)
        i, j = np.unravel_index(int(np.argmin(change)), change.shape)
        if not change[i, j] < -least:
            break
        step = t[i, j]
        full = step == 1.0 - p[j]
        p[i], p[j] = p[i] - step, 1.0 if full else p[j] + step
        # up to a number that all have in common, which no move depends on
        o -= curvature * step * (gram[:, j] - gram[:, i])
        fall -= float(change[i, j])
        moves += 1
    return p, fall, moves
