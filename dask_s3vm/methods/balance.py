"""How many unlabeled rows are predicted to be positive, and a threshold that makes it right.

Neither TSVM nor DA makes the classifier that they return predict a share r of positives: only the
labels in training obey it.
"""

import math

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import select
from dask_s3vm.problems.switching import falling_outputs, set_outputs
from dask_s3vm.problems.transductive import count_positive


def n_predicted_positive(engine: Engine, w: np.ndarray, bias: float) -> int:
    """Number of unlabeled rows with a positive output at w. Costs: 1 round, 1 pass."""
    (n,) = engine.sum(count_positive, w, bias)
    return int(n)


#: A share of positive predictions is far off by more than this part of the smaller class.
FAR_OFF = 0.5


def is_balanced(share: float, ratio: float) -> bool:
    """Whether a share of positive predictions is near the ratio; if not, a fit may be of no use."""
    return abs(share - ratio) <= FAR_OFF * min(ratio, 1.0 - ratio) + 0.02


def share_interval(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share that was counted among n rows."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _clear_of(value: float) -> float:
    """A distance at which rounding of an output does not matter."""
    return 1e-9 * (1.0 + abs(value))


def ratio_threshold(
    engine: Engine, w: np.ndarray, bias: float, n_positive: int, n_unlabeled: int
) -> float:
    """Output above which `n_positive` of the unlabeled rows lie, as near as ties allow.

    The middle between the last row above and the first below. Costs: 5-9 rounds, 1 pass.
    """
    engine.each(set_outputs, w, bias)
    last = select(engine, max(n_positive - 1, 0), falling_outputs)
    first = select(engine, min(n_positive, n_unlabeled - 1), falling_outputs)
    if n_positive == 0:
        return -last.value + _clear_of(last.value)
    if n_positive == n_unlabeled:
        return -first.value - _clear_of(first.value)
    return -0.5 * (last.value + first.value)
