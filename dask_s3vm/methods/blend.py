"""How much of a model is to be the supervised SVM: what the rows say of both.

Methods that use unlabeled rows look for a boundary in an empty place. How empty, the distances |o|
of the unlabeled rows tell. Their relative variance

    v(o) = 1 - (mean |o|)^2 / mean o^2

does not depend on the scale of the outputs o: it is 0 where all rows are equally far from the
boundary, on either side, and 0.36 for a normal distribution about it. A method is believed as far
as its boundary is emptier than that of the supervised SVM, of outputs s, which has the part

    a = min(1, v(o) / v(s))

in the sum a s + (1 - a) o. Labeled rows, of label y, ask for more: none that the supervised SVM has
on its side may change to the other,

    a >= -y o / (y s - y o)    where y o < 0 < y s

One class of many against the rest is rare, and the supervised SVM seldom predicts it: nearly all
rows lie on one side, at about the same distance. Means are there over both sides, which count the
same; a boundary with one side alone tells nothing, v = 1. There is no constant in this to choose.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.problems.hinge import outputs_at


class Evidence(NamedTuple):
    """What some rows say of a model and of the supervised one.

    sums : (2, 2, 3) sums of 1, |o| and o^2 over the unlabeled rows, by model and by side.
    asked : part of the supervised model that the labeled rows ask for.
    """

    sums: np.ndarray
    asked: float


def evidence(outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> Evidence:
    """Look at rows.

    outputs : (2, n) of the model and of the supervised one.
    targets : +1 and -1 of labeled rows, 0 of the others.
    weights : sample weights; None if all are 1.
    """
    weights = np.ones(len(targets)) if weights is None else weights
    free, known = targets == 0, (targets != 0) & (weights > 0.0)
    sums = np.empty((2, 2, 3))
    for model, o in enumerate(outputs[:, free]):
        distance = np.abs(o)
        moments = weights[free] * np.stack([np.ones(len(o)), distance, distance**2])
        for side, here in enumerate((o > 0.0, o <= 0.0)):
            sums[model, side] = np.add.reduce(moments * here, axis=1)
    wrong, right = (-targets * outputs[0])[known], (targets * outputs[1])[known]
    change = (wrong > 0.0) & (right > 0.0)
    asked = wrong[change] / (wrong[change] + right[change])
    return Evidence(sums, float(asked.max(initial=0.0)))


def supervised_part(found: Sequence[Evidence], competes: bool) -> float:
    """Part of the supervised model that all rows together ask for.

    competes : whether outputs are those of one class of many.
    """
    sums = np.add.reduce([one.sums for one in found])
    own, supervised = (_spread(sides, competes) for sides in sums)
    asked = max(one.asked for one in found)
    return max(asked, own / supervised if own < supervised else 1.0)


def _spread(sides: np.ndarray, competes: bool) -> float:
    """v of the sums of both sides."""
    if competes:
        if not sides[:, 0].all():
            return 1.0
        sides = sides / sides[:, :1]
    count, distance, square = np.add.reduce(sides)
    # outputs that are all 0 tell nothing
    return max(1.0 - float(distance**2 / (count * square)), 0.0) if square > 0.0 else 1.0


def part_of_weights(
    engine: Engine, own: np.ndarray, supervised: np.ndarray, task: BinaryTask
) -> float:
    """`supervised_part` of weights. Costs: 1 round, 2 passes."""
    found = engine.each(shard_evidence, own, supervised, task.positive)
    return supervised_part(found, task.competes)


def shard_evidence(
    shard: Shard, own: np.ndarray, supervised: np.ndarray, positive: int
) -> Evidence:
    """`evidence` of the rows of a shard."""
    assert shard.codes is not None, "labels are needed"
    targets = np.where(shard.codes < 0, 0, np.where(shard.codes == positive, 1, -1))
    outputs = np.stack([outputs_at(shard, w, 1.0) for w in (own, supervised)])
    return evidence(outputs, targets, shard.weights)
