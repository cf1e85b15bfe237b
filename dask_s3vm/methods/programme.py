"""QP-S3VM: labels as probabilities in a quadratic programme (Emara & Kantardzic, Problem 3).

F is concave, so a minimum lies at a vertex. Frank-Wolfe: the gradient at P, the vertex Q that is
best for it, and the full step to Q, which on a concave function is the best one:

    F(Q) <= F(P) + grad F(P).(Q - P) <= F(P)

It goes from vertex to vertex, never up, and ends after finitely many. Where it ends, pairs of
rows near the threshold are swapped as long as that goes down, and Frank-Wolfe tried again.
Several starts: P = r, and the best vertices for random directions.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels
from dask_s3vm.problems.label_programme import LabelProgramme, ProgrammePoint
from dask_s3vm.problems.label_sums import label_sums
from dask_s3vm.solvers.swaps import swap_pairs

#: Gains below this part of what F is added up from are rounding, or not worth a step.
SMALL = 1e-12

#: Most steps from one start: never reached where it was looked for, and no fit hangs.
MAX_STEPS = 1000

#: Most swaps at a time.
MAX_SWAPS = 512


@dataclass(frozen=True)
class ProgrammeSettings:
    """Parameters of a solve: see `estimators.QPS3VM`.

    cost : C*.
    seeds : one for each start after the first.
    """

    cost: float
    center: bool
    seeds: Sequence[np.random.SeedSequence]


def solve_programme(
    engine: Engine, task: TransductiveTask, settings: ProgrammeSettings, history: History
) -> FoundLabels:
    """Find labels for one binary problem; `task.costs` are C times the weights of the classes.

    `history` takes one row per step.
    """
    sums = engine.step(
        lambda: label_sums(engine, task.positive, task.costs, settings.cost, settings.center)
    )
    programme = LabelProgramme(engine, sums, task.ratio)
    best: ProgrammePoint | None = None
    n_steps = 0
    for number, start in enumerate(_starts(programme, settings.seeds)):
        point = start
        for reached, row in _descend(programme, start):
            history.add({"class": task.positive, "start": number, **row})
            point = reached
            n_steps += 1
        if best is None or point.value < best.value:
            best = point
    assert best is not None, "there is always a first start"
    found = best
    bits = engine.step(lambda: programme.bits(found))
    return FoundLabels(bits, found.value, sums.direction(found.raw), n_steps)


def _starts(
    programme: LabelProgramme, seeds: Sequence[np.random.SeedSequence]
) -> Iterator[ProgrammePoint]:
    """P = r, then a vertex for each seed: the best one for a random direction."""
    yield programme.uniform()
    layout = programme.engine.layout
    for seed in seeds:
        drawn = np.append(np.random.default_rng(seed).normal(size=layout.n_features), 0.0)
        direction = layout.to_internal(drawn)
        yield programme.engine.step(lambda v=direction: programme.vertex(v))  # type: ignore[misc]


def _descend(
    programme: LabelProgramme, start: ProgrammePoint
) -> Iterator[tuple[ProgrammePoint, dict[str, object]]]:
    """Points on the way down, each with a row for the history."""
    point = start
    for _ in range(MAX_STEPS):
        began = time.perf_counter()
        origin = point
        point, event, swaps = programme.engine.step(lambda at=origin: _step(programme, at))  # type: ignore[misc]
        row = {
            "event": event,
            "objective": point.value,
            "swaps": swaps,
            "seconds": time.perf_counter() - began,
        }
        yield point, row
        if event == "rest":
            return


def _step(programme: LabelProgramme, origin: ProgrammePoint) -> tuple[ProgrammePoint, str, int]:
    """Go to the best vertex, else swap pairs, else rest."""
    sums = programme.sums
    point = programme.current(origin)
    small = SMALL * sums.scale(point.raw)
    trial = programme.vertex(sums.direction(point.raw), beside=point)
    if point.vertex is None or trial.value < point.value - small:
        return trial, "vertex", 0
    near = programme.near(point)
    if near is not None:
        p, fall, swaps = swap_pairs(near.p, near.o, near.gram, sums.cost**2, small, MAX_SWAPS)
        if fall > small:
            trial = programme.moved(point, near, p)
            if trial.value < point.value:
                return trial, "swap", swaps
    return replace(point), "rest", 0
