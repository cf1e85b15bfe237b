"""DA: deterministic annealing (Sindhwani & Keerthi, section 1.4).

Unlabeled rows are +1 with probability p, of mean r, whose entropy is weighed by a temperature T.
T falls until p is all but certain. The transductive objective is watched along the way; from the
w of its minimum a descent on that objective itself, weights and pairs of labels in turn as in TSVM,
leads to the model that is returned. It keeps the number of positive labels: free ones may all
end on one side, where the objective is lowest. For the same reason only points count whose share of
positive predictions agrees with the ratio, or that are nearest to that; with balance="paper" all
do, and where positives are rare the minimum may be one that predicts none.

The paper improves p and w in turn until both rest. Here p is eliminated (see `problems.annealed`)
and L-BFGS follows the minimum over w. On 20 newsgroups (1000 labels) it takes 170 evaluations where
the alternation took 290 CG steps and 210 evaluations; on digits 930 where it took 3,500 and 450.

One outer iteration is one temperature, and then one turn of the descent.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import (
    BinaryJob,
    BinarySolution,
    BinaryTask,
    Start,
    is_balanced,
    n_predicted_positive,
)
from dask_s3vm.methods.run import Method
from dask_s3vm.methods.tsvm import LabelAlternation, TurnState
from dask_s3vm.numerics.linalg import dot
from dask_s3vm.parameters.methods import DAParameters
from dask_s3vm.problems.annealed import AnnealedPoint, AnnealedProblem
from dask_s3vm.problems.transductive import TransductiveProblem
from dask_s3vm.solvers.lbfgs import Memory, memory_size, minimize
from dask_s3vm.solvers.problem import Point

#: First temperature, in units of lam_u, and the factor by which it falls.
FIRST_TEMPERATURE = 10.0
COOLING = 1.5

#: Most temperatures, and most evaluations at one of them.
MAX_TEMPERATURES = 30
MAX_EVALUATIONS = 500

#: A temperature is left when |gradient|^2 / (2 lam) is below this part of the objective: the gap to
#: the minimum, were the function convex.
REST = 1e-5

#: While p is nearly r everywhere, with this part of the largest entropy, a rough w will do.
UNDECIDED = 0.9
ROUGH = 1e-2

#: Where at most this part of the largest entropy is left, a temperature is left at this gap: the
#: descent at the end does the rest. If w rests there as it is, the next one is as far again: T
#: falls by COOLING, its square, its fourth power. Over 74 fits of small text and pixels this took
#: 0.89 of the evaluations; the mean ratio of objectives was 1.0001 (1.0005 with a gap of 1e-3, and
#: 1.011 with that before labels are decided, too).
DECIDED = 0.05
COLD = 3e-4

#: Beliefs are certain at this mean entropy, or when that of all rows is that of one in doubt: where
#: r u is no whole number, one always is.
CERTAIN = 1e-6
ONE_ROW = 1.01 * math.log(2.0)

#: Relative gap of the first solve of the descent.
DESCENT_GAP = 0.1

#: With a seed (see `base`) a temperature is left at this gap, or after so many evaluations.
SEEDED_REST = 1e-3
SEEDED_EVALUATIONS = 25


class Seed(NamedTuple):
    """Weights in internal order, and the temperature at which they were found."""

    temperature: float
    w: np.ndarray


# From warm to cold --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoolingState:
    """Between two temperatures.

    temperature : the next one.
    fall : factor by which it has fallen.
    n_passed : how many are behind.
    v : scaled weights.
    nu : multiplier of the constraint on the mean of p, from which the next search starts.
    memory_scale : of L-BFGS.
    best_excess, best_objective, best_w : the best point on the way: rows that it predicts to be
        positive beyond what the ratio allows, or too few, its transductive objective, its weights.
    seed : the last temperature at which nearly nothing was decided, and w there.
    done : whether the labels are certain, or the temperatures used up.
    """

    temperature: float
    fall: float
    n_passed: int
    v: np.ndarray
    nu: float
    memory_scale: float | None
    best_excess: int
    best_objective: float
    best_w: np.ndarray
    seed: Seed
    done: bool


@dataclass(frozen=True)
class Cooled:
    """The weights of the best transductive objective on the way, and a seed."""

    w: np.ndarray
    seed: Seed
    n_iter: int = 0


class Cooling(Method[CoolingState, Cooled]):
    """The way from warm to cold.

    Parameters
    ----------
    engine, task, parameters : see `tsvm.TSVMTraining`.
    start : weights to start from; with a seed, begin at its temperature and weights, and do not go
        into detail.
    """

    State = CoolingState
    Result = Cooled

    def __init__(
        self, engine: Engine, task: BinaryTask, parameters: DAParameters, start: Start
    ) -> None:
        lam_u = float(parameters.lam_unlabeled)
        self._problem = AnnealedProblem(
            engine,
            parameters.lam,
            task.positive,
            task.costs,
            lam_u,
            task.unlabeled_weight,
            task.ratio,
            parameters.fit_intercept,
        )
        self._seed = Seed(FIRST_TEMPERATURE * lam_u, start.w)
        self._rest, self._most = REST, MAX_EVALUATIONS
        if start.seed is not None:
            self._seed = Seed(*start.seed)
            self._rest, self._most = SEEDED_REST, SEEDED_EVALUATIONS
        self._lowest = self._seed.temperature / COOLING**MAX_TEMPERATURES
        self._task = task
        self._by_ratio = parameters.balance == "predictions"
        self._most_entropy = float(entr(task.ratio) + entr(1.0 - task.ratio))
        # the fourth root of the Hessian's diagonal: the preconditioner of `solvers.newton`
        self._scale = self._problem.diagonal() ** 0.25
        size = len(start.w)
        self._memory = Memory(memory_size(size), size)
        self._temperature = 0.0
        self._nu = 0.0
        self._best = (task.n_unlabeled, math.inf, start.w)
        self._point: AnnealedPoint
        #: evaluated since the last one that was accepted, and that one
        self._trials: list[AnnealedPoint] = []

    def start(self) -> CoolingState:
        """Begin at the highest temperature, or at that of the seed."""
        seed = self._seed
        v = self._scale * seed.w
        return CoolingState(seed.temperature, COOLING, 0, v, 0.0, None, *self._best, seed, False)

    def advance(self, state: CoolingState) -> CoolingState:
        """Follow the minimum over w at one temperature."""
        temperature, seed = state.temperature, state.seed
        self._temperature, self._nu = temperature, state.nu
        self._best = state.best_excess, state.best_objective, state.best_w
        self._memory.scale = state.memory_scale
        self._trials = []
        found = minimize(self._evaluate, state.v, self._memory, 0.0, self._rests, self._most)
        self._accept(found.value)
        if self._is_undecided():
            seed = Seed(temperature, found.x / self._scale)
        self.report(
            event="anneal",
            temperature=temperature,
            objective=self._point.objective,
            entropy=self._point.entropy,
            evaluations=found.n_evaluations,
            cg_steps=0,
            switches=0,
        )
        n_passed = state.n_passed + 1
        at_rest = found.n_evaluations == 1 and self._is_decided()
        fall = state.fall**2 if at_rest else COOLING
        colder = temperature / fall
        return CoolingState(
            colder,
            fall,
            n_passed,
            found.x,
            self._nu,
            self._memory.scale,
            *self._best,
            seed,
            # steps that are skipped count: beliefs of equal rows need never become certain
            self._is_certain() or n_passed == MAX_TEMPERATURES or colder < self._lowest,
        )

    def finish(self, state: CoolingState) -> Cooled:
        """Return the best weights."""
        return Cooled(state.best_w, state.seed)

    def progress(self, state: CoolingState) -> tuple[str, float | None]:
        """Temperatures fall by a factor, at most so often."""
        number = state.n_passed + 1
        what = f"temperature {state.temperature:.3g} ({number} of at most {MAX_TEMPERATURES})"
        return what, state.n_passed / MAX_TEMPERATURES

    def _evaluate(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """F_T and its gradient in scaled variables."""
        w, temperature = v / self._scale, self._temperature
        if self._trials:
            point = self._problem.evaluate_near(w, temperature, self._trials[-1])
        else:
            point = self._problem.evaluate(w, temperature, self._nu)
        self._nu = point.nu
        self._trials.append(point)
        excess = 0
        if self._by_ratio:
            excess = abs(point.n_positive - self._task.nearest_count(point.n_positive))
        if (excess, point.objective) < self._best[:2]:
            self._best = excess, point.objective, point.w
        return point.value, point.gradient / self._scale

    def _rests(self, value: float, gradient: np.ndarray) -> bool:
        """Whether w, of this value, is near a minimum at this temperature."""
        self._accept(value)
        gradient = gradient * self._scale
        gap = dot(gradient, gradient) / (2.0 * self._problem.lam)
        rest = self._rest
        if self._is_undecided():
            rest = ROUGH
        elif self._is_decided():
            rest = COLD
        return gap <= rest * self._point.objective

    def _accept(self, value: float) -> None:
        """Tell the trial that a line search has accepted from the others, by its value."""
        self._point = next(point for point in reversed(self._trials) if point.value == value)
        self._trials = [self._point]

    def _is_undecided(self) -> bool:
        return self._point.entropy > UNDECIDED * self._most_entropy

    def _is_decided(self) -> bool:
        return self._point.entropy < DECIDED * self._most_entropy

    def _is_certain(self) -> bool:
        return self._point.entropy < max(CERTAIN, ONE_ROW / self._task.n_unlabeled)


# The descent at the end ---------------------------------------------------------------------------


class Descent(Method[TurnState, BinarySolution]):
    """Minimize the transductive objective from w, with the number of positive labels that it has.

    Where r is 0 or 1 all unlabeled rows have one label.

    Parameters
    ----------
    engine, task, parameters : see `tsvm.TSVMTraining`.
    w : weights to start from.
    """

    State = TurnState
    Result = BinarySolution

    def __init__(
        self, engine: Engine, task: BinaryTask, parameters: DAParameters, w: np.ndarray
    ) -> None:
        self._problem = TransductiveProblem(
            engine, parameters.lam, task.positive, task.costs, parameters.fit_intercept
        )
        self._task = task
        self._by_ratio = parameters.balance == "predictions"
        self._cost = float(parameters.lam_unlabeled) / task.unlabeled_weight
        self._tol = parameters.tol
        self._w = w
        self._turns = LabelAlternation(
            self._problem, parameters.tol, parameters.max_iter, None, self._report_half_turn
        )

    def start(self) -> TurnState:
        """Label the unlabeled rows by their side of the plane, as many as the ratio allows."""
        problem, task = self._problem, self._task
        problem.set_unlabeled_cost(self._cost)
        if is_mixed(task):
            if self._by_ratio:
                problem.assign(self._w, task.nearest_count)
            else:
                problem.assign_sides(self._w)
            return self._turns.at(self._w, DESCENT_GAP)
        problem.assign(self._w, task.n_positive)
        return self._turns.at(self._w, self._tol)

    def restore(self, state: TurnState) -> TurnState:
        """Bring labels and outputs back."""
        return self._turns.restored(state)

    def advance(self, state: TurnState) -> TurnState:
        """Make a turn; where all rows have one label there is nothing to switch."""
        if is_mixed(self._task):
            return self._turns.turn(state, to_tol=True)
        return replace(self._turns.retrained(state), done=True)

    def finish(self, state: TurnState) -> BinarySolution:
        """Return the weights, with the objective of each unlabeled row on its own side."""
        value = self._problem.transductive_value(state.point)
        return BinarySolution(state.point.w, value, state.termination)

    def progress(self, state: TurnState) -> tuple[str, float | None]:
        """Say that it is the last part."""
        return "descent", None

    def _report_half_turn(
        self, event: str, point: Point, newton_steps: int, cg_steps: int, switches: int
    ) -> None:
        self.report(
            event=event,
            temperature=0.0,
            objective=point.value,
            entropy=0.0,
            evaluations=0,
            cg_steps=cg_steps,
            switches=switches,
        )


def is_mixed(task: BinaryTask) -> bool:
    """Whether unlabeled rows of both classes are expected."""
    return 0.0 < task.ratio < 1.0


def train_da(job: BinaryJob, parameters: DAParameters) -> BinarySolution:
    """Train one binary problem: cool, then descend on the objective itself."""
    engine, task, start = job.engine, job.task, job.start
    cooled = Cooled(start.w, Seed(0.0, start.w))
    if is_mixed(task):
        cooling = Cooling(engine, task, parameters, start)
        cooled = job.run(cooling, "cooling")
    descent = Descent(engine, task, parameters, cooled.w)
    solution = job.run(descent, "descent")
    seed = None
    if start.seeded and is_mixed(task):
        bias = float(parameters.fit_intercept)
        share = n_predicted_positive(engine, solution.w, bias) / task.n_unlabeled
        if is_balanced(share, task.ratio):  # one with all rows on one side leads nowhere
            seed = cooled.seed
    return replace(solution, n_iter=cooled.n_iter + solution.n_iter, seed=seed)
