"""S-QP-S3VM: greedy on a monotone submodular set function (Emara & Kantardzic, section III).

Rows of the class that has fewer are picked: the program is the same with classes swapped, there
is less to do, and greedy errs less: on 20,000 rows of kdd99, where four of five are attacks, with
ten labels that weigh an eighth of the other rows, 96 % are labeled right where normal rows are
picked, and 60 % where attacks are (means of ten draws of labels).

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
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.methods.labeling import FoundLabels, LabelingSolution
from dask_s3vm.methods.run import Method
from dask_s3vm.parameters.methods import SQPParameters
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
class PickedLabels(FoundLabels):
    """Labels that greedy found: state and result of a method that is one step.

    value : S of the set.
    proven : the part of the largest value that it is at least.
    sharded : whether shards picked first (GreeDi).
    """

    value: float
    proven: float
    sharded: bool
    done: bool = True


@dataclass(frozen=True)
class PickedSolution(LabelingSolution):
    """A binary solution, and the labels that greedy found."""

    found: PickedLabels | None


class GreedySearch(Method[PickedLabels, PickedLabels]):
    """Labels of one binary problem.

    Parameters
    ----------
    engine, task, cost : see `qp.LabelProgramSearch`.
    parameters : see `estimators.SubmodularS3VM`.
    max_bytes : size of distinct rows that may come together.
    """

    State = PickedLabels
    Result = PickedLabels
    starting = "greedy picks"

    def __init__(
        self,
        engine: Engine,
        task: BinaryTask,
        cost: float,
        parameters: SQPParameters,
        max_bytes: int,
    ) -> None:
        self._engine = engine
        self._task = task
        self._cost = cost
        self._parameters = parameters
        self._max_bytes = max_bytes

    def start(self) -> PickedLabels:
        """Pick."""
        engine, task, parameters = self._engine, self._task, self._parameters
        sums = label_sums(engine, task.positive, task.costs, self._cost, parameters.center)
        n_picks = task.n_positive
        swap = parameters.pick == "fewer" and 2 * n_picks > task.n_unlabeled
        if swap:
            n_picks = task.n_unlabeled - n_picks
        function = SetFunction(sums.swapped() if swap else sums, *kernel_bounds(engine, sums))
        picking = picking_of(function)
        sharded, share = self._where(n_picks / task.n_unlabeled)
        items = gather_picked(engine, picking, share) if sharded else gather_items(engine)
        used, computed = items.pick(picking, n_picks)
        picks, raw = items.picked(used), items.sum(used, len(picking.q))
        value = float(function.value(raw))
        proven = float(proven_share(engine, function, raw, picks))
        if not sharded:  # Theorem 2
            proven = max(proven, 1.0 - 1.0 / math.e)
        bits = bits_of_rows(engine, picks)
        if swap:
            bits, raw = [np.invert(part) for part in bits], sums.unlabeled - raw
        objective = sums.value(raw)
        self.report(
            event="greedi" if sharded else "exact",
            objective=objective,
            set_value=value,
            proven_share=proven,
            distinct_rows=len(items.starts) - 1,
            picks=len(picks),
            gains_computed=computed,
        )
        return PickedLabels(bits, objective, sums.direction(raw), value, proven, sharded, n_iter=1)

    def finish(self, state: PickedLabels) -> PickedLabels:
        """Return the labels."""
        return state

    def _where(self, ratio: float) -> tuple[bool, float]:
        """Whether shards pick first, and the share of its rows that one picks: from the data."""
        sharded = self._parameters.sharded
        if sharded is False:
            return False, 1.0
        total = distinct_bytes(self._engine)
        if sharded == "auto" and total <= self._max_bytes:
            return False, 1.0
        return True, max(ratio, min(MORE * ratio, self._max_bytes / max(total, 1), 1.0))
