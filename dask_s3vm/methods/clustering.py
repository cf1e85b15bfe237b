"""Maximum margin clustering with the square loss (Gieseke et al., eq. 16 and 17).

Two clusters are the labels, positive or negative, that least squares fits best:

    min over y and w of  1/n sum_i (y_i - w.z_i)^2 + lam |w|^2

with a share of about `balance` of the rows on either side. More clusters are made by splitting the
largest one again, on the resident rows: the others get weight 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import History
from dask_s3vm.methods.restarts import SearchSettings, Window, window_of
from dask_s3vm.methods.rlsc import decompose_rows
from dask_s3vm.methods.s2rlsc import LabelSearch, Placement
from dask_s3vm.problems import least_squares


@dataclass(frozen=True)
class ClusterSettings:
    """Parameters of a clustering: see `estimators.MaxMarginClustering`."""

    n_clusters: int
    lam: float
    balance: float
    tolerance: float
    bias: bool
    center: bool
    placement: Placement


@dataclass(frozen=True, eq=False)
class Split:
    """A cluster cut in two: rows of `parent` with w.(z, 1) > 0 go to the next new cluster.

    w : (d + 1,) in the user's column order. fitness : the objective above, over the parent's rows.
    """

    parent: int
    w: np.ndarray
    fitness: float


def split_rows(
    engine: Engine, settings: ClusterSettings, search: SearchSettings, history: History
) -> tuple[np.ndarray, list[Split]]:
    """Cluster the rows; returns the cluster of each row, and the splits in order.

    The first row of a cluster that is split stays in it. Costs: per split 4 rounds and 3 passes
    over the rows of the cluster, and the search.
    """
    labels = np.zeros(engine.layout.n_rows, dtype=np.int64)
    splits: list[Split] = []
    kept = history.kept("splits")
    if kept is not None:
        labels, splits = kept["labels"].copy(), [Split(**split) for split in kept["splits"]]
    for number in range(len(splits), settings.n_clusters - 1):
        parent = int(np.bincount(labels).argmax())
        members = labels == parent
        n_members = int(np.count_nonzero(members))
        bits = [np.packbits(members[low:high]) for low, high in _edges(engine)]
        engine.each(least_squares.set_members, bits, 1.0 / n_members)
        rows = decompose_rows(engine, settings.bias, [1], settings.center)
        own = replace(search, seed=_child(search.seed, number))
        found = LabelSearch(rows, settings.lam, n_members, settings.placement).run(
            0, _window(n_members, settings), own, {"split": number}, history, "splits/search"
        )
        positive = np.concatenate(
            [
                np.unpackbits(part, count=high - low).astype(bool)
                for part, (low, high) in zip(found.bits, _edges(engine), strict=True)
            ]
        )
        w = engine.layout.to_external(found.solution.w)
        if positive[int(members.argmax())]:
            positive, w = ~positive, -w
        labels[members & positive] = number + 1
        splits.append(Split(parent, w, found.solution.objective))
        done = {"labels": labels.copy(), "splits": [vars(split) for split in splits]}
        history.keep("splits", done)
    return labels, splits


def _window(n_rows: int, settings: ClusterSettings) -> Window:
    """Both clusters have at least one row."""
    share, low, high = window_of(n_rows, settings.balance, settings.tolerance)
    return Window(share, min(max(low, 1), n_rows - 1), max(min(high, n_rows - 1), 1))


def _child(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


def _edges(engine: Engine) -> Iterator[tuple[int, int]]:
    return zip(engine.layout.starts[:-1], engine.layout.starts[1:], strict=True)
