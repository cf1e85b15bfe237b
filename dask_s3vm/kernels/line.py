"""Loops over per-row outputs: what a line search needs, without reading a row."""

import numpy as np

from dask_s3vm.kernels.compiler import kernel


@kernel
def hinge_slope(
    target: np.ndarray, cost: np.ndarray, here: np.ndarray, there: np.ndarray, step: float
) -> tuple[float, float]:
    """Slope and curvature of 1/2 sum_i c_i max(0, 1 - y_i o_i)^2 along outputs.

    The outputs are o = here + step (there - here); rows of cost 0 are passed over.
    """
    slope = 0.0
    curvature = 0.0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        move = there[i] - here[i]
        o = here[i] + step * move
        y = target[i]
        if y * o < 1.0:
            slope += c * (o - y) * move
            curvature += c * move * move
    return slope, curvature


@kernel
def transductive_loss(
    codes: np.ndarray, target: np.ndarray, cost: np.ndarray, o: np.ndarray
) -> float:
    """sum_i c_i max(0, 1 - y_i o_i)^2, with the better y for rows without a label (code < 0)."""
    loss = 0.0
    for i in range(codes.size):
        c = cost[i]
        if c == 0.0:
            continue
        margin = abs(o[i]) if codes[i] < 0 else target[i] * o[i]
        if margin < 1.0:
            loss += c * (1.0 - margin) * (1.0 - margin)
    return loss
