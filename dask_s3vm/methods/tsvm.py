"""TSVM with multiple switching (Sindhwani & Keerthi, section 1.3).

Labels for the unlabelled rows come from a supervised SVM, as many positive ones as
`positive_ratio` says. The cost of the unlabelled rows is then raised level by level; at each
level, retraining and switching of label pairs alternate until nothing switches. A switch lowers the
objective at the same w, retraining lowers it at the same labels: it ends after finitely many steps.

All levels but the last are solved loosely: only the last one's labels and weights are kept, and
each is the seed of the next.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask
from dask_s3vm.problems.transductive import TransductiveProblem
from dask_s3vm.solvers.newton import NewtonResult, finite_newton, preconditioner

#: Cost of the unlabelled rows at the first level, and its growth from level to level.
FIRST_LEVEL = 1e-5
GROWTH = 1.5

#: Relative gap of the objective at which levels before the last are left.
LOOSE = 1e-2


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
) -> BinarySolution:
    """Train one binary problem.

    Parameters
    ----------
    engine : rows with class numbers, -1 where unlabelled.
    task : what is positive, and how much everything counts.
    settings : parameters.
    start : (d + 1,) weights to start from, in internal order; None for zeros.
    history : takes one row per retraining and per switch.
    """
    run = _Run(engine, task, settings, history)
    w = np.zeros(engine.layout.n_features + 1) if start is None else start
    result = run.retrain(w, 0.0, settings.tol)
    run.assign(result.point.w, task.n_positive)
    for level, last in levels(settings.lam_unlabeled):
        result = run.settle(level, result.point.w, last)
    value = run.problem.step(
        lambda: run.problem.transductive_value(run.problem.current(result.point))
    )
    return BinarySolution(result.point.w, value, run.n_newton, result.termination)


def levels(lam_unlabeled: float) -> Iterator[tuple[float, bool]]:
    """Costs of the unlabelled rows, rising to lam_unlabeled, and whether each is the last."""
    level = min(FIRST_LEVEL, lam_unlabeled)
    while level < lam_unlabeled:
        yield level, False
        level = min(GROWTH * level, lam_unlabeled)
    yield lam_unlabeled, True


class _Run:
    """One training under way: the problem, and what is counted."""

    def __init__(
        self, engine: Engine, task: TransductiveTask, settings: TSVMSettings, history: History
    ) -> None:
        self.problem = TransductiveProblem(
            engine, settings.lam, task.positive, task.costs, settings.fit_intercept
        )
        self.n_newton = 0
        self._scale: np.ndarray | None = None
        self._task = task
        self._settings = settings
        self._history = history

    def assign(self, w: np.ndarray, n_positive: int) -> None:
        """Give every unlabelled row its first label."""
        self.problem.step(lambda: self.problem.assign(w, n_positive))
        self._scale = None  # from now on there are other rows in the problem

    def settle(self, level: float, w: np.ndarray, last: bool) -> NewtonResult:
        """Alternate retraining and switching at one level until nothing switches."""
        self.problem.set_unlabeled_cost(level / self._task.unlabeled_weight)
        tol = max(LOOSE, self._settings.tol)
        while True:
            result = self.retrain(w, level, tol)
            w = result.point.w
            if self._switch(result, level):
                continue
            if not last or tol <= self._settings.tol:
                return result
            tol = self._settings.tol  # nothing to switch at a rough solution: make it a fine one

    def retrain(self, w: np.ndarray, level: float, tol: float) -> NewtonResult:
        """Solve for the present labels, from w."""
        began = time.perf_counter()
        problem = self.problem
        start = problem.step(lambda: problem.evaluate(w))
        if self._scale is None:
            self._scale = problem.step(lambda: preconditioner(problem, start))
        result = finite_newton(problem, start, tol, self._settings.max_iter, scale=self._scale)
        self.n_newton += result.n_iter
        self._report("retrain", level, result, result.n_iter, result.cg_steps, 0, began)
        return result

    def _switch(self, result: NewtonResult, level: float) -> int:
        began = time.perf_counter()
        problem, most = self.problem, self._settings.max_switches
        pairs = problem.step(lambda: problem.switch(problem.current(result.point), most))
        self._report("switch", level, result, 0, 0, pairs, began)
        return pairs

    def _report(
        self,
        event: str,
        level: float,
        result: NewtonResult,
        newton_steps: int,
        cg_steps: int,
        pairs: int,
        began: float,
    ) -> None:
        self._history.add(
            {
                "class": self._task.positive,
                "event": event,
                "level": level,
                "objective": result.point.value,
                "n_active": result.point.n_active,
                "newton_steps": newton_steps,
                "cg_steps": cg_steps,
                "pairs": pairs,
                "seconds": time.perf_counter() - began,
            }
        )
