"""The weighted l2-SVM (Sindhwani & Keerthi, eq. 1.2), and what its relatives share with it.

    f(w) = sum_i loss_i(o_i) + lam/2 |w|^2,    o_i = w.x_i

where each loss is convex, smooth and piecewise quadratic in the output of the row. With J the rows
whose loss is curved at w (the active rows) and h_i their second derivatives,

    H = lam I + X_J^T diag(h_J) X_J         (the generalized Hessian)

For the l2-SVM, loss_i = c_i/2 max(0, 1 - y_i o_i)^2, J = {i : y_i o_i < 1} and h_i = c_i. The bias
is a last component of w, for a constant column that no row stores; it is regularized like the
others.

Row state in a shard, under the names that operations declare, and its arrays in `shard.state`:

    targets    target        y; labels that a method finds are written here, too
    labels                   (no array of its own: bits from which `target` is restored)
    costs      cost          c
    slot0,     outputs0,     o, active rows, their number, and h at a point; two slots, so that a
    slot1      active0,      trial point can be evaluated while the current one is kept
               n_active0,
               curvature0
    outputs    outputs       o of all rows, for order statistics

`costs` is set apart where c changes during a fit; else c comes with `targets`. Copies of the active
rows, `packed0` and `packed1`, are made when they pay, and never restored.

Rows of cost 0 are skipped, and their outputs in a slot are not set.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dask_s3vm.engine.blocks import copy_rows, row_lengths
from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import cg, passes
from dask_s3vm.kernels.rows import CSR, Rows, pair_halves
from dask_s3vm.numerics.linalg import add_multiple, dot
from dask_s3vm.problems.tiles import add_gram
from dask_s3vm.solvers.problem import Point, Slope, Steps

#: Most numbers in w for which H is made as a matrix: 8 MiB.
WIDEST = 1024

#: What H and its factor cost in CG steps: as many steps as w has numbers over sparse rows, and by
#: this factor fewer over dense ones, where BLAS has the advantage; d^2 / n over this for the factor
#: of n active rows; at least some, since systems that are well scaled end soon. L2SVM on all labels
#: of covtype as it is (581,012 x 54), lam 1e-3, 1e-5, 1e-7: 0.6, 1.1, 1.8 s of CPU, without H 3.2,
#: 8.8, 17.2 s, with twice the patience 2.0, 2.1, 2.7. Text and one-hot tables never get there.
DENSE_STEPS = 8
FACTOR_STEPS = 4
FEWEST = 8


class QuadraticProblem:
    """f(w) above; a subclass names the operations on a shard.

    Parameters
    ----------
    engine : the rows.
    lam : weight of the regularizer; may be changed at any time, no row state depends on it.
    bias : whether w has a bias.
    """

    #: op(shard, w, bias, slot) -> (gradient of the losses, their sum, number of active rows)
    evaluate_op: Callable[..., tuple[Any, ...]]
    #: op(shard, slot, other slot, step) -> (slope, curvature) of the sum of the losses
    slope_op: Callable[..., tuple[Any, ...]]

    def __init__(self, engine: Engine, lam: float, bias: bool = True) -> None:
        self.lam = float(lam)  # kernels are compiled for each type that they are called with
        self.engine = engine
        self._bias = 1.0 if bias else 0.0

    def evaluate(self, w: np.ndarray, beside: Point | None = None) -> Point:
        """Value, gradient and active rows at w; `beside` is a point whose slot must be kept.

        Without `beside`, slot 0 is overwritten: points that lived there must not be used again.

        Costs: 1 round, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        slot = 0 if beside is None else 1 - beside.slot
        gradient, loss, n_active = self.engine.sum(type(self).evaluate_op, w, self._bias, slot)
        value = loss + 0.5 * self.lam * add_multiple(gradient, w, self.lam)
        return Point(w, value, gradient, n_active, slot)

    def restored(self, point: Point) -> Point:
        """Evaluate a restored point again, so that the shards hold its outputs.

        Value and gradient stay as they were read back.

        Costs: as `evaluate`.
        """
        return replace(point, slot=self.evaluate(point.w).slot)

    def hessian_product(self, point: Point, p: np.ndarray) -> tuple[np.ndarray, float]:
        """H p and p.H p.

        Costs: 1 round, 1 pass over the active rows; d + 1 numbers to and from each group.
        """
        product, curvature = self.engine.sum(gram, p, self._bias, point.slot)
        return product, curvature + self.lam * add_multiple(product, p, self.lam)

    def cg_steps(self, point: Point) -> Steps | None:
        """Several steps with H in one compiled loop, where one shard of this process has all rows.

        Costs: rounds and passes as one `hessian_product` for each step.
        """
        loop = self.engine.loop
        return loop and partial(loop, cg_steps, self._bias, point.slot, self.lam)

    def hessian_diagonal(self, point: Point) -> np.ndarray:
        """Diagonal of H.

        Costs: 1 round, 1 pass over the active rows; d + 1 numbers from each group.
        """
        (total,) = self.engine.sum(diagonal, self._bias, point.slot)
        return total + self.lam

    def hessian(self, point: Point) -> np.ndarray:
        """H as a matrix.

        Costs: 1 round, 1 pass over the active rows with d^2 operations a row; d^2 numbers from each
        group.
        """
        (total,) = self.engine.sum(hessian, self._bias, point.slot)
        total[np.diag_indices(len(total))] += self.lam
        return total

    def patience(self, point: Point) -> int | None:
        """Number of CG steps that take about as long as `hessian` and its factor.

        None where the matrix is too large.
        """
        width = len(point.w)
        if width > WIDEST:
            return None
        pass_steps = width if self.engine.layout.sparse else width // DENSE_STEPS
        return FEWEST + pass_steps + width**2 // (FACTOR_STEPS * max(point.n_active, 1))

    def slope(self, point: Point, trial: Point) -> Slope:
        """step -> phi'(step) and phi''(step) of phi(step) = f(w + step (trial.w - w)).

        Costs: 1 round for each step, no pass over the rows: outputs are linear in the step.
        """
        move = trial.w - point.w
        square, inner = dot(move, move), dot(point.w, move)

        def at(step: float) -> tuple[float, float]:
            slope, curvature = self.engine.sum(type(self).slope_op, point.slot, trial.slot, step)
            return slope + self.lam * (inner + step * square), curvature + self.lam * square

        return at


