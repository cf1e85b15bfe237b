"""(mu+nu)-EA over labels (Gieseke et al., Algorithm 2): mu parents, nu single flips of them.

Children are looked at by their flip alone; only those that survive are made. To make one, labels
of its parent must take the place of others: parents are close relatives, so instead of copying n
labels the flips in which they differ are looked up in their family tree and carried over. A
node of the tree is a flip and its parent node, and has a larger number than that; the tree starts
anew when it is full.
"""

import numpy as np

from dask_s3vm.kernels.compiler import kernel
from dask_s3vm.kernels.draws import below, scramble
from dask_s3vm.kernels.flips import (
    DRIFT,
    FOR_EVER,
    add_rows,
    change_of,
    draw_labels,
    fit_window,
    flip_row,
    partner_of,
    round_robin,
    squared,
)

_ROOM = 1024


@kernel
def search(
    G: np.ndarray,
    lengths: np.ndarray,
    fixed: np.ndarray,
    share: float,
    low: int,
    high: int,
    mu: int,
    nu: int,
    seed: np.uint64,
    grain: float,
) -> tuple[np.ndarray, np.ndarray, float, int, int]:
    """One restart: random labels, and a search from there until n flips have changed nothing.

    Parameters
    ----------
    G, lengths, fixed, low, high, grain : see `flips.round_robin`.
    share : probability of a positive label at the start.
    mu, nu : parents and children; 1 and 1 are the (1+1)-EA that takes the rows in turn.
    seed : of this restart.

    Returns
    -------
    (labels, z computed anew from them, |z|^2 of the best start, flips looked at, carried out).
    """
    n = lengths.size
    state = np.empty(1, dtype=np.uint64)
    state[0] = scramble(seed)
    labels = np.empty((mu, n), dtype=np.int8)
    z = np.empty((mu, fixed.size))
    counts = np.empty(mu, dtype=np.int64)
    square = np.empty(mu)
    for slot in range(mu):
        own = scramble(seed + np.uint64(slot + 1))
        counts[slot] = draw_labels(own, 0, share, labels[slot])
        counts[slot] = fit_window(labels[slot], counts[slot], low, high, state)
        z[slot] = fixed
        add_rows(G, labels[slot], z[slot])
        square[slot] = squared(z[slot])
    start = square.max()
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


@kernel
def evolve(
    G: np.ndarray,
    lengths: np.ndarray,
    labels: np.ndarray,
    z: np.ndarray,
    fixed: np.ndarray,
    counts: np.ndarray,
    low: int,
    high: int,
    nu: int,
    state: np.ndarray,
    grain: float,
) -> tuple[int, int, int]:
    """Generations of nu flips of random rows of random parents; the best mu of all stay.

    labels, z, counts are of the mu parents, and changed in place; a parent stays before a child
    that is as good. Returns (the best parent, flips looked at, children that stayed).
    """
    mu, n = labels.shape
    values = np.empty(mu)  # -|z|^2 of the parents
    for slot in range(mu):
        values[slot] = -squared(z[slot])
    order = np.arange(mu)
    _sort(values, order)
    tree_parent = np.empty(DRIFT * n + 4 * mu + _ROOM, dtype=np.int32)
    tree_row = np.empty(tree_parent.size, dtype=np.int32)
    nodes = np.arange(mu)
    tree_parent[:mu] = -1
    used = mu
    # the best children of a generation, in order: value, parent, rows flipped
    new_values = np.empty(mu)
    new_parents = np.empty(mu, dtype=np.int64)
    new_rows = np.empty((mu, 2), dtype=np.int64)
    looked = stayed = idle = 0
    while idle < n:
        worst = values[order[mu - 1]]
        born = 0
        for _ in range(nu):
            parent = below(state, mu)
            j = below(state, n)
            looked += 1
            i = np.int64(-1)
            if not low <= counts[parent] - labels[parent, j] <= high:
                i = partner_of(labels[parent], j, state)
                if i < 0:
                    continue
            change = change_of(G, lengths, labels[parent], z[parent], j, i)
            least = grain * (lengths[j] + (lengths[i] if i >= 0 else 0.0))
            value = values[parent] + change
            if value < worst - least:
                born = _insert(value, parent, j, i, new_values, new_parents, new_rows, born)
        replaced = _replaced(values, order, new_values, born)
        idle += nu
        if replaced == 0:
            continue
        idle = 0
        stayed += replaced
        used = _succeed(
            G, labels, z, counts, values, order, replaced,
            new_values, new_parents, new_rows, nodes, tree_parent, tree_row, used,
        )  # fmt: skip
        _sort(values, order)
        if used + 2 * mu > tree_parent.size:
            used = mu
            for slot in range(mu):
                nodes[slot] = slot
                z[slot] = fixed
                add_rows(G, labels[slot], z[slot])
                values[slot] = -squared(z[slot])
            _sort(values, order)
    return order[0], looked, stayed


