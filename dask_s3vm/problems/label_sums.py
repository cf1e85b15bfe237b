"""What the program for labels (Emara & Kantardzic, Problem 3) needs of the rows: sums.

With a linear kernel of rows z = x - m (m = 0, or the mean of the unlabeled rows), and

    t = sum_U z,   g = sum_L c_i y_i z_i,   s = sum_U p_j z_j

the objective (11) of the probabilities P of the unlabeled rows is a function of s alone,

    F(P) = 1/2 C*^2 (1 - P)' K_uu P + C C* Y' K_lu (1 - P)
         = 1/2 C*^2 (t - s).s + C* g.(t - s)

where c_i is C times the weight of row i, and its gradient is dF/dp_j = z_j.v with

    v = C*^2 (t/2 - s) - C* g

so that nothing but vectors of length d travels. Other kernels: z are their features.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.listed import add_rows, products, square_norms
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.kernels.vectors import dot


@dataclass(frozen=True)
class LabelSums:
    """The sums above, and F.

    Vectors (d + 1,) of sums of raw rows have the sum of the rows' weights in the last entry.

    Attributes
    ----------
    unlabeled : sum of the unlabeled rows; their number last.
    labeled : sum of c_i y_i x_i; sum of c_i y_i last.
    cost : C*.
    labeled_cost : sum of c_i over the labeled rows.
    center : whether m is the mean of the unlabeled rows.
    """

    unlabeled: np.ndarray
    labeled: np.ndarray
    cost: float
    labeled_cost: float
    center: bool

    @property
    def n_unlabeled(self) -> int:
        """u."""
        return int(self.unlabeled[-1])

    @cached_property
    def mean(self) -> np.ndarray:
        """m, (d,)."""
        if not self.center:
            return np.zeros(len(self.unlabeled) - 1)
        return self.unlabeled[:-1] / self.unlabeled[-1]

    @cached_property
    def total(self) -> np.ndarray:
        """t, (d,); zero by definition where rows are centered."""
        return np.zeros(len(self.mean)) if self.center else self.unlabeled[:-1]

    @cached_property
    def pull(self) -> np.ndarray:
        """g, (d,)."""
        return self.centered(self.labeled)

    def swapped(self) -> "LabelSums":
        """The same with classes swapped: F of 1 - P is then F(P) - C* g.t."""
        return replace(self, labeled=-self.labeled)

    def centered(self, raw: np.ndarray) -> np.ndarray:
        """Sum of rows z, (d,), of a sum of raw rows."""
        return raw[:-1] - raw[-1] * self.mean

    def value(self, raw: np.ndarray) -> float:
        """F of a P whose sum of raw rows is `raw`."""
        s = self.centered(raw)
        rest = self.total - s
        return self.cost * dot(0.5 * self.cost * s + self.pull, rest)

    def scale(self, raw: np.ndarray) -> float:
        """Size of what F is added up from, which its rounding errors are relative to."""
        s = self.centered(raw)
        rest = np.abs(self.total - s)
        return self.cost * dot(0.5 * self.cost * np.abs(s) + np.abs(self.pull), rest)

    def direction(self, raw: np.ndarray) -> np.ndarray:
        """(v, -v.m) at a P whose sum is `raw`: the product with (x, 1) is dF/dp of row x."""
        s = self.centered(raw)
        v = self.cost**2 * (0.5 * self.total - s) - self.cost * self.pull
        return np.append(v, -dot(v, self.mean))


def label_sums(
    engine: Engine, positive: int, costs: np.ndarray, cost: float, center: bool
) -> LabelSums:
    """Add up. Costs: 1 round, 1 pass over the rows; 2 d numbers from each group.

    positive : the class number that is +1.
    costs : c_i of a labeled row of sample weight 1, by its class.
    """
    unlabeled, labeled, weight = engine.sum(sums_of, positive, costs)
    return LabelSums(unlabeled, labeled, cost, float(weight), center)


def kernel_bounds(engine: Engine, sums: LabelSums) -> tuple[float, float]:
    """(a, d) with a <= K_ij <= d for all rows: d the largest squared length of a row z.

    a is 0 where neither center nor data have negative values, else -d: |K_ij| <= |z_i| |z_j|.
    Costs: 1 round, 1 pass over the rows.
    """
    found = engine.each(extremes, np.append(sums.mean, 0.0))
    shift = dot(sums.mean, sums.mean)
    largest = max(max(part[0] for part in found) + shift, 0.0)
    negative = sums.center or min(part[1] for part in found) < 0
    return (-largest if negative else 0.0), largest


# Operations on one shard --------------------------------------------------------------------


def free_rows(shard: Shard) -> np.ndarray:
    """Numbers of the unlabeled rows that count."""
    return np.flatnonzero(shard.unlabeled).astype(np.uint32)


def sums_of(shard: Shard, positive: int, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(sum of unlabeled rows, sum of c y x over labeled ones, sum of c)."""
    assert shard.codes is not None, "labels are needed"
    free, known = free_rows(shard), np.flatnonzero(shard.codes >= 0).astype(np.uint32)
    unlabeled, labeled = np.zeros(shard.n_features + 1), np.zeros(shard.n_features + 1)
    add_rows(shard.rows, free, np.ones(len(free)), unlabeled)
    codes = shard.codes[known]
    weight = costs[codes] if shard.weights is None else costs[codes] * shard.weights[known]
    add_rows(shard.rows, known, np.where(codes == positive, weight, -weight), labeled)
    return unlabeled, labeled, float(np.add.reduce(weight))


def extremes(shard: Shard, mean: np.ndarray) -> tuple[float, float]:
    """(largest |x|^2 - 2 x.m of the rows that count, smallest value)."""
    assert shard.codes is not None, "labels are needed"
    rows = np.flatnonzero((shard.codes >= 0) | shard.unlabeled).astype(np.uint32)
    if len(rows) == 0:
        return -np.inf, 0.0
    norms, along = lengths(shard, rows, mean)
    values = shard.rows.values if isinstance(shard.rows, CSR) else shard.rows
    return float((norms - 2.0 * along).max()), float(values.min(initial=0.0))


def lengths(shard: Shard, rows: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|x|^2 and x.m of the listed rows."""
    along = np.zeros(len(rows))
    if mean.any():
        products(shard.rows, rows, mean, along)
    return square_norms(shard.rows, rows, shard.n_features), along
