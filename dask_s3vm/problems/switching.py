"""Labels that rows without one are given: operations on one shard.

The order of rows in a list is that of (value, row number); `Ranked` is a place in it.
"""

from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.select import Ranked, up_to
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.switching import doubtful_rows
from dask_s3vm.problems.l2svm import hinge_over
from dask_s3vm.problems.quadratic import active_rows, drop_packed


@operation(sets="outputs")
def set_outputs(shard: Shard, w: np.ndarray, bias: float) -> None:
    """Keep the outputs of all rows, also of those that an evaluation leaves out."""
    shard.state["outputs"] = outputs_at(shard, w, bias)


def outputs_at(shard: Shard, w: np.ndarray, bias: float) -> np.ndarray:
    """Outputs of all rows."""
    outputs = np.empty(shard.n_rows)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(w), bias, outputs)
    return outputs


@operation(reads=["outputs"])
def falling_outputs(shard: Shard) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the unlabeled rows, the largest first when sorted ascending."""
    rows = np.flatnonzero(shard.unlabeled)
    return -shard.state["outputs"][rows], rows


@operation(reads=["slot{slot}"])
def doubtful_positives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """What it costs to switch unlabeled rows that are labeled +1 and inside the margin."""
    return _switch_costs(shard, slot, 1)


@operation(reads=["slot{slot}"])
def doubtful_negatives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """What is gained by switching unlabeled rows that are labeled -1 and inside the margin."""
    return _switch_costs(shard, slot, -1)


@operation(reads=["slot{slot}"])
def falling_negatives(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, the largest first when sorted ascending."""
    outputs, rows = doubtful_negatives(shard, slot)
    return -outputs, rows


def _switch_costs(shard: Shard, slot: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """What the label -1 costs more than +1, s_i (max(0, 1 + o)^2 - max(0, 1 - o)^2).

    Increasing in the output: without weights the output itself gives the same order. Rows of weight
    0 have no label (target 0) and are on neither side.
    """
    state = shard.state
    active = active_rows(shard, slot)
    rows = np.empty_like(active)
    rows = rows[: doubtful_rows(active, shard.codes, state["target"], side, rows)]
    outputs = state[f"outputs{slot}"][rows]
    if shard.weights is None:
        return outputs, rows
    up, down = np.maximum(0.0, 1.0 - outputs), np.maximum(0.0, 1.0 + outputs)
    return shard.weights[rows] * (down**2 - up**2), rows


@operation(reads=["targets", "outputs"])
def label_top(shard: Shard, threshold: Ranked) -> np.ndarray:
    """Label unlabeled rows +1 up to a place in the order of falling outputs, -1 behind it.

    Returns the labels as bits.
    """
    values, rows = falling_outputs(shard)
    top = up_to(shard, values, rows, threshold)
    shard.state["target"][rows] = np.where(top, 1, -1)
    del shard.state["outputs"]
    return label_bits(shard)


@operation(reads=["slot{slot}"])
def swap_labels(
    shard: Shard, bias: float, slot: int, last_up: Ranked, last_down: Ranked
) -> tuple[Any, ...]:
    """Swap the labels of doubtful rows up to a place in either order.

    Returns what that adds to (gradient, loss, number of active rows), and the labels as bits, in a
    list: sums of lists are joined.
    """
    up, up_rows = doubtful_positives(shard, slot)
    down, down_rows = falling_negatives(shard, slot)
    up_rows = up_rows[up_to(shard, up, up_rows, last_up)]
    down_rows = down_rows[up_to(shard, down, down_rows, last_down)]
    change = _flip(shard, np.concatenate([up_rows, down_rows]), bias, slot)
    return *change, [label_bits(shard)]


def _flip(shard: Shard, rows: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """Give active rows the other label; what that adds to (gradient, loss, active rows)."""
    pair, target = shard.pair(0.0), shard.state["target"]
    loss_before, n_before = hinge_over(shard, rows, -1.0, pair, bias, slot)
    target[rows] *= -1
    loss_after, n_after = hinge_over(shard, rows, 1.0, pair, bias, slot)
    if n_after < n_before:  # a row on the far side of the margin rests with its new label
        _drop_resting(shard, slot)
    return shard.take(pair), loss_after + loss_before, n_after - n_before


def _drop_resting(shard: Shard, slot: int) -> None:
    """Take rows that are no longer active off the list of a slot."""
    active, state = active_rows(shard, slot), shard.state
    still = active[state["target"][active] * state[f"outputs{slot}"][active] < 1.0]
    active[: len(still)] = still
    state[f"n_active{slot}"] = len(still)
    drop_packed(shard)


def label_bits(shard: Shard) -> np.ndarray:
    """Labels of all rows, one bit each."""
    return np.packbits(shard.state["target"] > 0)


@operation(sets="labels", reads=["targets"])
def restore_labels(shard: Shard, bits: list[np.ndarray]) -> None:
    """Put back the labels of the unlabeled rows."""
    labels = np.unpackbits(bits[shard.number], count=shard.n_rows)
    unlabeled = shard.unlabeled
    shard.state["target"][unlabeled] = np.where(labels[unlabeled], 1, -1)
