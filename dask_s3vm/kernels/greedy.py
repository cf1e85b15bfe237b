"""Lazy greedy choice of rows, and groups of equal rows.

Greedy picks the row of largest gain again and again. A pick changes the gain of another row by
their kernel value, which is bounded: a gain that was computed some picks ago bounds that of today,
and only rows whose bound is not below the best known gain are evaluated again (Minoux). The result
is that of plain greedy.

The work depends on the bound. Submodularity gives the largest kernel value d for each pick. A
tighter bound uses that near rows have similar kernel values: rows z are assigned to centers c, and
with the sum of picks s and the sum L of their lengths

    z.(s_now - s_then) <= c.(s_now - s_then) + |z - c| (L_now - L_then)

Rows of the same center and a similar distance to it share a heap. The order within a heap does not
change over time; what changes is one number per heap.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from dask_s3vm.kernels.passes import add_row, products, square_norms
from dask_s3vm.kernels.rows import CSR, Rows, is_csr, matrix_dot, vector_add, vector_dot
from dask_s3vm.numerics.compiler import kernel

#: Bounds are raised by this part of d for each pick, which covers rounding errors.
SLACK = 1e-6

#: Largest number of centers, and of the entries of all of them.
MAX_CENTERS = 32
MAX_NUMBERS = 4_000_000

#: Size of the sample that centers are chosen from, for each center.
SAMPLE = 64

#: Bounds of the distance classes around a center, as parts of the largest length of a row.
RINGS = (0.02, 0.08, 0.25, 0.7)


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
    """Pick the row of largest gain `n_picks` times; among equal gains the lowest row number.

    Item i stands for the equal rows `numbers[starts[i]:starts[i + 1]]` (ascending); row i of X is
    one of them. After t picks the gain of item i is, up to a term that all items share::

        x_i.q_t - rise t along_i + 1/2 rise |x_i - m|^2,    q_t = q + rise sum_picked x

    Parameters
    ----------
    X : one row per item.
    starts, numbers : global row numbers by item.
    square, along : |x_i|^2 and x_i.m.
    mean : (d,) m.
    q : (d,) q_0; not changed.
    rise : weight of a picked row in q.
    n_picks : number of picks, at most all rows.

    Returns
    -------
    Number of picked rows of each item (its first ones), and the number of gains computed.
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


