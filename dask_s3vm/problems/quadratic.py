"""Piecewise quadratic problems over the rows: what l2-SVM and its relatives have in common.

    f(w) = sum_i loss_i(o_i) + lam/2 |w|^2,    o_i = w.x_i

where each loss is convex, smooth and piecewise quadratic in the row's output. With J the rows
whose loss is curved at w and h_i their second derivatives,

    H = lam I + X_J^T diag(h_J) X_J         (the generalized Hessian)

The bias is a last component of w, for a constant column that no row stores, and is regularized
like the others.

Row state in a shard: two slots of `outputs`, `active` rows and `weight` (h), so that a trial point
can be looked at while the current one is kept.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import CSR, Rows
from dask_s3vm.problems.base import Point
from dask_s3vm.problems.packing import packed_rows


class QuadraticProblem:
    """f(w) above; a subclass says what is done in a shard.

    Parameters
    ----------
    engine : the rows.
    lam : weight of the regularizer; may be changed at any time, rows are not touched.
    bias : whether w has a bias.
    """

    #: op(shard, w, bias, slot) -> (gradient of the losses, their sum, number of active rows)
    evaluate_op: Callable[..., tuple[Any, ...]]
    #: op(shard, slot, other slot, step) -> (slope, curvature) of the sum of the losses
    slope_op: Callable[..., tuple[Any, ...]]

    def __init__(self, engine: Engine, lam: float, bias: bool = True) -> None:
        self.lam = lam
        self.engine = engine
        self._bias = 1.0 if bias else 0.0

    def evaluate(self, w: np.ndarray, beside: Point | None = None) -> Point:
        """Value, gradient and active rows at w.

        Costs: 1 round, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        slot = 0 if beside is None else 1 - beside.slot
        gradient, loss, n_active = self.engine.sum(type(self).evaluate_op, w, self._bias, slot)
        value = loss + 0.5 * self.lam * float(np.add.reduce(w * w))
        gradient = gradient + self.lam * w
        return Point(w, value, gradient, n_active, slot)

    def restored(self, state: dict[str, Any]) -> Point:
        """Return the point of a state, which the shards then know; what is known of it stays.

        Costs: as `evaluate`.
        """
        return Point(**state, slot=self.evaluate(state["w"]).slot)

    def hessian_product(self, point: Point, p: np.ndarray) -> tuple[np.ndarray, float]:
        """H p and p.H p.

        Costs: 1 round, 1 pass over the active rows; d + 1 numbers to and from each group.
        """
        product, curvature = self.engine.sum(gram, p, self._bias, point.slot)
        return product + self.lam * p, curvature + self.lam * float(np.add.reduce(p * p))

    def hessian_diagonal(self, point: Point) -> np.ndarray:
        """Diagonal of H.

        Costs: 1 round, 1 pass over the active rows; d + 1 numbers from each group.
        """
        (total,) = self.engine.sum(diagonal, self._bias, point.slot)
        return total + self.lam

    def slope(self, point: Point, trial: Point, step: float) -> tuple[float, float]:
        """phi'(step) and phi''(step) of phi(step) = f(w + step (trial.w - w)).

        Costs: 1 round, no pass over the rows: outputs are linear in the step.
        """
        slope, curvature = self.engine.sum(type(self).slope_op, point.slot, trial.slot, step)
        move = trial.w - point.w
        square = float(np.add.reduce(move * move))
        inner = float(np.add.reduce(point.w * move))
        return slope + self.lam * (inner + step * square), curvature + self.lam * square


# Operations on one shard --------------------------------------------------------------------


@operation(reads=["slot{slot}"])
def gram(shard: Shard, p: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """(X_J^T H_J X_J p, its product with p) over the active rows of a slot."""
    rows, chosen, weight = _rows_of_hessian(shard, slot)
    pair = shard.pair(p)
    curvature = passes.gram(rows, chosen, weight, pair, bias)
    return shard.take(pair), curvature


@operation(reads=["slot{slot}"])
def diagonal(shard: Shard, bias: float, slot: int) -> tuple[Any, ...]:
    """(diagonal of X_J^T H_J X_J,) over the active rows of a slot."""
    rows, chosen, weight = _rows_of_hessian(shard, slot)
    return (weighted_squares(rows, chosen, weight, bias, shard.n_features),)


def weighted_squares(
    rows: Rows, chosen: np.ndarray, weight: np.ndarray, bias: float, n_features: int
) -> np.ndarray:
    """Sums of weight_i x_i^2 by column over chosen rows, bias last."""
    out = np.zeros(n_features + 1)
    kernel = passes.diagonal_csr if isinstance(rows, CSR) else passes.diagonal_dense
    kernel(rows, chosen, weight, bias, out)
    return out


def slot_arrays(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs and active rows of a slot, to be written over by an evaluation."""
    drop_packed(shard)  # conjugate gradients are over: keep no packed copy beside the next
    return kept(shard, f"outputs{slot}", np.float64), kept(shard, f"active{slot}", np.uint32)


def drop_packed(shard: Shard) -> None:
    """Forget packed copies of the active rows: which rows are active, or their h, has changed."""
    for slot in (0, 1):
        shard.state.pop(f"packed{slot}", None)


def fill_slot(shard: Shard, slot: int, n_active: int, weight: np.ndarray) -> None:
    """Say what an evaluation has found: how many rows are active, and h by row number."""
    shard.state[f"n_active{slot}"] = n_active
    shard.state[f"weight{slot}"] = weight


def kept(shard: Shard, name: str, dtype: type) -> np.ndarray:
    """Return a per-row array that is allocated once and written over and over."""
    if name not in shard.state:
        shard.state[name] = np.zeros(shard.n_rows, dtype=dtype)
    return shard.state[name]


def active_rows(shard: Shard, slot: int) -> np.ndarray:
    """Return the numbers of the active rows of a slot, ascending."""
    return shard.state[f"active{slot}"][: shard.state[f"n_active{slot}"]]


def _rows_of_hessian(shard: Shard, slot: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows to run over, which of them, and their weights; packed where few are active."""
    state = shard.state
    packed = state.get(f"packed{slot}")
    if packed is None:
        weight = state[f"weight{slot}"]
        packed = packed_rows(shard.rows, active_rows(shard, slot), weight, shard.may_copy)
        state[f"packed{slot}"] = packed
    return packed
