"""DA: deterministic annealing (Sindhwani & Keerthi, section 1.4).

Unlabelled rows are +1 with probability p. At a temperature T, w and p are improved in turn until p
rests; then T falls, until p is all but certain. The transductive objective is watched along the
way and the w of its minimum returned.

The solves for w are loose: what matters is that w follows p.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask
from dask_s3vm.problems.annealed import AnnealedProblem
from dask_s3vm.problems.base import Point
from dask_s3vm.solvers.newton import finite_newton, preconditioner
from dask_s3vm.solvers.root import increasing_root

#: First temperature, in units of lam_u, and the factor by which it falls.
FIRST_TEMPERATURE = 10.0
COOLING = 1.5

#: Most temperatures, and most (p, w) steps at one of them.
MAX_TEMPERATURES = 30
MAX_STEPS = 100

#: Mean KL divergence at which p rests, and mean entropy at which it is certain.
REST = 1e-6
CERTAIN = 1e-6

#: The solves along the path stop when the gradient has become this part of what it was.
LOOSE = 0.3


@dataclass(frozen=True)
class DASettings:
    """Parameters of a solve: see `estimators.DAS3VM`."""

    lam: float
    lam_unlabeled: float
    fit_intercept: bool
    tol: float
    max_iter: int


def train_da(
    engine: Engine,
    task: TransductiveTask,
    settings: DASettings,
    start: np.ndarray | None,
    history: History,
) -> BinarySolution:
    """Train one binary problem; see `tsvm.train_tsvm` for the parameters."""
    run = _Run(engine, task, settings, history)
    run.solve(np.zeros(engine.layout.n_features + 1) if start is None else start)
    temperature = FIRST_TEMPERATURE * settings.lam_unlabeled
    for _ in range(MAX_TEMPERATURES):
        if run.rest_at(temperature) < CERTAIN:
            break
        temperature /= COOLING
    run.finish()
    return BinarySolution(run.best_w, run.best_value, run.n_newton, run.termination)


class _Run:
    """One training under way."""

    def __init__(
        self, engine: Engine, task: TransductiveTask, settings: DASettings, history: History
    ) -> None:
        self.problem = AnnealedProblem(
            engine,
            settings.lam,
            task.positive,
            task.costs,
            settings.lam_unlabeled,
            task.unlabeled_weight,
            task.ratio,
            settings.fit_intercept,
        )
        self.best_w = np.zeros(0)
        self.best_value = math.inf
        self.n_newton = 0
        self.termination = "converged"
        self._point: Point
        self._nu = 0.0
        self._scale: np.ndarray | None = None
        self._task = task
        self._settings = settings
        self._history = history

    def rest_at(self, temperature: float) -> float:
        """Improve p and w in turn at one temperature until p rests; returns the entropy of p."""
        entropy = math.inf
        for _ in range(MAX_STEPS):
            began = time.perf_counter()
            divergence, entropy = self._update_beliefs(temperature)
            cg_steps = self.solve(self._point.w)
            self._report(temperature, divergence, entropy, cg_steps, began)
            if divergence < REST:
                break
        return entropy

    def finish(self) -> None:
        """Solve for the last p, which is all but certain, as accurately as was asked for."""
        began = time.perf_counter()
        cg_steps = self.solve(self._point.w, reduction=0.0)
        self._report(0.0, 0.0, 0.0, cg_steps, began)

    def _update_beliefs(self, temperature: float) -> tuple[float, float]:
        """p-step: the multiplier by a safeguarded Newton iteration, then p."""
        problem = self.problem

        def advance() -> tuple[float, tuple[float, float]]:
            point = problem.current(self._point)
            nu = self._find_multiplier(point, temperature)
            return nu, problem.believe(point, temperature, nu)

        self._nu, sums = problem.step(advance)
        return sums

    def _find_multiplier(self, point: Point, temperature: float) -> float:
        """nu with mean p = r; infinite where r is 0 or 1."""
        ratio = self._task.ratio
        if not 0.0 < ratio < 1.0:
            return math.copysign(math.inf, ratio - 0.5)

        def excess(nu: float) -> tuple[float, float]:
            mean, slope = self.problem.mean_belief(point, temperature, nu)
            return mean - ratio, slope

        return increasing_root(excess, self._nu, temperature, 1e-9 * min(ratio, 1.0 - ratio))

    def solve(self, w: np.ndarray, reduction: float | None = None) -> int:
        """w-step: solve for the present p, from w; returns the number of CG steps."""
        problem = self.problem
        start = problem.step(lambda: problem.evaluate(w))
        if self._scale is None:
            self._scale = problem.step(lambda: preconditioner(problem, start))
        result = finite_newton(
            problem,
            start,
            self._settings.tol,
            self._settings.max_iter,
            reduction=LOOSE if reduction is None else reduction,
            scale=self._scale,
        )
        self.n_newton += result.n_iter
        self._point, self.termination = result.point, result.termination
        self._value = problem.step(
            lambda: problem.transductive_value(problem.current(result.point))
        )
        if self._value < self.best_value:
            self.best_value, self.best_w = self._value, result.point.w
        return result.cg_steps

    def _report(
        self, temperature: float, divergence: float, entropy: float, cg_steps: int, began: float
    ) -> None:
        self._history.add(
            {
                "class": self._task.positive,
                "temperature": temperature,
                "objective": self._value,
                "divergence": divergence,
                "entropy": entropy,
                "n_active": self._point.n_active,
                "cg_steps": cg_steps,
                "seconds": time.perf_counter() - began,
            }
        )
