"""The weighted l2-SVM: squared hinge loss on labelled rows (Sindhwani & Keerthi, eq. 1.2).

    f(w) = 1/2 sum_i c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2,    o_i = w.x_i

The bias is a last component of w, for a constant column that no row stores, and is regularised
like the others. With J = {i : y_i o_i < 1},

    grad f(w) = lam w + X_J^T C_J (o_J - y_J)
    H         = lam I + X_J^T C_J X_J         (the generalised Hessian)

Row state in a shard: `target`, `cost`, and two slots of `outputs` and `active` rows, so that a
trial point can be looked at while the current one is kept.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import line, passes
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.problems.base import Point
from dask_s3vm.problems.packing import packed_rows

T = TypeVar("T")


class L2SVMProblem:
    """f(w) above, over the labelled rows of an engine.

    Parameters
    ----------
    engine : the rows; their codes are class numbers, -1 where unlabelled.
    lam : weight of the regulariser; may be changed at any time, rows are not touched.
    positive : the class number that is +1; every other class is -1.
    costs : cost c_i of a row by its class number, times its sample weight.
    bias : whether w has a bias.
    """

    def __init__(
        self, engine: Engine, lam: float, positive: int, costs: np.ndarray, bias: bool = True
    ) -> None:
        self.lam = lam
        self._engine = engine
        self._bias = 1.0 if bias else 0.0
        engine.prepare("l2svm", set_targets, positive, costs)

    def evaluate(self, w: np.ndarray, beside: Point | None = None) -> Point:
        """Value, gradient and active rows at w.

        Costs: 1 round, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        slot = 0 if beside is None else 1 - beside.slot
        gradient, loss, n_active = self._engine.sum(evaluate, w, self._bias, slot)
        value = 0.5 * loss + 0.5 * self.lam * float(np.add.reduce(w * w))
        gradient = gradient + self.lam * w
        return Point(w, value, gradient, n_active, slot, self._engine.generation)

    def current(self, point: Point) -> Point:
        """Evaluate a point again if its row state is gone."""
        if point.generation == self._engine.generation:
            return point
        return self.evaluate(point.w)

    def hessian_product(self, point: Point, p: np.ndarray) -> tuple[np.ndarray, float]:
        """H p and p.H p.

        Costs: 1 round, 1 pass over the active rows; d + 1 numbers to and from each group.
        """
        product, curvature = self._engine.sum(gram, p, self._bias, point.slot)
        return product + self.lam * p, curvature + self.lam * float(np.add.reduce(p * p))

    def hessian_diagonal(self, point: Point) -> np.ndarray:
        """Diagonal of H.

        Costs: 1 round, 1 pass over the active rows; d + 1 numbers from each group.
        """
        (diagonal_sum,) = self._engine.sum(diagonal, self._bias, point.slot)
        return diagonal_sum + self.lam

    def slope(self, point: Point, trial: Point, step: float) -> tuple[float, float]:
        """phi'(step) and phi''(step) of phi(step) = f(w + step (trial.w - w)).

        Costs: 1 round, no pass over the rows: outputs are linear in the step.
        """
        slope, curvature = self._engine.sum(hinge_slope, point.slot, trial.slot, step)
        move = trial.w - point.w
        square = float(np.add.reduce(move * move))
        inner = float(np.add.reduce(point.w * move))
        return slope + self.lam * (inner + step * square), curvature + self.lam * square

    def step(self, advance: Callable[[], T]) -> T:
        """Carry out one outer step as a transaction."""
        return self._engine.step(advance)


# Operations on one shard --------------------------------------------------------------------


def set_targets(shard: Shard, positive: int, costs: np.ndarray) -> None:
    """Set up y and c from the class numbers; c = 0 takes a row out."""
    codes = shard.codes
    assert codes is not None, "an l2-SVM needs labels"
    cost = np.append(costs, 0.0)[codes]  # code -1, unlabelled, finds the 0 at the end
    if shard.weights is not None:
        cost = cost * shard.weights
    shard.state["target"] = np.where(codes == positive, 1, -1).astype(np.int8)
    shard.state["cost"] = cost


def evaluate(shard: Shard, w: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """(gradient of the loss term, twice its value, number of active rows)."""
    state = shard.state
    outputs = _kept(state, f"outputs{slot}", shard.n_rows, np.float64)
    active = _kept(state, f"active{slot}", shard.n_rows, np.uint32)
    pair = shard.pair(w)
    loss, n_active = passes.squared_hinge(
        shard.rows, state["target"], state["cost"], pair, bias, outputs, active
    )
    state[f"n_active{slot}"] = n_active
    state.pop(f"packed{slot}", None)
    return shard.take(pair), loss, n_active


def gram(shard: Shard, p: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """(X_J^T C_J X_J p, its product with p) over the active rows of a slot."""
    rows, chosen, cost = _active_rows(shard, slot)
    pair = shard.pair(p)
    curvature = passes.gram(rows, chosen, cost, pair, bias)
    return shard.take(pair), curvature


def diagonal(shard: Shard, bias: float, slot: int) -> tuple[Any, ...]:
    """(diagonal of X_J^T C_J X_J,) over the active rows of a slot."""
    rows, chosen, cost = _active_rows(shard, slot)
    out = np.zeros(shard.n_features + 1)
    kernel = passes.diagonal_csr if isinstance(rows, CSR) else passes.diagonal_dense
    kernel(rows, chosen, cost, bias, out)
    return (out,)


def hinge_slope(shard: Shard, here: int, there: int, step: float) -> tuple[Any, ...]:
    """Slope and curvature of the loss term between the outputs of two slots."""
    state = shard.state
    outputs = state[f"outputs{here}"], state[f"outputs{there}"]
    return line.hinge_slope(state["target"], state["cost"], *outputs, step)


def _active_rows(shard: Shard, slot: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows to run over, which of them, and their costs; packed where few are active."""
    state = shard.state
    packed = state.get(f"packed{slot}")
    if packed is None:
        active = state[f"active{slot}"][: state[f"n_active{slot}"]]
        packed = packed_rows(shard.rows, active, state["cost"])
        state[f"packed{slot}"] = packed
    return packed


def _kept(state: dict[str, Any], name: str, size: int, dtype: type) -> np.ndarray:
    """Return a per-row array that is allocated once and written over and over."""
    if name not in state:
        state[name] = np.zeros(size, dtype=dtype)
    return state[name]
