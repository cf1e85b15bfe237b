"""What follows when labels have been found: an SVM on all rows, and a class for each row."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import select
from dask_s3vm.methods.base import BinarySolution, History, TransductiveTask
from dask_s3vm.methods.l2svm import L2SVMSettings, resumable_newton
from dask_s3vm.problems.found_labels import class_numbers, score_directions
from dask_s3vm.problems.transductive import TransductiveProblem


@dataclass(frozen=True)
class FoundLabels:
    """Labels of the unlabeled rows in one binary problem.

    bits : one bit a row, by shard; set where the label is +1.
    objective : F of the labels, eq. (11) of the paper.
    direction : (d + 1,) gradient of F; the smaller the product with a row, the more is it +1.
    n_steps : steps or picks.
    """

    bits: list[np.ndarray]
    objective: float
    direction: np.ndarray
    n_steps: int


Found = TypeVar("Found", bound=FoundLabels)


def found_once(
    history: History, positive: int, kind: type[Found], find: Callable[[], Found]
) -> Found:
    """Find the labels of a binary problem, unless that is done already."""
    name = f"labels {positive}"
    kept = history.kept(name)
    if kept is not None:
        return kind(**kept)
    found = find()
    history.keep(name, vars(found))
    return found


def train_on_found(
    engine: Engine,
    task: TransductiveTask,
    found: FoundLabels,
    cost: float,
    settings: L2SVMSettings,
    history: History,
) -> BinarySolution:
    """Train the SVM on all rows, those without a label having one that was found.

        sum_lab c_i max(0, 1 - y_i o_i)^2 + sum_unl C* max(0, 1 - y_j o_j)^2 + 1/2 |w|^2

    `task.costs` are the c_i of labeled rows by class, `cost` is C*. The objective of the solution
    is the one of the labels.
    """
    began = time.perf_counter()
    problem = TransductiveProblem(
        engine, 1.0, task.positive, 2.0 * task.costs, settings.fit_intercept
    )
    problem.set_unlabeled_cost(2.0 * cost)
    problem.label(found.bits)
    result = resumable_newton(
        problem,
        np.zeros(engine.layout.n_features + 1),
        settings.tol,
        settings.max_iter,
        lambda step: None,
        f"class {task.positive}/newton",
        history,
    )
    history.add(
        {
            "class": task.positive,
            "event": "train",
            "svm_objective": result.point.value,
            "newton_steps": result.n_iter,
            "cg_steps": result.cg_steps,
            "seconds": time.perf_counter() - began,
        }
    )
    return BinarySolution(result.point.w, found.objective, found.n_steps, result.termination)


def classes_of_rows(
    engine: Engine, tasks: list[TransductiveTask], found: list[FoundLabels]
) -> np.ndarray:
    """Class number of every row, those with a label included; see `class_numbers`.

    Directions are moved so that the last row that its class would claim has product 0. Costs: 3-5
    rounds and 2 passes per binary problem.
    """
    directions = []
    for task, one in zip(tasks, found, strict=True):
        moved = one.direction.copy()
        last = max(task.n_positive - 1, 0)
        moved[-1] -= select(engine, last, score_directions, one.direction).value
        directions.append(moved)
    bits, positives = [one.bits for one in found], [task.positive for task in tasks]
    return np.concatenate(engine.each(class_numbers, np.stack(directions), bits, positives))
