"""l2-SVM-MFN: supervised linear SVM by modified finite Newton (Sindhwani & Keerthi, 1.2).

A sequence of `lam` is walked with each solution as the seed of the next. More than two classes
are one-vs-rest problems over the same resident rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import (
    BinarySolution,
    History,
    LinearSolution,
    collect,
    solved_once,
)
from dask_s3vm.problems.l2svm import L2SVMProblem
from dask_s3vm.problems.quadratic import QuadraticProblem
from dask_s3vm.solvers.newton import (
    FAR,
    NEAR,
    NewtonResult,
    NewtonState,
    NewtonStep,
    finite_newton,
    go_on,
)


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
    lams : weights of the regularizer, in the order in which they are walked.
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
    for number, lam in enumerate(lams):
        problem.lam = lam
        name = f"class {positive}, lam {number}"
        begun = w
        solution = solved_once(
            history,
            name,
            lambda: _solve(problem, positive, begun, settings, name, history),  # noqa: B023
        )
        w = solution.w
        solved.append(solution)
    return solved


def _solve(
    problem: L2SVMProblem,
    positive: int,
    w: np.ndarray,
    settings: L2SVMSettings,
    name: str,
    history: History,
) -> BinarySolution:
    """Solve for the lam that the problem has, from w or from a state that was kept."""
    labels = {"class": positive, "lam": problem.lam}
    result = resumable_newton(
        problem,
        w,
        settings.tol,
        settings.max_iter,
        lambda step: history.add(labels | asdict(step)),
        f"{name}/newton",
        history,
    )
    return BinarySolution(result.point.w, result.point.value, result.n_iter, result.termination)


def resumable_newton(
    problem: QuadraticProblem,
    w: np.ndarray,
    tol: float,
    max_iter: int,
    on_step: Callable[[NewtonStep], None],
    name: str,
    history: History,
) -> NewtonResult:
    """Minimize from w, or from the state of this name; each step is kept."""

    def keep(state: NewtonState) -> None:
        history.keep(name, vars(state) | {"point": state.point.state()})

    forcing = NEAR if w.any() else FAR
    kept = history.kept(name)
    if kept is None:
        start = problem.evaluate(w)
        return finite_newton(problem, start, tol, max_iter, on_step, forcing=forcing, on_state=keep)
    state = NewtonState(**(kept | {"point": problem.restored(kept["point"])}))
    return go_on(problem, state, tol, max_iter, on_step, forcing=forcing, on_state=keep)
