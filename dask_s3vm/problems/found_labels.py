"""The SVM on all rows, those without a label having one that was found.

    1/2 sum_lab 2 c_i max(0, 1 - y_i o_i)^2 + 1/2 sum_unl 2 C* max(0, 1 - y_j o_j)^2 + 1/2 |w|^2

which is `L2SVMProblem` with other targets. Found labels are one bit a row, by shard.
"""

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes
from dask_s3vm.problems.l2svm import evaluate, hinge_slope, row_costs
from dask_s3vm.problems.quadratic import QuadraticProblem


class FoundLabelsProblem(QuadraticProblem):
    """The SVM above.

    Parameters
    ----------
    engine : the rows.
    positive : the class number that is +1.
    costs : cost of a row by its class number, of an unlabelled row last; times its sample weight.
    bits : found labels.
    bias : whether w has a bias.
    """

    evaluate_op = staticmethod(evaluate)
    slope_op = staticmethod(hinge_slope)

    def __init__(
        self,
        engine: Engine,
        positive: int,
        costs: np.ndarray,
        bits: list[np.ndarray],
        bias: bool = True,
    ) -> None:
        super().__init__(engine, 1.0, bias)
        engine.prepare("targets", set_found_targets, positive, costs, bits)


# Operations on one shard --------------------------------------------------------------------


def set_found_targets(
    shard: Shard, positive: int, costs: np.ndarray, bits: list[np.ndarray]
) -> None:
    """Set up y and c from class numbers and found labels."""
    codes = shard.codes
    assert codes is not None, "labels are needed"
    up = np.where(codes >= 0, codes == positive, found(shard, bits))
    shard.state["target"] = np.where(up, 1, -1).astype(np.int8)
    shard.state["cost"] = row_costs(shard, costs)


def found(shard: Shard, bits: list[np.ndarray]) -> np.ndarray:
    """Which rows of the shard have the found label +1."""
    return np.unpackbits(bits[shard.number], count=shard.n_rows).astype(bool)


def score_directions(shard: Shard, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products of the unlabelled rows with a direction, for `select`."""
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
