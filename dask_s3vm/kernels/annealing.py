"""Beliefs of deterministic annealing: probabilities of rows without a label.

    p = 1 / (1 + exp((g - nu) / T)),   g = lam_u [max(0, 1 - o)^2 - max(0, 1 + o)^2]

(Sindhwani & Keerthi, eq. 1.9, with nu for their 2 nu.) Loops over outputs; no row is read.
"""

import math

import numpy as np
from numba import njit

#: Log-odds are cut here: exp of it is still a number.
LARGE = 700.0

#: Beyond these log-odds 1 - p or p is lost in rounding: nothing is gained by looking closer.
CERTAIN = 40.0


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
    logit: np.ndarray,
) -> tuple[float, float]:
    """Write p for rows without a label; returns mean KL(p, last p) and mean entropy of p.

    With z = log(p / (1 - p)) and s(z) = log(1 + e^z) = -log(1 - p): the entropy of p is
    s(z) - p z, and KL(p, q) = p (z - z_q) - s(z) + s(z_q). Neither needs a p that is not 0.
    """
    divergence = 0.0
    entropy = 0.0
    for i in range(codes.size):
        if codes[i] >= 0:
            continue
        z = min(max((nu - preference(o[i], lam_u)) / temperature, -LARGE), LARGE)
        last = logit[i]
        logit[i] = z
        if abs(z) > CERTAIN:
            belief[i] = 1.0 if z > 0.0 else 0.0
            if abs(last) > CERTAIN and z * last > 0.0:
                continue  # as certain as before: adds nothing
        else:
            belief[i] = logistic(z)
        p = belief[i]
        s = softplus(z)
        divergence += share[i] * (p * (z - last) - s + softplus(last))
        entropy += share[i] * (s - p * z)
    return divergence, entropy


@njit(nogil=True, cache=True)
def softplus(z: float) -> float:
    """log(1 + exp(z)) without overflow."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))
