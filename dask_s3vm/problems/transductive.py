"""Rows without a label that are given one: the problem inside TSVM (Sindhwani & Keerthi, 1.3).

    1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + c_u/2 sum_unl max(0, 1 - y_j o_j)^2 + lam/2 |w|^2

For given labels y_j of the unlabeled rows this is an l2-SVM. The labels live in the shards, in
`target`; what the client keeps of them, to put them back, is one bit a row.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import Ranked, count_crossing, select
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import line
from dask_s3vm.problems.base import Point
from dask_s3vm.problems.l2svm import evaluate, hinge_over, hinge_slope, row_costs
from dask_s3vm.problems.quadratic import QuadraticProblem, drop_packed
from dask_s3vm.problems.switching import (
    doubtful_negatives,
    doubtful_positives,
    falling_negatives,
    falling_outputs,
    label_bits,
    label_top,
    outputs_at,
    restore_labels,
    set_outputs,
    swap_labels,
)


class SemiSupervisedProblem(QuadraticProblem):
    """A problem with unlabeled rows, whatever they are taken for."""

    def transductive_value(self, point: Point) -> float:
        """Objective with each unlabeled row on the side of its own output.

        Costs: 1 round, no pass over the rows.
        """
        (loss,) = self.engine.sum(transductive_loss, point.slot)
        return 0.5 * loss + 0.5 * self.lam * float(np.add.reduce(point.w * point.w))


class LabeledPart(NamedTuple):
    """What the labeled rows contribute to value and gradient of a point."""

    loss: float
    gradient: np.ndarray


class TransductiveProblem(SemiSupervisedProblem):
    """The l2-SVM above, with operations on the labels of the unlabeled rows.

    Points follow the operations at hand: what a switch or a new c_u changes of them is known
    without a pass over the rows.

    Parameters
    ----------
    engine, lam, positive, costs, bias : see `L2SVMProblem`.

    Attributes
    ----------
    labels : those of the unlabeled rows, one bit a row, by shard; empty before there are any.
    unlabeled_cost : c_u.
    """

    evaluate_op = staticmethod(evaluate)
    slope_op = staticmethod(hinge_slope)

    def __init__(
        self, engine: Engine, lam: float, positive: int, costs: np.ndarray, bias: bool = True
    ) -> None:
        super().__init__(engine, lam, bias)
        self._costs = costs
        self.labels: list[np.ndarray] = []
        engine.each(set_known_targets, positive)
        self.set_unlabeled_cost(0.0)

    def set_unlabeled_cost(self, cost: float) -> None:
        """Set c_u: the cost of an unlabeled row of sample weight 1; 0 leaves them out.

        Costs: 1 round, no pass over the rows. Points from before need `at_cost`.
        """
        self.unlabeled_cost = cost
        self.engine.each(set_costs, np.append(self._costs, cost))

    def labeled_part(self, point: Point) -> LabeledPart:
        """Loss and gradient of the labeled rows alone.

        Costs: 1 round over the labeled rows; d + 1 numbers from each group.
        """
        gradient, loss = self.engine.sum(labeled_part, self._bias, point.slot)
        return LabeledPart(loss, gradient)

    def at_cost(self, point: Point, labeled: LabeledPart, cost: float) -> Point:
        """Return the point as it is when c_u becomes `cost`: the rest is linear in c_u.

        Costs: nothing. `set_unlabeled_cost` comes before any other use of the new point.
        """
        growth = cost / self.unlabeled_cost
        value = labeled.loss + 0.5 * self.lam * float(np.add.reduce(point.w * point.w))
        gradient = labeled.gradient + self.lam * point.w
        return replace(
            point,
            value=value + growth * (point.value - value),
            gradient=gradient + growth * (point.gradient - gradient),
        )

    def assign(self, w: np.ndarray, n_positive: int) -> None:
        """Label the `n_positive` unlabeled rows of largest output at w +1, and the others -1.

        Costs: 4-7 rounds, 1 pass over the rows.
        """
        self.engine.each(set_outputs, w, self._bias)
        threshold = Ranked(-np.inf, -1)
        if n_positive > 0:
            threshold = select(self.engine, n_positive - 1, falling_outputs)
        self._remember(self.engine.each(label_top, threshold))

    def switch(self, point: Point, most: int | None) -> tuple[int, Point]:
        """Swap the labels of pairs of rows that are on the wrong side of each other (1.3.2).

        Among rows inside the margin, those labeled +1 by output ascending and those labeled -1
        descending: the k-th of both swap labels as long as the first is below the second, `most`
        pairs at most. Rows of different weight are ordered by what a switch costs, so that it
        lowers the objective for them too. Returns the number of pairs, and the point with the new
        labels.

        Costs: 2-4 rounds if there is nothing to switch, else 10 or so, and a pass over the rows
        that are switched.
        """
        slot = point.slot
        pairs = count_crossing(self.engine, doubtful_positives, doubtful_negatives, slot)
        if most is not None:
            pairs = min(pairs, most)
        if pairs == 0:
            return 0, point
        last_up = select(self.engine, pairs - 1, doubtful_positives, slot)
        last_down = select(self.engine, pairs - 1, falling_negatives, slot)
        gradient, loss, n_active, bits = self.engine.sum(
            swap_labels, self._bias, slot, last_up, last_down
        )
        self._remember(bits)
        return pairs, replace(
            point,
            value=point.value + loss,
            gradient=point.gradient + gradient,
            n_active=point.n_active + n_active,
        )

    def assign_sides(self, w: np.ndarray) -> None:
        """Label unlabeled rows by the sign of their output at w.

        Costs: 1 round, 1 pass over the rows.
        """
        self._remember(self.engine.each(label_by_side, w, self._bias))

    def label(self, bits: list[np.ndarray]) -> None:
        """Give the unlabeled rows labels: one bit a row, by shard. Costs: 1 round."""
        self.engine.each(restore_labels, bits)
        self.labels = bits

    def _remember(self, bits: list[np.ndarray]) -> None:
        """Keep the labels, one bit a row, to put them back after a loss."""
        self.engine.remember("labels", restore_labels, bits)
        self.labels = bits


# Operations on one shard --------------------------------------------------------------------


@operation(sets="targets")
def set_known_targets(shard: Shard, positive: int) -> None:
    """Y of labeled rows; 0 for now for the others."""
    assert shard.codes is not None, "labels are needed"
    target = np.where(shard.codes == positive, 1, -1).astype(np.int8)
    target[shard.codes < 0] = 0
    shard.state["target"] = target


@operation(sets="costs")
def set_costs(shard: Shard, costs: np.ndarray) -> None:
    """Cost of each row: by its class number, the last entry for unlabeled rows."""
    state = shard.state
    state["cost"] = row_costs(shard, costs)
    for slot in (0, 1):  # h of an active row is its cost
        if f"weight{slot}" in state:
            state[f"weight{slot}"] = state["cost"]
    drop_packed(shard)


@operation(reads=["slot{slot}"])
def labeled_part(shard: Shard, bias: float, slot: int) -> tuple[Any, ...]:
    """(gradient, loss) of the labeled rows at the outputs of a slot."""
    assert shard.codes is not None, "labels are needed"
    rows = np.flatnonzero(shard.codes >= 0).astype(np.uint32)
    pair = shard.pair(0.0)
    loss, _ = hinge_over(shard, rows, 1.0, pair, bias, slot)
    return shard.take(pair), loss


@operation(reads=["targets"])
def label_by_side(shard: Shard, w: np.ndarray, bias: float) -> np.ndarray:
    """Label unlabeled rows by the sign of their output at w; returns the labels as bits."""
    rows = np.flatnonzero(shard.unlabeled)
    shard.state["target"][rows] = np.where(outputs_at(shard, w, bias)[rows] > 0, 1, -1)
    return label_bits(shard)


@operation(reads=["slot{slot}"])
def transductive_loss(shard: Shard, slot: int) -> tuple[float]:
    """(sum of the losses, unlabeled rows on the side of their output,)."""
    state = shard.state
    outputs = state[f"outputs{slot}"]
    return (line.transductive_loss(shard.codes, state["target"], state["cost"], outputs),)


def count_positive(shard: Shard, w: np.ndarray, bias: float) -> tuple[int]:
    """(number of unlabeled rows with a positive output at w,)."""
    return (int(np.count_nonzero(outputs_at(shard, w, bias)[shard.unlabeled] > 0)),)
