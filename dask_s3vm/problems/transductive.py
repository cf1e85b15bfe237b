"""Rows without a label that are given one: the problem inside TSVM (Sindhwani & Keerthi, 1.3).

    1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + c_u/2 sum_unl max(0, 1 - y_j o_j)^2 + lam/2 |w|^2

For given labels y_j of the unlabelled rows this is an l2-SVM. The labels live in the shards, in
`target`; what the client keeps of them, to put them back, is one bit a row.
"""

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import Ranked, count_crossing, select
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import line, passes
from dask_s3vm.kernels.switching import doubtful_rows
from dask_s3vm.problems.base import Point
from dask_s3vm.problems.l2svm import evaluate, hinge_slope, row_costs
from dask_s3vm.problems.quadratic import QuadraticProblem, slot_arrays


class SemiSupervisedProblem(QuadraticProblem):
    """A problem with unlabelled rows, whatever they are taken for."""

    def transductive_value(self, point: Point) -> float:
        """Objective with each unlabelled row on the side of its own output.

        Costs: 1 round, no pass over the rows.
        """
        (loss,) = self.engine.sum(transductive_loss, point.slot)
        return 0.5 * loss + 0.5 * self.lam * float(np.add.reduce(point.w * point.w))


class TransductiveProblem(SemiSupervisedProblem):
    """The l2-SVM above, with operations on the labels of the unlabelled rows.

    Parameters
    ----------
    engine, lam, positive, costs, bias : see `L2SVMProblem`.
    """

    evaluate_op = staticmethod(evaluate)
    slope_op = staticmethod(hinge_slope)

    def __init__(
        self, engine: Engine, lam: float, positive: int, costs: np.ndarray, bias: bool = True
    ) -> None:
        super().__init__(engine, lam, bias)
        self._costs = costs
        engine.prepare("targets", set_known_targets, positive)
        self.set_unlabeled_cost(0.0)

    def set_unlabeled_cost(self, cost: float) -> None:
        """Set c_u: the cost of an unlabelled row of sample weight 1; 0 leaves them out.

        Costs: 1 round, no pass over the rows. Points from before are no longer valid.
        """
        self.engine.prepare("costs", set_costs, np.append(self._costs, cost))

    def assign(self, w: np.ndarray, n_positive: int) -> None:
        """Label the `n_positive` unlabelled rows of largest output at w +1, and the others -1.

        Costs: 4-7 rounds, 1 pass over the rows.
        """
        self.engine.each(all_outputs, w, self._bias)
        threshold = Ranked(-np.inf, -1)
        if n_positive > 0:
            threshold = select(self.engine, n_positive - 1, falling_outputs, 0)
        self._remember(self.engine.each(label_top, 0, threshold))

    def switch(self, point: Point, most: int | None) -> int:
        """Swap the labels of pairs of rows that are on the wrong side of each other (1.3.2).

        Among rows inside the margin, those labelled +1 by output ascending and those labelled -1
        descending: the k-th of both swap labels as long as the first is below the second, `most`
        pairs at most. Rows of different weight are ordered by what a switch costs, so that it
        lowers the objective for them too. Returns the number of pairs.

        Costs: 2-4 rounds if there is nothing to switch, 10 otherwise; no pass over the rows.
        """
        slot = point.slot
        pairs = count_crossing(self.engine, doubtful_positives, doubtful_negatives, slot)
        if most is not None:
            pairs = min(pairs, most)
        if pairs:
            last_up = select(self.engine, pairs - 1, doubtful_positives, slot)
            last_down = select(self.engine, pairs - 1, falling_negatives, slot)
            self._remember(self.engine.each(swap_labels, slot, last_up, last_down))
        return pairs

    def _remember(self, bits: list[np.ndarray]) -> None:
        """Keep the labels, one bit a row, to put them back after a loss."""
        self.engine.remember("labels", restore_labels, bits)


# Operations on one shard --------------------------------------------------------------------


def set_known_targets(shard: Shard, positive: int) -> None:
    """Y of labelled rows; 0 for now for the others."""
    assert shard.codes is not None, "labels are needed"
    target = np.where(shard.codes == positive, 1, -1).astype(np.int8)
    target[shard.codes < 0] = 0
    shard.state["target"] = target


