"""Losses that need exponentials: the smooth losses of QN-S3VM, and deterministic annealing.

QN-S3VM (Gieseke et al., section 3.1), in one fused pass:

    labeled    1/20 log(1 + exp(20 (1 - y f)))     a hinge with a rounded corner
    unlabeled  exp(-3 f^2)                         in place of max(0, 1 - |f|)

Deterministic annealing (Sindhwani & Keerthi, eq. 1.9, with nu for their 2 nu): an unlabeled row is
+1 with probability

    p = 1 / (1 + e),   e = exp((g - nu) / T),   g = lam_u [max(0, 1 - o)^2 - max(0, 1 + o)^2]

The odds e against +1 are stored, because another nu changes them by a factor: exponentials are
needed only where outputs are new. Its loops run over outputs, not rows: loops over rows wait for
memory and these for exponentials and quotients, and a fused loop would wait for both.

Arguments of exp are bounded: no output is too large.
"""

import math

import numpy as np

from dask_s3vm.kernels.rows import Rows, pair_add, pair_dot
from dask_s3vm.numerics.compiler import kernel

# QN-S3VM --------------------------------------------------------------------------------------

#: gamma of the paper: sharpness of the corner of the hinge.
SHARPNESS = 20.0

#: The 3 in exp(-3 f^2).
NARROWNESS = 3.0


@kernel
def smooth_losses(
    X: Rows,
    rows: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    lam_u: float,
    pair: np.ndarray,
    bias: float,
) -> tuple[float, float]:
    """Losses of the listed rows and their gradient; target 0 marks an unlabeled row.

    Returns the sums of cost times loss of (labeled rows, unlabeled rows), and adds the gradient of
    the first plus `lam_u` times the second to the output half of the pair buffer.
    """
    known = 0.0
    free = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        f = pair_dot(X, i, pair, bias)
        c = cost[i]
        y = target[i]
        if y != 0:
            t = SHARPNESS * (1.0 - y * f)
            known += c * (softplus(t) / SHARPNESS)
            pull = -c * y * logistic(t)
        else:
            hat = c * math.exp(-NARROWNESS * f * f)
            free += hat
            pull = -2.0 * NARROWNESS * lam_u * hat * f if hat != 0.0 else 0.0
        if pull != 0.0:
            pair_add(X, i, pull, pair, bias)
    return known, free


@kernel
def logistic(z: float) -> float:
    """1 / (1 + exp(-z)) without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@kernel
def softplus(z: float) -> float:
    """log(1 + exp(z)) without overflow."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


# Deterministic annealing ----------------------------------------------------------------------

#: Bound on |log-odds|: exp of it is finite.
LARGE = 700.0

#: Odds beyond which a row counts as certain: 1 + e, or 1 + 1/e, rounds to the larger term.
CERTAIN = 1e20

#: Number of factors in [1/2, 1] whose product does not underflow.
_FACTORS = 1000


@kernel
def set_odds(
    outputs: np.ndarray, lam_u: float, temperature: float, nu: float, odds: np.ndarray
) -> None:
    """Write the odds e of every row."""
    for i in range(outputs.size):
        up = max(0.0, 1.0 - outputs[i])
        down = max(0.0, 1.0 + outputs[i])
        z = (lam_u * (up * up - down * down) - nu) / temperature
        odds[i] = math.exp(min(max(z, -LARGE), LARGE))


@kernel
def belief_sums(
    codes: np.ndarray, cost: np.ndarray, odds: np.ndarray, factor: float
) -> tuple[float, float]:
    """sum_i c_i p_i and sum_i c_i p_i (1 - p_i) over the unlabeled rows, with odds factor e_i."""
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
    """Expected squared hinge loss, and half its derivative by the output of each row.

    loss = sum_lab c_i max(0, 1 - y_i o_i)^2
           + sum_unl c_i [p_i max(0, 1 - o_i)^2 + (1 - p_i) max(0, 1 + o_i)^2]

    with odds factor e_i. `pulls` gets half the derivative by o_i for fixed p. Returns the loss, the
    sum of c_i times the entropy of p_i, and the loss with each unlabeled row on the side of its
    output.

    With z = log(p / (1 - p)) and q = max(p, 1 - p), the entropy of p is (1 - q) |z| - log q. The q
    of consecutive rows of equal cost are multiplied before one logarithm is taken.
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
