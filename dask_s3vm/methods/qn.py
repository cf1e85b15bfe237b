"""QN-S3VM: quasi-Newton steps on a smooth objective (Gieseke et al., Algorithm 1).

The weight of the unlabeled rows rises in stages, the first of which is the supervised problem;
each is minimized by L-BFGS from the last one's minimum, whose value and gradient for the new
weight need no pass over the unlabeled rows. Stages before the last are solved less accurately.
One outer iteration is one stage.

Eq. 13 fixes the mean output of the unlabeled rows, which is no share of positive ones where classes
are skewed. If the share of positive predictions is more than `CLOSE` off the ratio at the end, and
balance is not "paper", all stages are repeated, and before each of them the offset moves so that
the share of positive outputs is the ratio. Where both agree, eq. 13 finds lower objectives. Of
these stages the last one counts whose minimum still agrees with the ratio, or is nearest to that:
with rare positives and the full weight of the unlabeled rows, all outputs may shrink to their mean.

A stage begins along its own gradient. The pairs of the stage before know nothing of the new
weight of the unlabeled rows, whose loss is not convex: with them, first steps are long and
lead away from the minimum that is being followed.
"""

from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import (
    BinaryJob,
    BinarySolution,
    BinaryTask,
    Start,
    n_predicted_positive,
    ratio_threshold,
)
from dask_s3vm.methods.run import Method
from dask_s3vm.numerics.linalg import norm
from dask_s3vm.parameters.methods import QNParameters
from dask_s3vm.problems.smooth import SmoothProblem
from dask_s3vm.solvers.lbfgs import LBFGSResult, Memory, memory_size, minimize

#: Relative decrease at which stages before the last end.
STAGE_TOL = 1e-5

#: Steps of the last stage, at least.
LEAST_STEPS = 3

#: Predictions may disagree with the ratio by this share of the unlabeled rows before the stages are
#: repeated: a small move of the bias is enough.
CLOSE = 0.02

#: Largest growth of that weight at which the value for the next follows from the last; rounding
#: errors grow with it.
MOST_AT_ONCE = 1e3


@dataclass(frozen=True)
class QNState:
    """Between two stages.

    x : variables.
    last : what the last stage found, or None before the first.
    lam_u : weight of the unlabeled rows in the last stage.
    n_stages : stages that are behind.
    n_evaluations : evaluations so far.
    memory_scale : of L-BFGS.
    supervised : variables of the stage without unlabeled rows, if there was one.
    level : b, where it is no variable.
    best_excess, best_value, best_w : the stage that counts, if one does by its share: rows that are
        predicted to be positive beyond what the ratio allows, or too few, the objective, weights.
    done : whether the last stage is behind.
    """

    x: np.ndarray
    last: LBFGSResult | None
    lam_u: float
    n_stages: int
    n_evaluations: int
    memory_scale: float | None
    supervised: np.ndarray | None
    level: float
    done: bool
    best_excess: int = -1
    best_value: float = 0.0
    best_w: np.ndarray | None = None


