"""l2-SVM-MFN: supervised linear SVM by modified finite Newton (Sindhwani & Keerthi, 1.2).

One outer iteration is one Newton step; see `solvers.newton`.
"""

from dataclasses import replace

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinaryJob, BinarySolution, BinaryTask, Start
from dask_s3vm.methods.run import Method, Record
from dask_s3vm.problems.hinge import L2SVMProblem, QuadraticProblem
from dask_s3vm.problems.manifold import ManifoldProblem, Smoothness
from dask_s3vm.solvers.newton import NEAR, FiniteNewton, NewtonState


class NewtonTraining(Method[NewtonState, BinarySolution]):
    """Newton steps to the minimum of a piecewise quadratic problem.

    Parameters
    ----------
    problem : what to minimize.
    w : weights to start from.
    tol, max_iter : relative gap of the objective at which to stop; most Newton steps.
    in_detail : whether each step is a row of the history, or the whole training is one.
    """

    State = NewtonState
    Result = BinarySolution

    def __init__(
        self,
        problem: QuadraticProblem,
        w: np.ndarray,
        tol: float,
        max_iter: int,
        in_detail: bool = True,
    ) -> None:
        self._problem = problem
        self._w = w
        self._newton = FiniteNewton(problem, tol, max_iter, NEAR if w.any() else None)
        self._in_detail = in_detail

    def start(self) -> NewtonState:
        """Evaluate the weights to start from."""
        return self._newton.start(self._problem.evaluate(self._w))

    def restore(self, state: NewtonState) -> NewtonState:
        """Evaluate the point that was reached."""
        return replace(state, point=self._problem.restored(state.point))

    def advance(self, state: NewtonState) -> NewtonState:
        """Make one Newton step."""
        state, step = self._newton.advance(state)
        if self._in_detail and step is not None:
            self.report(**vars(step))
        return state

    def finish(self, state: NewtonState) -> BinarySolution:
        """Return the minimum."""
        point = state.point
        if not self._in_detail:
            self.report(
                event="train",
                svm_objective=point.value,
                newton_steps=state.n_iter,
                cg_steps=state.cg_steps,
            )
        # the problem is convex: the next smaller lam starts where this one ended
        return BinarySolution(
            point.w, point.value, state.termination, n_iter=state.n_iter, seed=point.w
        )

    def progress(self, state: NewtonState) -> tuple[str, float | None]:
        """Number of the step; the total is unknown."""
        if not self._in_detail:
            return "SVM on the labels found", None
        return f"Newton step {state.n_iter + 1}", None


def train_l2svm(
    job: BinaryJob,
    *,
    lam: float,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    smoothness: Smoothness | None = None,
) -> BinarySolution:
    """Train one binary problem on the labeled rows; see `estimators.L2SVM` for the parameters.

    smoothness : how smooth outputs are to be along a graph of all rows (`estimators.LapSVM`).
    """
    given = job.engine, lam, job.task.positive, job.task.costs, fit_intercept
    problem = L2SVMProblem(*given) if smoothness is None else ManifoldProblem(*given, smoothness)
    start = job.start.w if job.start.seed is None else job.start.seed
    return job.run(NewtonTraining(problem, start, tol, max_iter), "newton")


def train_beside(
    engine: Engine, task: BinaryTask, *, lam: float, fit_intercept: bool, tol: float, max_iter: int
) -> BinarySolution:
    """Train on the labeled rows beside another method, whose history has no rows of this.

    See `estimators.L2SVM` for the parameters.
    """
    job = BinaryJob(engine, Record(), task, Start(np.zeros(engine.layout.n_features + 1)))
    return train_l2svm(job, lam=lam, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter)
