"""Dual of a step of the concave-convex procedure: ascent in single variables.

With f = w.z + r, z = x - m, and a label t of +1, -1 or 0 for each unlabeled row, the losses are

    labeled     c max(0, 1 - y f)               dual variable  0 <= v <= c,   share of w  y v
    unlabeled   c (max(1, |f|) - t f)           dual variable -c <= v <= c,   share of w  v + c t

and w is the sum of the shares times z. The terms of the duality gap, all >= 0, are

    labeled     c max(0, g) - v g,  g = 1 - y f
    unlabeled   c (max(1, |f|) - 1) + v f + |v|

Rows are centered on the fly: weights (w, r - m.w) give f by one product with (x, 1), and moves of w
along z are corrected for by the products x.m.
"""

import numpy as np

from dask_s3vm.kernels.dual import box_step, first_state, gap_term, shuffle
from dask_s3vm.kernels.rows import Rows, pair_add, pair_dot, pair_move
from dask_s3vm.numerics.compiler import kernel


@kernel
def double_step(f: float, curvature: float, v: float, cost: float) -> float:
    """Return the s that maximizes -|v + s| - f s - curvature s^2 / 2 under |v + s| <= cost."""
    if curvature > 0.0:
        free = v - f / curvature
        to = max(0.0, abs(free) - 1.0 / curvature)
        to = min(to, cost) if free > 0.0 else -min(to, cost)
    elif abs(f) <= 1.0:
        to = 0.0
    else:
        to = -cost if f > 0.0 else cost
    return to - v


@kernel
def ramp_gap(
    X: Rows,
    codes: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    dual: np.ndarray,
    flat: float,
    pair: np.ndarray,
    floor: float,
    work: np.ndarray,
) -> tuple[float, float, int]:
    """Losses and duality gap of the rows of cost > 0 at the weights in `pair`.

    Losses of unlabeled rows without a label are less by c `flat`, so that they touch the clipped
    ones (`ramp_relabel`) where these are flat.

    Returns (sum of the losses, gap, m). The first m entries of `work` are the rows to take steps
    in: those whose term of the gap is above `floor`, and those inside their box, whose optimum
    moves with every change of w.
    """
    loss, gap = 0.0, 0.0
    n = 0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        f = pair_dot(X, i, pair, 1.0)
        v = dual[i]
        if codes[i] >= 0:
            g = 1.0 - target[i] * f
            loss += c * max(0.0, g)
            term = gap_term(g, v, c)
            inside = 0.0 < v < c
        else:
            beyond = max(0.0, abs(f) - 1.0)
            loss += c * (1.0 + beyond - (target[i] * f if target[i] else flat))
            term = c * beyond + v * f + abs(v)
            inside = v != 0.0 and abs(v) < c
        gap += term
        if term > floor or inside:
            work[n] = i
            n += 1
    return loss, gap, n


@kernel
def ramp_ascend(
    X: Rows,
    work: np.ndarray,
    codes: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    dual: np.ndarray,
    norms: np.ndarray,
    along: np.ndarray,
    square: float,
    level: float,
    scale: float,
    epochs: int,
    enough: float,
    seed: int,
    pair: np.ndarray,
    change: np.ndarray,
) -> tuple[float, float]:
    """Ascend the local model of CoCoA+ by steps in single variables, in random order.

    See `dual.ascend`; `norms` are |z|^2, `along` x.m, `square` |m|^2, `level` r. The output half of
    `pair` gets the sum of s x. Returns (gain of the terms that are not |w|^2, if all of the change
    is made; sum of s).
    """
    state = first_state(seed)
    total, by_mean, added = 0.0, 0.0, 0.0  # sums of s, of s x.m, and of gains
    first = 0.0
    for epoch in range(epochs):
        gained = 0.0
        state = shuffle(work, state)
        for k in range(work.size):
            i = np.int64(work[k])
            v = dual[i] + change[i]
            f = pair_dot(X, i, pair, 1.0) - scale * (total * (along[i] - square) + by_mean)
            curvature = scale * norms[i]
            if codes[i] >= 0:
                step = box_step(1.0 - target[i] * f, curvature, v, cost[i])
                s = target[i] * step
                own = step
            else:
                s = step = double_step(f, curvature, v, cost[i])
                own = abs(v) - abs(v + step)
            if step != 0.0:
                gained += own - s * f - 0.5 * curvature * s * s
                added += own - level * s
                change[i] += step
                total += s
                by_mean += s * along[i]
                pair_move(X, i, s, scale, pair, 0.0)
        if epoch == 0:
            first = gained
        if gained <= enough * first:
            break
    return added, total


@kernel
def apply_ramp_change(
    step: float, codes: np.ndarray, cost: np.ndarray, dual: np.ndarray, change: np.ndarray
) -> None:
    """Add `step` times the change to the dual variables, kept in their boxes; it becomes zero."""
    for i in range(dual.size):
        if change[i] != 0.0:
            low = 0.0 if codes[i] >= 0 else -cost[i]
            dual[i] = min(cost[i], max(low, dual[i] + step * change[i]))
            change[i] = 0.0


@kernel
def ramp_relabel(
    X: Rows,
    codes: np.ndarray,
    target: np.ndarray,
    cost: np.ndarray,
    dual: np.ndarray,
    flat: float,
    pair: np.ndarray,
) -> tuple[float, int]:
    """Label the unlabeled rows by the sign of their outputs, 0 where these are within +-`flat`.

    Dual variables follow, so that the shares of w stay where the boxes allow it. The output half of
    `pair` gets the sum of the shares times (x, 1). Returns (losses at the weights in `pair`, the
    clipped ones of unlabeled rows min(1 - flat, max(0, 1 - |f|)); labels that changed).
    """
    loss = 0.0
    changed = 0
    for i in range(target.size):
        c = cost[i]
        if c == 0.0:
            continue
        f = pair_dot(X, i, pair, 1.0)
        if codes[i] >= 0:
            loss += c * max(0.0, 1.0 - target[i] * f)
            share = target[i] * dual[i]
        else:
            loss += c * min(1.0 - flat, max(0.0, 1.0 - abs(f)))
            label = 0
            if f > flat:
                label = 1
            elif f < -flat:
                label = -1
            if label != target[i]:
                changed += 1
                dual[i] = min(c, max(-c, dual[i] + c * (target[i] - label)))
                target[i] = label
            share = dual[i] + c * label
        if share != 0.0:
            pair_add(X, i, share, pair, 1.0)
    return loss, changed
