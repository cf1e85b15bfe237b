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

A training is skipped where the gap after the new rows have joined, known from their outputs alone
(eq. 15), is within the tolerance already. With gamma^k small that is soon the case: a late stage
then reads no row.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.methods.base import History
from dask_s3vm.problems.dual import GIVEN, Certificate, DualProblem, Extremes
from dask_s3vm.problems.kernel_dual import ColumnsOf, KernelCache, KernelDual
from dask_s3vm.problems.sharded_dual import ShardedDual

#: How a fit may end, from good to bad.
ENDINGS = ("converged", "precision", "max_stages", "max_iter")

#: How classes are weighted; see `class_costs`.
WEIGHTINGS = ("minority", "printed", "none")


@dataclass(frozen=True)
class StarSettings:
    """Parameters of a fit: see `estimators.STARSVM`.

    tol, stage_tol : gaps at which the last training and those before it stop.
    """

    confidence: float
    tol: float
    stage_tol: float
    max_iter: int
    max_stages: int | None
    min_share: float = 0.0


@dataclass(frozen=True)
class Trained:
    """What self-training found.

    labels : +1 or -1 of each row; 0 for rows of weight 0 without a label.
    stages : stage in which a row got its label; 0 given, below 0 never.
    ranking : label times the number of rows that had none before that stage (u_0 + 1 if given).
    """

    labels: np.ndarray
    stages: np.ndarray
    ranking: np.ndarray
    certificate: Certificate
    n_stages: int
    termination: str


def class_costs(C: float, ratio: float, weighting: str) -> tuple[float, float]:
    """Return (C+, C-) for a share `ratio` of positive rows."""
    if weighting == "none":
        return C, C
    if weighting == "printed":  # eq. (21), made neutral at 1/2
        ratio = 1.0 - ratio
    return 2.0 * (1.0 - ratio) * C, 2.0 * ratio * C


def keep_from(
    problem: DualProblem, extremes: Extremes, n_assigned: int, n_unlabeled: int, min_share: float
) -> float:
    """1 - tau of Algorithm 1, or less, so that a share `min_share` of the rows is taken."""
    keep = 1.0 - n_assigned / n_unlabeled
    wanted = min(math.ceil(min_share * n_unlabeled), problem.n_waiting)
    return min(keep, problem.confidence(wanted, extremes)) if wanted > 0 else keep


def self_train(
    problem: DualProblem,
    costs: tuple[float, float],
    settings: StarSettings,
    history: History,
    positive: int,
) -> Trained:
    """Algorithm 2.

    Parameters
    ----------
    problem : rows with given labels in training, all others waiting.
    costs : (C+, C-).
    settings : parameters.
    history : takes one row per stage, numbered from 0: the training on given labels.
    positive : class number, for the history.
    """
    run = _Run(problem, settings, history, positive)
    if not run.go_on():
        run.begin()
    while run.extremes is not None:
        run.keep()
        run.advance(costs, run.extremes)
    return run.trained()


