"""Vertices of the polytope {0 <= P <= 1, sum P = r u} (Emara & Kantardzic, Problem 3).

A vertex is 1 on some unlabeled rows, a fraction on one more if r u is not an integer, and 0 on the
rest. The vertices of interest have their ones on the rows of smallest product with a direction.
Such a P is given by the direction, the last row with p > 0 and its share; shards can restore it
from these.

Row state in a shard: `score`, products with the last direction, and `share0`, `share1`, the P of
two points, so that a trial point can be evaluated while the current one is kept.
"""

from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.blocks import copy_rows, stack_rows
from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import Ranked, select, up_to
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.passes import gram_matrix, sum_rows
from dask_s3vm.kernels.rows import Rows
from dask_s3vm.problems.hinge import outputs_at
from dask_s3vm.problems.label_sums import LabelSums, unlabeled_rows

#: Number of rows on each side of the threshold that are tried for swaps.
NEAR_ROWS = 128


@dataclass(frozen=True)
class Vertex:
    """P: 1 before `last` in the order of products with `direction`, `share` at `last`, 0 behind.

    `edits` maps global row numbers to the entries of P that differ from that rule.
    """

    direction: np.ndarray
    last: Ranked
    share: float
    edits: dict[int, float]


@dataclass(frozen=True)
class ProgramPoint:
    """A P with its sum of raw rows and F. `vertex` is None for P = r.

    `slot` is that of the shards where P is stored; None if it is not.
    """

    vertex: Vertex | None
    raw: np.ndarray
    value: float
    slot: int | None


@dataclass(frozen=True)
class Near:
    """Rows near the threshold: global numbers, gradient, P, rows, and their inner products."""

    numbers: np.ndarray
    o: np.ndarray
    p: np.ndarray
    rows: Rows
    gram: np.ndarray


