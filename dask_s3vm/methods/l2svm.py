"""l2-SVM-MFN: supervised linear SVM by modified finite Newton (Sindhwani & Keerthi, 1.2).

A sequence of `lam` is walked with each solution as the seed of the next. More than two classes
are one-vs-rest problems over the same resident rows.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, History, LinearSolution, collect
from dask_s3vm.problems.l2svm import L2SVMProblem
from dask_s3vm.solvers.newton import finite_newton


@dataclass(frozen=True)
class L2SVMSettings:
    """Parameters of a solve: see `estimators.L2SVM`."""

    fit_intercept: bool
    tol: float
    max_iter: int


def train_l2svm(
    engine: Engine,
    costs: np.ndarray,
    lams: Sequence[float],
    settings: L2SVMSettings,
    start: np.ndarray | None,
    history: History,
) -> list[LinearSolution]:
    """Train for every lam in turn.

    Parameters
    ----------
    engine : rows with class numbers.
    costs : cost of a row by its class.
    lams : weights of the regulariser, in the order in which they are walked.
    settings : tolerances.
    start : (k, d + 1) weights to start from, or None for zeros.
    history : takes one row per Newton step.
    """
    positives = [1] if len(costs) == 2 else list(range(len(costs)))
    paths = []
    for problem_number, positive in enumerate(positives):
        w = np.zeros(engine.layout.n_features + 1)
        if start is not None:
            w = engine.layout.to_internal(start[problem_number])
        paths.append(_walk(engine, positive, costs, lams, settings, w, history))
    return [collect(engine, [path[i] for path in paths]) for i in range(len(lams))]


def _walk(
    engine: Engine,
    positive: int,
    costs: np.ndarray,
    lams: Sequence[float],
    settings: L2SVMSettings,
    w: np.ndarray,
    history: History,
) -> list[BinarySolution]:
    """Solve one binary problem for every lam, each seeded with the last."""
    problem = L2SVMProblem(engine, lams[0], positive, costs, settings.fit_intercept)
    solved = []
    for lam in lams:
        problem.lam = lam
        start = problem.step(lambda w=w: problem.evaluate(w))  # type: ignore[misc]
        labels = {"class": positive, "lam": lam}
        result = finite_newton(
            problem,
            start,
            settings.tol,
            settings.max_iter,
            lambda step, labels=labels: history.add(labels | asdict(step)),  # type: ignore[misc]
        )
        w = result.point.w
        solved.append(BinarySolution(w, result.point.value, result.n_iter, result.termination))
    return solved