@kernel
def _sort(values: np.ndarray, order: np.ndarray) -> None:
    """Bring the slots in `order` into ascending order of their values; few are out of place."""
    for k in range(1, order.size):
        slot = order[k]
        place = k
        while place > 0 and values[order[place - 1]] > values[slot]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = slot


@kernel
def _insert(
    value: float,
    parent: int,
    j: int,
    i: int,
    values: np.ndarray,
    parents: np.ndarray,
    rows: np.ndarray,
    size: int,
) -> int:
    """Put a child into the list of the best, behind those that are as good; returns its size."""
    if size == values.size and value >= values[size - 1]:
        return size
    place = size if size < values.size else size - 1
    size = place + 1
    while place > 0 and values[place - 1] > value:
        values[place] = values[place - 1]
        parents[place] = parents[place - 1]
        rows[place] = rows[place - 1]
        place -= 1
    values[place] = value
    parents[place] = parent
    rows[place, 0] = j
    rows[place, 1] = i
    return size


@kernel
def _replaced(values: np.ndarray, order: np.ndarray, new: np.ndarray, born: int) -> int:
    """How many of the worst parents make way for the best children."""
    mu = values.size
    count = 0
    while count < born and new[count] < values[order[mu - 1 - count]]:
        count += 1
    return count


@kernel
def _succeed(
    G: np.ndarray,
    labels: np.ndarray,
    z: np.ndarray,
    counts: np.ndarray,
    values: np.ndarray,
    order: np.ndarray,
    replaced: int,
    new_values: np.ndarray,
    new_parents: np.ndarray,
    new_rows: np.ndarray,
    nodes: np.ndarray,
    tree_parent: np.ndarray,
    tree_row: np.ndarray,
    used: int,
) -> int:
    """Make the first `replaced` children, in the slots of as many of the worst parents.

    A parent that goes, but has a child that stays, becomes that child; its other children, and
    those of parents that stay, take the slots of the others that go.
    """
    mu = values.size
    host = np.full(replaced, -1)
    taken = np.zeros(mu, dtype=np.bool_)
    leaves = np.zeros(mu, dtype=np.bool_)
    for k in range(replaced):
        leaves[order[mu - 1 - k]] = True
    for k in range(replaced):
        parent = new_parents[k]
        if leaves[parent] and not taken[parent]:
            host[k] = parent
            taken[parent] = True
    for k in range(replaced):
        if host[k] >= 0:
            continue
        slot = 0
        while not leaves[slot] or taken[slot]:
            slot += 1
        host[k] = slot
        taken[slot] = True
        parent = new_parents[k]
        _carry_over(labels, nodes, tree_parent, tree_row, parent, slot)
        z[slot] = z[parent]
        counts[slot] = counts[parent]
        nodes[slot] = nodes[parent]
    for k in range(replaced):
        slot = host[k]
        values[slot] = new_values[k]
        for place in range(2):
            j = new_rows[k, place]
            if j < 0:
                continue
            counts[slot] -= labels[slot, j]
            flip_row(G, labels[slot], z[slot], j)
            tree_parent[used] = nodes[slot]
            tree_row[used] = j
            nodes[slot] = used
            used += 1
    return used


@kernel
def _carry_over(
    labels: np.ndarray,
    nodes: np.ndarray,
    tree_parent: np.ndarray,
    tree_row: np.ndarray,
    source: int,
    target: int,
) -> None:
    """Give slot `target` the labels of slot `source`."""
    mine, theirs = nodes[target], nodes[source]
    while mine != theirs:
        # the larger number is no ancestor of the other: its flip is one in which they differ
        if mine > theirs:
            if tree_parent[mine] < 0:
                break
            labels[target, tree_row[mine]] *= -1
            mine = tree_parent[mine]
        else:
            if tree_parent[theirs] < 0:
                break
            labels[target, tree_row[theirs]] *= -1
            theirs = tree_parent[theirs]
    if mine != theirs:  # of different roots
        labels[target] = labels[source]
