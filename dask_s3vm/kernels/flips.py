"""Local search over labels: flips of single rows, O(r) each (Gieseke et al., Theorem 2).

The fitness of labels y is ``F(y) = constant - |z|^2`` with ``z = G^T y`` of length r. With
``a = y_j G_j.z``, a flip of row j

    changes F by   4 a - 4 |G_j|^2
    and z by       -2 y_j G_j

so a flip is looked at by one product of length r and carried out by one more. The searches keep
the number of positive rows within a window at all times: a flip that would leave it is repaired
by a second one, of a random row with the opposite label; rows i, j of opposite labels together
change F by the sum of both and ``8 G_i.G_j``.

G may be float32; z, and every product with it, is float64. `z` is computed from scratch again
after every few sweeps' worth of flips, so that rounding errors do not pile up.
"""

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.draws import below, row_uniform

#: Draws for a row with a wanted label before a repair is given up.
TRIES = 64

#: No bound on the flips that are looked at.
FOR_EVER = 1 << 62

#: z is computed anew after so many flips per row.
DRIFT = 4


# Re-association lets the compiler add in vector registers, 2-3 times faster. The order is fixed in
# the compiled code: every thread and worker with the same type of processor gets the same bits.
@kernel(fastmath={"reassoc"})
def row_times(G: np.ndarray, j: int, z: np.ndarray) -> float:
    """G_j.z in float64."""
    total = 0.0
    for k in range(z.size):
        total += G[j, k] * z[k]
    return total


@kernel(fastmath={"reassoc"})
def row_product(G: np.ndarray, i: int, j: int) -> float:
    """G_i.G_j in float64."""
    total = 0.0
    for k in range(G.shape[1]):
        total += np.float64(G[i, k]) * np.float64(G[j, k])
    return total


@kernel
def row_lengths(G: np.ndarray) -> np.ndarray:
    """|G_j| of all rows."""
    lengths = np.empty(G.shape[0])
    for j in range(G.shape[0]):
        lengths[j] = np.sqrt(row_product(G, j, j))
    return lengths


@kernel
def add_rows(G: np.ndarray, labels: np.ndarray, z: np.ndarray) -> None:
    """Add G^T labels to z."""
    for j in range(G.shape[0]):
        y = np.float64(labels[j])
        for k in range(z.size):
            z[k] += y * G[j, k]


@kernel
def squared(z: np.ndarray) -> float:
    """|z|^2, added in order."""
    total = 0.0
    for k in range(z.size):
        total += z[k] * z[k]
    return total


@kernel
def draw_labels(seed: np.uint64, first: int, share: float, labels: np.ndarray) -> int:
    """Label rows `first`.. +1 with probability `share`, by row number; returns how many are."""
    count = 0
    for j in range(labels.size):
        positive = row_uniform(seed, first + j) < share
        labels[j] = 1 if positive else -1
        count += positive
    return count


@kernel
def fit_window(labels: np.ndarray, count: int, low: int, high: int, state: np.ndarray) -> int:
    """Flip random rows until the number of positive rows is within low..high; returns it."""
    while count < low or count > high:
        wrong = -1 if count < low else 1
        j = below(state, labels.size)
        while labels[j] != wrong:  # at worst one row of all is wanted, once per call
            j = j + 1 if j + 1 < labels.size else 0
        labels[j] = -wrong
        count -= wrong
    return count


@kernel
def flip_row(G: np.ndarray, labels: np.ndarray, z: np.ndarray, j: int) -> None:
    """Carry out a flip."""
    t = 2.0 * labels[j]
    labels[j] = -labels[j]
    for k in range(z.size):
        z[k] -= t * G[j, k]


@kernel
def partner_of(labels: np.ndarray, j: int, state: np.ndarray) -> int:
    """Draw a row whose label is opposite to that of row j; -1 if none is found soon."""
    for _ in range(TRIES):
        i = below(state, labels.size)
        if labels[i] != labels[j]:
            return i
    return -1


@kernel
def change_of(
    G: np.ndarray, lengths: np.ndarray, labels: np.ndarray, z: np.ndarray, j: int, i: int
) -> float:
    """What flipping row j, and row i of the opposite label unless i < 0, changes F by."""
    change = 4.0 * labels[j] * row_times(G, j, z) - 4.0 * lengths[j] * lengths[j]
    if i >= 0:
        change += 4.0 * labels[i] * row_times(G, i, z) - 4.0 * lengths[i] * lengths[i]
        change += 8.0 * row_product(G, i, j)
    return change


@kernel
def round_robin(
    G: np.ndarray,
    lengths: np.ndarray,
    labels: np.ndarray,
    z: np.ndarray,
    fixed: np.ndarray,
    count: int,
    low: int,
    high: int,
    state: np.ndarray,
    grain: float,
    most: int,
) -> tuple[int, int, int]:
    """(1+1)-EA: flip the rows in turn where that lowers F; stop after n flips without a change.

    Parameters
    ----------
    G, lengths : (n, r) rows, and their lengths.
    labels, z : labels, and ``fixed + G^T labels``; changed in place.
    fixed : part of z of rows that never flip.
    count, low, high : positive labels, and the window that their number stays in.
    state : of the random numbers, for repairs.
    grain : a change counts if it is larger than grain |G_j|, out of reach of rounding errors:
        else two rows could be flipped to and fro for ever.
    most : look at so many flips only.

    Returns
    -------
    (number of positive labels, flips looked at, flips carried out).
    """
    n = labels.size
    looked = carried = idle = j = since = 0
    while idle < n and looked < most:
        after = count - labels[j]
        i = np.int64(-1)
        valid = low <= after <= high
        if not valid:
            i = partner_of(labels, j, state)
            valid = i >= 0
        looked += 1
        idle += 1
        if valid:
            least = grain * (lengths[j] + (lengths[i] if i >= 0 else 0.0))
            if change_of(G, lengths, labels, z, j, i) < -least:
                flip_row(G, labels, z, j)
                if i >= 0:
                    flip_row(G, labels, z, i)
                else:
                    count = after
                carried += 1
                since += 1
                idle = 0
                if since >= DRIFT * n:
                    z[:] = fixed
                    add_rows(G, labels, z)
                    since = 0
        j = j + 1 if j + 1 < n else 0
    return count, looked, carried
