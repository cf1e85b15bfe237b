"""Search for labels that minimize the loss of least squares (Gieseke et al., eq. 10 and 13).

    minimize F(y) = total - |z|^2,  z = fixed + G^T y

over labels y of the unlabeled rows, with the number of positive ones within a window. `total` is
the sum of d_i^2 over all rows, `fixed` the part of the labeled rows in z.

Either all of G is in one process, and `restart` is one independent search: a task of the pool. Or G
stays in the shards, which propose changes of their own labels between synchronizations.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.engine.operations import copied_by, operation
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.flips import (
    add_factor_rows,
    draw_labels,
    fit_window,
    flip_in_turn,
    row_lengths,
    square_norm,
)
from dask_s3vm.kernels.population import search, search_from
from dask_s3vm.problems.least_squares import unlabeled_in_fit

#: A flip must gain more than this part of |G_j| |z|, which is above rounding errors.
GRAIN = 1e-13


@dataclass(eq=False)
class Factor:
    """G of the unlabeled rows, (u, r), and the lengths of its rows."""

    G: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, G: np.ndarray) -> "Factor":
        """Return the factor of G."""
        G = frozen(np.ascontiguousarray(G))
        return cls(G, frozen(row_lengths(G)))

    def __sizeof__(self) -> int:
        """Return the true size, for dask."""
        return object.__sizeof__(self) + self.G.nbytes + self.lengths.nbytes

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore with aligned arrays: those from the network may not be, which is slow."""
        for name, array in state.items():
            setattr(self, name, frozen(np.require(array, requirements="A")))


class Window(NamedTuple):
    """Bounds of the number of positive labels, and the probability of one at the start."""

    share: float
    low: int
    high: int


def window_of(n_rows: int, share: float, tolerance: float) -> Window:
    """Return the window of counts k with |k / n - share| < tolerance, or the nearest count."""
    counts = np.arange(n_rows + 1)
    distance = np.abs(counts / max(n_rows, 1) - share)
    valid = np.flatnonzero(distance < tolerance)
    if len(valid) == 0:
        valid = np.array([int(distance.argmin())])
    return Window(share, int(valid[0]), int(valid[-1]))


class Task(NamedTuple):
    """A binary problem: the part of the labeled rows in z, the window, the sum of d_i^2."""

    fixed: np.ndarray
    window: Window
    total: float

    @property
    def grain(self) -> float:
        """See `kernels.flips.flip_in_turn`; |z|^2 is at most `total`."""
        return GRAIN * float(np.sqrt(self.total))


class Found(NamedTuple):
    """Result of a restart: labels as bits, z, F, F at the start, and the work done.

    drew : whether it depends on the seed.
    """

    bits: np.ndarray
    z: np.ndarray
    fitness: float
    start: float
    flips: int
    changes: int
    seconds: float
    drew: bool = True


def restarts(
    factor: Factor,
    task: Task,
    population: tuple[int, int],
    seeds: Sequence[int],
    start: np.ndarray | None = None,
) -> list[Found]:
    """Make a `restart` with each of several seeds.

    Most searches from given labels draw no random numbers. Then the first one is what all find.
    """
    found = [restart(factor, task, population, seeds[0], start)]
    for seed in seeds[1:]:
        if found[0].drew:
            found.append(restart(factor, task, population, seed, start))
        else:
            found.append(found[0]._replace(seconds=0.0))
    return found


def restart(
    factor: Factor,
    task: Task,
    population: tuple[int, int],
    seed: int,
    start: np.ndarray | None = None,
) -> Found:
    """Search by the (mu+nu)-EA from random labels, or by the (1+1)-EA from `start` (as bits).

    The result, other than the time, depends on the arguments alone.
    """
    began = time.perf_counter()
    share, low, high = task.window
    problem, end = (factor.G, factor.lengths, task.fixed), (np.uint64(seed), task.grain)
    drew = True
    if start is None:
        found = search(*problem, share, low, high, *population, *end)
    else:
        bits = np.unpackbits(start, count=len(factor.lengths))
        given = np.where(bits, 1, -1).astype(np.int8)
        *found, drew = search_from(*problem, given, low, high, *end)
    labels, z, first, flips, changes = found
    return Found(
        np.packbits(labels > 0),
        z,
        task.total - square_norm(z),
        task.total - first,
        flips,
        changes,
        time.perf_counter() - began,
        drew,
    )


# Search with G in the shards: operations on one shard -----------------------------------------
#
# Row state: `G` and `lengths` of the unlabeled rows (see `least_squares.keep_projected`), and for a
# batch of k restarts the `labels` and those of the last proposal, `trial`, both (k, u) of int8.


