"""The smooth objective of QN-S3VM (Gieseke et al., eq. 4 and section 3.4), for linear f.

    F(w, b) = sum_lab c_i L1(y_i f_i) + lam_u sum_unl s_j L2(f_j) + lam |w|^2
    f(x) = w.(x - m) + b

with the losses of `kernels.smooth`, costs c that sum to 1 over labeled and s over unlabeled
rows (1/l and 1/u without weights), and m the mean of the unlabeled rows. The offset b is

    balanced  fixed at 2 r - 1, the mean output of the unlabeled rows, eq. 13. (The paper prints the
              sum of the known labels; their mean is meant, and fits outputs of size 1.)
    free      one more variable, not regularized
    none      0, and m = 0

Rows are centered on the fly: x.w + (b - m.w) is one product and one number, and sparse rows stay
sparse.

Row state in a shard: `target` (0 where unlabeled), `cost` (c or s), and the numbers of the rows of
cost > 0: `known` (labeled), `free` (unlabeled) and `counted` (both).
"""

from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import smooth
from dask_s3vm.kernels.passes import sum_rows
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.numerics.linalg import dot
from dask_s3vm.problems.hinge import row_costs
from dask_s3vm.problems.transductive import set_known_targets

OFFSETS = ("balanced", "free", "none")


class SmoothProblem:
    """F above, in the variables x = w, or (w, b) if the offset is free.

    Parameters
    ----------
    engine : the rows; their codes are class numbers, -1 where unlabeled.
    lam : weight of the regularizer.
    positive : the class number that is +1; every other class is -1.
    costs : cost c_i of a labeled row by its class number, times its sample weight.
    unlabeled_weight : total sample weight of the unlabeled rows; if 0, m is the mean of the labeled
        rows.
    offset : one of `OFFSETS`.
    level : b if the offset is balanced; may be changed, a value and a gradient are for one.
    """

    def __init__(
        self,
        engine: Engine,
        lam: float,
        positive: int,
        costs: np.ndarray,
        unlabeled_weight: float,
        offset: str,
        level: float = 0.0,
    ) -> None:
        self._engine = engine
        self._lam = float(lam)
        self._offset = offset
        self.level = level
        self._width = engine.layout.n_features
        share = 1.0 / unlabeled_weight if unlabeled_weight else 0.0
        engine.each(set_known_targets, positive)
        engine.each(set_smooth_costs, np.append(costs, share))
        self._width, self.mean = self._look_at_rows("free" if unlabeled_weight else "known")

    @property
    def size(self) -> int:
        """Number of variables."""
        return self._width + (self._offset == "free")

    def evaluate(self, x: np.ndarray, lam_u: float) -> tuple[float, np.ndarray]:
        """Value and gradient; if lam_u = 0 unlabeled rows are not read.

        Costs: 1 round, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        engine, w, bias = self._engine, self.weights(x), float(self._offset != "none")
        which = "counted" if lam_u > 0.0 else "known"
        pulls, known, free = engine.sum(evaluate_smooth, which, w, lam_u, bias)
        inner, total = x[: self._width], float(pulls[-1])
        gradient = np.empty(self.size)
        gradient[self._width :] = total
        part = gradient[: self._width]
        np.multiply(inner, 2.0 * self._lam, out=part)
        part += pulls[: self._width]
        if self._offset != "none":
            part -= total * self.mean
        return known + lam_u * free + self._lam * dot(inner, inner), gradient

    def reweighed(
        self, x: np.ndarray, value: float, gradient: np.ndarray, lam_u: float, new_lam_u: float
    ) -> tuple[float, np.ndarray]:
        """Value and gradient for another weight of the unlabeled rows, from those for `lam_u`.

        Both are linear in lam_u: F(new) = F(0) + new/lam_u (F(lam_u) - F(0)), and F(0) needs the
        labeled rows only. Costs: 1 round, 1 pass over the labeled rows.
        """
        value_0, gradient_0 = self.evaluate(x, 0.0)
        ratio = new_lam_u / lam_u
        return value_0 + ratio * (value - value_0), gradient_0 + ratio * (gradient - gradient_0)

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return (w, b - m.w), (d + 1,): weights for rows that are not centered, bias last."""
        out = np.zeros(self._engine.layout.n_features + 1)
        w = out[: self._width]
        w[:] = x[: self._width]
        if self._offset != "none":
            level = float(x[-1]) if self._offset == "free" else self.level
            out[-1] = level - dot(self.mean, w)
        return out

    def variables(self, weights: np.ndarray) -> np.ndarray:
        """Return the variables x of weights (d + 1,); a bias that x does not contain is dropped."""
        x = np.zeros(self.size)
        w = weights[: self._width]
        x[: self._width] = w
        if self._offset == "free":
            x[-1] = weights[-1] + dot(self.mean, w)
        return x

    def _look_at_rows(self, which: str) -> tuple[int, np.ndarray]:
        """Return the number of columns up to the last one that occurs, and the mean of listed rows.

        Columns of text are often sorted by frequency. If rows are few, many of the last columns
        occur in none of them, and have weight 0 at any minimum. Costs: 1 round, 1 pass.
        """
        total, used = self._engine.sum(column_sums, which)
        width = int(np.flatnonzero(used)[-1]) + 1 if used.any() else 1
        mean = total[:width] / total[-1]
        return width, mean if self._offset != "none" else np.zeros(width)


# Operations on one shard ----------------------------------------------------------------------


@operation(sets="costs", reads=["targets"])
def set_smooth_costs(shard: Shard, costs: np.ndarray) -> None:
    """Set the costs by class number, the last entry for unlabeled rows, and the lists of rows."""
    state = shard.state
    cost = row_costs(shard, costs)
    counts, labeled = cost > 0.0, state["target"] != 0
    state["cost"] = cost
    state["known"] = np.flatnonzero(counts & labeled).astype(np.uint32)
    state["free"] = np.flatnonzero(counts & ~labeled).astype(np.uint32)
    state["counted"] = np.flatnonzero(counts).astype(np.uint32)


@operation(reads=["costs"])
def column_sums(shard: Shard, which: str) -> tuple[np.ndarray, np.ndarray]:
    """(sum of c_i (x_i, 1) over the rows of a list, 1 at the last column that occurs)."""
    chosen, total = shard.state[which], np.zeros(shard.n_features + 1)
    sum_rows(shard.rows, chosen, shard.state["cost"][chosen], total)
    used = np.zeros(shard.n_features)
    stored = shard.rows.indices if isinstance(shard.rows, CSR) else np.arange(shard.n_features)
    if len(stored):
        used[stored.max()] = 1.0
    return total, used


@operation(reads=["costs"])
def evaluate_smooth(
    shard: Shard, which: str, w: np.ndarray, lam_u: float, bias: float
) -> tuple[Any, ...]:
    """(gradient of the losses of the rows of a list, labeled losses, unlabeled losses)."""
    state = shard.state
    pair = shard.pair(w)
    known, free = smooth.smooth_losses(
        shard.rows, state[which], state["target"], state["cost"], lam_u, pair, bias
    )
    return shard.take(pair), known, free
