"""How much of a model is to be the supervised SVM: what the rows say of both.

Methods that use unlabeled rows look for a boundary in an empty place. How empty, the distances |o|
of the unlabeled rows tell. Their relative variance

    v(o) = 1 - (mean |o|)^2 / mean o^2

does not depend on the scale of the outputs o: it is 0 where all rows are equally far from the
boundary, on either side, and 0.36 for a normal distribution about it. A method is believed as far
as its boundary is emptier than that of the supervised SVM, of outputs s, which has the part

    a = min(1, v(o) / v(s))

in the sum a s + (1 - a) o. With few labels, more of one class than of the other, the supervised SVM
may have all rows on one side. Where its share of positive predictions is far off, its bias is moved
to where the ratio allows it, before both are compared and added.

Where nearly all rows lie on one side, at about the same distance, v is small whatever there is on
the other. So v is looked at twice, and the larger a counts: with means over all rows, and with
means over both sides, which count the same; a boundary with one side alone tells nothing, v = 1.
One class of many is rare, and the supervised SVM, whose largest output may be right all the same,
seldom predicts it: there the supervised SVM stays as it is, and the sides alone are looked at.

Labeled rows, of label y, ask for more: none that the supervised SVM has on its side may change to
the other,

    a >= -y o / (y s - y o)    where y o < 0 < y s

And a = 1 where the method is wrong on more labels, which it has seen, than the supervised SVM is on
labels that it has not seen (`methods.unseen`). There is no constant in this to choose.

A sum that has few rows on another side than the supervised SVM cannot be worse by more than these.
Of rows that both models have on different sides, the sum has those on the side of the method whose

    |o| / (|o| + |s|) > a

so that a histogram of the left side tells how many they are, whatever a is. Where they are many, an
empty place may be one between other things than the classes, and folds are asked (`methods.safe`).
What they say bounds the share of predictions that change, and a is raised until it is kept.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.methods.unseen import Mistakes
from dask_s3vm.problems.hinge import outputs_at

#: Keeps outputs that are all zero from being divided by their sum.
TINY = 1e-300

#: Bins of the histogram of `Evidence.turned`.
BINS = 64


class Evidence(NamedTuple):
    """What some rows say of a model and of the supervised one.

    sums : (2, 2, 3) sums of 1, |o| and o^2 over the unlabeled rows, by model and by side.
    wrong : (2,) cost of the labeled rows that each model has on the wrong side.
    asked : part of the supervised model that the labeled rows ask for.
    n_positive : (2,) number of unlabeled rows with a positive output of each.
    turned : (BINS,) weight of the unlabeled rows that the models have on different sides, by the
        part of the supervised one, from 0 to 1, from which on they are on its side.
    """

    sums: np.ndarray
    wrong: np.ndarray
    asked: float
    n_positive: np.ndarray
    turned: np.ndarray

    @property
    def share(self) -> float:
        """Share of the unlabeled rows, by weight, that the supervised model has positive."""
        positive, negative = self.sums[1, :, 0]
        return float(positive / (positive + negative))

    def changed(self, part: float) -> float:
        """Share of the unlabeled rows that a sum has on another side than the supervised model.

        Rounded up to whole bins.
        """
        total = float(np.add.reduce(self.sums[1, :, 0]))
        return float(np.add.reduce(self.turned[int(part * BINS) :])) / total if part < 1.0 else 0.0

    def part_that_changes(self, most: float, part: float) -> float:
        """Least part of the supervised model, from `part` on, whose sum changes a share `most`."""
        parts = [part, *(n / BINS for n in range(int(part * BINS) + 1, BINS + 1))]
        return next(one for one in parts if self.changed(one) <= most)


def evidence(outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> Evidence:
    """Look at rows.

    outputs : (2, n) of the model and of the supervised one.
    targets : +1 and -1 of labeled rows, 0 of the others.
    weights : sample weights, times the costs of labeled rows; None if all are 1.
    """
    weights = np.ones(len(targets)) if weights is None else weights
    free, known = targets == 0, (targets != 0) & (weights > 0.0)
    sums = np.empty((2, 2, 3))
    for model, o in enumerate(outputs[:, free]):
        distance = np.abs(o)
        moments = weights[free] * np.stack([np.ones(len(o)), distance, distance**2])
        for side, here in enumerate((o > 0.0, o <= 0.0)):
            sums[model, side] = np.add.reduce(moments * here, axis=1)
    margins = (targets * outputs)[:, known]
    wrong = np.add.reduce(weights[known] * (margins <= 0.0), axis=1)
    change = (margins[0] < 0.0) & (margins[1] > 0.0)
    asked = margins[0, change] / (margins[0, change] - margins[1, change])
    n_positive = np.count_nonzero((outputs > 0.0) & free & (weights > 0.0), axis=1)
    own, supervised = outputs[:, free]
    differ = (own > 0.0) != (supervised > 0.0)
    size = np.abs(own[differ])
    until = size / np.maximum(size + np.abs(supervised[differ]), TINY)
    turned = np.bincount(
        np.minimum((BINS * until).astype(np.intp), BINS - 1), weights[free][differ], BINS
    )
    return Evidence(sums, wrong, float(asked.max(initial=0.0)), n_positive, turned)


def all_evidence(found: Sequence[Evidence]) -> Evidence:
    """What all rows say, from what those of each shard say."""
    return Evidence(
        np.add.reduce([one.sums for one in found]),
        np.add.reduce([one.wrong for one in found]),
        max(one.asked for one in found),
        np.add.reduce([one.n_positive for one in found]),
        np.add.reduce([one.turned for one in found]),
    )


def supervised_part(
    found: Evidence, competes: bool, unseen: Callable[[], Mistakes] | None = None
) -> float:
    """Part of the supervised model that the rows ask for.

    competes : whether outputs are those of one class of many.
    unseen : finds the mistakes of the supervised SVM on rows that it has not seen; None if these
        are not to be asked. They are more than those on rows that it has seen, as a rule.
    """
    own, supervised = found.wrong
    if unseen is not None and own > supervised and unseen().are_fewer_than(own):
        return 1.0
    parts = [found.asked]
    for by_side in (True,) if competes else (True, False):
        own, supervised = (_spread(sides, by_side) for sides in found.sums)
        parts.append(own / supervised if own < supervised else 1.0)
    return max(parts)


def _spread(sides: np.ndarray, by_side: bool) -> float:
    """v of the sums of both sides, which count the same or by their rows."""
    if by_side:
        if not sides[:, 0].all():
            return 1.0
        sides = sides / sides[:, :1]
    count, distance, square = np.add.reduce(sides)
    # outputs that are all 0 tell nothing
    return max(1.0 - float(distance**2 / (count * square)), 0.0) if square > 0.0 else 1.0


def evidence_of_weights(
    engine: Engine, own: np.ndarray, supervised: np.ndarray, task: BinaryTask
) -> Evidence:
    """`evidence` of all rows.

    Costs: 1 round, 2 passes, which take less time than one that carries both models.
    """
    models = np.stack([own, supervised])
    return all_evidence(engine.each(shard_evidence, models, task.positive, task.costs))


def shard_evidence(shard: Shard, models: np.ndarray, positive: int, costs: np.ndarray) -> Evidence:
    """`evidence` of the rows of a shard; `models` (2, d + 1), their last column the biases."""
    assert shard.codes is not None, "labels are needed"
    codes = shard.codes
    targets = np.where(codes < 0, 0, np.where(codes == positive, 1, -1))
    weights = np.where(codes < 0, 1.0, costs[codes])
    weights = weights if shard.weights is None else weights * shard.weights
    outputs = np.stack([outputs_at(shard, w, 1.0) for w in models])
    return evidence(outputs, targets, weights)
