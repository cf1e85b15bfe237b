"""The restart pool: independent searches, of which the best one wins (Gieseke et al., 4.2.1).

Every restart has its own child of one `SeedSequence` and is judged by its number, not by when it
finished: the winner is the same on any number of threads and workers.
"""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.pool import run_pool
from dask_s3vm.methods.base import History
from dask_s3vm.methods.keeping import State
from dask_s3vm.problems.labels import Factor, Found, Task, Window, restart, window_of

__all__ = ["Judge", "SearchSettings", "Window", "search_pool", "window_of"]


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


class Judge:
    """Takes results as they come and judges them in the order of their numbers.

    The best fitness wins, the first of several that are equal. With `patience` k the race is over
    as soon as k restarts in a row, by number, have not improved on the best before them.
    """

    def __init__(self, n_restarts: int, patience: int | None) -> None:
        self.best: Any = None
        self.winner = -1
        #: Restarts that count: those before it are all judged.
        self.judged = 0
        self._n_restarts = n_restarts
        self._patience = patience
        self._waiting: dict[int, Any] = {}

    @property
    def over(self) -> bool:
        """Whether the winner is certain."""
        stale = self._patience is not None and self.judged - 1 - self.winner >= self._patience
        return self.judged == self._n_restarts or (self.judged > 0 and stale)

    def state(self) -> State:
        """What has been judged and what waits; see `History.keep`."""
        waiting = [[number, found._asdict()] for number, found in self._waiting.items()]
        best = None if self.best is None else self.best._asdict()
        return {"best": best, "winner": self.winner, "judged": self.judged, "waiting": waiting}

    def go_on_from(self, state: State, kind: Any) -> None:
        """Come back to a state, whose results are of a kind."""
        self.best = None if state["best"] is None else kind(**state["best"])
        self.winner, self.judged = state["winner"], state["judged"]
        self._waiting = {number: kind(**found) for number, found in state["waiting"]}

    def has(self, number: int) -> bool:
        """Whether a restart is done."""
        return number < self.judged or number in self._waiting

    def put(self, number: int, found: Any) -> None:
        """Take the result of a restart, anything with a `fitness`."""
        self._waiting[number] = found
        while not self.over and self.judged in self._waiting:
            candidate = self._waiting.pop(self.judged)
            if self.best is None or candidate.fitness < self.best.fitness:
                self.best, self.winner = candidate, self.judged
            self.judged += 1


def search_pool(
    factor: Factor, task: Task, settings: SearchSettings, problem: int, about: dict[str, Any],
    history: History, name: str = "search", starts: dict[int, np.ndarray] | None = None,
) -> Found:  # fmt: skip
    """Run the restarts of one binary problem and return the best.

    history : told of each restart as it finishes; `about` goes into its rows. In the end its rows
        are in the order of the restarts.
    name : of the state that is kept after each restart.
    starts : labels, as bits, that a restart begins with in place of random ones; they become those
        that it found.
    """
    judge, first = resumed_judge(settings, history, name, Found)
    given: dict[int, np.ndarray] = {} if starts is None else dict(starts)
    seeds = restart_seeds(settings, problem)
    missing = [number for number in range(len(seeds)) if not judge.has(number) and not judge.over]
    jobs = [(task, settings.population, seeds[number], given.get(number)) for number in missing]
    with closing(run_pool(restart, factor, jobs)) as pieces:
        for place, found in pieces:
            history.add(report(about, missing[place], found))
            judge.put(missing[place], found)
            history.keep(name, judge.state() | {"first": first})
            if starts is not None:
                starts[missing[place]] = found.bits
            if judge.over:
                break
    settle(history, first, judge.judged)
    return judge.best


def resumed_judge(
    settings: SearchSettings, history: History, name: str, kind: Any
) -> tuple[Judge, int]:
    """A judge, as it was when its state was kept, and the first row of its search."""
    judge, kept = Judge(settings.n_restarts, settings.patience), history.kept(name)
    if kept is None:
        return judge, len(history.rows)
    judge.go_on_from(kept, kind)
    return judge, kept["first"]


def report(about: dict[str, Any], number: int, found: Any) -> dict[str, Any]:
    """Row of the history for a restart."""
    return about | {
        "restart": number,
        "fitness": found.fitness,
        "start": found.start,
        "flips": found.flips,
        "changes": found.changes,
        "seconds": found.seconds,
    }


def settle(history: History, first: int, judged: int) -> None:
    """Bring the rows from `first` on into the order of the restarts, those judged only."""
    rows = [row for row in history.rows[first:] if row["restart"] < judged]
    history.rows[first:] = sorted(rows, key=lambda row: row["restart"])
