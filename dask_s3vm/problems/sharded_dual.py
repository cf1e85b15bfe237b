"""The dual SVM on rows in shards: coordinate ascent in each shard, combined as in CoCoA+.

In a round every shard computes the duality gap of its rows at the common w, takes steps on a local
model of D, which accounts for the other shards by a factor (sigma' of Ma et al. 2015), and returns
its change of w. D along the sum of the changes is a parabola: the round takes the maximizing step,
or 1 if that is smaller, to stay in the box. D never decreases, whatever the factor. The factor can
therefore be below the number of shards, which is the choice that is safe without a line search, and
slow.

Row state in a shard: `star_target` (y, 0 while waiting), `star_cost` (C), `star_alpha`,
`star_change` (the last proposal), `star_outputs`, `star_stage`, `star_norms`, and `star_work`,
scratch space.
"""

from typing import Any

import numpy as np

from dask_s3vm.engine.operations import copied_by, operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import select
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import dual, passes
from dask_s3vm.kernels.passes import square_norms
from dask_s3vm.numerics.linalg import dot
from dask_s3vm.problems.dual import GIVEN, LEFT_OUT, Accepted, Certificate, Extremes

#: Largest number of sweeps of a shard in a round, and the part of the gain of the first sweep below
#: which it stops: the other shards are about to change the model anyway.
EPOCHS = 20
ENOUGH = 0.1

#: Rows whose term of the gap is below this part of tol P / n take no step, n rows in training.
NEGLIGIBLE = 0.25

#: A best step beyond this means that the factor is too large; below 1 it is too small.
LONG_STEP = 1.3

#: State of the client besides w, and row state of the shards.
_STEPS = ("_factor", "_haste", "_step")
_NUMBERS = ("n_waiting", "_n_training")
_ARRAYS = ("star_target", "star_cost", "star_alpha", "star_change", "star_outputs", "star_stage")

#: A slope of D below this part of P is a rounding error.
NO_GAIN = 1e-28