@operation(sets="trials", reads=["squares"])
def draw_starts(shard: Shard, seeds: list[int], share: float) -> np.ndarray:
    """Draw labels by row number for each restart; return the number of positive ones."""
    rows = unlabeled_in_fit(shard)
    every = np.empty(shard.n_rows, dtype=np.int8)
    labels = np.empty((len(seeds), len(rows)), dtype=np.int8)
    for place, seed in enumerate(seeds):
        draw_labels(np.uint64(seed), shard.first_row, share, every)
        labels[place] = every[rows]
    shard.state["labels"] = labels
    shard.state["trial"] = labels.copy()
    return np.count_nonzero(labels > 0, axis=1)


@operation(changes="trials")
def fit_counts(shard: Shard, seeds: list[int], targets: np.ndarray) -> None:
    """Flip random rows until each restart has its target number of positive labels here."""
    for place, seed in enumerate(seeds):
        labels = shard.state["labels"][place]
        count = int(np.count_nonzero(labels > 0))
        wanted = int(targets[shard.number, place])
        fit_window(labels, count, wanted, wanted, _stream(seed, shard.number, 0))


@operation(reads=["squares"])
def n_free_rows(shard: Shard) -> int:
    """Return the number of unlabeled rows in the fit."""
    return len(unlabeled_in_fit(shard))


@operation(reads=["trials", "factor"])
def sums_of_labels(shard: Shard) -> tuple[np.ndarray]:
    """(G^T y of each restart,)."""
    labels, G = shard.state["labels"], shard.state["G"]
    z = np.zeros((len(labels), G.shape[1]))
    for place in range(len(labels)):
        add_factor_rows(G, labels[place], z[place])
    return (z,)


@operation(changes="trials", reads=["factor"])
def propose(
    shard: Shard,
    turn: int,
    accepted: np.ndarray,
    active: list[int],
    z: np.ndarray,
    slack: np.ndarray,
    seeds: list[int],
    grain: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Adopt the last proposals that were accepted, then make new ones from the current z.

    A proposal is the result of one sweep over the rows of the shard, with other shards unchanged.

    Parameters
    ----------
    turn : number of the round, for the random draws.
    accepted : (shards, k) whether the last proposal was accepted.
    active : restarts that are still searching.
    z : (k, r).
    slack : (shards, k, 2) how far the number of positive labels may fall and rise.
    seeds, grain : see `kernels.population.search`.

    Returns
    -------
    Change of z (k, r), change of the number of positive labels (k,), flips evaluated (k,), flips
    carried out (k,).
    """
    state, number = shard.state, shard.number
    labels, trial, G = state["labels"], state["trial"], state["G"]
    moves = np.zeros((len(labels), G.shape[1]))
    counts = np.zeros(len(labels), dtype=np.int64)
    looked, carried = counts.copy(), counts.copy()
    for place in np.flatnonzero(accepted[number]).tolist():
        labels[place] = trial[place]
    if len(state["lengths"]) == 0:
        return moves, counts, looked, carried
    for place in active:
        trial[place] = labels[place]
        here = z[place].copy()
        low, high = -slack[number, place, 0], slack[number, place, 1]
        counts[place], looked[place], carried[place] = flip_in_turn(
            G,
            state["lengths"],
            trial[place],
            here,
            z[place],
            0,
            low,
            high,
            _stream(seeds[place], number, turn),
            grain,
            len(state["lengths"]),
        )
        moves[place] = here - z[place]
    return moves, counts, looked, carried


def _stream(seed: int, shard: int, turn: int) -> np.ndarray:
    """Return the state of the random numbers of a shard in a round."""
    return np.random.SeedSequence([seed, shard, turn]).generate_state(1, np.uint64)


@operation(reads=["trials"])
def bits_of_labels(shard: Shard, place: int) -> np.ndarray:
    """Return the labels of a restart, one bit for each row of the shard."""
    labels = np.zeros(shard.n_rows, dtype=np.uint8)
    labels[unlabeled_in_fit(shard)] = shard.state["labels"][place] > 0
    return np.packbits(labels)


@operation(reads=["trials"])
def take_trials(shard: Shard) -> tuple[np.ndarray, np.ndarray]:
    """Copy labels and proposals."""
    return shard.state["labels"].copy(), shard.state["trial"].copy()


@operation(sets="trials")
def put_trials(shard: Shard, trials: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Restore what `take_trials` returned, by shard."""
    labels, trial = trials[shard.number]
    shard.state["labels"], shard.state["trial"] = labels.copy(), trial.copy()


copied_by("trials", take_trials, put_trials)
