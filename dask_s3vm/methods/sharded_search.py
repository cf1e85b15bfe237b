"""The search for labels when G is too large for one worker: it stays in the shards.

All restarts of a batch advance together. In a round every shard makes one sweep of flips over its
own rows, from the common z, as if the other shards stood still, and proposes them: a change of z
and of the number of positive labels. The client knows the fitness of any combination exactly,

    F = total - |z + sum of changes|^2,

takes the best proposal, and adds the others, best first, as long as F falls. So F never rises, and
falls as long as any shard finds a flip that lowers it: in the end no single flip does, which is
where the (1+1)-EA of the pool ends too. It is another path, though: not the same optimum in each
restart.

The number of positive labels stays within the window: its slack is shared out to the shards, so
that any combination of proposals keeps it.
"""

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.restarts import (
    Race,
    RestartSearch,
    Searched,
    SearchSettings,
    restart_seeds,
)
from dask_s3vm.problems import label_search as ops
from dask_s3vm.problems.label_search import Task

#: Restarts that advance together.
BATCH = 10

#: z is added up anew after so many rounds.
REFRESH = 50


class ShardedFound(NamedTuple):
    """What a restart has found; as `labels.Found`, with labels of all rows by shard."""

    bits: list[np.ndarray] | None
    z: np.ndarray
    fitness: float
    start: float
    flips: int
    changes: int
    seconds: float


@dataclass(frozen=True)
class ShardRace(Race):
    """A race whose restarts advance together, in batches."""

    best: ShardedFound | None = None
    waiting: dict[int, ShardedFound] = field(default_factory=dict)


class ShardSearch(RestartSearch):
    """Restarts on rows in shards; one outer iteration is one batch of them.

    Costs: a handful of rounds per sweep that a restart of the pool would make; in each, r numbers
    per restart to each group and from each shard.

    Parameters
    ----------
    engine : the rows, whose G is in the shards.
    task : what to search for.
    settings : how; the population is always (1, 1).
    problem : number of the binary problem, for the seeds.
    """

    State = ShardRace

    def __init__(self, engine: Engine, task: Task, settings: SearchSettings, problem: int) -> None:
        super().__init__(settings)
        self._engine = engine
        self._task = task
        self._seeds = restart_seeds(settings, problem)

    def start(self) -> ShardRace:
        """Nothing is found yet."""
        return ShardRace(self._settings.n_restarts, self._settings.patience)

    def advance(self, state: ShardRace) -> ShardRace:
        """Search to the end with the next restarts."""
        low = state.judged
        batch = Batch(self._engine, self._task, self._seeds[low : low + BATCH])
        best = None if state.best is None else state.best.fitness
        for place, one in enumerate(batch.run(best)):
            self._report(low + place, one)
            state = state.with_result(low + place, one)
        return state

    def finish(self, state: ShardRace) -> Searched:
        """Return the winner's labels."""
        assert state.best is not None, "there is at least one restart"
        assert state.best.bits is not None, "labels of what beats all before it come along"
        self._judged = state.judged
        return Searched(state.best.bits, state.judged, {})


