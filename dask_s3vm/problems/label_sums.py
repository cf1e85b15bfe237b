"""Sums over rows that the quadratic program for labels needs (Emara & Kantardzic, Problem 3).

With a linear kernel of rows z = x - m (m = 0, or the mean of the unlabeled rows), and

    t = sum_U z,   g = sum_L c_i y_i z_i,   s = sum_U p_j z_j

the objective (11) of the probabilities P of the unlabeled rows is a function of s alone,

    F(P) = 1/2 C*^2 (1 - P)' K_uu P + C C* Y' K_lu (1 - P)
         = 1/2 C*^2 (t - s).s + C* g.(t - s)

where c_i is C times the weight of row i, and its gradient is dF/dp_j = z_j.v with

    v = C*^2 (t/2 - s) - C* g

so that only vectors of length d are communicated. For other kernels, z are their features.

Where rows are centered, the labeled ones are taken about their own weighted mean, z_i = x_i - m_L.
Then g = 2 C+ C- / (C+ + C-) (mu+ - mu-), mu the means of the labeled rows of either class and C+,
C- their total costs: no move of the rows changes it. About m it would have a second
term, (C+ - C-) (m_L - m), which tells nothing of the classes: it is the error of a mean of l rows,
and with labels of one class mostly it leads to minima far from the labels (20,000 rows of kdd99,
ten labels that weigh an eighth of the others: 84 % right in the mean of ten draws and 60 % in the
worst, where 95 and 90 % are without it).

Labels that were found for the unlabeled rows are one bit a row, by shard.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.passes import products, square_norms, sum_rows
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.numerics.linalg import dot
from dask_s3vm.problems.hinge import outputs_at


@dataclass(frozen=True)
class LabelSums:
    """The sums above, and F.

    Sums of raw rows x are vectors (d + 1,) with the sum of the weights of the rows last.

    Attributes
    ----------
    unlabeled : sum of the unlabeled rows; their number last.
    labeled : sum of c_i y_i x_i; sum of c_i y_i last.
    known : sum of c_i x_i; sum of c_i last.
    cost : C*.
    center : whether m is the mean of the unlabeled rows.
    """

    unlabeled: np.ndarray
    labeled: np.ndarray
    known: np.ndarray
    cost: float
    center: bool

    @property
    def n_unlabeled(self) -> int:
        """u, the number of unlabeled rows."""
        return int(self.unlabeled[-1])

    @cached_property
    def mean(self) -> np.ndarray:
        """m, (d,)."""
        if not self.center:
            return np.zeros(len(self.unlabeled) - 1)
        return self.unlabeled[:-1] / self.unlabeled[-1]

    @cached_property
    def total(self) -> np.ndarray:
        """t, (d,); zero by definition if rows are centered."""
        return np.zeros(len(self.mean)) if self.center else self.unlabeled[:-1]

    @cached_property
    def pull(self) -> np.ndarray:
        """g, (d,)."""
        if not self.center:
            return self.labeled[:-1]
        return self.labeled[:-1] - self.labeled[-1] / self.known[-1] * self.known[:-1]

    def most_pull(self, low: float, high: float) -> float:
        """Bound of |g.z| over rows z, if `low` <= K_ij <= `high` = largest |z|^2."""
        if self.center:
            return float(np.sqrt(dot(self.pull, self.pull) * high))
        return float(max(high, -low) * self.known[-1])

    def swapped(self) -> "LabelSums":
        """Return the sums with classes swapped: F of 1 - P is then F(P) - C* g.t."""
        return replace(self, labeled=-self.labeled)

    def centered(self, raw: np.ndarray) -> np.ndarray:
        """Return the sum of rows z, (d,), from the sum of raw rows."""
        return raw[:-1] - raw[-1] * self.mean

    def value(self, raw: np.ndarray) -> float:
        """F of a P whose sum of raw rows is `raw`."""
        s = self.centered(raw)
        rest = self.total - s
        return self.cost * dot(0.5 * self.cost * s + self.pull, rest)

    def scale(self, raw: np.ndarray) -> float:
        """Sum of the absolute terms of F, which its rounding errors are relative to."""
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
    """Compute the sums. Costs: 1 round, 1 pass over the rows; 3 d numbers from each group.

    positive : the class number that is +1.
    costs : c_i of a labeled row of sample weight 1, by its class.
    """
    unlabeled, labeled, known = engine.sum(sums_of, positive, costs)
    return LabelSums(unlabeled, labeled, known, cost, center)


def kernel_bounds(engine: Engine, sums: LabelSums) -> tuple[float, float]:
    """(a, d) with a <= K_ij <= d for all rows: d the largest squared length of a row z.

    a is 0 if rows are not centered and have no negative values, else -d: |K_ij| <= |z_i| |z_j|.
    Costs: 1 round, 1 pass over the rows.
    """
    found = engine.each(extremes, np.append(sums.mean, 0.0))
    shift = dot(sums.mean, sums.mean)
    largest = max(max(part[0] for part in found) + shift, 0.0)
    negative = sums.center or min(part[1] for part in found) < 0
    return (-largest if negative else 0.0), largest


# Operations on one shard ----------------------------------------------------------------------


def unlabeled_rows(shard: Shard) -> np.ndarray:
    """Return the numbers of the unlabeled rows of weight > 0."""
    return np.flatnonzero(shard.unlabeled).astype(np.uint32)


def sums_of(
    shard: Shard, positive: int, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sum of unlabeled rows, sum of c y x over labeled ones, sum of c x)."""
    assert shard.codes is not None, "labels are needed"
    free, given = unlabeled_rows(shard), np.flatnonzero(shard.codes >= 0).astype(np.uint32)
    unlabeled, labeled, known = np.zeros((3, shard.n_features + 1))
    sum_rows(shard.rows, free, np.ones(len(free)), unlabeled)
    codes = shard.codes[given]
    weight = costs[codes] if shard.weights is None else costs[codes] * shard.weights[given]
    sum_rows(shard.rows, given, np.where(codes == positive, weight, -weight), labeled)
    sum_rows(shard.rows, given, weight, known)
    return unlabeled, labeled, known


