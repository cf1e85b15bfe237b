"""The S3VM with clipped losses, as a sequence of convex problems (Collobert et al. 2006).

    F(w) = sum_lab c_i max(0, 1 - y_i f_i) + sum_unl c_j min(1 + s, max(0, 1 - |f_j|)) + 1/2 |w|^2
    f(x) = w.(x - m) + r

The loss of an unlabeled row is R(f) + R(-f) - (1 - s), with the ramp R(f) = H_1(f) - H_s(f) and
H_a(f) = max(0, a - f), -1 < s <= 0. The mean output of the unlabeled rows is to be r (eq. 11 of the
paper): with an offset that is not regularized this holds if m is their mean, and leaves a problem
without offset or constraint.

The concave part, -H_s(f) - H_s(-f), is replaced by its tangent at the present f: with the label
t = sign f, or 0 if |f| <= -s, the loss of an unlabeled row becomes max(1, |f|) - t f, up to a
constant. That is the paper's pair of hinges for each unlabeled row, with labels +1 and -1 and a
shifted box, as one dual variable (`kernels.ramp`). It is above the clipped loss and touches it at
the present f: what lowers the convex problem lowers F.

The hinge is the paper's loss, and its dual is solved as that of STAR-SVM is: coordinate ascent in
shards (`sharded_dual`), which goes on from the dual variables of the last convex problem and tells
by its gap how near the minimum is. Newton steps would need squared losses, of which the concave
part has a slope that grows without bound: rows far on the wrong side would count the more.

Row state in a shard: `ramp_target` (y or t), `ramp_cost` (c), `ramp_dual`, `ramp_change` (the last
proposal), `ramp_work`, scratch space; and of the centered rows `ramp_norms`, `ramp_along`.
"""

from typing import Any

import numpy as np

from dask_s3vm.engine.operations import copied_by, operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import ramp
from dask_s3vm.kernels.passes import square_norms, sum_rows
from dask_s3vm.numerics.linalg import dot
from dask_s3vm.problems.dual import Certificate
from dask_s3vm.problems.hinge import outputs_at, row_costs
from dask_s3vm.problems.sharded_dual import ENOUGH, EPOCHS, NEGLIGIBLE, NO_GAIN, CombinedSteps

#: A training before the last stops when its gap is this part of what it has gained.
ENOUGH_GAINED = 0.1

_ARRAYS = ("ramp_target", "ramp_cost", "ramp_dual", "ramp_change")


class RampProblem(CombinedSteps):
    """F above; w is at the client, with the bias r - m.w last.

    Parameters
    ----------
    engine : the rows; their codes are class numbers, -1 where unlabeled.
    positive : the class number that is +1.
    costs : c_i of labeled rows by their class, times their sample weight.
    unlabeled_cost : c_j of unlabeled rows, times their sample weight.
    flat : -s.
    level : r; None for f = w.x.
    """

    def __init__(
        self,
        engine: Engine,
        positive: int,
        costs: np.ndarray,
        unlabeled_cost: float,
        flat: float,
        level: float | None,
    ) -> None:
        super().__init__(engine)
        self._positive, self._costs = positive, costs
        self._unlabeled_cost = unlabeled_cost
        self._flat = flat
        self._n_rows = 1
        self.level = 0.0 if level is None else level
        self.mean = np.zeros(engine.layout.n_features)
        if level is not None:
            (total,) = engine.sum(sum_unlabeled)
            self.mean = total[:-1] / total[-1]
        self._square = dot(self.mean, self.mean)
        engine.each(set_centered, self.mean)
        self.w = self.weights(np.zeros(len(self.mean)))

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Return (w, r - m.w), (d + 1,)."""
        return np.append(w, self.level - dot(self.mean, w))

    def labeled_rows_alone(self) -> None:
        """Begin with the labeled rows; unlabeled ones cost nothing. Costs: 1 round."""
        self._begin(0.0)

    def with_unlabeled_rows(self) -> None:
        """Begin with all rows, and no labels yet; w stays. Costs: 1 round."""
        self._begin(self._unlabeled_cost)

    def relabel(self) -> tuple[float, int]:
        """Label the unlabeled rows by their outputs at w: (F there, labels that changed).

        The w that a training goes on from is that of the dual variables, and no longer this one.

        Costs: 1 round, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        w = self.w[:-1]
        shares, loss, changed = self._engine.sum(relabel, self.w, self._step, self._flat)
        self._step = 0.0
        self.w = self.weights(shares[:-1] - shares[-1] * self.mean)
        return loss + 0.5 * dot(w, w), int(changed)

    def solve(self, tol: float, before: float, max_iter: int) -> Certificate:
        """Maximize the dual for the present labels, in `max_iter` rounds at most.

        It stops when the gap is at most `tol` times the primal value, or a part of what that value
        is below `before`, F where the labels are from.

        Costs per round: 1 pass over the rows that count and a few over those that add to the gap;
        d + 1 numbers to and from each group.
        """
        floor = 0.0
        for done in range(max_iter + 1):
            change, added, loss, gap = self._engine.sum(
                propose,
                self.w,
                self._square,
                self.level,
                self._flat,
                self._step,
                self._factor,
                floor,
                done,
            )
            self._step = 0.0
            w = self.w[:-1]
            primal = 0.5 * dot(w, w) + loss
            wanted = max(tol * primal, ENOUGH_GAINED * (before - primal))
            if gap <= wanted:
                return Certificate(primal, gap, done, "converged")
            move = change[:-1] - change[-1] * self.mean
            slope, curvature = added - dot(w, move), dot(move, move)
            if not slope > NO_GAIN * primal:
                return Certificate(primal, gap, done, "precision")
            if done == max_iter:
                break
            self.w = self.weights(w + self._take(slope, curvature) * move)
            floor = NEGLIGIBLE * wanted / self._n_rows
        return Certificate(primal, gap, max_iter, "max_iter")

    def state(self) -> dict[str, Any]:
        """All that is needed to resume. Costs: 1 round; 25 bytes a row to the client."""
        rows = self._engine.each(take_state)
        self._engine.remember("ramp", put_state, rows)
        return {**self._steps(), "w": self.w, "n_rows": self._n_rows, "rows": rows}

    def resume_from(self, state: dict[str, Any]) -> None:
        """Come back to a state. Costs: 1 round; as many bytes to each group."""
        self._resume_steps(state)
        self.w, self._n_rows = state["w"], state["n_rows"]
        self._engine.each(put_state, state["rows"])

    def _begin(self, unlabeled_cost: float) -> None:
        costs = np.append(self._costs, unlabeled_cost)
        (n,) = self._engine.sum(begin, self._positive, costs)
        self._n_rows = max(int(n), 1)
        self._begin_steps()


