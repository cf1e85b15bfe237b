"""Weights for given labels, labels for given weights, in turn: what TSVM and DA end with.

Either half lowers the objective, so it ends after finitely many steps. Solves begin loosely; the
gap shrinks whenever the labels rest.
"""

from collections.abc import Callable

import numpy as np

from dask_s3vm.methods.keeping import State
from dask_s3vm.problems.base import Point
from dask_s3vm.problems.transductive import TransductiveProblem
from dask_s3vm.solvers.newton import NEAR, finite_newton, is_near, preconditioner

#: Factor by which the relative gap shrinks when labels rest.
TIGHTER = 0.1

#: Maximum number of turns at one level: never reached where it was looked for, and no fit hangs.
MAX_TURNS = 1000

#: Changes labels at a point: (how many, the point with the new ones).
Relabel = Callable[[Point], tuple[int, Point]]

#: Takes what was done: "retrain" or "switch", Newton steps, CG steps, labels changed.
Report = Callable[[str, int, int, int], None]


class Alternation:
    """A transductive problem under way, at the point that has been reached.

    Parameters
    ----------
    problem : the problem.
    tol, max_iter : relative gap at the very end; most Newton steps per solve.
    """

    def __init__(self, problem: TransductiveProblem, tol: float, max_iter: int) -> None:
        self.problem = problem
        self.point: Point
        self.n_newton = 0
        self.termination = "converged"
        self._tol = tol
        self._max_iter = max_iter
        self._scale: np.ndarray

    def arrive_at(self, w: np.ndarray) -> None:
        """Evaluate the point to go on from, and scale the problem as it is there."""
        self.point = self.problem.evaluate(w)
        # kept to the end: one made anew whenever the cost has grown tenfold took as many CG steps
        # (28,631 against 28,540 over twenty fits of text and pixels)
        self._scale = preconditioner(self.problem, self.point)

    def state(self) -> State:
        """All that is needed to go on from here; see `History.keep`."""
        return {
            "point": self.point.state(),
            "scale": self._scale,
            "n_newton": self.n_newton,
            "termination": self.termination,
            "labels": self.problem.labels,
            "cost": self.problem.unlabeled_cost,
        }

    def go_on_from(self, state: State) -> None:
        """Bring problem and point back to a state."""
        self.problem.set_unlabeled_cost(state["cost"])
        self.problem.label(state["labels"])
        self.point = self.problem.restored(state["point"])
        self._scale = state["scale"]
        self.n_newton, self.termination = state["n_newton"], state["termination"]

    def settle(
        self,
        gap: float,
        last: bool,
        relabel: Relabel,
        once: bool,
        report: Report,
        keep: Callable[[float], None],
    ) -> None:
        """Alternate until labels rest.

        Parameters
        ----------
        gap : relative gap of the solves.
        last : whether to go on from there to `tol`.
        relabel : changes labels.
        once : whether a second change of labels at the same weights would find nothing to do.
        report : takes each half step.
        keep : told the gap to go on with, whenever there is more to do.
        """
        gap = max(gap, self._tol)
        for _ in range(MAX_TURNS):
            self.retrain(gap, report)
            changed, self.point = relabel(self.point)
            report("switch", 0, 0, changed)
            rests = not changed or (once and is_near(self.problem, self.point, gap))
            if rests and (not last or gap <= self._tol):
                return
            if rests:
                gap = max(TIGHTER * gap, self._tol)
            keep(gap)
        self.termination = "max_iter"

    def retrain(self, gap: float, report: Report) -> None:
        """Solve for the present labels."""
        result = finite_newton(
            self.problem,
            self.point,
            max(gap, self._tol),
            self._max_iter,
            scale=self._scale,
            forcing=NEAR,
        )
        self.point, self.termination = result.point, result.termination
        self.n_newton += result.n_iter
        report("retrain", result.n_iter, result.cg_steps, 0)

    def transductive_value(self) -> float:
        """Objective with each unlabeled row on the side of its own output."""
        return self.problem.transductive_value(self.point)
