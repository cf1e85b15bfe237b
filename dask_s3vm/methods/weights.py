"""Methods that count unlabeled rows need them to weigh alike."""

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard


def one_weight(engine: Engine, name: str) -> float:
    """Return the weight that all unlabeled rows have (those of weight 0 are left out).

    Costs: 1 round, no pass over the rows.
    """
    found = engine.each(weight_range)
    low, high = min(part[0] for part in found), max(part[1] for part in found)
    if low != high:
        raise ValueError(
            f"sample_weight of unlabeled rows ranges from {low:.6g} to {high:.6g}, but {name} "
            "counts unlabeled rows; wanted one weight for all of them, or 0 to leave some out"
        )
    return low


def weight_range(shard: Shard) -> tuple[float, float]:
    """Smallest and largest weight of the unlabeled rows that count."""
    chosen = shard.unlabeled
    if not chosen.any():
        return np.inf, -np.inf
    if shard.weights is None:
        return 1.0, 1.0
    return float(shard.weights[chosen].min()), float(shard.weights[chosen].max())
