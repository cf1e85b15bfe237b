"""QP-S3VM: labels as probabilities in a quadratic program (Emara & Kantardzic, Problem 3).

F is concave, so a minimum lies at a vertex. Frank-Wolfe: the gradient at P, the vertex Q that is
best for it, and the full step to Q, which on a concave function is the best one:

    F(Q) <= F(P) + grad F(P).(Q - P) <= F(P)

It goes from vertex to vertex, never up, and ends after finitely many. Where it ends, pairs of
rows near the threshold are swapped as long as that goes down, and Frank-Wolfe tried again.
Several starts: P = r, and the best vertices for random directions.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels
from dask_s3vm.problems.label_program import LabelProgram, ProgramPoint
from dask_s3vm.problems.label_sums import label_sums
from dask_s3vm.solvers.swaps import swap_pairs

#: Gains below this part of what F is added up from are rounding, or not worth a step.
SMALL = 1e-12

#: Most steps from one start: never reached where it was looked for, and no fit hangs.
MAX_STEPS = 1000

#: Most swaps at a time.
MAX_SWAPS = 512


@dataclass(frozen=True)
class ProgramSettings:
    """Parameters of a solve: see `estimators.QPS3VM`.

    cost : C*.
    seeds : one for each start after the first.
    """

    cost: float
    center: bool
    seeds: Sequence[np.random.SeedSequence]


def solve_program(
    engine: Engine, task: TransductiveTask, settings: ProgramSettings, history: History
) -> FoundLabels:
    """Find labels for one binary problem; `task.costs` are C times the weights of the classes.

    `history` takes one row per step.
    """
    sums = label_sums(engine, task.positive, task.costs, settings.cost, settings.center)
    program = LabelProgram(engine, sums, task.ratio)
    run = _Run(program, task.positive, history)
    for number in range(run.next_start, 1 + len(settings.seeds)):
        run.descend(_start(program, settings.seeds, number))
    found = run.best
    assert found is not None, "there is always a first start"
    bits = program.bits(found)
    return FoundLabels(bits, found.value, sums.direction(found.raw), run.n_steps)


class _Run:
    """One start after the other, and the best point so far; kept between starts."""

    def __init__(self, program: LabelProgram, positive: int, history: History) -> None:
        self.best: ProgramPoint | None = None
        self.n_steps = 0
        self.next_start = 0
        self._program = program
        self._positive = positive
        self._history = history
        self._name = f"labels {positive}/starts"
        kept = history.kept(self._name)
        if kept is not None:
            self.best = ProgramPoint.of_state(kept["best"])
            self.n_steps, self.next_start = kept["n_steps"], kept["next_start"]

    def descend(self, start: ProgramPoint) -> None:
        """Go down from a start."""
        point = start
        for reached, row in _descend(self._program, start):
            self._history.add({"class": self._positive, "start": self.next_start, **row})
            point = reached
            self.n_steps += 1
        if self.best is None or point.value < self.best.value:
            self.best = point
        self.next_start += 1
        state = {
            "best": self.best.state(),
            "n_steps": self.n_steps,
            "next_start": self.next_start,
        }
        self._history.keep(self._name, state)


def _start(
    program: LabelProgram, seeds: Sequence[np.random.SeedSequence], number: int
) -> ProgramPoint:
    """P = r, or a vertex for each seed: the best one for a random direction."""
    if number == 0:
        return program.uniform()
    layout = program.engine.layout
    drawn = np.random.default_rng(seeds[number - 1]).normal(size=layout.n_features)
    direction = layout.to_internal(np.append(drawn, 0.0))
    return program.vertex(direction)


def _descend(
    program: LabelProgram, start: ProgramPoint
) -> Iterator[tuple[ProgramPoint, dict[str, object]]]:
    """Points on the way down, each with a row for the history."""
    point = start
    for _ in range(MAX_STEPS):
        began = time.perf_counter()
        point, event, swaps = _step(program, point)
        row = {
            "event": event,
            "objective": point.value,
            "switches": swaps,
            "seconds": time.perf_counter() - began,
        }
        yield point, row
        if event == "rest":
            return


def _step(program: LabelProgram, point: ProgramPoint) -> tuple[ProgramPoint, str, int]:
    """Go to the best vertex, else swap pairs, else rest."""
    sums = program.sums
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