class Batch:
    """Some restarts that advance together."""

    def __init__(self, engine: Engine, task: Task, seeds: list[int]) -> None:
        self._engine = engine
        self._task = task
        self._seeds = seeds
        #: F of the restarts after each round
        self.trace: list[np.ndarray] = []

    def run(self, best: float | None) -> list[ShardedFound]:
        """Search to the end; labels come along where they beat `best` and all before them."""
        began = time.perf_counter()
        engine, size = self._engine, len(self._seeds)
        counts = self._start()
        z = self._sum()
        start = self._fitness(z)
        self.trace = [start]
        accepted = np.zeros((engine.layout.n_shards, size), dtype=bool)
        flips, changes = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        active, idle, turn = list(range(size)), np.zeros(size, dtype=np.int64), 0
        while active:
            turn += 1
            slack, turns = self._slack(counts, turn)
            proposals = engine.each(
                ops.propose, turn, accepted, active, z, slack, self._seeds, self._task.grain
            )
            moves, shifts, looked, carried = (
                np.stack(part) for part in zip(*proposals, strict=True)
            )
            accepted = np.zeros_like(accepted)
            for place in active:
                accepted[:, place] = _combine(z[place], moves[:, place], carried[:, place] > 0)
            stands = accepted.astype(np.int64)
            z = z + np.add.reduce(moves * stands[:, :, None], axis=0)
            counts = counts + shifts * stands
            flips += looked.sum(axis=0)
            changes += (carried * stands).sum(axis=0)
            idle = np.where(accepted.any(axis=0), 0, idle + 1)
            active = [place for place in active if idle[place] < turns[place]]
            self.trace.append(self._fitness(z))
            if turn % REFRESH == 0 and active:
                engine.each(ops.propose, 0, accepted, [], z, slack, self._seeds, 0.0)
                accepted = np.zeros_like(accepted)
                z = self._sum()
        z = self._sum()
        return self._results(z, start, flips, changes, best, time.perf_counter() - began)

    def _fitness(self, z: np.ndarray) -> np.ndarray:
        return self._task.total - np.add.reduce(np.square(z), axis=1)

    def _sum(self) -> np.ndarray:
        (z,) = self._engine.sum(ops.sums_of_labels)
        return self._task.fixed + z

    def _start(self) -> np.ndarray:
        """Draw labels, within the window; returns positive labels by shard, (shards, k)."""
        share, low, high = self._task.window
        counts = np.stack(self._engine.each(ops.draw_starts, self._seeds, share))
        totals = counts.sum(axis=0)
        wanted = np.clip(totals, low, high)
        if (wanted != totals).any():
            sizes = np.array(self._engine.each(ops.n_free_rows))
            columns = zip(counts.T, wanted, strict=True)
            counts = np.stack([_spread(own, sizes, int(to)) for own, to in columns], axis=1)
            self._engine.each(ops.fit_counts, self._seeds, counts)
        return counts

    def _slack(self, counts: np.ndarray, turn: int) -> tuple[np.ndarray, np.ndarray]:
        """Share out how far the number of positive labels may fall and rise.

        Returns the slack, (shards, k, 2), and in how many turns each shard has had some, (k,).
        """
        n_shards, size = counts.shape
        totals = counts.sum(axis=0)
        room = np.stack([totals - self._task.window.low, self._task.window.high - totals], axis=1)
        slack = np.broadcast_to(room // n_shards, (n_shards, size, 2)).copy()
        turns = np.ones(size, dtype=np.int64)
        for place in range(size):
            for side in (0, 1):
                extra = int(room[place, side] % n_shards)  # goes to other shards in each turn
                slack[(np.arange(extra) + turn * extra) % n_shards, place, side] += 1
                if 0 < room[place, side] < n_shards:
                    turns[place] = max(turns[place], -(-n_shards // extra))
        return slack, turns

    def _results(
        self,
        z: np.ndarray,
        start: np.ndarray,
        flips: np.ndarray,
        changes: np.ndarray,
        best: float | None,
        seconds: float,
    ) -> list[ShardedFound]:
        results = []
        for place, value in enumerate(self._fitness(z)):
            bits = None
            if best is None or value < best:
                best = value
                bits = self._engine.each(ops.bits_of_labels, place)
            results.append(
                ShardedFound(
                    bits,
                    z[place],
                    float(value),
                    float(start[place]),
                    int(flips[place]),
                    int(changes[place]),
                    seconds / len(self._seeds),
                )
            )
        return results


def _combine(z: np.ndarray, moves: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Which proposals to take: best first, each if |z|^2 grows by it; at least the best, if any.

    z : (r,); moves : (shards, r) proposed changes; moved : which shards propose anything.
    """
    chosen = np.zeros(len(moves), dtype=bool)
    alone = np.add.reduce(np.square(z + moves), axis=1)
    here, value = z, float(np.add.reduce(np.square(z)))
    for shard in np.argsort(-alone, kind="stable"):
        if not moved[shard]:
            continue
        there = here + moves[shard]
        gained = float(np.add.reduce(np.square(there)))
        if gained > value:
            here, value = there, gained
            chosen[shard] = True
    return chosen


def _spread(counts: np.ndarray, sizes: np.ndarray, wanted: int) -> np.ndarray:
    """Change positive labels by shard so that they add up to `wanted`, by the rows there are."""
    counts = counts.copy()
    missing = wanted - int(counts.sum())
    room = sizes - counts if missing > 0 else counts
    ends = np.cumsum(room) * abs(missing) // max(int(room.sum()), 1)
    return counts + np.sign(missing) * np.diff(ends, prepend=0)
