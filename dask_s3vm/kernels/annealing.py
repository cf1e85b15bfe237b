"""Beliefs of deterministic annealing: probabilities of rows without a label.

    p = 1 / (1 + exp((g - nu) / T)),   g = lam_u [max(0, 1 - o)^2 - max(0, 1 + o)^2]

(Sindhwani & Keerthi, eq. 1.9, with nu for their 2 nu.) Loops over outputs; no row is read.
"""

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def preference(o: float, lam_u: float) -> float:
    """g: what the label +1 costs more than the label -1."""
    up = max(0.0, 1.0 - o)
    down = max(0.0, 1.0 + o)
    return lam_u * (up * up - down * down)


@njit(nogil=True, cache=True)
def logistic(z: float) -> float:
    """1 / (1 + exp(-z)) without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@njit(nogil=True, cache=True)
def belief_sums(
    codes: np.ndarray, share: np.ndarray, o: np.ndarray, lam_u: float, temperature: float, nu: float
) -> tuple[float, float]:
    """sum_i s_i p_i and its derivative by nu, over rows without a label; s are shares."""
    total = 0.0
    slope = 0.0
    for i in range(codes.size):
        if codes[i] >= 0:
            continue
        p = logistic((nu - preference(o[i], lam_u)) / temperature)
        total += share[i] * p
        slope += share[i] * p * (1.0 - p)
    return total, slope / temperature


@njit(nogil=True, cache=True)
def set_beliefs(
    codes: np.ndarray,
    share: np.ndarray,
    o: np.ndarray,
    lam_u: float,
    temperature: float,
    nu: float,
    belief: np.ndarray,
) -> tuple[float, float]:
    """Write p for rows without a label; returns mean KL(p, last p) and mean entropy of p."""
    divergence = 0.0
    entropy = 0.0
    for i in range(codes.size):
        if codes[i] >= 0:
            continue
        p = logistic((nu - preference(o[i], lam_u)) / temperature)
        q = belief[i]
        divergence += share[i] * (_cross(p, q) + _cross(1.0 - p, 1.0 - q))
        entropy -= share[i] * (_cross(p, 1.0) + _cross(1.0 - p, 1.0))
        belief[i] = p
    return divergence, entropy


@njit(nogil=True, cache=True)
def _cross(p: float, q: float) -> float:
    """P log(p / q), 0 at p = 0; q is kept off 0 as p can be tiny but not nothing."""
    if p <= 0.0:
        return 0.0
    return p * math.log(p / max(q, 1e-300))
