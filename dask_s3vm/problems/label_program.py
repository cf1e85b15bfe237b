"""Vertices of {0 <= P <= 1, sum P = r u}, kept in the shards (Emara & Kantardzic, Problem 3).

A vertex is 1 on some unlabeled rows, a fraction on one more if r u is not whole, 0 on the rest.
Those of interest are the rows of smallest product with a direction: a direction, the last row
that is in, and its share tell all of P, so that shards can be set up again from them.

Row state in a shard: `score`, products with the last direction, and `share0`, `share1`, the P of
two points, so that a trial can be looked at while the current one is kept.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.select import Ranked, select, up_to
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.listed import add_rows, gram_matrix
from dask_s3vm.kernels.rows import Rows
from dask_s3vm.problems.label_sums import LabelSums, free_rows
from dask_s3vm.problems.packing import copied_rows, stacked_rows

#: Rows on each side of the threshold that are tried for swaps.
NEAR = 128


@dataclass(frozen=True)
class Vertex:
    """P: 1 before `last` in the order of products with `direction`, `share` there, 0 behind.

    `edits` are rows, by global number, whose entry is another one, and these entries.
    """

    direction: np.ndarray
    last: Ranked
    share: float
    edits: dict[int, float]


@dataclass(frozen=True)
class ProgramPoint:
    """A P: its sum of raw rows, F, and the vertex that it is; None for P = r.

    `slot` tells where the shards keep it; None if they do not.
    """

    vertex: Vertex | None
    raw: np.ndarray
    value: float
    slot: int | None

    def state(self) -> dict[str, Any]:
        """All that is known of the point, without what the shards keep of it."""
        assert self.vertex is not None, "P = r is only a start"
        edits = self.vertex.edits
        return {
            "direction": self.vertex.direction,
            "last": [float(self.vertex.last.value), int(self.vertex.last.row)],
            "share": self.vertex.share,
            "edited": np.array(list(edits.keys()), dtype=np.int64),
            "entries": np.array(list(edits.values()), dtype=np.float64),
            "raw": self.raw,
            "value": self.value,
        }

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "ProgramPoint":
        """Return the point of a state, for its bits: the shards do not know it."""
        edits = dict(zip(state["edited"].tolist(), state["entries"].tolist(), strict=True))
        vertex = Vertex(state["direction"], Ranked(*state["last"]), state["share"], edits)
        return cls(vertex, state["raw"], state["value"], None)


@dataclass(frozen=True)
class Near:
    """Rows near the threshold: global numbers, gradient, entries of P, rows, inner products."""

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
        if abs(budget - whole) <= 1e-9 * max(1.0, budget):  # r = k / u, rounded
            budget = float(whole)
        self.budget = budget

    def uniform(self) -> ProgramPoint:
        """P = r. Costs nothing."""
        raw = self.budget / self.sums.n_unlabeled * self.sums.unlabeled
        return ProgramPoint(None, raw, self.sums.value(raw), None)

    def vertex(self, direction: np.ndarray, beside: ProgramPoint | None = None) -> ProgramPoint:
        """Minimize a linear function, the product with `direction`, over the polytope.

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

        `score` must be the products with the gradient at the point. All rows up to `NEAR` a side;
        of more, those that cost a swap least at first order.

        Costs: 5-9 rounds, no pass over the rows; `NEAR` rows a side come to the client.
        """
        slot = point.slot
        assert slot is not None, "the shards know the point"
        n_held = -int(-self.budget // 1)
        n_left = self.sums.n_unlabeled - int(self.budget)
        if n_held == 0 or n_left == 0:
            return None
        held = select(self.engine, min(NEAR, n_held) - 1, held_scores, slot)
        left = select(self.engine, min(NEAR, n_left) - 1, left_scores, slot)
        parts = [part for part in self.engine.each(near_rows, slot, held, left) if len(part[0])]
        numbers, o, p = (np.concatenate([part[k] for part in parts]) for k in range(3))
        rows = stacked_rows([part[3] for part in parts])
        gram = gram_matrix(
            rows, np.arange(len(numbers), dtype=np.uint32), self.engine.layout.n_features
        )
        return Near(numbers, o, p, rows, gram)

    def moved(self, point: ProgramPoint, near: Near, p: np.ndarray) -> ProgramPoint:
        """The point with other entries at the rows near the threshold.

        Costs: 1 round, no pass over the rows.
        """
        assert point.vertex is not None, "P = r is no vertex"
        changed = np.flatnonzero(p != near.p)
        edits = point.vertex.edits | {int(near.numbers[k]): float(p[k]) for k in changed}
        raw = point.raw.copy()
        add_rows(near.rows, changed.astype(np.uint32), (p - near.p)[changed], raw)
        self.engine.each(set_edits, point.slot, edits)
        vertex = replace(point.vertex, edits=edits)
        return replace(point, vertex=vertex, raw=raw, value=self.sums.value(raw))

    def bits(self, point: ProgramPoint) -> list[np.ndarray]:
        """Rows of p >= 1/2, one bit a row, by shard. Costs: 1 round, 1 pass over the rows."""
        assert point.vertex is not None, "P = r labels nothing"
        return self.engine.each(vertex_bits, point.vertex)

    def _point(self, vertex: Vertex, slot: int) -> ProgramPoint:
        """Put a vertex into a slot of the shards, and add it up: over the smaller side."""
        fewer = self.budget <= 0.5 * self.sums.n_unlabeled
        (raw,) = self.engine.sum(set_vertex, vertex, slot, fewer)
        self.engine.remember(f"share{slot}", put_vertex, vertex, slot)
        if not fewer:
            raw = self.sums.unlabeled - raw
        return ProgramPoint(vertex, raw, self.sums.value(raw), slot)


# Operations on one shard --------------------------------------------------------------------


@operation(sets="score")
def set_scores(shard: Shard, direction: np.ndarray) -> None:
    """Keep the products of all rows with a direction."""
    shard.state["score"] = _products(shard, direction)


def _products(shard: Shard, direction: np.ndarray) -> np.ndarray:
    """Products of all rows with a direction."""
    score = np.empty(shard.n_rows)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(direction), 1.0, score)
    return score


def scores(shard: Shard, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products of the unlabeled rows with a direction."""
    set_scores(shard, direction)
    rows = free_rows(shard)
    return shard.state["score"][rows], rows


