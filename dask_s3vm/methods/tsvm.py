"""TSVM with multiple switching (Sindhwani & Keerthi, section 1.3).

Labels for the unlabeled rows come from a supervised SVM, as many positive ones as
`positive_ratio` says. The cost of the unlabeled rows is then raised level by level; at each
level, retraining and switching of label pairs alternate until nothing switches. A switch lowers the
objective at the same w, retraining lowers it at the same labels: it ends after finitely many steps.

All levels but the last are solved very loosely: a sixth of the CG steps of exact levels. Either way
ends in one of many local minima, and neither in the better one as a rule: over four draws of labels
on 15 small problems of text and digits the mean ratio of objectives, loose over exact, was 0.96,
1.00, 1.01 and 1.02, single problems from 0.8 to 1.2; on large text both agree to 0.1 %. Levels at
which the weights would stay where they are cost nothing, see `_Run.rise_to`.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.alternation import Alternation
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask
from dask_s3vm.methods.seeds import Seeds
from dask_s3vm.problems.transductive import LabeledPart, TransductiveProblem
from dask_s3vm.solvers.newton import is_near

#: Cost of the unlabeled rows at the first level, and its growth from level to level.
FIRST_LEVEL = 1e-5
GROWTH = 1.3

#: Relative gap of the objective to which the labeled rows are solved before the first labels are
#: given, and at which levels before the last are left.
FIRST_GAP = 1e-2
LOOSE = 0.3


@dataclass(frozen=True)
class TSVMSettings:
    """Parameters of a solve: see `estimators.TSVM`."""

    lam: float
    lam_unlabeled: float
    max_switches: int | None
    fit_intercept: bool
    tol: float
    max_iter: int


def train_tsvm(
    engine: Engine,
    task: TransductiveTask,
    settings: TSVMSettings,
    start: np.ndarray | None,
    history: History,
    seeds: Seeds | None = None,
) -> BinarySolution:
    """Train one binary problem.

    Parameters
    ----------
    engine : rows with class numbers, -1 where unlabeled.
    task : what is positive, and how much everything counts.
    settings : parameters.
    start : (d + 1,) weights to start from, in internal order; None for zeros.
    history : takes one row per retraining and per switch.
    seeds : what solves for larger lam have left, see `methods.seeds`.
    """
    run = _Run(engine, task, settings, history)
    if not run.go_on():
        w = np.zeros(engine.layout.n_features + 1) if start is None else start
        if seeds is not None:
            w = seeds.get(task.positive, w)
        w = run.begin(w)
        if seeds is not None:
            seeds[task.positive] = w
    for number, (level, last) in enumerate(levels(settings.lam_unlabeled)):
        if number >= run.next_level:
            run.rise_to(level, last)
    return run.solution()


def levels(lam_unlabeled: float) -> Iterator[tuple[float, bool]]:
    """Costs of the unlabeled rows, rising to lam_unlabeled, and whether each is the last."""
    level = min(FIRST_LEVEL, lam_unlabeled)
    while level < lam_unlabeled:
        yield level, False
        level = min(GROWTH * level, lam_unlabeled)
    yield lam_unlabeled, True


class _Run:
    """One training under way."""

    def __init__(
        self, engine: Engine, task: TransductiveTask, settings: TSVMSettings, history: History
    ) -> None:
        problem = TransductiveProblem(
            engine, settings.lam, task.positive, task.costs, settings.fit_intercept
        )
        self._state = Alternation(problem, settings.tol, settings.max_iter)
        self._labeled: LabeledPart | None = None
        self._level = 0.0
        self.next_level = 0
        self._name = f"class {task.positive}/tsvm"
        self._task = task
        self._settings = settings
        self._history = history
        self._began = time.perf_counter()

    def begin(self, w: np.ndarray) -> np.ndarray:
        """Train on the labeled rows from w, and give every other row its first label.

        Returns the weights of that training.
        """
        state, problem = self._state, self._state.problem
        state.arrive_at(w)
        state.retrain(FIRST_GAP, self._report)
        w = state.point.w
        problem.assign(w, self._task.n_positive)
        first, _ = next(levels(self._settings.lam_unlabeled))
        problem.set_unlabeled_cost(self._cost(first))
        state.arrive_at(w)
        self._keep()
        return w

    def go_on(self) -> bool:
        """Go on from a state that was kept, if there is one."""
        kept = self._history.kept(self._name)
        if kept is None:
            return False
        self._state.go_on_from(kept["alternation"])
        self.next_level, self._level = kept["next_level"], kept["level"]
        if kept["gap"] is not None:
            self._settle(kept["gap"], kept["last"])
        return True

    def rise_to(self, level: float, last: bool) -> None:
        """Settle at a level.

        Where the point stays near enough to the minimum there is nothing to do: at the same
        weights nothing will switch. That is known without looking at the rows.
        """
        state, problem = self._state, self._state.problem
        point = state.point
        if self._labeled is None:
            self._labeled = problem.labeled_part(point)
        risen = problem.at_cost(point, self._labeled, self._cost(level))
        self.next_level += 1
        if not last and is_near(problem, risen, LOOSE):
            return
        problem.set_unlabeled_cost(self._cost(level))
        state.point, self._level, self._labeled = risen, level, None
        self._settle(LOOSE, last)

    def _settle(self, gap: float, last: bool) -> None:
        """Alternate at this level, from a gap on."""
        problem, most = self._state.problem, self._settings.max_switches
        self._state.settle(
            gap,
            last,
            lambda point: problem.switch(point, most),
            most is None,
            self._report,
            lambda gap: self._keep(gap, last),
        )
        self._keep()

    def _keep(self, gap: float | None = None, last: bool = False) -> None:
        """Keep the state between two levels, or within one, which goes on with a gap."""
        state = {
            "alternation": self._state.state(),
            "next_level": self.next_level,
            "level": self._level,
            "gap": gap,
            "last": last,
        }
        self._history.keep(self._name, state)

    def solution(self) -> BinarySolution:
        """What has been found."""
        state = self._state
        value = state.transductive_value()
        return BinarySolution(state.point.w, value, state.n_newton, state.termination)

    def _cost(self, level: float) -> float:
        """Cost of one unlabeled row."""
        return level / self._task.unlabeled_weight

    def _report(self, event: str, newton_steps: int, cg_steps: int, pairs: int) -> None:
        now = time.perf_counter()
        self._history.add(
            {
                "class": self._task.positive,
                "event": event,
                "level": self._level,
                "objective": self._state.point.value,
                "n_active": self._state.point.n_active,
                "newton_steps": newton_steps,
                "cg_steps": cg_steps,
                "switches": pairs,
                "seconds": now - self._began,
            }
        )
        self._began = now
