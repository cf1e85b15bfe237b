"""Losses that need exponentials: the smooth losses of QN-S3VM, and deterministic annealing.

QN-S3VM (Gieseke et al., section 3.1), in one fused pass:

    labeled    1/20 log(1 + exp(20 (1 - y f)))     a hinge with a rounded corner
    unlabeled  exp(-3 f^2)                         in place of max(0, 1 - |f|)

Deterministic annealing (Sindhwani & Keerthi, eq. 1.9, with nu for their 2 nu): an unlabeled row is
+1 with probability

    p = 1 / (1 + e),   e = exp((g - nu) / T),   g = lam_u [max(0, 1 - o)^2 - max(0, 1 + o)^2]

The search for nu needs no rows: it stores the odds e, which another nu changes by a factor.

Arguments of exp are bounded: no output is too large.
"""

import math

import numpy as np

from dask_s3vm.kernels.rows import Rows, pair_add, pair_ahead, pair_both, pair_dot
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
        if k + 1 < rows.size:
            pair_ahead(X, np.int64(rows[k + 1]), pair)
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

#: |log-odds| beyond which a row counts as certain: 1 + e, or 1 + 1/e, rounds to the larger term.
SURE = 46.0

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
def annealed_pass(
    X: Rows,
    codes: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    lam_u: float,
    temperature: float,
    nu: float,
    pair: np.ndarray,
    bias: float,
    outputs: np.ndarray,
    turning: bool,
) -> tuple[float, float, float, float, float, int]:
    """Expected squared hinge loss and half its gradient.

    loss = sum_lab c_i max(0, 1 - y_i o_i)^2
           + sum_unl c_i [p_i max(0, 1 - o_i)^2 + (1 - p_i) max(0, 1 + o_i)^2]

    Adds half the gradient of the loss for fixed p to the output half of the pair buffer. Writes
    `outputs`; if `turning`, reads them instead, and adds

        sum_unl c_i p_i (1 - p_i) h_i x_i    with h = max(0, 1 - o) + max(0, 1 + o)

    to the input half: -T times the derivative by nu of what is added to the output half.

    Returns the loss; the sum of c_i times the entropy of p_i; the loss with each unlabeled row on
    the side of its output; sum_unl c_i p_i; sum_unl c_i p_i (1 - p_i); the number of unlabeled rows
    of cost and output > 0.

    With z = log(p / (1 - p)) and q = max(p, 1 - p), the entropy of p is (1 - q) |z| - log q. The q
    of consecutive rows of equal cost are multiplied before one logarithm is taken.
    """
    loss = entropy = own_side = total = slope = 0.0
    n_positive = n_factors = 0
    product = 1.0
    last = 0.0
    cold = 1.0 / temperature
    for i in range(codes.size):
        if turning:
            o = outputs[i]
        else:
            pair_ahead(X, i + 1, pair)
            o = pair_dot(X, i, pair, bias)
            outputs[i] = o
        c = cost[i]
        doubt = 0.0
        if codes[i] >= 0:
            slack = max(0.0, 1.0 - target[i] * o)
            loss += c * slack * slack
            own_side += c * slack * slack
            pull = -c * slack * target[i]
        else:
            up = max(0.0, 1.0 - o)
            down = max(0.0, 1.0 + o)
            least = min(up, down)
            own_side += c * least * least
            if c > 0.0 and o > 0.0:
                n_positive += 1
            z = (nu - lam_u * (up * up - down * down)) * cold
            if z < -SURE:
                loss += c * down * down
                pull = c * down
            elif z > SURE:
                loss += c * up * up
                pull = -c * up
                total += c
            else:
                e = math.exp(-z)
                p = 1.0 / (1.0 + e)
                against = e * p
                loss += c * (p * up * up + against * down * down)
                pull = c * (against * down - p * up)
                total += c * p
                slope += c * p * against
                doubt = c * p * against * (up + down)
                if c != last or n_factors == _FACTORS:
                    entropy -= last * math.log(product)
                    product = 1.0
                    n_factors = 0
                    last = c
                product *= max(p, against)
                n_factors += 1
                entropy += c * (min(p, against) * abs(z))
        if turning and doubt != 0.0:
            pair_both(X, i, doubt, pull, pair, bias)
        elif pull != 0.0:
            pair_add(X, i, pull, pair, bias)
    return loss, entropy - last * math.log(product), own_side, total, slope, n_positive
