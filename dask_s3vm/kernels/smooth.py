"""The smooth losses of QN-S3VM (Gieseke et al., section 3.1), in one fused pass.

    labeled    1/20 log(1 + exp(20 (1 - y f)))     a hinge with its corner rounded
    unlabeled  exp(-3 f^2)                         a hat over f = 0 for max(0, 1 - |f|)

Both are computed from exp and log1p of arguments that are not positive: no output is too large.
"""

import math

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.logistic import logistic, softplus
from dask_s3vm.kernels.rows import Rows, row_add, row_dot

#: gamma of the paper: how sharp the corner of the hinge is.
SHARPNESS = 20.0

#: How narrow the hat is: the 3 in exp(-3 f^2).
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
    """Losses of the listed rows and their gradient; target 0 is an unlabeled row.

    Returns (sum of labeled losses, sum of unlabeled losses), each times its cost, and adds the
    gradient of the first plus `lam_u` times the second to the output half of the pair buffer.
    """
    known = 0.0
    free = 0.0
    for k in range(rows.size):
        i = np.int64(rows[k])
        f = row_dot(X, i, pair, bias)
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
            row_add(X, i, pull, pair, bias)
    return known, free


@kernel
def weighted_sum(X: Rows, rows: np.ndarray, weight: np.ndarray, pair: np.ndarray) -> None:
    """Out += sum over the listed rows of weight_i (x_i, 1)."""
    for k in range(rows.size):
        i = np.int64(rows[k])
        row_add(X, i, weight[i], pair, 1.0)
