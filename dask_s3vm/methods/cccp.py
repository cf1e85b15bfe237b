"""S3VM with the ramp loss by the concave-convex procedure (Collobert et al. 2006).

The labeled rows alone are trained on first. Then, in turn: unlabeled rows get the label of their
output, or none where that is small, by which the concave part of the objective becomes linear; the
convex problem that is left is solved. The objective falls in each outer iteration, which is one
such turn, and the procedure ends when no label changes.

Convex problems before the last are solved until the gap is a tenth of what was gained: the next
labels are not worth more. Problem and solver: see `problems.ramp`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinaryJob, BinarySolution, BinaryTask, Start
from dask_s3vm.methods.run import Method
from dask_s3vm.parameters.methods import CCCPParameters
from dask_s3vm.problems.ramp import RampProblem

#: Relative gap to which the labeled rows alone are solved: they give the first labels.
FIRST_GAP = 1e-2

#: Most turns. Never reached where it was looked for; it keeps a fit from hanging.
MAX_TURNS = 1000


@dataclass(frozen=True)
class CCCPState:
    """Between two turns.

    w : (d + 1,) weights.
    value : the objective there, over 2 lam.
    n_turns : turns made.
    tight : whether the next convex problem is solved to the end: no label has changed.
    termination : of the last convex problem.
    rows : labels and dual variables, when they were collected for a checkpoint.
    """

    w: np.ndarray
    value: float
    n_turns: int
    tight: bool
    termination: str
    done: bool
    rows: Any = None


class CCCPTraining(Method[CCCPState, BinarySolution]):
    """One binary problem.

    Parameters
    ----------
    engine, task : see `tsvm.TSVMTraining`.
    parameters : see `estimators.CCCPS3VM`.
    start : weights to take the first labels from; zeros for those of the labeled rows alone.
    """

    State = CCCPState
    Result = BinarySolution
    starting = "labeled rows alone"
    costly = True  # dual variables are many

    def __init__(
        self, engine: Engine, task: BinaryTask, parameters: CCCPParameters, start: Start
    ) -> None:
        self._parameters = parameters
        self._start = start
        self._scale = 2.0 * float(parameters.lam)
        self._problem = RampProblem(
            engine,
            task.positive,
            task.costs / self._scale,
            float(parameters.lam_unlabeled) / task.unlabeled_weight / self._scale,
            -parameters.ramp,
            2.0 * task.ratio - 1.0 if parameters.fit_intercept else None,
        )

    def start(self) -> CCCPState:
        """Train on the labeled rows, and give every other row its first label."""
        problem, w = self._problem, self._start.w[:-1]
        gap, steps = 0.0, 0
        if not w.any():
            problem.labeled_rows_alone()
            found = problem.solve(
                max(FIRST_GAP, self._parameters.tol), -np.inf, self._parameters.max_iter
            )
            gap, steps, w = found.gap, found.steps, problem.w[:-1]
        problem.with_unlabeled_rows()
        problem.w = w = problem.weights(w)
        value, changes = problem.relabel()
        self._report_turn(0, value, gap, steps, changes)
        return CCCPState(w, value, 0, False, "converged", False)

    def advance(self, state: CCCPState) -> CCCPState:
        """Solve for the present labels, then label again."""
        problem, parameters = self._problem, self._parameters
        before = -np.inf if state.tight else state.value
        found = problem.solve(parameters.tol, before, parameters.max_iter)
        w = problem.w
        value, changes = problem.relabel()
        number, termination = state.n_turns + 1, found.termination
        solved = found.gap <= parameters.tol * found.primal or termination != "converged"
        if not value < state.value:  # what is left to gain is less than the gap
            w, value, solved, changes = state.w, state.value, True, 0
        self._report_turn(number, value, found.gap, found.steps, changes)
        if number == MAX_TURNS:
            termination = "max_iter"
        done = (solved and not changes) or number == MAX_TURNS
        return CCCPState(w, value, number, not changes, termination, done)

    def finish(self, state: CCCPState) -> BinarySolution:
        """Return the weights."""
        return BinarySolution(state.w, self._scale * state.value, state.termination)

    def collect(self, state: CCCPState) -> CCCPState:
        """Fetch labels and dual variables. Costs: 1 round; 25 bytes a row to the client."""
        return replace(state, rows=self._problem.state())

    def restore(self, state: CCCPState) -> CCCPState:
        """Put labels and dual variables back."""
        self._problem.resume_from(state.rows)
        return replace(state, rows=None)

    def progress(self, state: CCCPState) -> tuple[str, float | None]:
        """Number of the turn; the total is unknown."""
        return f"turn {state.n_turns + 1}", None

    def _report_turn(self, number: int, value: float, gap: float, steps: int, changes: int) -> None:
        self.report(
            iteration=number,
            objective=self._scale * value,
            gap=self._scale * gap,
            steps=steps,
            changes=changes,
        )


def train_cccp(job: BinaryJob, parameters: CCCPParameters) -> BinarySolution:
    """Train one binary problem."""
    return job.run(CCCPTraining(job.engine, job.task, parameters, job.start))
