"""Unlabeled rows with labels that can be switched: the problem of TSVM (Sindhwani & Keerthi, 1.3).

    1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + c_u/2 sum_unl max(0, 1 - y_j o_j)^2 + lam/2 |w|^2

For given labels y_j of the unlabeled rows this is an l2-SVM. The labels are in the shards, in
`target`; the client has a copy, one bit a row, to restore them.

Lists of rows are ordered by (value, row number); `Ranked` is a position in that order.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import Ranked, count_crossing, select, select_each, up_to
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes
from dask_s3vm.problems.hinge import (
    QuadraticProblem,
    active_rows,
    drop_packed,
    evaluate,
    hinge_over,
    hinge_slope,
    outputs_at,
    row_costs,
)
from dask_s3vm.solvers.problem import Point


class LabeledPart(NamedTuple):
    """What the labeled rows contribute to value and gradient of a point."""

    loss: float
    gradient: np.ndarray


class TransductiveProblem(QuadraticProblem):
    """The l2-SVM above, with operations on the labels of the unlabeled rows.

    A switch of labels or a new c_u changes value and gradient of a point in a way that is known
    without a pass over all rows: the methods return the updated point.

    Parameters
    ----------
    engine, lam, positive, costs, bias : see `L2SVMProblem`.

    Attributes
    ----------
    labels : one bit for each row, by shard, of which those of unlabeled rows count; empty before
        labels are assigned.
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
        """Set c_u, the cost of an unlabeled row of sample weight 1; rows of cost 0 are skipped.

        Costs: 1 round, no pass over the rows. Points made before are updated by `at_cost`.
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
        """Return the point for c_u = `cost`: what the labeled part leaves is linear in c_u.

        `unlabeled_cost` must not be 0. Costs: nothing. Call `set_unlabeled_cost` before any other
        use of the new point.
        """
        growth = cost / self.unlabeled_cost
        value = labeled.loss + 0.5 * self.lam * float(np.add.reduce(point.w * point.w))
        gradient = labeled.gradient + self.lam * point.w
        return replace(
            point,
            value=value + growth * (point.value - value),
            gradient=gradient + growth * (point.gradient - gradient),
        )

    def transductive_value(self, point: Point) -> float:
        """Objective with each unlabeled row on the side of its own output.

        Costs: 1 round, no pass over the rows.
        """
        (loss,) = self.engine.sum(transductive_loss, point.slot)
        return 0.5 * loss + 0.5 * self.lam * float(np.add.reduce(point.w * point.w))

    def assign(self, w: np.ndarray, n_positive: int | Callable[[int], int]) -> None:
        """Label the `n_positive` unlabeled rows of largest output at w +1, and the others -1.

        Their number may depend on that of the rows with positive output.
        Costs: 4-10 rounds, 1 pass over the rows; n/8 bytes of labels to the client.
        """
        found = self.engine.each(set_outputs, w, self._bias)
        if callable(n_positive):
            n_positive = n_positive(sum(found))
        threshold = Ranked(-np.inf, -1)
        if n_positive > 0:
            threshold = select(self.engine, n_positive - 1, falling_outputs)
        self._remember(self.engine.each(label_top, threshold))

    def switch(self, point: Point, most: int | None) -> tuple[int, Point]:
        """Swap the labels of pairs of rows for which that lowers the objective (section 1.3.2).

        Among the unlabeled rows with y o < 1, sort those labeled +1 by ascending and those
        labeled -1 by descending output. The k-th rows of both lists swap labels as long as the
        first output is below the second, for at most `most` pairs. Weighted rows are sorted by the
        cost of a switch instead. Returns the number of pairs, and the point with the new labels.

        Costs: 1-4 rounds as a rule if there is nothing to switch, else about 7, a pass over the
        switched rows, and n/8 bytes of labels to the client.
        """
        slot = point.slot
        pairs = count_crossing(self.engine, doubtful_positives, doubtful_negatives, slot)
        if most is not None:
            pairs = min(pairs, most)
        if pairs == 0:
            return 0, point
        lists = doubtful_positives, falling_negatives
        last = select_each(self.engine, (pairs - 1, pairs - 1), lists, slot)
        return pairs, self._swapped(point, *last)

    def _swapped(self, point: Point, last_positive: Ranked, last_negative: Ranked) -> Point:
        """Switch the labels up to a position in either order, and return the updated point."""
        gradient, loss, n_active, bits = self.engine.sum(
            swap_labels, self._bias, point.slot, last_positive, last_negative
        )
        self._remember(bits)
        return replace(
            point,
            value=point.value + loss,
            gradient=point.gradient + gradient,
            n_active=point.n_active + n_active,
        )

    def release(self, point: Point, fewest: int, most: int) -> tuple[int, Point]:
        """Give unlabeled rows the label of their own side, as far as the number of +1 allows.

        `fewest` and `most` bound the number of unlabeled rows labeled +1. Where not all rows on
        the wrong side can be relabeled, those farthest from the plane are. Returns the number of
        rows relabeled, and the point with the new labels. After a switch of all pairs, and from
        labels within the bounds, no others within them have a lower objective at the same w.

        Costs: 1 round if no row is on the wrong side, else 2-9, a pass over the relabeled rows,
        and n/8 bytes of labels to the client.
        """
        slot = point.slot
        n_positive, down, up = self.engine.sum(count_sides, slot)
        n_if_all = n_positive + up - down  # labeled +1, if all of them are relabeled
        down = max(down - max(fewest - n_if_all, 0), 0)
        up = max(up - max(n_if_all - most, 0), 0)
        if down + up == 0:
            return 0, point
        nobody = Ranked(-np.inf, -1)
        last_down = select(self.engine, down - 1, doubtful_positives, slot) if down else nobody
        last_up = select(self.engine, up - 1, falling_negatives, slot) if up else nobody
        return down + up, self._swapped(point, last_down, last_up)

    def assign_sides(self, w: np.ndarray) -> None:
        """Label unlabeled rows by the sign of their output at w.

        Costs: 1 round, 1 pass over the rows; n/8 bytes of labels to the client.
        """
        self._remember(self.engine.each(label_by_side, w, self._bias))

    def label(self, bits: list[np.ndarray]) -> None:
        """Set the labels of the unlabeled rows: one bit a row, by shard.

        Costs: 1 round; n/8 bytes to each group.
        """
        self.engine.each(restore_labels, bits)
        self.labels = bits

    def _remember(self, bits: list[np.ndarray]) -> None:
        """Save the labels, one bit a row, so that the engine can restore them."""
        self.engine.remember("labels", restore_labels, bits)
        self.labels = bits


# Operations on one shard: targets, costs and losses -------------------------------------------


@operation(sets="targets", forgets=["labels"])
def set_known_targets(shard: Shard, positive: int) -> None:
    """Set y of the labeled rows, and 0 for the others until they get a label."""
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
        if f"curvature{slot}" in state:
            state[f"curvature{slot}"] = state["cost"]
    drop_packed(shard)


@operation(reads=["slot{slot}"])
def labeled_part(shard: Shard, bias: float, slot: int) -> tuple[Any, ...]:
    """(gradient, loss) of the labeled rows at the outputs of a slot."""
    assert shard.codes is not None, "labels are needed"
    rows = np.flatnonzero(shard.codes >= 0).astype(np.uint32)
    pair = shard.pair(0.0)
    loss, _ = hinge_over(shard, rows, 1.0, pair, bias, slot)
    return shard.take(pair), loss


@operation(reads=["slot{slot}"])
def transductive_loss(shard: Shard, slot: int) -> tuple[float]:
    """(sum of the losses, unlabeled rows on the side of their output,)."""
    state = shard.state
    outputs = state[f"outputs{slot}"]
    return (passes.transductive_loss(shard.codes, state["target"], state["cost"], outputs),)


# Operations on one shard: outputs and labels by output ----------------------------------------


@operation(sets="outputs")
def set_outputs(shard: Shard, w: np.ndarray, bias: float) -> int:
    """Store the outputs of all rows, including those of cost 0, which an evaluation skips.

    Returns the number of unlabeled rows with positive output.
    """
    shard.state["outputs"] = outputs = outputs_at(shard, w, bias)
    return int(np.count_nonzero(outputs[shard.unlabeled] > 0))


def count_positive(shard: Shard, w: np.ndarray, bias: float) -> tuple[int]:
    """(number of unlabeled rows with positive output at w,)."""
    return (int(np.count_nonzero(outputs_at(shard, w, bias)[shard.unlabeled] > 0)),)


@operation(reads=["outputs"])
def falling_outputs(shard: Shard) -> tuple[np.ndarray, np.ndarray]:
    """(minus outputs, row numbers) of the unlabeled rows: ascending order has the largest first."""
    rows = np.flatnonzero(shard.unlabeled)
    return -shard.state["outputs"][rows], rows


@operation(reads=["targets", "outputs"])
def label_top(shard: Shard, threshold: Ranked) -> np.ndarray:
    """Label unlabeled rows +1 up to a position in the order of falling outputs, -1 behind it.

    Returns the labels as bits; the caller must have the engine remember them.
    """
    values, rows = falling_outputs(shard)
    top = up_to(shard, values, rows, threshold)
    shard.state["target"][rows] = np.where(top, 1, -1)
    del shard.state["outputs"]
    return label_bits(shard)


@operation(reads=["targets"])
def label_by_side(shard: Shard, w: np.ndarray, bias: float) -> np.ndarray:
    """Label unlabeled rows by the sign of their output at w; returns as `label_top`."""
    rows = np.flatnonzero(shard.unlabeled)
    shard.state["target"][rows] = np.where(outputs_at(shard, w, bias)[rows] > 0, 1, -1)
    return label_bits(shard)


# Operations on one shard: label switching -----------------------------------------------------


@operation(reads=["slot{slot}"])
def doubtful_positives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """(key, row numbers) of the unlabeled rows labeled +1 with y o < 1; see `_switch_keys`."""
    return _switch_keys(shard, slot, 1)


@operation(reads=["slot{slot}"])
def doubtful_negatives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """(key, row numbers) of the unlabeled rows labeled -1 with y o < 1; see `_switch_keys`."""
    return _switch_keys(shard, slot, -1)


@operation(reads=["slot{slot}"])
def falling_negatives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """As `doubtful_negatives`, with minus the key: ascending order has the largest gain first."""
    keys, rows = doubtful_negatives(shard, slot)
    return -keys, rows


@operation(reads=["slot{slot}"])
def count_sides(shard: Shard, slot: int) -> tuple[int, int, int]:
    """(unlabeled rows labeled +1, those of them with o < 0, rows labeled -1 with o > 0)."""
    labeled_up = np.count_nonzero(shard.state["target"][shard.unlabeled] > 0)
    down, up = doubtful_positives(shard, slot)[0], doubtful_negatives(shard, slot)[0]
    return int(labeled_up), int(np.count_nonzero(down < 0)), int(np.count_nonzero(up > 0))


def _switch_keys(shard: Shard, slot: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """(key, row numbers) of the active unlabeled rows of one side.

    Keys order rows by the excess loss of the label -1 over +1, s_i (max(0, 1 + o)^2 -
    max(0, 1 - o)^2). It increases with the output: without weights the key is the output itself.
    Rows of weight 0 have target 0 and are on neither side.
    """
    state = shard.state
    active = active_rows(shard, slot)
    rows = np.empty_like(active)
    rows = rows[: passes.doubtful_rows(active, shard.codes, state["target"], side, rows)]
    outputs = state[f"outputs{slot}"][rows]
    if shard.weights is None:
        return outputs, rows
    up, down = np.maximum(0.0, 1.0 - outputs), np.maximum(0.0, 1.0 + outputs)
    return shard.weights[rows] * (down**2 - up**2), rows


@operation(reads=["slot{slot}"])
def swap_labels(
    shard: Shard, bias: float, slot: int, last_positive: Ranked, last_negative: Ranked
) -> tuple[Any, ...]:
    """Switch the labels of the rows up to a position in either order; the caller remembers them.

    The active rows of the slot need no memory: an evaluation with the new labels lists the same.

    Returns the changes of (gradient, loss, number of active rows), and the labels as bits in a
    list: the engine's sum of lists is their concatenation.
    """
    keys, positives = doubtful_positives(shard, slot)
    positives = positives[up_to(shard, keys, positives, last_positive)]
    keys, negatives = falling_negatives(shard, slot)
    negatives = negatives[up_to(shard, keys, negatives, last_negative)]
    change = _flip(shard, np.concatenate([positives, negatives]), bias, slot)
    return *change, [label_bits(shard)]


def _flip(shard: Shard, rows: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """Switch the labels of active rows; return the changes of (gradient, loss, active rows)."""
    pair, target = shard.pair(0.0), shard.state["target"]
    loss_before, n_before = hinge_over(shard, rows, -1.0, pair, bias, slot)
    target[rows] *= -1
    loss_after, n_after = hinge_over(shard, rows, 1.0, pair, bias, slot)
    if n_after < n_before:  # a row beyond the margin is inactive with its new label
        _drop_inactive(shard, slot)
    return shard.take(pair), loss_after + loss_before, n_after - n_before


def _drop_inactive(shard: Shard, slot: int) -> None:
    """Remove rows that are no longer active from the list of a slot."""
    active, state = active_rows(shard, slot), shard.state
    still = active[state["target"][active] * state[f"outputs{slot}"][active] < 1.0]
    active[: len(still)] = still
    state[f"n_active{slot}"] = len(still)
    drop_packed(shard)


# Operations on one shard: labels as bits ------------------------------------------------------


def label_bits(shard: Shard) -> np.ndarray:
    """Return the labels of all rows, one bit a row."""
    return np.packbits(shard.state["target"] > 0)


@operation(sets="labels", reads=["targets"])
def restore_labels(shard: Shard, bits: list[np.ndarray]) -> None:
    """Restore the labels of the unlabeled rows."""
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    unlabeled = shard.unlabeled
    shard.state["target"][unlabeled] = np.where(labels[unlabeled], 1, -1)
