"""Local search over labels: flips of single rows, O(r) each (Gieseke et al., Theorem 2).

The fitness of labels y is ``F(y) = constant - |z|^2`` with ``z = G^T y`` of length r. With
``a = y_j G_j.z``, a flip of row j

    changes F by   4 a - 4 |G_j|^2
    and z by       -2 y_j G_j

so it takes one product of length r to evaluate a flip, and one update of z to carry it out. The
searches keep the number of positive labels within a window at all times: a flip that would leave it
is paired with a second flip, of a random row with the opposite label. Flipping rows i and j of
opposite labels changes F by the sum of both changes and ``8 G_i.G_j``.

G may be float32; z, and every product with it, is float64. z is recomputed from the labels after
every `DRIFT` n flips, so that rounding errors do not accumulate.
"""

import numpy as np

from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import below, row_uniform

#: Draws of a partner with the opposite label before a flip is given up.
TRIES = 64

#: No bound on the number of flips evaluated.
UNLIMITED = 1 << 62

#: z is recomputed after this many flips per row.
DRIFT = 4


@kernel
def flip_in_turn(
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
    """(1+1)-EA: flip the rows in turn where that lowers F, until n flips in a row do not.

    Parameters
    ----------
    G, lengths : (n, r) G, and the lengths of its rows.
    labels, z : labels, and ``fixed + G^T labels``; changed in place.
    fixed : part of z of the rows that never flip.
    count, low, high : number of positive labels, and the window for it.
    state : state of the random numbers that draw partners.
    grain : a flip must lower F by more than grain |G_j|, which is above rounding errors: otherwise
        the search could flip the same rows back and forth forever.
    most : evaluate at most this many flips.

    Returns
    -------
    (number of positive labels, flips evaluated, flips carried out).
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
                    add_factor_rows(G, labels, z)
                    since = 0
        j = j + 1 if j + 1 < n else 0
    return count, looked, carried


@kernel
def change_of(
    G: np.ndarray, lengths: np.ndarray, labels: np.ndarray, z: np.ndarray, j: int, i: int
) -> float:
    """Change of F by flipping row j, and row i of the opposite label unless i < 0."""
    change = 4.0 * labels[j] * factor_dot(G, j, z) - 4.0 * lengths[j] * lengths[j]
    if i >= 0:
        change += 4.0 * labels[i] * factor_dot(G, i, z) - 4.0 * lengths[i] * lengths[i]
        change += 8.0 * factor_product(G, i, j)
    return change


@kernel
def flip_row(G: np.ndarray, labels: np.ndarray, z: np.ndarray, j: int) -> None:
    """Flip row j, and update z."""
    t = 2.0 * labels[j]
    labels[j] = -labels[j]
    for k in range(z.size):
        z[k] -= t * G[j, k]


@kernel
def partner_of(labels: np.ndarray, j: int, state: np.ndarray) -> int:
    """Draw a row with the label opposite to that of row j; -1 if `TRIES` draws find none."""
    for _ in range(TRIES):
        i = below(state, labels.size)
        if labels[i] != labels[j]:
            return i
    return -1


@kernel
def draw_labels(seed: np.uint64, first: int, share: float, labels: np.ndarray) -> int:
    """Label rows `first`, `first + 1`, ... +1 with probability `share`, by row number.

    Returns the number of positive labels.
    """
    count = 0
    for j in range(labels.size):
        positive = row_uniform(seed, first + j) < share
        labels[j] = 1 if positive else -1
        count += positive
    return count


@kernel
def fit_window(labels: np.ndarray, count: int, low: int, high: int, state: np.ndarray) -> int:
    """Flip random rows until the number of positive labels is in low..high; returns that number."""
    while count < low or count > high:
        wrong = -1 if count < low else 1
        j = below(state, labels.size)
        while labels[j] != wrong:  # at worst a scan of all rows, once per call
            j = j + 1 if j + 1 < labels.size else 0
        labels[j] = -wrong
        count -= wrong
    return count


# Products with G ------------------------------------------------------------------------------


# Re-association lets the compiler add in vector registers, 2-3 times faster. The order is fixed in
# the compiled code: every thread and worker with the same type of processor gets the same bits.
@kernel(fastmath={"reassoc"})
def factor_dot(G: np.ndarray, j: int, z: np.ndarray) -> float:
    """G_j.z in float64."""
    total = 0.0
    for k in range(z.size):
        total += G[j, k] * z[k]
    return total


@kernel(fastmath={"reassoc"})
def factor_product(G: np.ndarray, i: int, j: int) -> float:
    """G_i.G_j in float64."""
    total = 0.0
    for k in range(G.shape[1]):
        total += np.float64(G[i, k]) * np.float64(G[j, k])
    return total


@kernel
def row_lengths(G: np.ndarray) -> np.ndarray:
    """Return |G_j| of all rows."""
    lengths = np.empty(G.shape[0])
    for j in range(G.shape[0]):
        lengths[j] = np.sqrt(factor_product(G, j, j))
    return lengths


@kernel
def add_factor_rows(G: np.ndarray, labels: np.ndarray, z: np.ndarray) -> None:
    """Add G^T labels to z."""
    for j in range(G.shape[0]):
        y = np.float64(labels[j])
        for k in range(z.size):
            z[k] += y * G[j, k]


@kernel
def square_norm(z: np.ndarray) -> float:
    """|z|^2, added in order."""
    total = 0.0
    for k in range(z.size):
        total += z[k] * z[k]
    return total