class LabelProgram:
    """F over the vertices.

    Parameters
    ----------
    engine : rows with class numbers, -1 where unlabeled.
    sums : see `label_sums`.
    ratio : r.
    """

    def __init__(self, engine: Engine, sums: LabelSums, ratio: float) -> None:
        self.engine = engine
        self.sums = sums
        budget = ratio * sums.n_unlabeled
        whole = round(budget)
        if abs(budget - whole) <= 1e-9 * max(1.0, budget):  # r = k / u up to rounding
            budget = float(whole)
        self.budget = budget

    def uniform(self) -> ProgramPoint:
        """P = r. Costs nothing."""
        raw = self.budget / self.sums.n_unlabeled * self.sums.unlabeled
        return ProgramPoint(None, raw, self.sums.value(raw), None)

    def vertex(self, direction: np.ndarray, beside: ProgramPoint | None = None) -> ProgramPoint:
        """Minimize the product with `direction` over the polytope; the slot of `beside` is kept.

        Costs: 4-6 rounds; 1 pass over the rows, and 1 over the smaller side; d + 1 numbers to and
        from each group.
        """
        whole = int(self.budget)
        share = self.budget - whole
        if share == 0.0:
            whole, share = whole - 1, 1.0
        last = Ranked(-np.inf, -1)
        if whole >= 0:
            last = select(self.engine, whole, scores, direction)
            self.engine.remember("score", set_scores, direction)
        else:
            self.engine.each(set_scores, direction)
        slot = 0 if beside is None or beside.slot is None else 1 - beside.slot
        return self._point(Vertex(direction, last, share, {}), slot)

    def near(self, point: ProgramPoint) -> Near | None:
        """Rows near the threshold, for swaps; None if one side is empty.

        `score` must be the products with the gradient at the point. At most `NEAR_ROWS` rows a
        side: those for which a swap costs least to first order.

        Costs: 5-9 rounds, no pass over the rows; `NEAR_ROWS` rows a side come to the client.
        """
        slot = point.slot
        assert slot is not None, "the point is not in the shards"
        n_held = -int(-self.budget // 1)
        n_left = self.sums.n_unlabeled - int(self.budget)
        if n_held == 0 or n_left == 0:
            return None
        held = select(self.engine, min(NEAR_ROWS, n_held) - 1, held_scores, slot)
        left = select(self.engine, min(NEAR_ROWS, n_left) - 1, left_scores, slot)
        parts = [part for part in self.engine.each(near_rows, slot, held, left) if len(part[0])]
        numbers, o, p = (np.concatenate([part[k] for part in parts]) for k in range(3))
        rows = stack_rows([part[3] for part in parts])
        gram = gram_matrix(
            rows, np.arange(len(numbers), dtype=np.uint32), self.engine.layout.n_features
        )
        return Near(numbers, o, p, rows, gram)

    def moved(self, point: ProgramPoint, near: Near, p: np.ndarray) -> ProgramPoint:
        """Return the point with entries `p` at the rows near the threshold.

        Costs: 1 round, no pass over the rows.
        """
        assert point.vertex is not None, "P = r is no vertex"
        changed = np.flatnonzero(p != near.p)
        edits = point.vertex.edits | {int(near.numbers[k]): float(p[k]) for k in changed}
        raw = point.raw.copy()
        sum_rows(near.rows, changed.astype(np.uint32), (p - near.p)[changed], raw)
        self.engine.each(set_edits, point.slot, edits)
        vertex = replace(point.vertex, edits=edits)
        return replace(point, vertex=vertex, raw=raw, value=self.sums.value(raw))

    def restored(self, point: ProgramPoint) -> ProgramPoint:
        """Return a point that was read back, which the shards then know. Costs: 1 round, 1 pass."""
        if point.vertex is None:
            return point
        self.engine.each(put_vertex, point.vertex, 0)
        return replace(point, slot=0)

    def bits(self, point: ProgramPoint) -> list[np.ndarray]:
        """Return the rows with p >= 1/2, one bit a row, by shard. Costs: 1 round, 1 pass."""
        assert point.vertex is not None, "P = r labels nothing"
        return self.engine.each(vertex_bits, point.vertex)

    def _point(self, vertex: Vertex, slot: int) -> ProgramPoint:
        """Store a vertex in a slot of the shards, and sum its rows, over the smaller side."""
        fewer = self.budget <= 0.5 * self.sums.n_unlabeled
        (raw,) = self.engine.sum(set_vertex, vertex, slot, fewer)
        self.engine.remember(f"share{slot}", put_vertex, vertex, slot)
        if not fewer:
            raw = self.sums.unlabeled - raw
        return ProgramPoint(vertex, raw, self.sums.value(raw), slot)


# Operations on one shard ----------------------------------------------------------------------


@operation(sets="score")
def set_scores(shard: Shard, direction: np.ndarray) -> None:
    """Store the products of all rows with a direction."""
    shard.state["score"] = outputs_at(shard, direction, 1.0)


def scores(shard: Shard, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(products with a direction, row numbers) of the unlabeled rows; stores the products."""
    set_scores(shard, direction)
    rows = unlabeled_rows(shard)
    return shard.state["score"][rows], rows


@operation(reads=["score"])
def set_vertex(shard: Shard, vertex: Vertex, slot: int, fewer: bool) -> tuple[np.ndarray]:
    """Store a vertex of the stored score in a slot; (sum of p x, or of (1 - p) x,)."""
    shard.state[f"share{slot}"] = share = _shares(shard, vertex, shard.state["score"])
    weight = share if fewer else 1.0 - share
    rows = unlabeled_rows(shard)
    rows = rows[weight[rows] > 0.0]
    raw = np.zeros(shard.n_features + 1)
    sum_rows(shard.rows, rows, weight[rows], raw)
    return (raw,)


@operation(sets="share{slot}")
def put_vertex(shard: Shard, vertex: Vertex, slot: int) -> None:
    """Store a vertex in a slot, from its own direction."""
    shard.state[f"share{slot}"] = _shares(shard, vertex, outputs_at(shard, vertex.direction, 1.0))


@operation(changes="share{slot}")
def set_edits(shard: Shard, slot: int, edits: dict[int, float]) -> None:
    """Change single entries of the P in a slot."""
    _edit(shard, shard.state[f"share{slot}"], edits)


@operation(reads=["score", "share{slot}"])
def held_scores(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """(minus scores, row numbers) of the rows with p > 0: ascending order has the largest first."""
    rows = unlabeled_rows(shard)
    rows = rows[shard.state[f"share{slot}"][rows] > 0.0]
    return -shard.state["score"][rows], rows


@operation(reads=["score", "share{slot}"])
def left_scores(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """(scores, row numbers) of the rows with p < 1."""
    rows = unlabeled_rows(shard)
    rows = rows[shard.state[f"share{slot}"][rows] < 1.0]
    return shard.state["score"][rows], rows


@operation(reads=["score", "share{slot}"])
def near_rows(
    shard: Shard, slot: int, last_held: Ranked, last_left: Ranked
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Rows]:
    """(global numbers, scores, shares, rows) of the rows up to a position in either order."""
    chosen = np.zeros(shard.n_rows, dtype=bool)
    for values_of, last in ((held_scores, last_held), (left_scores, last_left)):
        values, rows = values_of(shard, slot)
        chosen[rows[up_to(shard, values, rows, last)]] = True
    near = np.flatnonzero(chosen).astype(np.uint32)
    state = shard.state
    numbers = near.astype(np.int64) + shard.first_row
    return numbers, state["score"][near], state[f"share{slot}"][near], copy_rows(shard.rows, near)


def vertex_bits(shard: Shard, vertex: Vertex) -> np.ndarray:
    """Return which rows have p >= 1/2 at a vertex, as bits."""
    return np.packbits(_shares(shard, vertex, outputs_at(shard, vertex.direction, 1.0)) >= 0.5)


def _shares(shard: Shard, vertex: Vertex, score: np.ndarray) -> np.ndarray:
    """Return P of all rows, 0 for labeled ones; `score` has the products with the direction."""
    rows = unlabeled_rows(shard)
    share = np.zeros(shard.n_rows)
    share[rows[up_to(shard, score[rows], rows, vertex.last)]] = 1.0
    place = vertex.last.row - shard.first_row
    if 0 <= place < shard.n_rows:
        share[place] = vertex.share
    _edit(shard, share, vertex.edits)
    return share


def _edit(shard: Shard, share: np.ndarray, edits: dict[int, float]) -> None:
    for number, entry in edits.items():
        if 0 <= number - shard.first_row < shard.n_rows:
            share[number - shard.first_row] = entry


# Local search around a vertex: moves between pairs of entries ---------------------------------
#
# At P with gradient o of the concave F, moving t from p_i to p_j changes F by exactly
#
#     t (o_j - o_i) - 1/2 C*^2 t^2 |z_i - z_j|^2
#
# At a vertex where no Frank-Wolfe step descends, o_j >= o_i for all such pairs. A move along an
# edge of the polytope may still descend: the full move t = min(p_i, 1 - p_j) is the best one.


def swap_pairs(
    p: np.ndarray, o: np.ndarray, gram: np.ndarray, curvature: float, least: float, most: int
) -> tuple[np.ndarray, float, int]:
    """Carry out the best move between two entries until none gains more than `least`.

    Parameters
    ----------
    p, o : probabilities and gradient of some rows.
    gram : inner products of these rows; moves do not depend on the origin of the rows.
    curvature : C*^2.
    least : bound that the gain of a move must exceed.
    most : bound on the number of moves.

    Returns
    -------
    (new p, decrease of F, number of moves). p stays a vertex: a move between 1 and 0 swaps them, a
    move with the fractional entry passes the fraction on.
    """
    p, o = p.copy(), o.copy()
    square = np.diag(gram)
    distance = np.maximum(square[:, None] + square[None, :] - 2.0 * gram, 0.0)
    fall, moves = 0.0, 0
    while moves < most:
        t = np.minimum(p[:, None], 1.0 - p[None, :])
        change = t * (o[None, :] - o[:, None]) - 0.5 * curvature * t**2 * distance
        np.fill_diagonal(change, 0.0)
        i, j = np.unravel_index(int(np.argmin(change)), change.shape)
        if not change[i, j] < -least:
            break
        step = t[i, j]
        full = step == 1.0 - p[j]
        p[i], p[j] = p[i] - step, 1.0 if full else p[j] + step
        # up to a constant that all entries share, on which no move depends
        o -= curvature * step * (gram[:, j] - gram[:, i])
        fall -= float(change[i, j])
        moves += 1
    return p, fall, moves
