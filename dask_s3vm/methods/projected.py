"""The projected estimator: least squares that unlabeled rows cannot make worse.

J. H. Krijthe, M. Loog. Projected estimators for robust semi-supervised classification. Machine
Learning 106, 2017. With regularization, over all n rows, q the labels of the unlabeled ones::

    J(w; q) = sum_i d_i^2 (y_i - w.z_i)^2 + lam |w|^2 = const + |w - w(q)|_G^2,
    G = sum_i d_i^2 z_i z_i^T + lam,   w(q) = G^-1 (b + sum_unl d_j^2 q_j z_j)

Whatever the true labels are, the best w for them is in C = {w(q) : -1 <= q <= 1}, which is convex.
The projection of the supervised solution onto C, in the metric of G, is nearer to every point of C
than the supervised solution is: its J is not larger, for any labels.

The projection minimizes f(q) = 1/2 |w(q) - w_sup|_G^2 over the box, whose gradient is
d_j^2 z_j.(w(q) - w_sup). As sum_unl d^2 z z^T <= G, a step of length 1 in the metric d^2 decreases
f: accelerated projected gradients, with labels in the shards and vectors of length d on the way.

The gap max_s grad.(q - s) says when to stop. For c in C

    |w_sup - c|^2 >= |w_sup - w|^2 + |w - c|^2 - 2 gap,

so that the claim holds, without any rounding up, as soon as gap <= f(q).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, ClassTotals
from dask_s3vm.methods.run import Method
from dask_s3vm.numerics.linalg import dot, one_blas_thread
from dask_s3vm.problems.least_squares import set_squares
from dask_s3vm.problems.soft_labels import (
    all_moments,
    labeled_loss,
    soft_gap,
    start_soft,
    step_soft,
)

#: Steps between two looks at the gap; each step costs one pass, and so does the gap.
CHECK_EVERY = 10

#: The projection is exact enough when the gap is this part of f.
SMALL_GAP = 0.01

#: Steps that are made at most. The claim needs a gap of f itself; if not even that was reached,
#: the supervised solution stays.
MAX_STEPS = 1000

#: The supervised solution is in C already if f is this part of |w_sup|_G^2.
INSIDE = 1e-12


@dataclass(frozen=True)
class ProjectionState:
    """Between two steps.

    moments, before : b(q) of the labels of the unlabeled rows, now and a step ago.
    distance : f(q).
    theta : of the momentum; 1 begins anew.
    gap : at the last look; infinite before the first.
    """

    moments: np.ndarray
    before: np.ndarray
    distance: float
    theta: float
    gap: float
    n_steps: int
    done: bool


@dataclass(frozen=True, eq=False)
class AllRows:
    """All rows, labeled and unlabeled, reduced to what a projection needs of them.

    gram : (d + 1, d + 1) sum of d_i^2 z_i z_i^T, the last row and column of the bias.
    moments : (d + 1, k) b of the labeled rows, for each class that is +1.
    costs : of a labeled row by its class, in the supervised objective.
    bias : 1 with a bias, else 0.
    """

    engine: Engine
    positives: Sequence[int]
    gram: np.ndarray
    moments: np.ndarray
    costs: np.ndarray
    bias: float


def reduce_all(
    engine: Engine, totals: ClassTotals, costs: np.ndarray, positives: Sequence[int], bias: bool
) -> AllRows:
    """Reduce the rows, each with its part of the total weight as d_i^2.

    costs : of a labeled row by its class, over the weight of all labeled ones.

    Costs: 2 rounds, 1 pass, see `all_moments`.
    """
    labeled = float(totals.weights.sum())
    squares = np.append(costs * labeled, 1.0) / (labeled + totals.unlabeled_weight)
    engine.each(set_squares, squares)
    gram, moments = engine.sum(all_moments, list(positives))
    if not bias:
        gram[-1] = gram[:, -1] = moments[-1] = 0.0
    return AllRows(engine, positives, gram, moments, costs, float(bias))


class Projection(Method[ProjectionState, BinarySolution]):
    """Projects one supervised solution.

    Parameters
    ----------
    rows : all rows.
    number : which of their binary problems this is.
    supervised : the solution of the labeled rows.
    lam : weight of the regularizer.
    """

    State = ProjectionState
    Result = BinarySolution
    starting = "projection"

    def __init__(self, rows: AllRows, number: int, supervised: BinarySolution, lam: float) -> None:
        self._engine, self._bias = rows.engine, rows.bias
        self._positive, self._costs = rows.positives[number], rows.costs
        self._labeled = rows.moments[:, number]
        self._solution = supervised
        self._lam = float(lam)
        metric = rows.gram + lam * np.eye(len(rows.gram))
        with one_blas_thread():
            self._factor = cho_factor(metric)
            self._own = metric @ supervised.w

    def start(self) -> ProjectionState:
        """Begin with labels 0."""
        self._engine.each(start_soft)
        none = np.zeros(len(self._labeled))
        return ProjectionState(none, none, self._distance(none), 1.0, math.inf, 0, False)

    def advance(self, state: ProjectionState) -> ProjectionState:
        """Make a step; look at the gap now and then."""
        theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.theta**2))
        momentum = (state.theta - 1.0) / theta
        ahead = state.moments + momentum * (state.moments - state.before)
        (moments,) = self._engine.sum(step_soft, self._away(ahead), self._bias, momentum)
        distance = self._distance(moments)
        if distance > state.distance:  # momentum led uphill
            theta = 1.0
        n_steps, gap = state.n_steps + 1, state.gap
        if n_steps % CHECK_EVERY == 0:
            (gap,) = self._engine.sum(soft_gap, self._away(moments), self._bias)
        inside = distance <= INSIDE * self._size()
        done = inside or gap <= SMALL_GAP * distance or n_steps >= MAX_STEPS
        return ProjectionState(moments, state.moments, distance, theta, float(gap), n_steps, done)

    def finish(self, state: ProjectionState) -> BinarySolution:
        """Return the projection, with its supervised objective; w_sup where the claim fails."""
        inside = state.distance <= INSIDE * self._size()
        if inside or state.gap > state.distance:
            ending = "converged" if inside else "max_iter"
            return replace(self._solution, termination=ending, n_iter=state.n_steps)
        with one_blas_thread():
            w = cho_solve(self._factor, self._labeled + state.moments)
        (loss,) = self._engine.sum(labeled_loss, w, self._bias, self._positive, self._costs)
        return BinarySolution(
            w, float(loss) + self._lam * dot(w, w), "converged", n_iter=state.n_steps
        )

    def progress(self, state: ProjectionState) -> tuple[str, float | None]:
        """Number of the step; the total is unknown."""
        return f"projection, step {state.n_steps + 1}", None

    def _away(self, moments: np.ndarray) -> np.ndarray:
        """w(q) - w_sup."""
        with one_blas_thread():
            return cho_solve(self._factor, self._labeled + moments - self._own)

    def _distance(self, moments: np.ndarray) -> float:
        """f(q)."""
        return 0.5 * dot(self._labeled + moments - self._own, self._away(moments))

    def _size(self) -> float:
        """|w_sup|_G^2."""
        return dot(self._own, self._solution.w)