class CombinedSteps:
    """Steps along the sum of what the shards propose, and the factor of their local models."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._begin_steps()

    def _begin_steps(self) -> None:
        self._factor = max(1.0, 0.5 * self._engine.layout.n_shards)
        self._haste = 2.0  # largest cut of the factor in a round
        self._step = 0.0  # of the last proposal, which the shards apply in the next round

    def _take(self, slope: float, curvature: float) -> float:
        """Step that maximizes slope s - curvature s^2 / 2, at most 1; adapts the factor to it."""
        best = slope / curvature if curvature > 0.0 else np.inf
        self._step = min(1.0, best)
        most = float(self._engine.layout.n_shards)
        if best > LONG_STEP:
            self._factor = max(1.0, self._factor / min(best, self._haste))
        elif best < 1.0:
            self._factor = min(most, self._factor / max(best, 0.5))
            self._haste = 1.1  # near the right factor: small changes, to avoid oscillation
        return self._step

    def _steps(self) -> dict[str, Any]:
        """What is needed to resume."""
        return {name: getattr(self, name) for name in _STEPS}

    def _resume_steps(self, state: dict[str, Any]) -> None:
        for name in _STEPS:
            setattr(self, name, state[name])


class ShardedDual(CombinedSteps):
    """`DualProblem` on rows in shards; w is at the client.

    Parameters
    ----------
    engine : the rows; their codes are class numbers, -1 where unlabeled.
    positive : the class number that is +1.
    costs : C_i of labeled rows by their class, times their sample weight.
    bias : whether rows have a constant 1 behind, for a bias that is regularized like the rest.
    """

    takes_rounds = True

    def __init__(
        self, engine: Engine, positive: int, costs: np.ndarray, bias: bool = False
    ) -> None:
        super().__init__(engine)
        self._bias = float(bias)
        self.w = np.zeros(engine.layout.n_features + 1)  # without a bias the last entry stays 0
        waiting, training = engine.sum(begin, positive, costs)
        self.n_waiting = int(waiting)
        self._n_training = int(training)

    def solve(self, tol: float, max_iter: int, fresh: bool = False) -> Certificate:
        """See `DualProblem`; at most `max_iter` rounds.

        Costs per round: 1 pass over the rows in training and a few over those that add to the gap;
        d + 1 numbers to and from each group.
        """
        floor = 0.0
        if fresh:
            (self.w,) = self._engine.sum(expand, self._step, self._bias)
            self._step = 0.0
        for done in range(max_iter + 1):
            change, added, loss, gap = self._engine.sum(
                propose, self.w, self._bias, self._step, self._factor, floor, done
            )
            self._step = 0.0
            primal = 0.5 * dot(self.w, self.w) + loss
            if gap <= tol * primal:
                return Certificate(primal, gap, done, "converged")
            slope, curvature = added - dot(self.w, change), dot(change, change)
            if not slope > NO_GAIN * primal:
                return Certificate(primal, gap, done, "precision")
            if done == max_iter:
                break
            self.w = self.w + self._take(slope, curvature) * change
            floor = NEGLIGIBLE * tol * primal / self._n_training
        return Certificate(primal, gap, max_iter, "max_iter")

    def score(self) -> Extremes:
        """See `DualProblem`. Costs: 1 round, 1 pass over the waiting rows."""
        return _widest(self._engine.each(score, self.w, self._bias))

    def confidence(self, n: int, extremes: Extremes) -> float:
        """See `DualProblem`. Costs: usually 2-4 rounds, no pass over the rows."""
        return -select(self._engine, n - 1, doubts, *extremes).value

    def accept(
        self, above: float, below: float, positive_cost: float, negative_cost: float, stage: int
    ) -> Accepted:
        """See `DualProblem`. Costs: 1 round, no pass over the rows."""
        found = self._engine.each(accept, above, below, stage, positive_cost, negative_cost)
        n_positive, n_negative = (sum(one[place] for one in found) for place in (0, 1))
        loss = float(np.add.reduce([one[2] for one in found]))
        self.n_waiting -= n_positive + n_negative
        self._n_training += n_positive + n_negative
        return Accepted(n_positive, n_negative, loss, _widest([one[3:] for one in found]))

    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """See `DualProblem`. Costs: 1 round; 5 bytes a row to the client."""
        found = self._engine.each(take_labels)
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

    def solution(self) -> np.ndarray:
        """Weights in internal order."""
        return self.w

    def state(self) -> dict[str, Any]:
        """See `DualProblem`. Costs: 1 round; 37 bytes a row to the client."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        rows = self._engine.each(take_state)
        self._engine.remember("dual", put_state, rows)
        return {**numbers, **self._steps(), "w": self.w, "rows": rows}

    def resume_from(self, state: dict[str, Any]) -> None:
        """See `DualProblem`. Costs: 1 round; as many bytes to each group."""
        self._resume_steps(state)
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self.w = state["w"]
        self._engine.each(put_state, state["rows"])


def _widest(pairs: list[Any]) -> Extremes:
    return Extremes(max(high for high, _ in pairs), min(low for _, low in pairs))


# Operations on one shard ----------------------------------------------------------------------


@operation(sets="dual")
def begin(shard: Shard, positive: int, costs: np.ndarray) -> tuple[int, int]:
    """Set up the row state; (number of waiting rows, number of rows in training)."""
    codes, state = shard.codes, shard.state
    assert codes is not None, "labels are needed"
    given = codes >= 0
    state["star_target"] = np.where(given, np.where(codes == positive, 1, -1), 0).astype(np.int8)
    cost = np.where(given, costs[codes], 0.0)
    state["star_cost"] = cost if shard.weights is None else cost * shard.weights
    stage = np.where(given, GIVEN, dual.WAITING).astype(np.int32)
    stage[~given & ~shard.unlabeled] = LEFT_OUT
    state["star_stage"] = stage
    for name in ("star_alpha", "star_change", "star_outputs"):
        state[name] = np.zeros(shard.n_rows)
    _set_up(shard)
    waiting = np.count_nonzero(stage == dual.WAITING)
    return int(waiting), int(np.count_nonzero(state["star_cost"]))