@operation(reads=["score"])
def set_vertex(shard: Shard, vertex: Vertex, slot: int, fewer: bool) -> tuple[np.ndarray]:
    """(sum of p x, or of (1 - p) x,) of a vertex of the present score, which is kept in a slot."""
    shard.state[f"share{slot}"] = share = _shares(shard, vertex, shard.state["score"])
    weight = share if fewer else 1.0 - share
    rows = free_rows(shard)
    rows = rows[weight[rows] > 0.0]
    raw = np.zeros(shard.n_features + 1)
    add_rows(shard.rows, rows, weight[rows], raw)
    return (raw,)


@operation(sets="share{slot}")
def put_vertex(shard: Shard, vertex: Vertex, slot: int) -> None:
    """Keep a vertex in a slot, whatever the present score is."""
    shard.state[f"share{slot}"] = _shares(shard, vertex, _products(shard, vertex.direction))


@operation(changes="share{slot}")
def set_edits(shard: Shard, slot: int, edits: dict[int, float]) -> None:
    """Change single entries of the P in a slot."""
    _edit(shard, shard.state[f"share{slot}"], edits)


@operation(reads=["score", "share{slot}"])
def held_scores(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of rows that have something to give, the largest first when sorted ascending."""
    rows = free_rows(shard)
    rows = rows[shard.state[f"share{slot}"][rows] > 0.0]
    return -shard.state["score"][rows], rows


@operation(reads=["score", "share{slot}"])
def left_scores(shard: Shard, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of rows that can take something."""
    rows = free_rows(shard)
    rows = rows[shard.state[f"share{slot}"][rows] < 1.0]
    return shard.state["score"][rows], rows


@operation(reads=["score", "share{slot}"])
def near_rows(
    shard: Shard, slot: int, last_held: Ranked, last_left: Ranked
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Rows]:
    """Rows up to a place in either order: (global numbers, scores, shares, rows)."""
    chosen = np.zeros(shard.n_rows, dtype=bool)
    for values_of, last in ((held_scores, last_held), (left_scores, last_left)):
        values, rows = values_of(shard, slot)
        chosen[rows[up_to(shard, values, rows, last)]] = True
    near = np.flatnonzero(chosen).astype(np.uint32)
    state = shard.state
    numbers = near.astype(np.int64) + shard.start
    return numbers, state["score"][near], state[f"share{slot}"][near], copied_rows(shard.rows, near)


def vertex_bits(shard: Shard, vertex: Vertex) -> np.ndarray:
    """Which rows have p >= 1/2 at a vertex, as bits."""
    return np.packbits(_shares(shard, vertex, _products(shard, vertex.direction)) >= 0.5)


def _shares(shard: Shard, vertex: Vertex, score: np.ndarray) -> np.ndarray:
    """P of all rows, 0 for those with a label, from their products with the vertex's direction."""
    rows = free_rows(shard)
    share = np.zeros(shard.n_rows)
    share[rows[up_to(shard, score[rows], rows, vertex.last)]] = 1.0
    place = vertex.last.row - shard.start
    if 0 <= place < shard.n_rows:
        share[place] = vertex.share
    _edit(shard, share, vertex.edits)
    return share


def _edit(shard: Shard, share: np.ndarray, edits: dict[int, float]) -> None:
    for number, entry in edits.items():
        if 0 <= number - shard.start < shard.n_rows:
            share[number - shard.start] = entry
