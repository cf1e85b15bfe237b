"""What labels that were found say of the rows: operations on one shard.

Found labels are one bit a row, by shard.
"""

import numpy as np

from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes


def found(shard: Shard, bits: list[np.ndarray]) -> np.ndarray:
    """Which rows of the shard have the found label +1."""
    return np.unpackbits(bits[shard.number], count=shard.n_rows).astype(bool)


def score_directions(shard: Shard, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products of the unlabeled rows with a direction, for `select`."""
    rows = np.flatnonzero(shard.unlabeled)
    return _outputs(shard, direction)[rows], rows


def class_numbers(
    shard: Shard, directions: np.ndarray, bits: list[list[np.ndarray]], positives: list[int]
) -> np.ndarray:
    """Class number of every row: the one given, or found.

    Two classes: the found label. More: of the classes that claim a row, or of all if none does, the
    one whose direction gives the smallest product. Rows of weight 0 have no found label: as rows
    that none claims.
    """
    codes = shard.codes
    assert codes is not None, "labels are needed"
    weightless = ~shard.unlabeled
    if len(positives) == 1:
        up = found(shard, bits[0])
        if (weightless & (codes < 0)).any():
            up = np.where(weightless, _outputs(shard, directions[0]) <= 0.0, up)
        return np.where(codes >= 0, codes, up).astype(codes.dtype)
    best = np.zeros(shard.n_rows, dtype=codes.dtype)
    lowest = np.full(shard.n_rows, np.inf)
    claimed = np.zeros(shard.n_rows, dtype=bool)
    for positive, direction, own in zip(positives, directions, bits, strict=True):
        score = _outputs(shard, direction)
        claims = found(shard, own) & ~weightless
        better = (claims & ~claimed) | ((claims == claimed) & (score < lowest))
        best[better], lowest[better] = positive, score[better]
        claimed |= claims
    return np.where(codes >= 0, codes, best)


def _outputs(shard: Shard, direction: np.ndarray) -> np.ndarray:
    outputs = np.empty(shard.n_rows)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(direction), 1.0, outputs)
    return outputs
