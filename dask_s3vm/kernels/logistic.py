"""The logistic function and its integral, for any argument."""

import math

from dask_s3vm.kernels.compiler import kernel


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
