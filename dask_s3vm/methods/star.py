"""STAR-SVM: self-training with adaptive regularization (Cheung & Li, Algorithms 1 and 2).

An SVM without offset is trained on the rows that have a label; of the others, those of extreme
output get one, for good; their losses count gamma^k as much as given labels' if it was stage k;
and so on until every row has a label. Each training starts from the last one's dual variables.

Where the paper as printed and its authors' program differ, this is the program:

* tau of Algorithm 1 is (labels assigned so far) / u_0, not 1 / u_0: the first stage takes the
  largest and the smallest output only, later ones more and more.
* C+ = 2 (1 - r) C and C- = 2 r C with r the share of positive rows (eq. 21 has r and 1 - r, with
  which the rare class would count less): a class counts more the rarer it is, and r = 1/2 changes
  nothing. Given labels are weighted so too, with gamma^0.

The paper has no offset. With balance="predictions" the linear kernel has a bias, regularized like
the other weights, and the threshold of the model is moved to where its predictions agree with the
ratio; without, all rows may lie on one side of the origin.

A training is skipped where the gap after the new rows have joined, known from their outputs alone
(eq. 15), is within the tolerance already. With gamma^k small that is soon the case: a late stage
then reads no row.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.methods.base import (
    ENDINGS,
    BinarySolution,
    BinaryTask,
    is_balanced,
    threshold_between,
)
from dask_s3vm.methods.blend import evidence, supervised_part
from dask_s3vm.methods.run import Method
from dask_s3vm.parameters.methods import STARParameters
from dask_s3vm.problems.dual import (
    GIVEN,
    Certificate,
    ColumnsOf,
    DualProblem,
    Extremes,
    KernelCache,
    KernelDual,
    squared_hinge_expansion,
)
from dask_s3vm.problems.sharded_dual import ShardedDual

#: Gap, as a part of the objective, at which stages before the last are left where a training takes
#: rounds over the rows; on exact columns all are trained to `tol`.
STAGE_GAP = 1e-2

#: min_share=None is 0 up to so many unlabeled rows, and beyond them this share.
MANY_ROWS = 10_000
MANY_SHARE = 0.01


def class_costs(C: float, ratio: float, weighting: str) -> tuple[float, float]:
    """Return (C+, C-) for a share `ratio` of positive rows."""
    if weighting == "none":
        return C, C
    if weighting == "printed":  # eq. (21), made neutral at 1/2
        ratio = 1.0 - ratio
    return 2.0 * (1.0 - ratio) * C, 2.0 * ratio * C


@dataclass(frozen=True)
class SelfTrainingState:
    """Between two stages.

    extremes : outputs of the rows that wait for a label; None when there are none.
    n_unlabeled : rows that waited at the beginning.
    stage : number of the last stage; 0 is the training on given labels.
    before : rows that waited before each stage; one more than there are for given labels.
    worst : the worst way in which a training ended.
    last : how good the last solution is.
    rows : the dual variables, when they were collected for a checkpoint.
    """

    extremes: Extremes | None
    n_unlabeled: int
    stage: int
    before: list[int]
    worst: str
    last: Certificate
    rows: Any = None

    @property
    def done(self) -> bool:
        """Whether every row has a label."""
        return self.extremes is None


@dataclass(frozen=True)
class StarSolution(BinarySolution):
    """What self-training found. `w` are weights, or an expansion by rows.

    labels : +1 or -1 of each row; 0 for rows of weight 0 without a label.
    stages : stage in which a row got its label; 0 given, below 0 never.
    ranking : label times the number of rows that had none before that stage (u_0 + 1 if given).
    gap : duality gap of the last training.
    offset : to be added to outputs of an expansion by rows.
    """

    labels: np.ndarray
    stages: np.ndarray
    ranking: np.ndarray
    gap: float
    offset: float = field(default=0.0, kw_only=True)


class SelfTraining(Method[SelfTrainingState, StarSolution]):
    """Algorithm 2, for one binary problem.

    Parameters
    ----------
    problem : rows with given labels in training, all others waiting.
    costs : (C+, C-).
    parameters : see `estimators.STARSVM`.
    task : what the predictions of an expansion by rows are to agree with; None: nothing.
    beside : expansion by rows of the supervised model that is added to the one found; None: none.
    part : how much of it; None if the rows are to tell.
    labels_alone : whether to end with the training on given labels.
    """

    State = SelfTrainingState
    Result = StarSolution
    starting = "given labels"
    costly = True  # dual variables are many

    def __init__(
        self,
        problem: DualProblem,
        costs: tuple[float, float],
        parameters: STARParameters,
        task: BinaryTask | None = None,
        beside: np.ndarray | None = None,
        part: float | None = None,
        labels_alone: bool = False,
    ) -> None:
        self._problem = problem
        self._beside = beside
        self._part = part
        self._task = task
        self._labels_alone = labels_alone
        self._costs = costs
        self._parameters = parameters
        self._stage_tol = parameters.tol
        if problem.takes_rounds:
            self._stage_tol = max(parameters.tol, STAGE_GAP)

    def start(self) -> SelfTrainingState:
        """Train on the given labels."""
        n_unlabeled = self._problem.n_waiting
        last_one = self._labels_alone or not n_unlabeled
        tol = self._parameters.tol if last_one else self._stage_tol
        left, worst, last = self._solved("converged", tol)
        if self._labels_alone:
            left = None
        state = SelfTrainingState(left, n_unlabeled, 0, [n_unlabeled + 1], worst, last)
        self._report_stage(state, (0, 0), 0.0)
        return state

    def advance(self, state: SelfTrainingState) -> SelfTrainingState:
        """Label some rows, and train again where that is needed."""
        problem, parameters, extremes = self._problem, self._parameters, state.extremes
        assert extremes is not None, "there are rows without a label"
        stage, before, worst = state.stage + 1, [*state.before, problem.n_waiting], state.worst
        share = self._keep_from(extremes, state.n_unlabeled)
        above, below = share * extremes.high, share * extremes.low
        if stage == parameters.max_stages:
            above, below = -np.inf, np.inf
            worst = max(worst, "max_stages", key=ENDINGS.index)
        weight = parameters.confidence**stage
        new = problem.accept(above, below, weight * self._costs[0], weight * self._costs[1], stage)
        last = state.last
        last = replace(last, primal=last.primal + new.loss, gap=last.gap + new.loss, steps=0)
        left: Extremes | None = new.left
        if not problem.n_waiting:
            left, worst, last = self._solved(worst, parameters.tol, fresh=True)
        elif last.gap > self._stage_tol * last.primal:
            left, worst, last = self._solved(worst, self._stage_tol)
        state = SelfTrainingState(left, state.n_unlabeled, stage, before, worst, last)
        self._report_stage(state, new[:2], 1.0 - share)
        return state

    def finish(self, state: SelfTrainingState) -> StarSolution:
        """Return weights and labels."""
        labels, stages = self._problem.labels()
        size = np.append(state.before, 0)[np.maximum(stages, -1)]  # the last entry: never labeled
        w, offset, part = self._settled(self._problem.solution(), labels, stages)
        return StarSolution(
            w,
            state.last.primal,
            state.worst,
            labels,
            stages,
            labels * size,
            state.last.gap,
            offset=offset,
            supervised_part=part,
        )

    def _settled(
        self, w: np.ndarray, labels: np.ndarray, stages: np.ndarray
    ) -> tuple[np.ndarray, float, float]:
        """Balance an expansion by rows, and add the supervised one: (expansion, offset, its part).

        As the estimator does with weights.
        """
        problem, task, free = self._problem, self._task, stages > GIVEN
        if not isinstance(problem, KernelDual):
            return w, 0.0, 0.0
        own = problem.outputs_of(w)
        offset = 0.0 if task is None else balanced_offset(own[free], task)
        if self._beside is None:
            return w, offset, 0.0
        alone, part = task is not None and not task.competes, self._part
        both, offsets = np.stack([own, problem.outputs_of(self._beside)]), np.array([offset, 0.0])
        if part is None:
            targets = np.where(stages == GIVEN, labels, 0)
            found = evidence(both + offsets[:, None], targets, problem.weights)
            if task is not None and alone and not is_balanced(found.share, task.ratio):
                offsets[1] = balanced_offset(both[1, free], replace(task, to_ratio=False))
                found = evidence(both + offsets[:, None], targets, problem.weights)
            part = supervised_part(found, task is not None and task.competes)
        blend = part * self._beside + (1.0 - part) * w
        own, beside = both + offsets[:, None]
        offset = part * offsets[1] + (1.0 - part) * offset
        if task is not None and alone:
            blended = (part * beside + (1.0 - part) * own)[free]
            offset += balanced_offset(blended, replace(task, to_ratio=False))
        return blend, float(offset), part

    def collect(self, state: SelfTrainingState) -> SelfTrainingState:
        """Fetch the dual variables. Costs: 1 round; some 40 bytes a row to the client."""
        return replace(state, rows=self._problem.state())

    def restore(self, state: SelfTrainingState) -> SelfTrainingState:
        """Put the dual variables back."""
        self._problem.resume_from(state.rows)
        return replace(state, rows=None)

    def progress(self, state: SelfTrainingState) -> tuple[str, float | None]:
        """Number of the stage; the total is unknown."""
        return f"stage {state.stage + 1}", None

    def _keep_from(self, extremes: Extremes, n_unlabeled: int) -> float:
        """1 - tau of Algorithm 1, or less, so that the least share of the rows is taken."""
        problem, least = self._problem, self._parameters.min_share
        if least is None:
            least = 0.0 if n_unlabeled <= MANY_ROWS else MANY_SHARE
        share = 1.0 - (n_unlabeled - problem.n_waiting) / n_unlabeled
        wanted = min(math.ceil(least * n_unlabeled), problem.n_waiting)
        return min(share, problem.confidence(wanted, extremes)) if wanted > 0 else share

    def _solved(
        self, worst: str, tol: float, fresh: bool = False
    ) -> tuple[Extremes | None, str, Certificate]:
        """Train, and look at the rows that wait."""
        problem = self._problem
        last = problem.solve(tol, self._parameters.max_iter, fresh=fresh)
        worst = max(worst, last.termination, key=ENDINGS.index)
        return (problem.score() if problem.n_waiting else None), worst, last

    def _report_stage(self, state: SelfTrainingState, counts: tuple[int, int], tau: float) -> None:
        self.report(
            stage=state.stage,
            tau=tau,
            n_positive=counts[0],
            n_negative=counts[1],
            n_waiting=self._problem.n_waiting,
            objective=state.last.primal,
            gap=state.last.gap,
            steps=state.last.steps,
        )


def balanced_offset(outputs: np.ndarray, task: BinaryTask) -> float:
    """What to add to the outputs of the unlabeled rows for a share that agrees with the ratio."""
    n, size = int(np.count_nonzero(outputs > 0)), len(outputs)
    wanted = min(task.nearest_count(n), size)
    if wanted == n:
        return 0.0
    falling = np.sort(outputs)[::-1]
    last, first = falling[max(wanted - 1, 0)], falling[min(wanted, size - 1)]
    return -threshold_between(float(last), float(first), wanted, size)


def earliest_class(trained: list[StarSolution]) -> np.ndarray:
    """Class of each row by section III-D; -1 for rows that no training labeled.

    The one whose training labeled it positive in the earliest stage; if none did, the one that
    labeled it negative in the latest. Where stages tie, by ranking score, then by class number.
    """
    stages = np.stack([one.stages for one in trained])
    labels = np.stack([one.labels for one in trained])
    last = int(stages.max()) + 1
    order = np.where(labels > 0, 2 * last - stages, stages)
    ranking = np.stack([one.ranking for one in trained]).astype(np.float64)
    ranking[order < order.max(axis=0)] = -np.inf
    return np.where(stages[0] < GIVEN, -1, ranking.argmax(axis=0))


# One class against the others ---------------------------------------------------------------------


class DualProblems(Protocol):
    """Makes the dual problems of a fit."""

    def of_class(self, positive: int, costs: tuple[float, float]) -> DualProblem:
        """Make the problem of one class against the others, of (C+, C-)."""
        ...


class ShardedProblems:
    """On rows, or features of rows, in shards."""

    def __init__(self, engine: Engine, n_classes: int, bias: bool) -> None:
        self._engine = engine
        self._n_classes = n_classes
        self._bias = bias

    def of_class(self, positive: int, costs: tuple[float, float]) -> DualProblem:
        """See `DualProblems`."""
        by_class = np.full(self._n_classes, costs[1])
        by_class[positive] = costs[0]
        return ShardedDual(self._engine, positive, by_class, self._bias)


class ExactProblems:
    """On columns of the exact kernel in this process, which all classes share."""

    def __init__(self, engine: Engine, columns: ColumnsOf, diagonal: np.ndarray) -> None:
        self._cache = KernelCache(columns, diagonal)
        self._codes, self._weights = class_codes(engine)

    def of_class(self, positive: int, costs: tuple[float, float]) -> DualProblem:
        """See `DualProblems`."""
        codes, weights = self._codes, self._weights
        target = np.where(codes < 0, 0, np.where(codes == positive, 1, -1))
        cost = np.where(target > 0, *costs) * (1.0 if weights is None else weights)
        return KernelDual(self._cache, target, cost, weights)

    def supervised(self, task: BinaryTask, lam: float) -> np.ndarray:
        """Expansion by rows of `L2SVM` with this kernel."""
        weights = 1.0 if self._weights is None else self._weights
        cost = np.where(self._codes < 0, 0.0, task.costs[self._codes]) * weights
        target = np.where(self._codes == task.positive, 1.0, -1.0)
        return squared_hinge_expansion(self._cache, target, cost, lam)


def class_codes(engine: Engine) -> tuple[np.ndarray, np.ndarray | None]:
    """Class numbers and sample weights of all rows. Costs: 1 round; up to 12 bytes a row."""
    found = engine.each(take_codes)
    codes = np.concatenate([one[0] for one in found])
    if found[0][1] is None:
        return codes, None
    return codes, np.concatenate([one[1] for one in found])


def take_codes(shard: Shard) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(class numbers, sample weights) of a shard."""
    return shard.codes, shard.weights
