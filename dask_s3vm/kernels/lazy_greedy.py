"""Lazy greedy choice of rows.

Picking a row changes the gain of another one by their kernel value, of which there is a bound: so
a gain that was computed some picks ago gives a bound of today's, and only rows whose bound is not
below the best gain known are looked at again (Minoux). The answer is that of plain greedy.

How many have to be looked at again depends on the bound. Submodularity gives the largest kernel
value d for each pick. Near rows have like kernel values, and more is gained from that: rows z are
gathered around centers c, so that for the sum of picks s and the sum L of their lengths

    z.(s_now - s_then) <= c.(s_now - s_then) + |z - c| (L_now - L_then)

Rows of one center and a like distance to it wait in a heap of their own, whose order does not
change with time; what changes is one number per heap.
"""

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.listed import add_row, dot_row, gram_matrix, push_products, push_row
from dask_s3vm.kernels.rows import Rows

#: Bounds are raised by this part of d for each pick: rounding must not make them too small.
SLACK = 1e-6

#: Most centers, and most numbers in all of them.
MAX_CENTERS = 32
MAX_NUMBERS = 4_000_000

#: Rows that a center is chosen from, for each center.
SAMPLE = 64

#: Ends of classes of distances to the center, as parts of the largest length of a row.
RINGS = (0.02, 0.08, 0.25, 0.7)