class _Run:
    """Self-training under way; kept between stages, not after every one of them."""

    def __init__(
        self, problem: DualProblem, settings: StarSettings, history: History, positive: int
    ) -> None:
        self.extremes: Extremes | None = None
        self._problem = problem
        self._settings = settings
        self._history = history
        self._positive = positive
        self._name = f"class {positive}/stages"
        self._n_unlabeled = problem.n_waiting
        self._tol = settings.stage_tol if problem.n_waiting else settings.tol
        self._stage = 0
        self._before = [self._n_unlabeled + 1]
        self._worst = "converged"
        self._last: Certificate

    def begin(self) -> None:
        """Train on the given labels."""
        began = time.perf_counter()
        self._solve(self._tol)
        self._report((0, 0), 0.0, began)

    def advance(self, costs: tuple[float, float], extremes: Extremes) -> None:
        """Label some rows, and train again where that is needed."""
        began = time.perf_counter()
        problem, settings = self._problem, self._settings
        self._stage += 1
        self._before.append(problem.n_waiting)
        assigned = self._n_unlabeled - problem.n_waiting
        keep = keep_from(problem, extremes, assigned, self._n_unlabeled, settings.min_share)
        above, below = keep * extremes.high, keep * extremes.low
        if self._stage == settings.max_stages:
            above, below = -np.inf, np.inf
            self._worst = max(self._worst, "max_stages", key=ENDINGS.index)
        weight = settings.confidence**self._stage
        new = problem.accept(above, below, weight * costs[0], weight * costs[1], self._stage)
        last = self._last
        self._last = replace(last, primal=last.primal + new.loss, gap=last.gap + new.loss, steps=0)
        if not problem.n_waiting:
            self._solve(settings.tol, fresh=True)
        elif self._last.gap > self._tol * self._last.primal:
            self._solve(self._tol)
        else:
            self.extremes = new.left
        self._report(new[:2], 1.0 - keep, began)

    def trained(self) -> Trained:
        """What has been found."""
        labels, stages = self._problem.labels()
        size = np.append(self._before, 0)[np.maximum(stages, -1)]  # the last entry: never labeled
        return Trained(labels, stages, labels * size, self._last, self._stage, self._worst)

    def keep(self) -> None:
        """Keep the state, now and then: dual variables are many."""
        if not self._history.due:
            return
        assert self.extremes is not None, "the last stage is behind"
        began = time.perf_counter()
        state = {
            "problem": self._problem.state(),
            "extremes": list(self.extremes),
            "n_unlabeled": self._n_unlabeled,
            "stage": self._stage,
            "before": self._before.copy(),
            "worst": self._worst,
            "last": vars(self._last),
        }
        self._history.keep(self._name, state, began)

    def go_on(self) -> bool:
        """Go on from a state that was kept, if there is one."""
        kept = self._history.kept(self._name)
        if kept is None:
            return False
        self._problem.go_on_from(kept["problem"])
        self.extremes = Extremes(*kept["extremes"])
        self._n_unlabeled, self._stage = kept["n_unlabeled"], kept["stage"]
        self._before, self._worst = list(kept["before"]), kept["worst"]
        self._last = Certificate(**kept["last"])
        return True

    def _solve(self, tol: float, fresh: bool = False) -> None:
        """Train, and look at the rows that wait."""
        problem = self._problem
        self._last = problem.solve(tol, self._settings.max_iter, fresh=fresh)
        self._worst = max(self._worst, self._last.termination, key=ENDINGS.index)
        self.extremes = problem.score() if problem.n_waiting else None

    def _report(self, counts: tuple[int, int], tau: float, began: float) -> None:
        self._history.add(
            {
                "class": self._positive,
                "stage": self._stage,
                "tau": tau,
                "n_positive": counts[0],
                "n_negative": counts[1],
                "n_waiting": self._problem.n_waiting,
                "objective": self._last.primal,
                "gap": self._last.gap,
                "steps": self._last.steps,
                "seconds": time.perf_counter() - began,
            }
        )


#: Weights, or an expansion by rows; and what self-training found.
Once = tuple[np.ndarray, Trained]


def trained_once(history: History, positive: int, train: Callable[[], Once]) -> Once:
    """Train a binary problem, unless that is done already."""
    name = f"class {positive}"
    kept = history.kept(name)
    if kept is None:
        weights, trained = train()
        found = vars(trained) | {"certificate": vars(trained.certificate)}
        history.keep(name, {"weights": weights, "trained": found})
        return weights, trained
    found = kept["trained"]
    return kept["weights"], Trained(
        **(found | {"certificate": Certificate(**found["certificate"])})
    )


def kernel_cache(columns_of: ColumnsOf, diagonal: np.ndarray) -> KernelCache:
    """Keep kernel columns, for all classes."""
    return KernelCache(columns_of, diagonal)


def kernel_problem(
    cache: KernelCache,
    codes: np.ndarray,
    weights: np.ndarray | None,
    positive: int,
    costs: tuple[float, float],
) -> KernelDual:
    """Make the problem of one class against the others, on kernel columns."""
    target = np.where(codes < 0, 0, np.where(codes == positive, 1, -1))
    cost = np.where(target > 0, *costs) * (1.0 if weights is None else weights)
    return KernelDual(cache, target, cost, weights)


def train_sharded(
    engine: Engine,
    class_costs: np.ndarray,
    costs: tuple[float, float],
    settings: StarSettings,
    history: History,
    positive: int,
) -> tuple[np.ndarray, Trained]:
    """Run `self_train` on rows in shards. Returns the weights, in internal order, too.

    class_costs : cost of a row with a given label, by its class.
    """
    problem = ShardedDual(engine, positive, class_costs)
    trained = self_train(problem, costs, settings, history, positive)
    return problem.w, trained


def earliest_class(trained: list[Trained]) -> np.ndarray:
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
