"""What follows when labels have been found: an SVM on all rows, and a class for each row.

QP-S3VM and S-QP-S3VM find labels first (`qp`, `submodular`); new rows are predicted by a linear SVM
that is trained on all rows with these labels.
"""

from dataclasses import dataclass, field

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import select
from dask_s3vm.methods.base import BinaryJob, BinarySolution, BinaryTask
from dask_s3vm.methods.l2svm import NewtonTraining
from dask_s3vm.parameters.methods import LabelingParameters
from dask_s3vm.problems.label_sums import class_numbers, score_directions
from dask_s3vm.problems.transductive import TransductiveProblem


@dataclass(frozen=True)
class FoundLabels:
    """Labels of the unlabeled rows in one binary problem.

    bits : one bit a row, by shard; set where the label is +1.
    objective : F of the labels, eq. (11) of the paper.
    direction : (d + 1,) gradient of F; the smaller the product with a row, the more is it +1.
    n_iter : outer iterations.
    """

    bits: list[np.ndarray]
    objective: float
    direction: np.ndarray
    n_iter: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class LabelingSolution(BinarySolution):
    """A binary solution whose objective is F of the labels, and the labels.

    found : None where no row was without a label.
    """

    found: FoundLabels | None


def train_on_found(
    job: BinaryJob, parameters: LabelingParameters, found: FoundLabels, cost: float
) -> BinarySolution:
    """Train the SVM on all rows, those without a label having one that was found.

        sum_lab c_i max(0, 1 - y_i o_i)^2 + sum_unl C* max(0, 1 - y_j o_j)^2 + 1/2 |w|^2

    `task.costs` are the c_i of labeled rows by class, `cost` is C*.
    """
    engine, task = job.engine, job.task
    problem = TransductiveProblem(
        engine, 1.0, task.positive, 2.0 * task.costs, parameters.fit_intercept
    )
    problem.set_unlabeled_cost(2.0 * cost)
    problem.label(found.bits)
    zero = np.zeros(engine.layout.n_features + 1)
    training = NewtonTraining(problem, zero, parameters.tol, parameters.max_iter, in_detail=False)
    return job.run(training, "svm")


def classes_of_rows(
    engine: Engine, tasks: list[BinaryTask], found: list[FoundLabels]
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
