"""QN-S3VM: quasi-Newton steps on a smooth objective (Gieseke et al., Algorithm 1).

The weight of the unlabeled rows rises in stages, the first of which is the supervised problem;
each is minimized by L-BFGS from the last one's minimum, whose value and gradient for the new
weight need no pass over the unlabeled rows. Stages before the last are solved less accurately.

A stage begins along its own gradient. The pairs of the stage before know nothing of the new
weight of the unlabeled rows, whose loss is not convex: with them, first steps are long and
lead away from the minimum that is being followed.
"""

import time
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask
from dask_s3vm.methods.seeds import Seeds
from dask_s3vm.problems.smooth import SmoothProblem
from dask_s3vm.solvers.cg import norm
from dask_s3vm.solvers.lbfgs import LBFGSResult, Memory, memory_size, minimize

#: Parts of lam_unlabeled, stage by stage (section 4.1.4 of the paper; 0 is line 1 of Algorithm 1).
STAGES = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0)

#: Relative decrease at which stages before the last end.
LOOSE = 1e-5

#: Steps of the last stage, at least.
LEAST_STEPS = 3

#: Largest growth of that weight at which the value for the next follows from the last; rounding
#: errors grow with it.
MOST_AT_ONCE = 1e3


@dataclass(frozen=True)
class QNSettings:
    """Parameters of a solve: see `estimators.QNS3VM`. `offset`: see `problems.smooth`."""

    lam: float
    lam_unlabeled: float
    stages: tuple[float, ...]
    offset: str
    tol: float
    gtol: float
    max_iter: int


def train_qn(
    engine: Engine,
    task: TransductiveTask,
    settings: QNSettings,
    start: np.ndarray | None,
    history: History,
    seeds: Seeds | None = None,
) -> BinarySolution:
    """Train one binary problem; see `tsvm.train_tsvm` for the parameters.

    `history` takes one row per evaluation.
    """
    problem = SmoothProblem(
        engine,
        settings.lam,
        task.positive,
        task.costs,
        task.unlabeled_weight,
        settings.offset,
        2.0 * task.ratio - 1.0,
    )
    x = np.zeros(problem.size) if start is None else problem.variables(start)
    if seeds is not None:
        x = seeds.get(task.positive, x)
    memory = Memory(memory_size(problem.size), problem.size)
    report = _Report(history, task.positive)
    last, loose = len(settings.stages) - 1, max(LOOSE, settings.tol)
    result: LBFGSResult | None = None
    name, first = f"class {task.positive}/stages", 0
    kept = history.kept(name)
    if kept is not None:
        first, memory.scale = kept["next"], kept["memory_scale"]
        result = LBFGSResult(**kept["result"])
        x = result.x
        report.begin(first - 1, kept["lam_u"])
        report.n_evaluations = kept["n_evaluations"]

    def is_flat(value: float, gradient: np.ndarray) -> bool:
        return float(np.abs(gradient).max()) <= settings.gtol

    for number, part in enumerate(settings.stages[first:], start=first):
        before, lam_u = report.lam_u, part * settings.lam_unlabeled
        report.begin(number, lam_u)
        known = None
        if result is not None and before > 0.0 and lam_u <= MOST_AT_ONCE * before:
            known = problem.reweighed(x, result.value, result.gradient, before, lam_u)
            report.evaluated(*known)

        def evaluate(x: np.ndarray, lam_u: float = lam_u) -> tuple[float, np.ndarray]:
            value, gradient = problem.evaluate(x, lam_u)
            report.evaluated(value, gradient)
            return value, gradient

        tol, least = (settings.tol, LEAST_STEPS) if number == last else (loose, 0)
        result = minimize(evaluate, x, memory, tol, is_flat, settings.max_iter, known, least)
        x = result.x
        if seeds is not None and part == 0.0:
            seeds[task.positive] = x
        state = {
            "next": number + 1,
            "memory_scale": memory.scale,
            "result": vars(result),
            "lam_u": lam_u,
            "n_evaluations": report.n_evaluations,
        }
        history.keep(name, state)
    assert result is not None, "there is at least one stage"
    return BinarySolution(
        problem.weights(x), result.value, report.n_evaluations, result.termination
    )


class _Report:
    """Rows of the history: what an evaluation found, and when."""

    def __init__(self, history: History, positive: int) -> None:
        self.n_evaluations = 0
        self._history = history
        self._positive = positive
        self._stage = 0
        self.lam_u = 0.0
        self._began = time.perf_counter()

    def begin(self, stage: int, lam_u: float) -> None:
        """Begin a stage."""
        self._stage, self.lam_u = stage, lam_u

    def evaluated(self, value: float, gradient: np.ndarray) -> None:
        """Add a row; seconds are those since the last one."""
        now = time.perf_counter()
        self.n_evaluations += 1
        self._history.add(
            {
                "class": self._positive,
                "stage": self._stage,
                "lam_unlabeled": self.lam_u,
                "evaluations": self.n_evaluations,
                "objective": value,
                "gradient": norm(gradient),
                "seconds": now - self._began,
            }
        )
        self._began = now
