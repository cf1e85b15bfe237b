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

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, ClassTotals
from dask_s3vm.methods.rlsc import Decomposed, decompose_rows
from dask_s3vm.methods.run import Method
from dask_s3vm.numerics.linalg import dot, one_blas_thread
from dask_s3vm.problems.least_squares import set_squares
from dask_s3vm.problems.soft_labels import labeled_loss, soft_gap, start_soft, step_soft

#: The gap is looked at after so many steps, which are passes as it is itself.
CHECK_EVERY = 10

#: The projection is near enough where the gap is this part of f.
NEAR = 0.01

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


def reduce_all(
    engine: Engine,
    totals: ClassTotals,
    costs: np.ndarray,
    positives: Sequence[int],
    bias: bool,
) -> Decomposed:
    """Reduce all rows, labeled and unlabeled, each with its part of the total weight as d_i^2.

    costs : of a labeled row by its class, over the weight of all labeled ones.
    """
    labeled = float(totals.weights.sum())
    squares = np.append(costs * labeled, 1.0) / (labeled + totals.unlabeled_weight)
    engine.each(set_squares, squares)
    return decompose_rows(engine, bias, positives)


class Projection(Method[ProjectionState, BinarySolution]):
    """Projects one supervised solution.

    Parameters
    ----------
    rows : all rows, reduced, with d_i^2 set.
    column : which of their moments belong to this problem.
    supervised : the solution of the labeled rows.
    costs : d_i^2 of a labeled row by its class in the supervised objective.
    lam : weight of the regularizer.
    bias : whether w has a bias.
    """

    State = ProjectionState
    Result = BinarySolution
    starting = "projection"

    def __init__(
        self,
        rows: Decomposed,
        column: int,
        supervised: BinarySolution,
        costs: np.ndarray,
        lam: float,
        bias: bool,
    ) -> None:
        self._engine: Engine = rows.engine
        self._spectrum = rows.spectrum
        self._labeled = rows.moments[:, column]
        self._positive = rows.positives[column]
        self._solution = supervised
        self._costs = costs
        self._metric = rows.spectrum.values + lam
        self._lam = lam
        self._bias = float(bias)
        with one_blas_thread():
            self._own = rows.spectrum.vectors.T @ supervised.w

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
        done = inside or gap <= NEAR * distance or n_steps >= MAX_STEPS
        return ProjectionState(moments, state.moments, distance, theta, float(gap), n_steps, done)

    def finish(self, state: ProjectionState) -> BinarySolution:
        """Return the projection, with its supervised objective; w_sup where the claim fails."""
        inside = state.distance <= INSIDE * self._size()
        if inside or state.gap > state.distance:
            ending = "converged" if inside else "max_iter"
            return replace(self._solution, termination=ending, n_iter=state.n_steps)
        with one_blas_thread():
            w = self._spectrum.weights(self._labeled + state.moments, self._lam)
        (loss,) = self._engine.sum(labeled_loss, w, self._bias, self._positive, self._costs)
        return BinarySolution(
            w, float(loss) + self._lam * dot(w, w), "converged", n_iter=state.n_steps
        )

    def progress(self, state: ProjectionState) -> tuple[str, float | None]:
        """Number of the step; how many there will be, nobody knows."""
        return f"projection, step {state.n_steps + 1}", None

    def _coordinates(self, moments: np.ndarray) -> np.ndarray:
        """U^T (w(q) - w_sup)."""
        with one_blas_thread():
            return self._spectrum.vectors.T @ (self._labeled + moments) / self._metric - self._own

    def _away(self, moments: np.ndarray) -> np.ndarray:
        """w(q) - w_sup."""
        coordinates = self._coordinates(moments)
        with one_blas_thread():
            return self._spectrum.vectors @ coordinates

    def _distance(self, moments: np.ndarray) -> float:
        return 0.5 * float(np.add.reduce(self._metric * self._coordinates(moments) ** 2))

    def _size(self) -> float:
        return float(np.add.reduce(self._metric * self._own**2))
