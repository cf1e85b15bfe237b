"""A search over labels that goes on from given ones, see `population.search`."""

import numpy as np
from numba import njit

from dask_s3vm.kernels.draws import scramble
from dask_s3vm.kernels.flips import FOR_EVER, add_rows, fit_window, round_robin, squared
from dask_s3vm.kernels.population import evolve


@njit(nogil=True, cache=True)
def search_from(
    G: np.ndarray,
    lengths: np.ndarray,
    fixed: np.ndarray,
    given: np.ndarray,
    low: int,
    high: int,
    mu: int,
    nu: int,
    seed: np.uint64,
    grain: float,
) -> tuple[np.ndarray, np.ndarray, float, int, int]:
    """As `population.search`, all parents with the labels `given` at the start."""
    n = lengths.size
    state = np.empty(1, dtype=np.uint64)
    state[0] = scramble(seed)
    labels = np.empty((mu, n), dtype=np.int8)
    z = np.empty((mu, fixed.size))
    counts = np.empty(mu, dtype=np.int64)
    labels[0] = given
    counts[0] = fit_window(labels[0], np.count_nonzero(given > 0), low, high, state)
    z[0] = fixed
    add_rows(G, labels[0], z[0])
    for slot in range(1, mu):
        labels[slot] = labels[0]
        z[slot] = z[0]
        counts[slot] = counts[0]
    start = squared(z[0])
    best = 0
    if mu == 1 and nu == 1:
        _, looked, carried = round_robin(
            G, lengths, labels[0], z[0], fixed, counts[0], low, high, state, grain, FOR_EVER
        )
    else:
        best, looked, carried = evolve(
            G, lengths, labels, z, fixed, counts, low, high, nu, state, grain
        )
    found = labels[best].copy()
    exact = fixed.copy()
    add_rows(G, found, exact)
    return found, exact, start, looked, carried
