"""S-QP-S3VM: greedy on a monotone submodular set function (Emara & Kantardzic, section III).

Rows of the class that has fewer are picked: the program is the same with classes swapped, there
is less to do, and greedy errs less: on kdd99, where four rows of five are attacks, 88 % of the rows
are labeled right where normal rows are picked (mean of ten draws of labels), and 61 % where
attacks are (five draws).

Plain greedy (Algorithm 1) reaches at least 1 - 1/e of the largest value (Theorem 2). It is run
lazily, on distinct rows with their numbers, and gives the same set.

Rows that are too many to bring together: GreeDi (Mirzasoleiman et al., Distributed Submodular
Maximization, 2013). Every shard runs greedy on its own rows, and greedy picks among what these have
picked. Let B be the best set, and each of m shards pick a share c of its rows. By submodularity one
shard has a part of B of value S(B) / m at least; its picks, c times as many as that part or more,
reach 1 - exp(-c) of it; and greedy on all picks 1 - 1/e of what is best there:

    S(A) >= (1 - 1/e) (1 - exp(-c)) S(B) / m

That is the worst case (rows spread over shards at random do better: Barbosa et al., 2015). What was
reached is proven after the fact: no set of k rows has more than S(A) and the k largest gains at A
together (`proven_share`). Theirs is c u >= k; here k is a share of all rows, more than a shard has,
and c is that share at least.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels
from dask_s3vm.problems.label_sums import kernel_bounds, label_sums
from dask_s3vm.problems.submodular import (
    SetFunction,
    bits_of_rows,
    distinct_bytes,
    gather_items,
    gather_picked,
    picking_of,
    proven_share,
)

#: Shards pick so many times the share of rows that is wanted, if that fits.
MORE = 2.0


@dataclass(frozen=True)
class SubmodularSettings:
    """Parameters: see `estimators.SubmodularS3VM`.

    cost : C*.
    pick : "fewer" or "positive".
    scheme : "exact", "greedi", or "auto": exact if the distinct rows fit.
    max_bytes : size of distinct rows that may come together.
    """

    cost: float
    center: bool
    pick: str
    scheme: str
    max_bytes: int


@dataclass(frozen=True)
class PickedLabels(FoundLabels):
    """Labels that greedy found.

    value : S of the set.
    proven : the part of the largest value that it is at least.
    scheme : "exact" or "greedi".
    """

    value: float
    proven: float
    scheme: str


def pick_labels(
    engine: Engine, task: TransductiveTask, settings: SubmodularSettings, history: History
) -> PickedLabels:
    """Find labels for one binary problem; `task.costs` are C times the weights of the classes.

    `history` takes one row.
    """
    began = time.perf_counter()
    sums = label_sums(engine, task.positive, task.costs, settings.cost, settings.center)
    n_picks = task.n_positive
    swap = settings.pick == "fewer" and 2 * n_picks > task.n_unlabeled
    if swap:
        n_picks = task.n_unlabeled - n_picks
    function = SetFunction(sums.swapped() if swap else sums, *kernel_bounds(engine, sums))
    picking = picking_of(function)
    scheme, keep = _scheme(engine, n_picks / task.n_unlabeled, settings)
    exact = scheme == "exact"
    items = gather_items(engine) if exact else gather_picked(engine, picking, keep)
    used, computed = items.pick(picking, n_picks)
    picks, raw = items.picked(used), items.sum(used, len(picking.q))
    value = float(function.value(raw))
    proven = float(proven_share(engine, function, raw, picks))
    if exact:  # Theorem 2
        proven = max(proven, 1.0 - 1.0 / math.e)
    bits = bits_of_rows(engine, picks)
    if swap:
        bits, raw = [np.invert(part) for part in bits], sums.unlabeled - raw
    found = PickedLabels(
        bits,
        sums.value(raw),
        sums.direction(raw),
        len(picks),
        value,
        proven,
        scheme,
    )
    history.add(
        {
            "class": task.positive,
            "event": scheme,
            "objective": found.objective,
            "value": value,
            "proven": proven,
            "distinct_rows": len(items.starts) - 1,
            "picks": len(picks),
            "gains_computed": computed,
            "seconds": time.perf_counter() - began,
        }
    )
    return found


def _scheme(engine: Engine, ratio: float, settings: SubmodularSettings) -> tuple[str, float]:
    """Which scheme, and the share of its rows that a shard picks; both follow from the data."""
    if settings.scheme == "exact":
        return "exact", 1.0
    total = distinct_bytes(engine)
    if settings.scheme == "auto" and total <= settings.max_bytes:
        return "exact", 1.0
    return "greedi", max(ratio, min(MORE * ratio, settings.max_bytes / max(total, 1), 1.0))