def extremes(shard: Shard, mean: np.ndarray) -> tuple[float, float]:
    """(largest |x|^2 - 2 x.m, smallest value) of the rows, unlabeled rows of weight 0 excluded."""
    assert shard.codes is not None, "labels are needed"
    rows = np.flatnonzero((shard.codes >= 0) | shard.unlabeled).astype(np.uint32)
    if len(rows) == 0:
        return -np.inf, 0.0
    norms, along = lengths(shard, rows, mean)
    values = shard.rows.values if isinstance(shard.rows, CSR) else shard.rows
    return float((norms - 2.0 * along).max()), float(values.min(initial=0.0))


def lengths(shard: Shard, rows: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return |x|^2 and x.m of the listed rows."""
    along = np.zeros(len(rows))
    if mean.any():
        products(shard.rows, rows, mean, along)
    return square_norms(shard.rows, rows, shard.n_features), along


def score_directions(shard: Shard, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(products with a direction, row numbers) of the unlabeled rows, for `select`."""
    rows = unlabeled_rows(shard)
    return outputs_at(shard, direction, 1.0)[rows], rows


def class_numbers(
    shard: Shard, directions: np.ndarray, bits: list[list[np.ndarray]], positives: list[int]
) -> np.ndarray:
    """Return the class number of every row, given or found.

    With two classes it is the found label. With more, it is the class of smallest product with the
    direction, among those whose binary problem labels the row +1, or among all if there is none.
    Rows of weight 0 have no found label and are treated like rows that no class claims.
    """
    codes = shard.codes
    assert codes is not None, "labels are needed"
    weightless = ~shard.unlabeled
    if len(positives) == 1:
        up = found(shard, bits[0])
        if (weightless & (codes < 0)).any():
            up = np.where(weightless, outputs_at(shard, directions[0], 1.0) <= 0.0, up)
        return np.where(codes >= 0, codes, up).astype(codes.dtype)
    best = np.zeros(shard.n_rows, dtype=codes.dtype)
    lowest = np.full(shard.n_rows, np.inf)
    claimed = np.zeros(shard.n_rows, dtype=bool)
    for positive, direction, own in zip(positives, directions, bits, strict=True):
        score = outputs_at(shard, direction, 1.0)
        claims = found(shard, own) & ~weightless
        better = (claims & ~claimed) | ((claims == claimed) & (score < lowest))
        best[better], lowest[better] = positive, score[better]
        claimed |= claims
    return np.where(codes >= 0, codes, best)


def found(shard: Shard, bits: list[np.ndarray]) -> np.ndarray:
    """Return which rows of the shard have the found label +1."""
    return np.unpackbits(bits[shard.number], count=shard.n_rows).astype(bool)
