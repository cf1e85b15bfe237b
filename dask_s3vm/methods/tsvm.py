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
from dask_s3vm.methods.base import History
from dask_s3vm.problems.transductive import TransductiveProblem
from dask_s3vm.solvers.newton import NewtonResult, finite_newton

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
    positive_ratio: float
    max_switches: int | None
    fit_intercept: bool
    tol: float
    max_iter: int


@dataclass(frozen=True)
class TSVMSolution:
    """Weights of one binary problem in internal order, and how they were found."""

    w: np.ndarray
    objective: float
    n_iter: int
    n_switches: int
    termination: str


def train_tsvm(
    engine: Engine,
    positive: int,
    costs: np.ndarray,
    unlabeled_weight: float,
    n_unlabeled: int,
    settings: TSVMSettings,
    start: np.ndarray | None,
    history: History,
) -> TSVMSolution:
    """Train one binary problem.

    Parameters
    ----------
    engine : rows with class numbers, -1 where unlabelled.
    positive : the class number that is +1.
    costs : cost of a labelled row by its class.
    unlabeled_weight : total sample weight of the unlabelled rows.
    n_unlabeled : their number.
    settings, start, history : parameters, weights to start from, and a taker of reports.
    """
    run = _Run(engine, positive, costs, settings, history)
    w = np.zeros(engine.layout.n_features + 1) if start is None else start
    result = run.retrain(w, 0.0, settings.tol)
    n_positive = int(np.floor(settings.positive_ratio * n_unlabeled + 0.5))
    run.assign(result.point.w, n_positive)
    for level, last in levels(settings.lam_unlabeled):
        result = run.settle(level, level / unlabeled_weight, result.point.w, last)
    value = run.problem.step(
        lambda: run.problem.transductive_value(run.problem.current(result.point))
    )
    return TSVMSolution(result.point.w, value, run.n_newton, run.n_switches, result.termination)


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
        self,
        engine: Engine,
        positive: int,
        costs: np.ndarray,
        settings: TSVMSettings,
        history: History,
    ) -> None:
        self.problem = TransductiveProblem(
            engine, settings.lam, positive, costs, settings.fit_intercept
        )
        self.n_newton = 0
        self.n_switches = 0
        self._class = positive
        self._settings = settings
        self._history = history

    def assign(self, w: np.ndarray, n_positive: int) -> None:
        """Give every unlabelled row its first label."""
        self.problem.step(lambda: self.problem.assign(w, n_positive))

    def settle(self, level: float, cost: float, w: np.ndarray, last: bool) -> NewtonResult:
        """Alternate retraining and switching at one level until nothing switches."""
        self.problem.set_unlabeled_cost(cost)
        tol = self._settings.tol if last else max(LOOSE, self._settings.tol)
        loose = max(LOOSE, self._settings.tol)
        while True:
            result = self.retrain(w, level, loose)
            w = result.point.w
            pairs = self._switch(result, level)
            if pairs == 0 and last and tol < loose:
                loose = tol  # nothing to switch at a rough solution: look again at the fine one
                result = self.retrain(w, level, tol)
                w = result.point.w
                pairs = self._switch(result, level)
            if pairs == 0:
                return result

    def retrain(self, w: np.ndarray, level: float, tol: float) -> NewtonResult:
        """Solve for the present labels, from w."""
        began = time.perf_counter()
        start = self.problem.step(lambda: self.problem.evaluate(w))
        result = finite_newton(self.problem, start, tol, self._settings.max_iter)
        self.n_newton += result.n_iter
        self._history.add(
            {
                "class": self._class,
                "level": level,
                "event": "retrain",
                "pairs": 0,
                "objective": result.point.value,
                "n_active": result.point.n_active,
                "newton_steps": result.n_iter,
                "cg_steps": result.cg_steps,
                "seconds": time.perf_counter() - began,
            }
        )
        return result

    def _switch(self, result: NewtonResult, level: float) -> int:
        began = time.perf_counter()
        problem, most = self.problem, self._settings.max_switches
        pairs = problem.step(lambda: problem.switch(problem.current(result.point), most))
        self.n_switches += pairs
        self._history.add(
            {
                "class": self._class,
                "level": level,
                "event": "switch",
                "pairs": pairs,
                "objective": result.point.value,
                "n_active": result.point.n_active,
                "newton_steps": 0,
                "cg_steps": 0,
                "seconds": time.perf_counter() - began,
            }
        )
        return pairs