class QNTraining(Method[QNState, BinarySolution]):
    """One binary problem.

    Parameters
    ----------
    engine, task : see `tsvm.TSVMTraining`.
    parameters : see `estimators.QNS3VM`.
    start : weights to start from.
    stages : parts of `lam_unlabeled`, stage by stage.
    offset : see `problems.smooth`.
    by_share : whether a balanced offset follows the share of positive outputs.
    """

    State = QNState
    Result = BinarySolution

    def __init__(
        self,
        engine: Engine,
        task: BinaryTask,
        parameters: QNParameters,
        start: Start,
        stages: tuple[float, ...],
        offset: str,
        by_share: bool = False,
    ) -> None:
        self._problem = SmoothProblem(
            engine,
            parameters.lam,
            task.positive,
            task.costs,
            task.unlabeled_weight,
            offset,
            2.0 * task.ratio - 1.0,
        )
        self._engine, self._task = engine, task
        self._by_share = by_share
        self._parameters = parameters
        self._start = start
        self._stages = stages
        self._memory = Memory(memory_size(self._problem.size), self._problem.size)
        self._stage, self._lam_u, self._n_evaluations = 0, 0.0, 0

    def start(self) -> QNState:
        """Begin at the seed, at the weights of an earlier fit, or at zero."""
        x = self._start.seed
        if x is None:
            w = self._start.w
            x = self._problem.variables(w) if w.any() else np.zeros(self._problem.size)
        return QNState(x, None, 0.0, 0, 0, None, None, self._problem.level, False)

    def advance(self, state: QNState) -> QNState:
        """Minimize at the next weight of the unlabeled rows."""
        parameters, number = self._parameters, state.n_stages
        part = self._stages[number]
        is_last = number == len(self._stages) - 1
        self._stage, self._lam_u = number, part * float(parameters.lam_unlabeled)
        self._n_evaluations = state.n_evaluations
        self._memory.scale = state.memory_scale
        last, known = state.last, None
        self._problem.level = state.level
        if self._by_share and number > 0:
            self._problem.level -= self._threshold(state.x)
            last = None
        if last is not None and state.lam_u > 0.0 and self._lam_u <= MOST_AT_ONCE * state.lam_u:
            known = self._problem.reweighed(
                state.x, last.value, last.gradient, state.lam_u, self._lam_u
            )
            self._report_evaluation(*known)
        tol, least = max(STAGE_TOL, parameters.tol), 0
        if is_last:
            tol, least = parameters.tol, LEAST_STEPS
        found = minimize(
            self._evaluate,
            state.x,
            self._memory,
            tol,
            self._is_flat,
            parameters.max_iter,
            known,
            least,
        )
        best = state.best_excess, state.best_value, state.best_w
        if self._by_share and part > 0.0:
            w = self._problem.weights(found.x)
            n = n_predicted_positive(self._engine, w, 1.0)
            excess = abs(n - self._task.nearest_count(n))
            if state.best_w is None or excess <= state.best_excess:
                best = excess, found.value, w
        return QNState(
            found.x,
            found,
            self._lam_u,
            number + 1,
            self._n_evaluations,
            self._memory.scale,
            found.x if part == 0.0 else state.supervised,
            self._problem.level,
            is_last,
            *best,
        )

    def finish(self, state: QNState) -> BinarySolution:
        """Return the weights."""
        assert state.last is not None, "there is at least one stage"
        self._problem.level = state.level
        w, last = self._problem.weights(state.x), state.last
        value = last.value
        if state.best_w is not None:
            w, value = state.best_w, state.best_value
        return BinarySolution(w, value, last.termination, seed=state.supervised)

    def _threshold(self, x: np.ndarray) -> float:
        """Output above which the share of the unlabeled rows is the ratio."""
        task, w = self._task, self._problem.weights(x)
        return ratio_threshold(self._engine, w, 1.0, task.n_positive, task.n_unlabeled)

    def progress(self, state: QNState) -> tuple[str, float | None]:
        """Stages are known beforehand; the last one takes as long as it takes."""
        number, count = state.n_stages, len(self._stages)
        if self._by_share:
            return f"stage {number + 1} of {count}, again", None
        return f"stage {number + 1} of {count}", number / count if number + 1 < count else None

    def _evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._problem.evaluate(x, self._lam_u)
        self._report_evaluation(value, gradient)
        return value, gradient

    def _is_flat(self, value: float, gradient: np.ndarray) -> bool:
        return float(np.abs(gradient).max()) <= self._parameters.gtol

    def _report_evaluation(self, value: float, gradient: np.ndarray) -> None:
        self._n_evaluations += 1
        self.report(
            stage=self._stage,
            lam_unlabeled=self._lam_u,
            evaluation=self._n_evaluations,
            objective=value,
            gradient_norm=norm(gradient),
        )


def train_qn(job: BinaryJob, parameters: QNParameters) -> BinarySolution:
    """Train one binary problem; again where its predictions are far from the ratio."""
    engine, task, start = job.engine, job.task, job.start
    stages = tuple(float(part) for part in np.ravel(parameters.annealing))
    offset = parameters.offset if parameters.fit_intercept else "none"
    training = QNTraining(engine, task, parameters, start, stages, offset)
    solution = job.run(training, "mean")
    if offset != "balanced" or parameters.balance == "paper":
        return solution
    n = n_predicted_positive(engine, solution.w, 1.0)
    if abs(n - task.nearest_count(n)) <= CLOSE * task.n_unlabeled:
        return solution
    again = replace(start, seed=solution.seed)
    training = QNTraining(engine, task, parameters, again, stages, offset, by_share=True)
    return job.run(training, "share")


def train_supervised_qn(job: BinaryJob, parameters: QNParameters) -> BinarySolution:
    """Train on the labeled rows alone, without a seed; without other rows nothing is balanced."""
    offset = parameters.offset if parameters.fit_intercept else "none"
    if not job.task.unlabeled_weight and parameters.fit_intercept:
        offset = "free"
    start = replace(job.start, seed=None)
    return job.run(QNTraining(job.engine, job.task, parameters, start, (0.0,), offset))