# Operations on one shard ----------------------------------------------------------------------


def sum_unlabeled(shard: Shard) -> tuple[np.ndarray]:
    """(sum of the unlabeled rows times their weights; of the weights last,)."""
    rows = np.flatnonzero(shard.unlabeled).astype(np.uint32)
    weights = np.ones(len(rows)) if shard.weights is None else shard.weights[rows]
    total = np.zeros(shard.n_features + 1)
    sum_rows(shard.rows, rows, weights, total)
    return (total,)


@operation(sets="centered")
def set_centered(shard: Shard, mean: np.ndarray) -> None:
    """Store |x - m|^2 and x.m of all rows."""
    every = np.arange(shard.n_rows, dtype=np.uint32)
    along = outputs_at(shard, np.append(mean, 0.0), 0.0)
    norms = square_norms(shard.rows, every, shard.n_features) - 2.0 * along + dot(mean, mean)
    shard.state["ramp_along"], shard.state["ramp_norms"] = along, np.maximum(norms, 0.0)


@operation(sets="ramp")
def begin(shard: Shard, positive: int, costs: np.ndarray) -> tuple[int]:
    """Set up the row state, all shares 0; (number of rows that count,)."""
    codes, state = shard.codes, shard.state
    assert codes is not None, "labels are needed"
    target = np.where(codes < 0, 0, np.where(codes == positive, 1, -1))
    state["ramp_target"] = target.astype(np.int8)
    state["ramp_cost"] = row_costs(shard, costs)
    for name in ("ramp_dual", "ramp_change"):
        state[name] = np.zeros(shard.n_rows)
    state["ramp_work"] = np.zeros(shard.n_rows, dtype=np.uint32)
    return (int(np.count_nonzero(state["ramp_cost"])),)


@operation(changes="ramp", reads=["centered"])
def propose(
    shard: Shard,
    w: np.ndarray,
    square: float,
    level: float,
    flat: float,
    step: float,
    factor: float,
    floor: float,
    seed: int,
) -> tuple[Any, ...]:
    """Apply the step of the last round, compute the gap, and propose a change of w.

    Returns (sum of the changes times (x, 1), gain without that of |w|^2, loss, gap).
    """
    state, codes = shard.state, shard.codes
    target, cost, dual, change = (state[name] for name in _ARRAYS)
    work = state["ramp_work"]
    ramp.apply_ramp_change(step, codes, cost, dual, change)
    pair = shard.pair(w)
    loss, gap, n = ramp.ramp_gap(shard.rows, codes, target, cost, dual, flat, pair, floor, work)
    added, total = ramp.ramp_ascend(
        shard.rows,
        work[:n],
        codes,
        target,
        cost,
        dual,
        state["ramp_norms"],
        state["ramp_along"],
        square,
        level,
        factor,
        EPOCHS,
        ENOUGH,
        1 + seed + (shard.number << 20),
        pair,
        change,
    )
    moved = shard.take(pair)
    moved[-1] = total
    return moved, added, loss, gap


@operation(changes="ramp")
def relabel(shard: Shard, w: np.ndarray, step: float, flat: float) -> tuple[Any, ...]:
    """Apply the step of the last round, and label by the outputs at w.

    Returns (sum of the shares times (x, 1), clipped losses at w, labels that changed).
    """
    state, codes = shard.state, shard.codes
    cost, dual = state["ramp_cost"], state["ramp_dual"]
    ramp.apply_ramp_change(step, codes, cost, dual, state["ramp_change"])
    pair = shard.pair(w)
    found = ramp.ramp_relabel(shard.rows, codes, state["ramp_target"], cost, dual, flat, pair)
    return shard.take(pair), *found


@operation(reads=["ramp"])
def take_state(shard: Shard) -> list[np.ndarray]:
    """Copy the row state."""
    return [shard.state[name].copy() for name in _ARRAYS]


@operation(sets="ramp")
def put_state(shard: Shard, states: list[list[np.ndarray]]) -> None:
    """Restore what `take_state` returned, by shard."""
    for name, array in zip(_ARRAYS, states[shard.number], strict=True):
        shard.state[name] = array.copy()
    shard.state["ramp_work"] = np.zeros(shard.n_rows, dtype=np.uint32)


copied_by("ramp", take_state, put_state)