def choose_centers(X: Rows, n: int, n_features: int) -> np.ndarray:
    """Return the numbers of the rows that are centers; the origin is one more center.

    k-means++ seeding on a sample of evenly spaced rows, with a fixed seed.
    """
    most = min(MAX_CENTERS, MAX_NUMBERS // max(n_features, 1), n // SAMPLE)
    if most < 1:
        return np.zeros(0, dtype=np.uint32)
    sample = np.linspace(0, n - 1, SAMPLE * most).astype(np.uint32)  # most <= n / SAMPLE
    square = square_norms(X, sample, n_features)
    along, center = np.empty(len(sample)), np.empty(n_features)
    draws = np.random.default_rng(0).random(most)
    nearest = np.ones(len(sample))
    chosen: list[int] = []
    for draw in draws:
        ends = np.cumsum(nearest)
        if not ends[-1] > 0:
            break
        one = min(int(np.searchsorted(ends, draw * ends[-1], side="right")), len(sample) - 1)
        center[:] = 0.0
        add_row(X, int(sample[one]), center)
        products(X, sample, center, along)
        distance = np.maximum(square + square[one] - 2.0 * along, 0.0)
        nearest = distance if not chosen else np.minimum(nearest, distance)
        chosen.append(one)
    return sample[chosen]


@kernel
def _gather(
    X: Rows, centers: np.ndarray, mean: np.ndarray, length2: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest center of each row z, 0 for the origin, and the distance to it."""
    n, m = length2.size, centers.shape[0]
    nearest = np.zeros(n, dtype=np.int64)
    distance2 = length2.copy()
    for g in range(m):
        center = centers[g]
        square = np.dot(center, center)
        offset = np.dot(center, mean)
        for i in range(n):
            there = length2[i] + square - 2.0 * (vector_dot(X, i, center) - offset)
            if there < distance2[i]:
                distance2[i], nearest[i] = there, g + 1
    return nearest, np.sqrt(np.maximum(distance2, 0.0))


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
    """Run `lazy_greedy`. Heap h has the items edges[h] to edges[h + 1]."""
    n, n_heaps, n_centers = own.size, radius.size, across.shape[1]
    used = np.zeros(n, dtype=np.int64)
    seen = np.zeros(n, dtype=np.int64)
    keys = np.empty(n)
    sizes = np.empty(n_heaps, dtype=np.int64)
    shared = np.zeros(n_heaps)  # sum of all that was added to the bounds of a heap
    tops = np.empty(n_heaps)  # bound at the top of each heap, -inf if that gain is current
    reach, products = 0.0, np.zeros(n_centers)
    common = 0.0  # part of the gains that all rows share, not included in the bounds
    best, best_gain, best_row = -1, -np.inf, 0
    for h in range(n_heaps):
        low, sizes[h] = edges[h], edges[h + 1] - edges[h]
        for place in range(sizes[h]):
            i = items[low + place]
            gain = vector_dot(X, i, q) + own[i]
            keys[low + place] = gain
            row = numbers[starts[i]]
            if gain > best_gain or (gain == best_gain and row < best_row):
                best, best_gain, best_row = i, gain, row
        for place in range(sizes[h] // 2 - 1, -1, -1):
            _sift(items, keys, low, place, sizes[h])
    computed = n
    for now in range(1, n_picks + 1):
        # pick, and update the bound of every heap
        used[best] += 1
        vector_add(X, best, rise, q)
        common += rise * (along[best] - shift)
        reach += lengths[best]
        for g in range(n_centers):
            products[g] -= offsets[g]
        matrix_dot(X, best, across, products)
        for h in range(n_heaps):
            g = center_of[h]
            inner = products[g - 1] if g > 0 else 0.0
            shared[h] = rise * (inner + radius[h] * reach) + slack * now
            tops[h] = keys[edges[h]] + shared[h] if sizes[h] > 0 else -np.inf
        if now == n_picks:
            break
        # evaluate the rows whose bound is not below the best gain
        best, best_gain, best_row = -1, -np.inf, 0
        while True:
            h = int(np.argmax(tops))
            if tops[h] == -np.inf or (best >= 0 and tops[h] < best_gain - common):
                break
            low, i = edges[h], items[edges[h]]
            if used[i] == starts[i + 1] - starts[i]:  # all rows of the item are picked
                sizes[h] -= 1
                items[low], keys[low] = items[low + sizes[h]], keys[low + sizes[h]]
            else:
                gain = vector_dot(X, i, q) - rise * now * along[i] + own[i]
                computed += 1
                seen[i] = now
                keys[low] = gain - common - shared[h]
                row = numbers[starts[i] + used[i]]
                if best < 0 or gain > best_gain or (gain == best_gain and row < best_row):
                    best, best_gain, best_row = i, gain, row
            _sift(items, keys, low, 0, sizes[h])
            if sizes[h] == 0 or seen[items[low]] == now:
                tops[h] = -np.inf  # no other row of this heap exceeds the known gain
            else:
                tops[h] = keys[low] + shared[h]
        if best < 0:
            break
    return used, computed


@kernel
def _sift(items: np.ndarray, keys: np.ndarray, low: int, place: int, size: int) -> None:
    """Sift an entry down in the heap that begins at `low`."""
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


# Groups of equal rows -------------------------------------------------------------------------

_PRIME = np.uint64(0x100000001B3)
_START = np.uint64(0xCBF29CE484222325)
_FOLD = np.uint64(29)


def find_items(X: Rows, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group the listed rows, whose numbers ascend, into items of equal rows.

    Returns the position in `rows` of the first row of each item, ascending, and the item of each
    row. Rows are compared bit by bit. If unequal rows with the same hash stand between equal ones,
    equal rows may form two items, which costs time and does not change the result of greedy.
    """
    bits = _as_bits(X)
    hashes = _hashes(bits, rows)
    order = np.argsort(hashes, kind="stable")
    leader = _leaders(bits, rows, order, hashes)
    first, item = np.unique(leader, return_inverse=True)
    return first, item


def _as_bits(X: Rows) -> Rows:
    """Return the rows with the bits of their values as unsigned integers."""
    if isinstance(X, CSR):
        return CSR(X.indptr, X.indices, _bits(X.values))
    return _bits(np.ascontiguousarray(X))


def _bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint32 if values.dtype == np.float32 else np.uint64)


@kernel
def _hashes(X: Rows, rows: np.ndarray) -> np.ndarray:
    out = np.empty(rows.size, dtype=np.uint64)
    for k in range(rows.size):
        out[k] = _hash(X, np.int64(rows[k]))
    return out


@kernel
def _leaders(X: Rows, rows: np.ndarray, order: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Return for each listed row the position in the list of the first row equal to it."""
    leader = np.empty(rows.size, dtype=np.int64)
    head = np.int64(-1)
    for k in range(order.size):
        place = order[k]
        if (
            head < 0
            or hashes[place] != hashes[head]
            or not _equal(X, np.int64(rows[place]), np.int64(rows[head]))
        ):
            head = place
        leader[place] = head
    return leader


def _hash(X: Any, i: Any) -> int:
    """Hash of row `i` (compiled code only)."""
    raise NotImplementedError("_hash is resolved by numba")


def _equal(X: Any, i: Any, j: Any) -> bool:
    """Whether rows `i` and `j` hold the same bits (compiled code only)."""
    raise NotImplementedError("_equal is resolved by numba")


def _mixed(h: Any, word: Any) -> Any:
    """One step of a multiplicative hash (compiled code only)."""
    h = (h ^ np.uint64(word)) * _PRIME
    return h ^ (h >> _FOLD)


_mix = kernel(inline="always")(_mixed)


def _hash_csr(X: Any, i: Any) -> Any:
    h = _START
    for k in range(np.int64(X.indptr[i]), np.int64(X.indptr[i + 1])):
        h = _mix(_mix(h, X.indices[k]), X.values[k])
    return h


def _hash_dense(X: Any, i: Any) -> Any:
    h = _START
    for k in range(X.shape[1]):
        h = _mix(h, X[i, k])
    return h


def _equal_csr(X: Any, i: Any, j: Any) -> Any:
    a, b = np.int64(X.indptr[i]), np.int64(X.indptr[j])
    n = np.int64(X.indptr[i + 1]) - a
    if np.int64(X.indptr[j + 1]) - b != n:
        return False
    for k in range(n):
        if X.indices[a + k] != X.indices[b + k] or X.values[a + k] != X.values[b + k]:
            return False
    return True


def _equal_dense(X: Any, i: Any, j: Any) -> Any:
    same = True
    for k in range(X.shape[1]):
        same &= X[i, k] == X[j, k]
    return same


@overload(_hash)
def _choose_hash(X: Any, i: Any) -> Any:
    return _hash_csr if is_csr(X) else _hash_dense


@overload(_equal)
def _choose_equal(X: Any, i: Any, j: Any) -> Any:
    return _equal_csr if is_csr(X) else _equal_dense
