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

A method that does not look for an empty place is held to the second alone. There is no constant in
this to be chosen.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.problems.hinge import outputs_at


class Evidence(NamedTuple):
    """What some rows say of a model and of the supervised one.

    distances, squares : (2,) sums of |o| and o^2 over the unlabeled rows, of both models.
    weight : total weight of these rows.
    asked : part of the supervised model that the labeled rows ask for.
    """

    distances: np.ndarray
    squares: np.ndarray
    weight: float
    asked: float


def evidence(outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> Evidence:
    """Look at rows.

    outputs : (2, n) of the model and of the supervised one.
    targets : +1 and -1 of labeled rows, 0 of the others.
    weights : sample weights; None if all are 1.
    """
    weights = np.ones(len(targets)) if weights is None else weights
    free = targets == 0
    distances, counts = np.abs(outputs[:, free]), weights[free]
    known = ~free & (weights > 0.0)
    wrong, right = (-targets * outputs[0])[known], (targets * outputs[1])[known]
    change = (wrong > 0.0) & (right > 0.0)
    asked = wrong[change] / (wrong[change] + right[change])
    return Evidence(
        np.add.reduce(counts * distances, axis=1),
        np.add.reduce(counts * distances**2, axis=1),
        float(np.add.reduce(counts)),
        float(asked.max(initial=0.0)),
    )


def supervised_part(found: Sequence[Evidence], seeks_gap: bool = True) -> float:
    """Part of the supervised model that all rows together ask for.

    seeks_gap : whether the method looks for a boundary in an empty place.
    """
    asked = max(one.asked for one in found)
    if not seeks_gap:
        return asked
    weight = sum(one.weight for one in found)
    distance = sum(one.distances for one in found) / weight
    square = sum(one.squares for one in found) / weight
    # outputs that are all 0 tell nothing
    spread = np.where(square > 0.0, 1.0 - distance**2 / np.where(square > 0.0, square, 1.0), 1.0)
    own, supervised = (max(float(value), 0.0) for value in spread)
    return max(asked, own / supervised if own < supervised else 1.0)


def part_of_weights(
    engine: Engine, own: np.ndarray, supervised: np.ndarray, positive: int, seeks_gap: bool
) -> float:
    """`supervised_part` of weights, where class number `positive` is +1.

    Costs: 1 round, 2 passes.
    """
    return supervised_part(engine.each(shard_evidence, own, supervised, positive), seeks_gap)


def shard_evidence(
    shard: Shard, own: np.ndarray, supervised: np.ndarray, positive: int
) -> Evidence:
    """`evidence` of the rows of a shard."""
    assert shard.codes is not None, "labels are needed"
    targets = np.where(shard.codes < 0, 0, np.where(shard.codes == positive, 1, -1))
    outputs = np.stack([outputs_at(shard, w, 1.0) for w in (own, supervised)])
    return evidence(outputs, targets, shard.weights)
