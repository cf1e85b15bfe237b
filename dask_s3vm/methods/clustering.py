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
from dask_s3vm.engine.select import select
from dask_s3vm.exceptions import warn
from dask_s3vm.methods.base import threshold_between
from dask_s3vm.methods.restarts import SearchSettings
from dask_s3vm.methods.rlsc import decompose_rows
from dask_s3vm.methods.run import Record
from dask_s3vm.methods.s2rlsc import LabelSearch, label_array
from dask_s3vm.parameters.methods import ClusteringParameters
from dask_s3vm.problems import least_squares
from dask_s3vm.problems.label_search import Window, window_of


@dataclass(frozen=True)
class Split:
    """A cluster cut in two: rows of `parent` with w.(z, 1) > 0 go to the next new cluster.

    w : (d + 1,) in the user's column order.
    fitness : the objective above, over the parent's rows.
    bits : rows that go to the new cluster, one bit a row.
    """

    parent: int
    w: np.ndarray
    fitness: float
    bits: np.ndarray


def split_rows(
    record: Record, engine: Engine, parameters: ClusteringParameters, search: SearchSettings
) -> tuple[np.ndarray, list[Split]]:
    """Cluster the rows; returns the cluster of each row, and the splits in order.

    The first row of a cluster that is split stays in it. Costs: per split 6 rounds and 5 passes
    over the rows of the cluster, and the search; up to 16 rounds more where the bias is moved.
    """
    n_rows = engine.layout.n_rows
    labels = np.zeros(n_rows, dtype=np.int64)
    splits: list[Split] = []
    for number in range(parameters.n_clusters - 1):
        split = record.once(
            f"split {number}",
            Split,
            lambda: _split(record, engine, parameters, search, labels, number),  # noqa: B023
        )
        labels[np.unpackbits(split.bits, count=n_rows).astype(bool)] = number + 1
        splits.append(split)
    return labels, splits


def _split(
    record: Record,
    engine: Engine,
    parameters: ClusteringParameters,
    search: SearchSettings,
    labels: np.ndarray,
    number: int,
) -> Split:
    """Cut the largest cluster in two."""
    parent = int(np.bincount(labels).argmax())
    members = labels == parent
    n_members = int(np.count_nonzero(members))
    bits = [np.packbits(members[low:high]) for low, high in _edges(engine)]
    engine.each(least_squares.set_members, bits, 1.0 / n_members)
    rows = decompose_rows(engine, parameters.fit_intercept, [1], parameters.center)
    own = replace(search, seed=_child(search.seed, number))
    found = LabelSearch(rows, parameters.lam, n_members, parameters.sharded, parameters.dtype).run(
        record, f"split {number}", {"split": number}, 0, _window(n_members, parameters), own
    )
    record.ended({"split": number})
    positive = label_array(engine, found, others=False).astype(bool)
    w = found.w
    (n_above,) = engine.sum(least_squares.count_positive, w)
    if n_above in (0, n_members):
        warn(
            f"MaxMarginClustering: lam={parameters.lam:g} is so large beside the rows that all "
            f"outputs of split {number + 1} have one sign, and clusters may be arbitrary; divide "
            "the columns by their ranges (dask_s3vm.features.UnitScaler), or make lam smaller",
            UserWarning,
        )
        if parameters.fit_intercept:
            n_positive = int(np.count_nonzero(positive & members))
            w = _between_clusters(engine, w, n_positive, n_members)
    w = engine.layout.to_external(w)
    if positive[int(members.argmax())]:
        positive, w = ~positive, -w
    return Split(parent, w, found.objective, np.packbits(members & positive))


def _between_clusters(engine: Engine, w: np.ndarray, n_positive: int, n_members: int) -> np.ndarray:
    """Move the bias to where as many rows have a positive output as have the label.

    Weights that the regularizer keeps small leave all outputs near the mean label, on one side of
    0. Their order tells the clusters apart all the same.
    """
    last, first = (
        -select(engine, place, least_squares.falling_outputs, w).value
        for place in (n_positive - 1, n_positive)
    )
    moved = w.copy()
    moved[-1] -= threshold_between(last, first, n_positive, n_members)
    return moved


def _window(n_rows: int, parameters: ClusteringParameters) -> Window:
    """Both clusters have at least one row."""
    share, low, high = window_of(n_rows, parameters.balance, parameters.balance_tol)
    return Window(share, min(max(low, 1), n_rows - 1), max(min(high, n_rows - 1), 1))


def _child(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


def _edges(engine: Engine) -> Iterator[tuple[int, int]]:
    return zip(engine.layout.starts[:-1], engine.layout.starts[1:], strict=True)
