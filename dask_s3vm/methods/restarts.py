"""The restart pool: independent searches, of which the best one wins (Gieseke et al., 4.2.1).

Every restart has its own child of one `SeedSequence` and is judged by its number, not by when it
finished: the winner is the same on any number of threads and workers. One outer iteration is one
restart, or all that begin with the same labels: along a path of lams most of them end in the same.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from dask_s3vm.engine.computing import run_pool
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.run import HistoryRow, Method
from dask_s3vm.problems import least_squares
from dask_s3vm.problems.label_search import Factor, Found, Task, restarts


@dataclass(frozen=True)
class SearchSettings:
    """How to search: see `estimators.S2RLSC`."""

    n_restarts: int
    population: tuple[int, int]
    patience: int | None
    seed: np.random.SeedSequence


def restart_seeds(settings: SearchSettings, problem: int) -> list[int]:
    """Seeds of the restarts of a binary problem; the first ones are the same for any number."""
    entropy, parents = settings.seed.entropy, settings.seed.spawn_key
    return [
        int(
            np.random.SeedSequence(entropy, spawn_key=(*parents, problem, number)).generate_state(
                1, np.uint64
            )[0]
        )
        for number in range(settings.n_restarts)
    ]


AnyRace = TypeVar("AnyRace", bound="Race")


@dataclass(frozen=True)
class Race:
    """Results of restarts, taken as they come and judged in the order of their numbers.

    The smallest objective wins, the first of several that are equal. With `patience` k the race is
    over as soon as k restarts in a row, by number, have not improved on the best before them.

    n_restarts, patience : see `SearchSettings`.
    best, winner : the best result so far, and the number of its restart.
    judged : restarts that count: all before this number are judged.
    waiting : results that came before their turn, by number.
    """

    n_restarts: int
    patience: int | None
    best: Any = None
    winner: int = -1
    judged: int = 0
    waiting: dict[int, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the winner is certain."""
        stale = self.patience is not None and self.judged - 1 - self.winner >= self.patience
        return self.judged == self.n_restarts or (self.judged > 0 and stale)

    def has(self, number: int) -> bool:
        """Whether the result of a restart is there."""
        return number < self.judged or number in self.waiting

    def with_result(self: AnyRace, number: int, found: Any) -> AnyRace:
        """Take the result of a restart, anything with a `fitness`."""
        race = replace(self, waiting={**self.waiting, number: found})
        while not race.done and race.judged in race.waiting:
            waiting = dict(race.waiting)
            candidate = waiting.pop(race.judged)
            best, winner = race.best, race.winner
            if best is None or candidate.fitness < best.fitness:
                best, winner = candidate, race.judged
            race = replace(race, best=best, winner=winner, judged=race.judged + 1, waiting=waiting)
        return race


@dataclass(frozen=True)
class PoolRace(Race):
    """A race whose restarts are tasks of a pool.

    labels : what each restart has found, as bits, if that is wanted as a seed.
    """

    best: Found | None = None
    waiting: dict[int, Found] = field(default_factory=dict)
    labels: dict[int, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Searched:
    """Labels of the best restart, one bit a row, by shard; and those of all, as a seed."""

    bits: list[np.ndarray]
    n_iter: int
    seed: dict[int, np.ndarray]


class RestartSearch(Method[Any, Searched]):
    """What searches with restarts have in common: how they are reported."""

    Result = Searched

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        self._judged = 0

    def _report(self, number: int, found: Any) -> None:
        self.report(
            restart=number,
            objective=found.fitness,
            start_objective=found.start,
            flips=found.flips,
            changes=found.changes,
            seconds=found.seconds,
        )

    def arrange(self, rows: list[HistoryRow]) -> list[HistoryRow]:
        """Bring the rows into the order of the restarts, those judged only."""
        judged = [row for row in rows if row["restart"] < self._judged]
        return sorted(judged, key=lambda row: row["restart"])

    def progress(self, state: Race) -> tuple[str, float | None]:
        """Restarts end in any order; how many have is what counts."""
        count, ended = state.n_restarts, state.judged + len(state.waiting)
        return f"restart {min(ended + 1, count)} of {count}", ended / count


class PoolSearch(RestartSearch):
    """Restarts as tasks of a pool, which all have the factor G; those with equal starts are one.

    Parameters
    ----------
    engine : the rows.
    factor : G of the unlabeled rows.
    task : what to search for.
    settings : how.
    problem : number of the binary problem, for the seeds.
    starts : labels, as bits, that a restart begins with in place of random ones, by its number.
    seeded : whether to remember the labels of all restarts.
    """

    State = PoolRace

    def __init__(
        self,
        engine: Engine,
        factor: Factor,
        task: Task,
        settings: SearchSettings,
        problem: int,
        starts: dict[int, np.ndarray],
        seeded: bool,
    ) -> None:
        super().__init__(settings)
        self._engine = engine
        self._factor = factor
        self._task = task
        self._seeds = restart_seeds(settings, problem)
        self._starts = starts
        self._seeded = seeded
        self._groups: list[list[int]] = []
        self._results: Generator[tuple[int, list[Found]], None, None] | None = None

    def start(self) -> PoolRace:
        """Send out all restarts."""
        return self.restore(PoolRace(self._settings.n_restarts, self._settings.patience))

    def restore(self, state: PoolRace) -> PoolRace:
        """Send out the restarts that are missing."""
        seeds, population, starts = self._seeds, self._settings.population, self._starts
        groups: dict[Any, list[int]] = {}
        for number in range(len(seeds)):
            if not state.has(number):
                start = starts.get(number)
                key = number if start is None else start.tobytes()
                groups.setdefault(key, []).append(number)
        self._groups = list(groups.values())
        jobs = [
            (self._task, population, [seeds[number] for number in group], starts.get(group[0]))
            for group in self._groups
        ]
        self._results = run_pool(restarts, self._factor, jobs)
        return state

    def advance(self, state: PoolRace) -> PoolRace:
        """Take the next results."""
        assert self._results is not None, "restarts were sent out"
        place, every = next(self._results)
        for number, found in zip(self._groups[place], every, strict=True):
            self._report(number, found)
            if self._seeded:
                state = replace(state, labels={**state.labels, number: found.bits})
            state = state.with_result(number, found)
        return state

    def finish(self, state: PoolRace) -> Searched:
        """Return the winner's labels."""
        assert state.best is not None, "there is at least one restart"
        self._judged = state.judged
        bits = _spread_bits(self._engine, state.best.bits, len(self._factor.lengths))
        return Searched(bits, state.judged, state.labels)

    def close(self) -> None:
        """Call off the restarts that have not begun."""
        if self._results is not None:
            self._results.close()


def _spread_bits(engine: Engine, bits: np.ndarray, n_free: int) -> list[np.ndarray]:
    """Labels of the unlabeled rows, which lie in row order, as labels of all rows by shard."""
    labels = np.unpackbits(bits, count=n_free)
    masks = engine.each(least_squares.free_bits)
    spread, done = [], 0
    for start, stop, mask in zip(
        engine.layout.starts[:-1], engine.layout.starts[1:], masks, strict=True
    ):
        free = np.unpackbits(mask, count=stop - start).astype(bool)
        whole = np.zeros(stop - start, dtype=np.uint8)
        n_here = int(np.count_nonzero(free))
        whole[free] = labels[done : done + n_here]
        done += n_here
        spread.append(np.packbits(whole))
    return spread