def choose_centers(X: Rows, n: int, n_features: int) -> np.ndarray:
    """Numbers of rows to be centers, besides the origin: far apart, and from where rows are many.

    Seeding of k-means++ on a sample of evenly spaced rows, with draws of its own.
    """
    most = min(MAX_CENTERS, MAX_NUMBERS // max(n_features, 1), n // SAMPLE)
    if most < 1:
        return np.zeros(0, dtype=np.uint32)
    sample = np.linspace(0, n - 1, SAMPLE * most).astype(np.uint32)  # most <= n / SAMPLE
    gram = gram_matrix(X, sample, n_features)
    square = np.diag(gram)
    draws = np.random.default_rng(0).random(most)
    nearest = np.ones(len(sample))
    chosen: list[int] = []
    for draw in draws:
        ends = np.cumsum(nearest)
        if not ends[-1] > 0:
            break
        one = min(int(np.searchsorted(ends, draw * ends[-1], side="right")), len(sample) - 1)
        distance = np.maximum(square + square[one] - 2.0 * gram[one], 0.0)
        nearest = distance if not chosen else np.minimum(nearest, distance)
        chosen.append(one)
    return sample[chosen]


@kernel
def _gather(
    X: Rows, centers: np.ndarray, mean: np.ndarray, length2: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest center of each row z, 0 for the origin, and the distance to it."""
    n, m = length2.size, centers.shape[0]
    nearest = np.zeros(n, dtype=np.int64)
    distance2 = length2.copy()
    for g in range(m):
        center = centers[g]
        square = np.dot(center, center)
        offset = np.dot(center, mean)
        for i in range(n):
            there = length2[i] + square - 2.0 * (dot_row(X, i, center) - offset)
            if there < distance2[i]:
                distance2[i], nearest[i] = there, g + 1
    return nearest, np.sqrt(np.maximum(distance2, 0.0))


@kernel
def _sift(items: np.ndarray, keys: np.ndarray, low: int, place: int, size: int) -> None:
    """Let an entry sink to its place in the heap that begins at `low`."""
    item, key = items[low + place], keys[low + place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and keys[low + child + 1] > keys[low + child]:
            child += 1
        if keys[low + child] <= key:
            break
        items[low + place], keys[low + place] = items[low + child], keys[low + child]
        place = child
    items[low + place], keys[low + place] = item, key


@kernel
def _pick(
    X: Rows,
    starts: np.ndarray,
    numbers: np.ndarray,
    own: np.ndarray,
    along: np.ndarray,
    lengths: np.ndarray,
    q: np.ndarray,
    rise: float,
    shift: float,
    slack: float,
    n_picks: int,
    items: np.ndarray,
    edges: np.ndarray,
    center_of: np.ndarray,
    radius: np.ndarray,
    across: np.ndarray,
    offsets: np.ndarray,
) -> tuple[np.ndarray, int]:
    """See `lazy_greedy`. Heap h has the items from edges[h] to edges[h + 1]."""
    n, n_heaps, n_centers = own.size, radius.size, across.shape[1]
    used = np.zeros(n, dtype=np.int64)
    seen = np.zeros(n, dtype=np.int64)
    keys = np.empty(n)
    sizes = np.empty(n_heaps, dtype=np.int64)
    shared = np.zeros(n_heaps)  # what has been added to the bounds of a heap since the start
    tops = np.empty(n_heaps)  # bound of the first of each heap that is not of this moment
    reach, products = 0.0, np.zeros(n_centers)
    common = 0.0  # what is to be taken off all gains alike
    best, best_gain, best_row = -1, -np.inf, 0
    for h in range(n_heaps):
        low, sizes[h] = edges[h], edges[h + 1] - edges[h]
        for place in range(sizes[h]):
            i = items[low + place]
            gain = dot_row(X, i, q) + own[i]
            keys[low + place] = gain
            row = numbers[starts[i]]
            if gain > best_gain or (gain == best_gain and row < best_row):
                best, best_gain, best_row = i, gain, row
        for place in range(sizes[h] // 2 - 1, -1, -1):
            _sift(items, keys, low, place, sizes[h])
    computed = n
    for now in range(1, n_picks + 1):
        # pick, and tell every heap
        used[best] += 1
        push_row(X, best, rise, q)
        common += rise * (along[best] - shift)
        reach += lengths[best]
        for g in range(n_centers):
            products[g] -= offsets[g]
        push_products(X, best, across, products)
        for h in range(n_heaps):
            g = center_of[h]
            inner = products[g - 1] if g > 0 else 0.0
            shared[h] = rise * (inner + radius[h] * reach) + slack * now
            tops[h] = keys[edges[h]] + shared[h] if sizes[h] > 0 else -np.inf
        if now == n_picks:
            break
        # look at those whose bound is not below the best gain
        best, best_gain, best_row = -1, -np.inf, 0
        while True:
            h = int(np.argmax(tops))
            if tops[h] == -np.inf or (best >= 0 and tops[h] < best_gain - common):
                break
            low, i = edges[h], items[edges[h]]
            if used[i] == starts[i + 1] - starts[i]:  # none left
                sizes[h] -= 1
                items[low], keys[low] = items[low + sizes[h]], keys[low + sizes[h]]
            else:
                gain = dot_row(X, i, q) - rise * now * along[i] + own[i]
                computed += 1
                seen[i] = now
                keys[low] = gain - common - shared[h]
                row = numbers[starts[i] + used[i]]
                if best < 0 or gain > best_gain or (gain == best_gain and row < best_row):
                    best, best_gain, best_row = i, gain, row
            _sift(items, keys, low, 0, sizes[h])
            if sizes[h] == 0 or seen[items[low]] == now:
                tops[h] = -np.inf  # all others of this heap are below one that is known
            else:
                tops[h] = keys[low] + shared[h]
        if best < 0:
            break
    return used, computed


def lazy_greedy(
    X: Rows,
    starts: np.ndarray,
    numbers: np.ndarray,
    square: np.ndarray,
    along: np.ndarray,
    mean: np.ndarray,
    q: np.ndarray,
    rise: float,
    n_picks: int,
) -> tuple[np.ndarray, int]:
    """Pick the row of largest gain `n_picks` times; of equal gains the lowest row number.

    Item i stands for the equal rows `numbers[starts[i]:starts[i + 1]]` (ascending); row i of X is
    one of them. With t rows picked, the gain of item i is, up to a number that all have in common::

        x_i.q_t - rise t along_i + 1/2 rise |x_i - m|^2,    q_t = q + rise sum_picked x

    Parameters
    ----------
    X : one row per item.
    starts, numbers : rows of the items.
    square, along : |x_i|^2 and x_i.m.
    mean : (d,) m.
    q : (d,) what gains are at the start; left as it is.
    rise : weight of a picked row in q.
    n_picks : how many; at most all rows.

    Returns
    -------
    How many rows of each item are picked (the first ones), and the number of gains computed.
    """
    n_picks = min(n_picks, len(numbers))
    length2 = np.maximum(square - 2.0 * along + np.add.reduce(mean * mean), 0.0)
    chosen = choose_centers(X, len(square), len(mean))
    centers = np.zeros((len(chosen), len(mean)))
    for g, i in enumerate(chosen):
        add_row(X, int(i), centers[g])
    centers -= mean
    nearest, distance = _gather(X, centers, mean, length2)
    longest = float(np.sqrt(length2.max(initial=0.0)))
    ring = np.searchsorted(np.array(RINGS) * longest, distance)
    n_rings = len(RINGS) + 1
    kind = nearest * n_rings + ring
    items = np.argsort(kind, kind="stable")
    kinds, first = np.unique(kind[items], return_index=True)
    edges = np.append(first, len(items))
    radius = np.maximum.reduceat(distance[items], first) + 1e-9 * longest
    return _pick(
        X,
        starts,
        numbers,
        0.5 * rise * length2,
        along,
        np.sqrt(length2),
        q.copy(),
        rise,
        float(np.add.reduce(mean * mean)),
        SLACK * rise * longest**2,
        n_picks,
        items,
        edges,
        kinds // n_rings,
        radius,
        np.ascontiguousarray(centers.T),
        centers @ mean,
    )
