"""Soft labels of the unlabeled rows, in the shards: what the projected estimator searches.

See `methods.projected`. `square` are the d_i^2 of `problems.least_squares`.
"""

from collections.abc import Sequence

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import soft_labels as passes
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems.hinge import outputs_at, row_costs
from dask_s3vm.problems.least_squares import labeled_in_fit, targets_of, unlabeled_in_fit
from dask_s3vm.problems.tiles import add_gram, tiles


@operation(reads=["squares"])
def all_moments(shard: Shard, positives: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(sum of d^2 z z^T over all rows, (d + 1, k) sum of d^2 y z over the labeled ones).

    Rows z have a 1 behind. Costs: 1 round, 1 pass with d^2 operations a row; d^2 numbers from each
    group.
    """
    width = shard.n_features + 1
    gram, moments = np.zeros((width, width)), np.zeros((width, len(positives)))
    square = shard.state["square"]
    add_gram(gram, shard, np.flatnonzero(square > 0), square)
    with one_blas_thread():
        for part, tile in tiles(shard, labeled_in_fit(shard)):
            moments += tile.T @ (square[part][:, None] * targets_of(shard, part, positives))
    return gram, moments


@operation(sets="soft", reads=["squares"])
def start_soft(shard: Shard) -> None:
    """Begin with labels 0."""
    free = unlabeled_in_fit(shard).astype(np.uint32)
    shard.state["soft"] = free, np.zeros(len(free)), np.zeros(len(free))


@operation(changes="soft", reads=["squares"])
def step_soft(shard: Shard, v: np.ndarray, bias: float, momentum: float) -> tuple[np.ndarray]:
    """Make a projected gradient step: (moments sum d^2 q x of the new labels,).

    Costs: 1 round, 1 pass over the unlabeled rows; d numbers each way.
    """
    free, now, before = shard.state["soft"]
    now, before = now.copy(), before.copy()
    pair = shard.pair(v)
    passes.soft_step(shard.rows, free, shard.state["square"], momentum, now, before, pair, bias)
    shard.state["soft"] = free, now, before
    return (shard.take(pair),)


@operation(reads=["soft", "squares"])
def soft_gap(shard: Shard, v: np.ndarray, bias: float) -> tuple[float]:
    """(sum d^2 (g q + |g|) with g = x.v,): most that other labels could gain to first order.

    Costs: 1 round, 1 pass over the unlabeled rows.
    """
    free, now, _ = shard.state["soft"]
    pair = shard.pair(v)
    return (passes.soft_gap(shard.rows, free, shard.state["square"], now, pair, bias),)


def labeled_loss(
    shard: Shard, w: np.ndarray, bias: float, positive: int, costs: np.ndarray
) -> tuple[float]:
    """(sum of cost (y - w.x)^2 over the labeled rows,). Costs: 1 round, 1 pass."""
    assert shard.codes is not None, "labels are needed"
    target = np.where(shard.codes == positive, 1.0, -1.0)
    residual = target - outputs_at(shard, w, bias)
    return (float(np.add.reduce(row_costs(shard, np.append(costs, 0.0)) * residual**2)),)