# The l2-SVM: operations on one shard ----------------------------------------------------------

#: Row state that an evaluation depends on; the engine ignores names that a problem does not set.
OF_A_SLOT = ("targets", "costs", "labels")


@operation(sets="targets", forgets=["costs", "labels"])
def set_targets(shard: Shard, positive: int, costs: np.ndarray) -> None:
    """Set y and c from the class numbers; unlabeled rows get cost 0."""
    codes = shard.codes
    assert codes is not None, "an l2-SVM needs labels"
    shard.state["target"] = np.where(codes == positive, 1, -1).astype(np.int8)
    shard.state["cost"] = row_costs(shard, np.append(costs, 0.0))


def row_costs(shard: Shard, costs: np.ndarray) -> np.ndarray:
    """Cost of each row: by its class number, the last entry for unlabeled rows (-1)."""
    cost = costs[shard.codes]
    return cost if shard.weights is None else cost * shard.weights


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


def outputs_at(shard: Shard, w: np.ndarray, bias: float) -> np.ndarray:
    """Return the outputs of all rows at w."""
    outputs = np.empty(shard.n_rows)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(w), bias, outputs)
    return outputs


def hinge_over(
    shard: Shard, rows: np.ndarray, sign: float, pair: np.ndarray, bias: float, slot: int
) -> tuple[float, int]:
    """Add `sign` times the gradient of the listed rows to a pair; (sign loss, active rows)."""
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
    return passes.hinge_slope(state["target"], state["cost"], *outputs, step)


