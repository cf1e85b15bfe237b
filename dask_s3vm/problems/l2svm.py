"""The weighted l2-SVM: squared hinge loss (Sindhwani & Keerthi, eq. 1.2).

    f(w) = 1/2 sum_i c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2

A quadratic problem (see `quadratic`) with J = {i : y_i o_i < 1} and h_i = c_i. Row state in a
shard: `target` (y) and `cost` (c); rows of cost 0 are left out.
"""

from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import line, passes
from dask_s3vm.problems.quadratic import QuadraticProblem, fill_slot, slot_arrays

#: What an evaluation of a point is made from; what a problem has not is left out.
OF_A_SLOT = ("targets", "costs", "labels")


@operation(sets="slot{slot}", reads=OF_A_SLOT)
def evaluate(shard: Shard, w: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """(gradient of the losses, their sum, number of active rows)."""
    state = shard.state
    outputs, active = slot_arrays(shard, slot)
    pair = shard.pair(w)
    loss, n_active = passes.squared_hinge(
        shard.rows, state["target"], state["cost"], pair, bias, outputs, active
    )
    fill_slot(shard, slot, n_active, state["cost"])
    return shard.take(pair), 0.5 * loss, n_active


def hinge_over(
    shard: Shard, rows: np.ndarray, sign: float, pair: np.ndarray, bias: float, slot: int
) -> tuple[float, int]:
    """Add the gradient of the listed rows, times a sign, to a pair; (their loss alike, active)."""
    state = shard.state
    loss, n_active = passes.hinge_over(
        shard.rows, rows, state["target"], state["cost"], state[f"outputs{slot}"], sign, pair, bias
    )
    return 0.5 * loss, n_active


@operation(reads=["slot{here}", "slot{there}"])
def hinge_slope(shard: Shard, here: int, there: int, step: float) -> tuple[Any, ...]:
    """Slope and curvature of the losses between the outputs of two slots."""
    state = shard.state
    outputs = state[f"outputs{here}"], state[f"outputs{there}"]
    return line.hinge_slope(state["target"], state["cost"], *outputs, step)


@operation(sets="targets")
def set_targets(shard: Shard, positive: int, costs: np.ndarray) -> None:
    """Set up y and c from the class numbers; unlabeled rows get cost 0."""
    codes = shard.codes
    assert codes is not None, "an l2-SVM needs labels"
    shard.state["target"] = np.where(codes == positive, 1, -1).astype(np.int8)
    shard.state["cost"] = row_costs(shard, np.append(costs, 0.0))


def row_costs(shard: Shard, costs: np.ndarray) -> np.ndarray:
    """Cost of each row: by its class number, the last entry for unlabeled rows (-1)."""
    cost = costs[shard.codes]
    return cost if shard.weights is None else cost * shard.weights


class L2SVMProblem(QuadraticProblem):
    """f(w) above, over the labeled rows of an engine.

    Parameters
    ----------
    engine : the rows; their codes are class numbers, -1 where unlabeled.
    lam : weight of the regularizer.
    positive : the class number that is +1; every other class is -1.
    costs : cost c_i of a row by its class number, times its sample weight.
    bias : whether w has a bias.
    """

    evaluate_op = staticmethod(evaluate)
    slope_op = staticmethod(hinge_slope)

    def __init__(
        self, engine: Engine, lam: float, positive: int, costs: np.ndarray, bias: bool = True
    ) -> None:
        super().__init__(engine, lam, bias)
        engine.each(set_targets, positive, costs)
