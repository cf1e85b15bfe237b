"""Deterministic annealing: rows without a label that are +1 with a probability p.

    p = 1 / (1 + e),   e = exp((g - nu) / T),   g = lam_u [max(0, 1 - o)^2 - max(0, 1 + o)^2]

(Sindhwani & Keerthi, eq. 1.9, with nu for their 2 nu.) The odds e against +1 are kept, because
those of another nu differ by a factor: an exponential a row is needed only where outputs are new.

Loops over rows and loops over numbers are apart: one waits for memory, the other for exponentials
and quotients, and mixed they wait for both.
"""

import math

import numpy as np

from dask_s3vm.kernels.compiler import kernel

#: Log-odds are cut here: exp of it is still a number.
LARGE = 700.0

#: Odds from which on a row counts as certain: p or 1 - p is then lost beside 1.
CERTAIN = 1e20

#: Factors between 1/2 and 1 that can be multiplied without underflow.
_FACTORS = 1000


@kernel
def set_odds(
    outputs: np.ndarray, lam_u: float, temperature: float, nu: float, odds: np.ndarray
) -> None:
    """Write e for every row."""
    for i in range(outputs.size):
        up = max(0.0, 1.0 - outputs[i])
        down = max(0.0, 1.0 + outputs[i])
        z = (lam_u * (up * up - down * down) - nu) / temperature
        odds[i] = math.exp(min(max(z, -LARGE), LARGE))


@kernel
def belief_sums(
    codes: np.ndarray, cost: np.ndarray, odds: np.ndarray, factor: float
) -> tuple[float, float]:
    """sum_i c_i p_i and sum_i c_i p_i (1 - p_i) over rows without a label, odds times a factor."""
    total = 0.0
    slope = 0.0
    for i in range(codes.size):
        if codes[i] < 0:
            e = min(odds[i] * factor, 1e300)
            p = 1.0 / (1.0 + e)
            total += cost[i] * p
            slope += cost[i] * p * (e * p)
    return total, slope


@kernel
def annealed_pulls(
    codes: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    outputs: np.ndarray,
    odds: np.ndarray,
    factor: float,
    lam_u: float,
    temperature: float,
    nu: float,
    pulls: np.ndarray,
) -> tuple[float, float, float]:
    """Squared hinge loss with rows that are +1 with probability p, and half its slope by row.

    loss = sum_lab c_i max(0, 1 - y_i o_i)^2
           + sum_unl c_i [p_i max(0, 1 - o_i)^2 + (1 - p_i) max(0, 1 + o_i)^2]

    `pulls` takes half the derivative by o_i, for given p. Returns the loss, the sum of c_i times
    the entropy of p_i, and the loss with each row without a label on the side of its output.

    With z = log(p / (1 - p)) and q = max(p, 1 - p), the entropy of p is (1 - q) |z| - log q. The
    last are multiplied before a logarithm is taken, as long as rows cost the same.
    """
    loss = 0.0
    entropy = 0.0
    own_side = 0.0
    product = 1.0
    n_factors = 0
    last = 0.0
    for i in range(codes.size):
        c = cost[i]
        o = outputs[i]
        if codes[i] >= 0:
            slack = max(0.0, 1.0 - target[i] * o)
            loss += c * slack * slack
            own_side += c * slack * slack
            pulls[i] = -c * slack * target[i]
            continue
        up = max(0.0, 1.0 - o)
        down = max(0.0, 1.0 + o)
        least = min(up, down)
        own_side += c * least * least
        e = odds[i] * factor
        if e > CERTAIN:
            loss += c * down * down
            pulls[i] = c * down
            continue
        if e < 1.0 / CERTAIN:
            loss += c * up * up
            pulls[i] = -c * up
            continue
        p = 1.0 / (1.0 + e)
        against = e * p
        loss += c * (p * up * up + against * down * down)
        pulls[i] = c * (against * down - p * up)
        if c != last or n_factors == _FACTORS:
            entropy -= last * math.log(product)
            product = 1.0
            n_factors = 0
            last = c
        product *= max(p, against)
        n_factors += 1
        z = (nu - lam_u * (up * up - down * down)) / temperature
        entropy += c * (min(p, against) * abs(z))
    return loss, entropy - last * math.log(product), own_side
