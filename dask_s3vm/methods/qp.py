"""QP-S3VM: labels as probabilities in a quadratic program (Emara & Kantardzic, Problem 3).

F is concave, so a minimum lies at a vertex. Frank-Wolfe: the gradient at P, the vertex Q that is
best for it, and the full step to Q, which on a concave function is the best one:

    F(Q) <= F(P) + grad F(P).(Q - P) <= F(P)

It goes from vertex to vertex, never up, and ends after finitely many. Where it ends, pairs of
rows near the threshold are swapped as long as that goes down, and Frank-Wolfe tried again.
Several starts: P = r, and the best vertices for random directions. One outer iteration is one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.methods.labeling import FoundLabels
from dask_s3vm.methods.run import Method
from dask_s3vm.problems.label_program import LabelProgram, ProgramPoint, swap_pairs
from dask_s3vm.problems.label_sums import label_sums

#: Gains below this part of what F is added up from are rounding, or not worth a step.
SMALL = 1e-12

#: Most steps from one start. Never reached where it was looked for; it keeps a fit from hanging.
MAX_STEPS = 1000

#: Most swaps at a time.
MAX_SWAPS = 512


@dataclass(frozen=True)
class ProgramState:
    """Between two steps.

    point : where the descent is; None before a start.
    best : the best point that a descent ended in.
    n_starts : starts that are behind.
    n_steps : steps from the present start.
    done : whether all starts are behind.
    """

    point: ProgramPoint | None
    best: ProgramPoint | None
    n_starts: int
    n_steps: int
    done: bool


class LabelProgramSearch(Method[ProgramState, FoundLabels]):
    """Labels of one binary problem.

    Parameters
    ----------
    engine : rows with class numbers, -1 where unlabeled.
    task : what is positive; its costs are C times the weights of the classes.
    cost : C*.
    center : whether the kernel is taken about the mean of the unlabeled rows.
    seeds : one for each start after the first.
    """

    State = ProgramState
    Result = FoundLabels

    def __init__(
        self,
        engine: Engine,
        task: BinaryTask,
        cost: float,
        center: bool,
        seeds: Sequence[np.random.SeedSequence],
    ) -> None:
        sums = label_sums(engine, task.positive, task.costs, cost, center)
        self._program = LabelProgram(engine, sums, task.ratio)
        self._seeds = seeds

    def start(self) -> ProgramState:
        """Nothing is found yet."""
        return ProgramState(None, None, 0, 0, False)

    def restore(self, state: ProgramState) -> ProgramState:
        """Put the point that was reached back into the shards."""
        if state.point is None:
            return state
        return replace(state, point=self._program.restored(state.point))

    def advance(self, state: ProgramState) -> ProgramState:
        """Make one step from where the descent is, or from the next start."""
        point = state.point
        if point is None:
            point = self._first_point(state.n_starts)
        point, event, swaps = self._step(point)
        self.report(restart=state.n_starts, event=event, objective=point.value, switches=swaps)
        n_steps = state.n_steps + 1
        if event != "rest" and n_steps < MAX_STEPS:
            return replace(state, point=point, n_steps=n_steps)
        best = state.best
        if best is None or point.value < best.value:
            best = point
        n_starts = state.n_starts + 1
        return ProgramState(None, best, n_starts, 0, n_starts > len(self._seeds))

    def finish(self, state: ProgramState) -> FoundLabels:
        """Return the labels of the best vertex."""
        best = state.best
        assert best is not None, "there is always a first start"
        direction = self._program.sums.direction(best.raw)
        return FoundLabels(self._program.bits(best), best.value, direction)

    def progress(self, state: ProgramState) -> tuple[str, float | None]:
        """Starts are known beforehand; the first one is not drawn."""
        number, count = state.n_starts, len(self._seeds) + 1
        return f"start {number + 1} of {count}", number / count if count > 1 else None

    def _first_point(self, number: int) -> ProgramPoint:
        """P = r, or a vertex for each seed: the best one for a random direction."""
        program = self._program
        if number == 0:
            return program.uniform()
        layout = program.engine.layout
        drawn = np.random.default_rng(self._seeds[number - 1]).normal(size=layout.n_features_in)
        return program.vertex(layout.to_internal(np.append(drawn, 0.0)))

    def _step(self, point: ProgramPoint) -> tuple[ProgramPoint, str, int]:
        """Go to the best vertex, else swap pairs, else rest."""
        program, sums = self._program, self._program.sums
        small = SMALL * sums.scale(point.raw)
        trial = program.vertex(sums.direction(point.raw), beside=point)
        if point.vertex is None or trial.value < point.value - small:
            return trial, "vertex", 0
        near = program.near(point)
        if near is not None:
            p, fall, swaps = swap_pairs(near.p, near.o, near.gram, sums.cost**2, small, MAX_SWAPS)
            if fall > small:
                trial = program.moved(point, near, p)
                if trial.value < point.value:
                    return trial, "swap", swaps
        return point, "rest", 0