def _set_up(shard: Shard) -> None:
    """Set up what does not change: scratch space, and the squared lengths of the rows."""
    state, every = shard.state, np.arange(shard.n_rows, dtype=np.uint32)
    state["star_work"] = np.zeros(shard.n_rows, dtype=np.uint32)
    if "star_norms" not in state:
        state["star_norms"] = square_norms(shard.rows, every, shard.n_features)


@operation(changes="dual")
def propose(
    shard: Shard, w: np.ndarray, bias: float, step: float, factor: float, floor: float, seed: int
) -> tuple[Any, ...]:
    """Apply the step of the last round, compute the gap, and propose a change of w.

    Returns (change of w, sum of the changes of alpha, loss, gap).
    """
    state = shard.state
    target, cost, alpha = state["star_target"], state["star_cost"], state["star_alpha"]
    change, work = state["star_change"], state["star_work"]
    dual.apply_change(step, cost, alpha, change)
    pair = shard.pair(w)
    loss, gap, n = dual.duality_gap(
        shard.rows, target, cost, alpha, pair, bias, floor, state["star_outputs"], work
    )
    added = dual.ascend(
        shard.rows,
        work[:n],
        target,
        cost,
        alpha,
        state["star_norms"] + bias,
        factor,
        EPOCHS,
        ENOUGH,
        1 + seed + (shard.number << 20),
        pair,
        bias,
        change,
    )
    return shard.take(pair), added, loss, gap


@operation(changes="dual")
def expand(shard: Shard, step: float, bias: float) -> tuple[np.ndarray]:
    """(sum_i y_i alpha_i x_i,), after the step of the last round."""
    state = shard.state
    dual.apply_change(step, state["star_cost"], state["star_alpha"], state["star_change"])
    pair = shard.pair(0.0)
    passes.add_rows(shard.rows, state["star_target"] * state["star_alpha"], pair, bias)
    return (shard.take(pair),)


@operation(changes="dual")
def score(shard: Shard, w: np.ndarray, bias: float) -> tuple[float, float]:
    """Compute the outputs of the waiting rows; (largest, smallest)."""
    state, pair = shard.state, shard.pair(w)
    return dual.score_waiting(shard.rows, state["star_stage"], pair, bias, state["star_outputs"])


@operation(reads=["dual"])
def doubts(shard: Shard, high: float, low: float) -> tuple[np.ndarray, np.ndarray]:
    """(minus relative confidence, row numbers) of the waiting rows; see `kernels.dual.doubts`."""
    values, rows = np.empty(shard.n_rows), np.empty(shard.n_rows, dtype=np.uint32)
    stage = shard.state["star_stage"]
    n = dual.doubts(shard.state["star_outputs"], stage, high, low, values, rows)
    return values[:n], rows[:n]


@operation(changes="dual")
def accept(
    shard: Shard, above: float, below: float, stage: int, positive: float, negative: float
) -> tuple[Any, ...]:
    """Label waiting rows; see `kernels.dual.accept`."""
    state = shard.state
    weights = np.empty(0) if shard.weights is None else shard.weights
    return dual.accept(
        state["star_outputs"],
        above,
        below,
        stage,
        positive,
        negative,
        weights,
        state["star_target"],
        state["star_cost"],
        state["star_stage"],
    )


@operation(reads=["dual"])
def take_labels(shard: Shard) -> tuple[np.ndarray, np.ndarray]:
    """(label, stage) of each row."""
    return shard.state["star_target"], shard.state["star_stage"]


@operation(reads=["dual"])
def take_state(shard: Shard) -> list[np.ndarray]:
    """Copy the row state."""
    return [shard.state[name].copy() for name in _ARRAYS]


@operation(sets="dual")
def put_state(shard: Shard, states: list[list[np.ndarray]]) -> None:
    """Restore what `take_state` returned, by shard."""
    for name, array in zip(_ARRAYS, states[shard.number], strict=True):
        shard.state[name] = array.copy()
    _set_up(shard)


copied_by("dual", take_state, put_state)
