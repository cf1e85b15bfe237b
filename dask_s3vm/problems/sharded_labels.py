"""A search for labels whose G stays in the shards: what a shard does between synchronizations.

Row state: `G` and `lengths` of the unlabeled rows (see `least_squares.keep_projected`), and for a
batch of restarts their `labels` and those of the last proposal, `trial`, both (k, u) of int8.
"""

import numpy as np

from dask_s3vm.engine.operations import copied_by, operation
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.flips import add_rows, draw_labels, fit_window, round_robin
from dask_s3vm.problems.least_squares import free_rows


@operation(sets="trials", reads=["squares"])
def draw_starts(shard: Shard, seeds: list[int], share: float) -> np.ndarray:
    """Random labels by row number, for each restart; returns the number of positive ones."""
    rows = free_rows(shard)
    every = np.empty(shard.n_rows, dtype=np.int8)
    labels = np.empty((len(seeds), len(rows)), dtype=np.int8)
    for place, seed in enumerate(seeds):
        draw_labels(np.uint64(seed), shard.start, share, every)
        labels[place] = every[rows]
    shard.state["labels"] = labels
    shard.state["trial"] = labels.copy()
    return np.count_nonzero(labels > 0, axis=1)


@operation(changes="trials")
def fit_counts(shard: Shard, seeds: list[int], targets: np.ndarray) -> None:
    """Flip random rows until each restart has its wanted number of positive labels here."""
    for place, seed in enumerate(seeds):
        labels = shard.state["labels"][place]
        count = int(np.count_nonzero(labels > 0))
        wanted = int(targets[shard.number, place])
        fit_window(labels, count, wanted, wanted, _stream(seed, shard.number, 0))


@operation(reads=["squares"])
def n_free_rows(shard: Shard) -> int:
    """Number of the unlabeled rows that count."""
    return len(free_rows(shard))


@operation(reads=["trials", "factor"])
def sums_of_labels(shard: Shard) -> tuple[np.ndarray]:
    """(G^T y of each restart,)."""
    labels, G = shard.state["labels"], shard.state["G"]
    z = np.zeros((len(labels), G.shape[1]))
    for place in range(len(labels)):
        add_rows(G, labels[place], z[place])
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
    """Take over what was accepted of the last proposals, then make new ones from the true z.

    A proposal is one sweep over the rows of the shard, as if no other shard moved.

    Parameters
    ----------
    turn : number of the round, for random draws.
    accepted : (shards, k) whether the last proposal stands.
    active : restarts that are still searching.
    z : (k, r).
    slack : (shards, k, 2) by how much the number of positive labels may fall and rise.
    seeds, grain : see `kernels.population.search`.

    Returns
    -------
    (change of z (k, r), of the number of positive labels (k,), flips looked at, carried out).
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
        counts[place], looked[place], carried[place] = round_robin(
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


@operation(reads=["trials"])
def bits_of_labels(shard: Shard, place: int) -> np.ndarray:
    """Labels of a restart, one bit for each row of the shard."""
    labels = np.zeros(shard.n_rows, dtype=np.uint8)
    labels[free_rows(shard)] = shard.state["labels"][place] > 0
    return np.packbits(labels)


@operation(reads=["trials"])
def take_trials(shard: Shard) -> tuple[np.ndarray, np.ndarray]:
    """Copy labels and proposals."""
    return shard.state["labels"].copy(), shard.state["trial"].copy()


@operation(sets="trials")
def put_trials(shard: Shard, trials: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Put back what `take_trials` gave, by shard."""
    labels, trial = trials[shard.number]
    shard.state["labels"], shard.state["trial"] = labels.copy(), trial.copy()


copied_by("trials", take_trials, put_trials)


def _stream(seed: int, shard: int, turn: int) -> np.ndarray:
    """State of the random numbers of a shard in a round."""
    return np.random.SeedSequence([seed, shard, turn]).generate_state(1, np.uint64)