def set_costs(shard: Shard, costs: np.ndarray) -> None:
    """Cost of each row: by its class number, the last entry for unlabelled rows."""
    shard.state["cost"] = row_costs(shard, costs)


def all_outputs(shard: Shard, w: np.ndarray, bias: float) -> None:
    """Outputs of all rows in slot 0, also of those that an evaluation leaves out."""
    outputs, _ = slot_arrays(shard, 0)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(w), bias, outputs)


def transductive_loss(shard: Shard, slot: int) -> tuple[float]:
    """(sum of the losses, unlabelled rows on the side of their output,)."""
    state = shard.state
    outputs = state[f"outputs{slot}"]
    return (line.transductive_loss(shard.codes, state["target"], state["cost"], outputs),)


def _switch_costs(shard: Shard, slot: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """What the label -1 costs more than +1, s_i (max(0, 1 + o)^2 - max(0, 1 - o)^2).

    Increasing in the output: without weights the output itself gives the same order. Rows of weight
    0 have no label (target 0) and are on neither side.
    """
    state = shard.state
    rows = np.empty(shard.n_rows, dtype=np.uint32)
    found = doubtful_rows(shard.codes, state["target"], state[f"outputs{slot}"], side, rows)
    rows = rows[:found]
    outputs = state[f"outputs{slot}"][rows]
    if shard.weights is None:
        return outputs, rows
    up, down = np.maximum(0.0, 1.0 - outputs), np.maximum(0.0, 1.0 + outputs)
    return shard.weights[rows] * (down**2 - up**2), rows


def unlabeled_outputs(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the unlabelled rows."""
    rows = np.flatnonzero(shard.unlabeled)
    return shard.state[f"outputs{slot}"][rows], rows


def falling_outputs(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the unlabelled rows, the largest first when sorted ascending."""
    outputs, rows = unlabeled_outputs(shard, slot)
    return -outputs, rows


def doubtful_positives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """What it costs to switch unlabelled rows that are labelled +1 and inside the margin."""
    return _switch_costs(shard, slot, 1)


def doubtful_negatives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """What is gained by switching unlabelled rows that are labelled -1 and inside the margin."""
    return _switch_costs(shard, slot, -1)


def falling_negatives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, the largest first when sorted ascending."""
    outputs, rows = doubtful_negatives(shard, slot)
    return -outputs, rows


def label_top(shard: Shard, slot: int, threshold: Ranked) -> np.ndarray:
    """Label unlabelled rows +1 up to a place in the order of falling outputs, -1 behind it.

    Returns the labels as bits.
    """
    values, rows = falling_outputs(shard, slot)
    top = _up_to(shard, values, rows, threshold)
    shard.state["target"][rows] = np.where(top, 1, -1)
    return label_bits(shard)


def swap_labels(shard: Shard, slot: int, last_up: Ranked, last_down: Ranked) -> np.ndarray:
    """Swap the labels of doubtful rows up to a place in either order; returns them as bits."""
    up, up_rows = doubtful_positives(shard, slot)
    down, down_rows = falling_negatives(shard, slot)
    target = shard.state["target"]
    target[up_rows[_up_to(shard, up, up_rows, last_up)]] = -1
    target[down_rows[_up_to(shard, down, down_rows, last_down)]] = 1
    return label_bits(shard)


def label_bits(shard: Shard) -> np.ndarray:
    """Labels of all rows, one bit each."""
    return np.packbits(shard.state["target"] > 0)


def restore_labels(shard: Shard, bits: list[np.ndarray]) -> None:
    """Put back the labels of the unlabelled rows."""
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    unlabeled = shard.unlabeled
    shard.state["target"][unlabeled] = np.where(labels[unlabeled], 1, -1)


def _up_to(shard: Shard, values: np.ndarray, rows: np.ndarray, last: Ranked) -> np.ndarray:
    """Which (value, row) are not behind `last`."""
    return (values < last.value) | ((values == last.value) & (rows <= last.row - shard.start))


def count_positive(shard: Shard, w: np.ndarray, bias: float) -> tuple[int]:
    """(number of unlabelled rows with a positive output at w,)."""
    all_outputs(shard, w, bias)
    outputs, _ = unlabeled_outputs(shard, 0)
    return (int(np.count_nonzero(outputs > 0)),)