class L2SVMProblem(QuadraticProblem):
    """The l2-SVM above, over the labeled rows of an engine.

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


# The Hessian: operations on one shard ---------------------------------------------------------


@operation(reads=["slot{slot}"])
def gram(shard: Shard, p: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """(X_J^T H_J X_J p, its product with p) over the active rows of a slot."""
    rows, chosen, weight = _rows_of_hessian(shard, slot)
    pair = shard.pair(p)
    curvature = passes.gram(rows, chosen, weight, pair, bias)
    return shard.take(pair), curvature


@operation(reads=["slot{slot}"])
def cg_steps(shard: Shard, bias: float, slot: int, lam: float, *state: Any) -> tuple[Any, ...]:
    """`kernels.cg.cg_steps` on the only shard, whose caller has the vectors of `state`."""
    pair = shard.pair(0.0)
    halves = pair_halves(shard.rows, pair)
    return cg.cg_steps(*_rows_of_hessian(shard, slot), pair, halves, bias, lam, *state)


@operation(reads=["slot{slot}"])
def diagonal(shard: Shard, bias: float, slot: int) -> tuple[Any, ...]:
    """(diagonal of X_J^T H_J X_J,) over the active rows of a slot."""
    rows, chosen, weight = _rows_of_hessian(shard, slot)
    return (weighted_squares(rows, chosen, weight, bias, shard.n_features),)


@operation(reads=["slot{slot}"])
def hessian(shard: Shard, bias: float, slot: int) -> tuple[Any, ...]:
    """(X_J^T H_J X_J,) over the active rows of a slot."""
    rows, chosen, weight = _rows_of_hessian(shard, slot)
    total = np.zeros((shard.n_features + 1, shard.n_features + 1))
    add_gram(total, shard, chosen, weight, rows=rows)
    total[-1] *= bias
    total[:-1, -1] *= bias
    return (total,)


def weighted_squares(
    rows: Rows, chosen: np.ndarray, weight: np.ndarray, bias: float, n_features: int
) -> np.ndarray:
    """Sums of weight_i x_i^2 by column over chosen rows, bias last."""
    out = np.zeros(n_features + 1)
    kernel = passes.diagonal_csr if isinstance(rows, CSR) else passes.diagonal_dense
    kernel(rows, chosen, weight, bias, out)
    return out


def _rows_of_hessian(shard: Shard, slot: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return (rows, numbers of the active ones, h by row number); packed where few are active."""
    state = shard.state
    packed = state.get(f"packed{slot}")
    if packed is None:
        weight = state[f"curvature{slot}"]
        packed = packed_rows(shard.rows, active_rows(shard, slot), weight, shard.may_copy)
        state[f"packed{slot}"] = packed
    return packed


# Slots ----------------------------------------------------------------------------------------


def slot_arrays(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays of outputs and active rows of a slot, for an evaluation to overwrite."""
    drop_packed(shard)  # conjugate gradients are over: free the packed copy
    return row_array(shard, f"outputs{slot}", np.float64), row_array(
        shard, f"active{slot}", np.uint32
    )


def fill_slot(shard: Shard, slot: int, n_active: int, weight: np.ndarray) -> None:
    """Store the result of an evaluation: the number of active rows, and h by row number."""
    shard.state[f"n_active{slot}"] = n_active
    shard.state[f"curvature{slot}"] = weight


def active_rows(shard: Shard, slot: int) -> np.ndarray:
    """Return the numbers of the active rows of a slot, ascending."""
    return shard.state[f"active{slot}"][: shard.state[f"n_active{slot}"]]


def row_array(shard: Shard, name: str, dtype: type) -> np.ndarray:
    """Return a per-row array of the shard, allocated at the first call and reused."""
    if name not in shard.state:
        shard.state[name] = np.zeros(shard.n_rows, dtype=dtype)
    return shard.state[name]


def drop_packed(shard: Shard) -> None:
    """Drop the packed copies of the active rows: the active rows, or their h, have changed."""
    for slot in (0, 1):
        shard.state.pop(f"packed{slot}", None)


# Copies of rows -------------------------------------------------------------------------------
#
# Conjugate gradients run over the same active rows many times. If these are few and scattered, most
# of the memory traffic is wasted: a copy of them, made once per Newton step, is several times
# faster to run over. If many rows are active it is not, and the copy costs memory.

#: Pack if the active rows hold at most this share of the entries; also bounds the memory.
MAX_SHARE = 0.25


def packed_rows(
    rows: Rows,
    active: np.ndarray,
    cost: np.ndarray,
    may_copy: Callable[[float], bool] = lambda share: True,
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Return (rows, numbers of the active ones, costs by row number), packed if that is faster.

    `may_copy` tells whether there is memory for a copy of a given share of the rows. Products have
    the same bits with and without a copy.
    """
    if isinstance(rows, CSR):
        share = row_lengths(rows, active).sum() / max(len(rows.indices), 1)
    else:
        share = len(active) / max(len(rows), 1)
    if share > MAX_SHARE or not may_copy(share):
        return rows, active, cost
    return copy_rows(rows, active), np.arange(len(active), dtype=np.uint32), cost[active]
