"""A search over labels that goes on from given ones."""

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.draws import scramble
from dask_s3vm.kernels.flips import FOR_EVER, add_rows, fit_window, round_robin, squared


@kernel
def search_from(
    G: np.ndarray,
    lengths: np.ndarray,
    fixed: np.ndarray,
    given: np.ndarray,
    low: int,
    high: int,
    seed: np.uint64,
    grain: float,
) -> tuple[np.ndarray, np.ndarray, float, int, int]:
    """The (1+1)-EA that takes the rows in turn, from the labels `given`.

    Few flips are left to be found there, which parents and children would share: one is enough.
    The other parameters, and what is returned: see `population.search`.
    """
    state = np.empty(1, dtype=np.uint64)
    state[0] = scramble(seed)
    labels = given.copy()
    count = fit_window(labels, np.count_nonzero(labels > 0), low, high, state)
    z = fixed.copy()
    add_rows(G, labels, z)
    start = squared(z)
    _, looked, carried = round_robin(
        G, lengths, labels, z, fixed, count, low, high, state, grain, FOR_EVER
    )
    exact = fixed.copy()
    add_rows(G, labels, exact)
    return labels, exact, start, looked, carried
