"""(mu+nu)-EA over labels (Gieseke et al., Algorithm 2): mu parents, nu single flips of them.

A child is evaluated by its flip alone; only survivors are built. A survivor takes the slot of a
dying individual, whose labels must become those of its parent. Both are close relatives, so the
flips in which they differ are looked up in the family tree and applied, which is cheaper than a
copy of n labels. A node of the tree is a flip and the number of its parent node, which is smaller
than its own; the tree is started anew when it is full.

`search` is one restart from random labels, `search_from` one from given labels.
"""

import numpy as np

from dask_s3vm.kernels.flips import (
    DRIFT,
    UNLIMITED,
    add_factor_rows,
    change_of,
    draw_labels,
    fit_window,
    flip_in_turn,
    flip_row,
    partner_of,
    square_norm,
)
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import below, scramble

#: Nodes of the family tree beyond those that n and mu ask for.
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
    """One restart: a search from random labels until n flips have changed nothing.

    Parameters
    ----------
    G, lengths, fixed, low, high, grain : see `flips.flip_in_turn`.
    share : probability of a positive label at the start.
    mu, nu : numbers of parents and children; (1, 1) is the (1+1)-EA of `flips.flip_in_turn`.
    seed : seed of this restart.

    Returns
    -------
    (labels, z recomputed from them, |z|^2 of the best start, flips evaluated, flips carried out).
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
        add_factor_rows(G, labels[slot], z[slot])
        square[slot] = square_norm(z[slot])
    start = square.max()
    best = 0
    if mu == 1 and nu == 1:
        _, looked, carried = flip_in_turn(
            G, lengths, labels[0], z[0], fixed, counts[0], low, high, state, grain, UNLIMITED
        )
    else:
        best, looked, carried = evolve(
            G, lengths, labels, z, fixed, counts, low, high, nu, state, grain
        )
    found = labels[best].copy()
    exact = fixed.copy()
    add_factor_rows(G, found, exact)
    return found, exact, start, looked, carried


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
) -> tuple[np.ndarray, np.ndarray, float, int, int, bool]:
    """One restart of the (1+1)-EA from the labels `given`.

    Few improving flips are left near a good solution: a population would find the same ones.
    Other parameters and return value: see `search`; and whether random numbers were drawn. If not,
    every seed finds the same.
    """
    state = np.empty(1, dtype=np.uint64)
    first = scramble(seed)
    state[0] = first
    labels = given.copy()
    count = fit_window(labels, np.count_nonzero(labels > 0), low, high, state)
    z = fixed.copy()
    add_factor_rows(G, labels, z)
    start = square_norm(z)
    _, looked, carried = flip_in_turn(
        G, lengths, labels, z, fixed, count, low, high, state, grain, UNLIMITED
    )
    if carried > 0:
        z[:] = fixed
        add_factor_rows(G, labels, z)
    return labels, z, start, looked, carried, state[0] != first


@kernel(fastmath={"reassoc"})  # see `flips.factor_dot`
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
    """Generations of nu flips of random rows of random parents; the best mu of all survive.

    `labels`, `z` and `counts` of the mu parents are changed in place. Between a parent and a child
    of the same value, the parent survives. Returns (slot of the best, flips evaluated, number of
    children that survived).
    """
    (mu, n), width = labels.shape, G.shape[1]
    values = np.empty(mu)  # -|z|^2, F up to a constant
    for slot in range(mu):
        values[slot] = -square_norm(z[slot])
    order = np.arange(mu)
    _sort(values, order)
    tree_parent = np.empty(DRIFT * n + 4 * mu + _ROOM, dtype=np.int32)
    tree_row = np.empty(tree_parent.size, dtype=np.int32)
    nodes = np.arange(mu)
    tree_parent[:mu] = -1
    used = mu
    # the best children of a generation, best first: value, parent, rows flipped
    new_values = np.empty(mu)
    new_parents = np.empty(mu, dtype=np.int64)
    new_rows = np.empty((mu, 2), dtype=np.int64)
    host = np.empty(mu, dtype=np.int64)
    taken = np.empty(mu, dtype=np.bool_)
    leaves = np.empty(mu, dtype=np.bool_)
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
            if i >= 0:
                change = change_of(G, lengths, labels[parent], z[parent], j, i)
            else:  # without views of rows: to count their references takes as long as the product
                along = 0.0
                for k in range(width):
                    along += G[j, k] * z[parent, k]
                change = 4.0 * labels[parent, j] * along - 4.0 * lengths[j] * lengths[j]
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
            host, taken, leaves,
        )  # fmt: skip
        _sort(values, order)
        if used + 2 * mu > tree_parent.size:
            used = mu
            for slot in range(mu):
                nodes[slot] = slot
                z[slot] = fixed
                add_factor_rows(G, labels[slot], z[slot])
                values[slot] = -square_norm(z[slot])
            _sort(values, order)
    return order[0], looked, stayed


@kernel
def _sort(values: np.ndarray, order: np.ndarray) -> None:
    """Sort the slots in `order` by their values, by insertion: few are out of place."""
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
    """Insert a child into the list of the best, behind equal values; returns the new size."""
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
    """Return how many of the worst parents are replaced by the best children."""
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
    host: np.ndarray,
    taken: np.ndarray,
    leaves: np.ndarray,
) -> int:
    """Build the first `replaced` children, in the slots of as many of the worst parents.

    A parent that dies but has a surviving child becomes that child in its own slot. Other children
    take the remaining slots. `host`, `taken` and `leaves` are buffers of length mu. Returns the
    number of tree nodes in use.
    """
    mu = values.size
    host[:] = -1
    taken[:] = False
    leaves[:] = False
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
    """Turn the labels of slot `target` into those of slot `source`, flip by flip."""
    mine, theirs = nodes[target], nodes[source]
    while mine != theirs:
        # the node of larger number is no ancestor of the other: its flip is one they differ in
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
    if mine != theirs:  # different roots
        labels[target] = labels[source]
