"""Unlabeled rows that are +1 with a probability: the problem of deterministic annealing (1.4).

    F(w, p) = 1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2
        + c_u/2 sum_unl [p_j max(0, 1 - o_j)^2 + (1 - p_j) max(0, 1 + o_j)^2] - T/2 mean_unl H(p_j)

with H the entropy and mean p = r (Sindhwani & Keerthi, eq. 1.6). For given w the best p are
(eq. 1.9, nu for their 2 nu)

    p_j = 1 / (1 + exp((g_j - nu) / T)),    g_j = lam_u [max(0, 1 - o_j)^2 - max(0, 1 + o_j)^2]

so that F_T(w) = min_p F(w, p) is a smooth function of w alone, and its gradient is that of F(., p)
at these p. Its stationary points are the fixed points of the paper's alternation between p and w.

What belongs to a nu takes one pass over the rows: the Lagrangian and its gradient,

    L(w, nu) = min_p F(w, p) - nu/2 (mean p - r),    F_T(w) = max_nu L(w, nu)

With e = mean p - r and s = mean p (1 - p) / T of the same pass, a nearby nu is mended without
another one:

    nu* = nu - e/s,    F_T = L + e^2 / (4 s),    gradient of F_T = that of L - e/2 dnu*/dw

with errors of third and of second order in e. With h = max(0, 1 - o) + max(0, 1 + o),

    dnu*/dw = -2 lam_u sum_unl c_j p_j (1 - p_j) h_j x_j / sum_unl c_j p_j (1 - p_j)

It changes little while w moves at a temperature (by 0.3 % on text) and is computed once there. At
other w, nu is followed along it, misses nu* by some thousandths of T, and is mended.

Row state in a shard: `target` (0 where unlabeled), `cost`, outputs (`annealed`), and while nu is
searched for `odds`, (1 - p) / p at some nu.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import smooth
from dask_s3vm.numerics.linalg import add_multiple, dot
from dask_s3vm.problems.hinge import outputs_at, row_array, row_costs, weighted_squares
from dask_s3vm.problems.transductive import set_known_targets

#: Largest |change of nu| / T that scales stored odds: beyond, they are recomputed.
MAX_LOG_FACTOR = 300.0

#: Tolerance of mean p = r, as a part of min(r, 1 - r).
BALANCE = 1e-9

#: Largest |e / s| / T that is mended without another pass.
MENDED = 0.01


@dataclass(frozen=True)
class AnnealedPoint:
    """A point w at a temperature.

    value, gradient : of F_T.
    nu : the multiplier.
    follow : its derivative by w, here or at a point nearby.
    entropy : mean entropy of p.
    objective : the transductive objective, each unlabeled row on the side of its own output.
    n_positive : number of unlabeled rows of positive output.
    """

    w: np.ndarray
    value: float
    gradient: np.ndarray
    nu: float
    follow: np.ndarray
    entropy: float
    objective: float
    n_positive: int


class AnnealedProblem:
    """F_T(w) above.

    Parameters
    ----------
    engine, lam, positive, costs, bias : see `L2SVMProblem`.
    lam_u : weight of the unlabeled rows' loss, > 0.
    unlabeled_weight : their total sample weight.
    ratio : r, 0 < r < 1.
    """

    def __init__(
        self,
        engine: Engine,
        lam: float,
        positive: int,
        costs: np.ndarray,
        lam_u: float,
        unlabeled_weight: float,
        ratio: float,
        bias: bool = True,
    ) -> None:
        self.lam = float(lam)  # kernels are compiled for each type that they are called with
        self._engine = engine
        self._lam_u = float(lam_u)
        self._ratio = ratio
        self._tol = BALANCE * min(ratio, 1.0 - ratio)
        self._bias = 1.0 if bias else 0.0
        #: weights that the outputs in the shards belong to
        self._known: np.ndarray | None = None
        engine.each(set_known_targets, positive)
        engine.each(set_costs, np.append(costs, lam_u / unlabeled_weight))

    def evaluate(self, w: np.ndarray, temperature: float, nu: float) -> AnnealedPoint:
        """Value and gradient; the search for the multiplier starts at `nu`.

        Costs: usually 5 rounds and half a pass over the rows, a round and a pass more unless w is
        where the last one was; 2 d numbers from each group.
        """
        if self._known is None or not np.array_equal(w, self._known):
            self._engine.each(set_annealed_outputs, w, self._bias)
        point, _ = self._at(w, temperature, self._multiplier(temperature, nu))
        return point

    def evaluate_near(
        self, w: np.ndarray, temperature: float, near: AnnealedPoint
    ) -> AnnealedPoint:
        """Value and gradient, where a point at this temperature is known that may be near.

        Costs: 1 round, 1 pass over the rows; d + 1 numbers to and from each group. Where it is not
        near enough, those of `evaluate` are added.
        """
        nu = near.nu + dot(near.follow, w - near.w)
        point, miss = self._at(w, temperature, nu, near.follow)
        if miss <= MENDED * temperature:
            return point
        return self.evaluate(w, temperature, nu)

    def _at(
        self, w: np.ndarray, temperature: float, nu: float, follow: np.ndarray | None = None
    ) -> tuple[AnnealedPoint, float]:
        """Value and gradient from a pass at some nu, and how far it is from the multiplier.

        follow : derivative of the multiplier; None, if the outputs in the shards are those at w, to
            have it computed, in a pass without products by w.
        """
        at = self._bias, self._lam_u, temperature, nu
        if follow is None:
            gradient, turn, *sums = self._engine.sum(annealed_turn, *at)
        else:
            gradient, *sums = self._engine.sum(annealed_pass, w, *at)
        loss, entropy, own_side, total, slope, n_positive = sums
        self._known = w
        if follow is None:
            follow = turn * (-2.0 * self._lam_u / slope) if slope > 0.0 else turn
        entropy /= self._lam_u
        excess = total / self._lam_u - self._ratio
        value = 0.5 * (loss - temperature * entropy - nu * excess)
        change = 0.0
        if abs(excess) > self._tol:
            change = -excess * self._lam_u * temperature / slope if slope > 0.0 else math.inf
            value -= 0.25 * excess * change
            add_multiple(gradient, follow, -0.5 * excess)
        square = add_multiple(gradient, w, self.lam)
        point = AnnealedPoint(
            w,
            value + 0.5 * self.lam * square,
            gradient,
            nu + change,
            follow,
            entropy,
            0.5 * (own_side + self.lam * square),
            int(n_positive),
        )
        return point, abs(change)

    def _multiplier(self, temperature: float, start: float) -> float:
        """Return nu with mean p = r for the outputs in the shards, by a safeguarded Newton search.

        Costs: usually 4 rounds, no pass over the rows.
        """
        base = math.inf

        def excess(nu: float) -> tuple[float, float]:
            nonlocal base
            if abs(nu - base) > MAX_LOG_FACTOR * temperature:
                base = nu
                sums = self._engine.sum(set_odds, self._lam_u, temperature, nu)
            else:
                sums = self._engine.sum(belief_sums, math.exp((base - nu) / temperature))
            total, slope = sums
            return total / self._lam_u - self._ratio, slope / (self._lam_u * temperature)

        return increasing_root(excess, start, temperature, self._tol)

    def diagonal(self) -> np.ndarray:
        """Diagonal of the Hessian if all rows are inside the margin, as they are at w = 0.

        Costs: 1 round, 1 pass over the rows.
        """
        (total,) = self._engine.sum(weighted_column_squares, self._bias)
        return total + self.lam


# Operations on one shard ----------------------------------------------------------------------


@operation(sets="costs")
def set_costs(shard: Shard, costs: np.ndarray) -> None:
    """Cost of each row: by its class number, the last entry for unlabeled rows."""
    shard.state["cost"] = row_costs(shard, costs)


@operation(sets="annealed outputs")
def set_annealed_outputs(shard: Shard, w: np.ndarray, bias: float) -> None:
    """Compute outputs at w."""
    shard.state["annealed"] = outputs_at(shard, w, bias)


@operation(sets="annealed outputs", reads=["targets", "costs"])
def annealed_pass(
    shard: Shard, w: np.ndarray, bias: float, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """(gradient, the sums of `smooth.annealed_pass`) at w and nu."""
    pair = shard.pair(w)
    sums = _over_rows(shard, pair, (lam_u, temperature, nu), bias, False)
    return shard.take(pair), *sums


@operation(reads=["annealed outputs", "targets", "costs"])
def annealed_turn(
    shard: Shard, bias: float, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """(gradient, sum of c p (1 - p) h x, the sums) at the outputs in the shard and nu."""
    pair = shard.pair(0.0)
    sums = _over_rows(shard, pair, (lam_u, temperature, nu), bias, True)
    return *shard.take_both(pair), *sums


def _over_rows(
    shard: Shard, pair: np.ndarray, at: tuple[float, float, float], bias: float, turning: bool
) -> tuple[Any, ...]:
    state, outputs = shard.state, row_array(shard, "annealed", np.float64)
    return smooth.annealed_pass(
        shard.rows, shard.codes, state["target"], state["cost"], *at, pair, bias, outputs, turning
    )


@operation(sets="odds", reads=["annealed outputs", "costs"])
def set_odds(shard: Shard, lam_u: float, temperature: float, nu: float) -> tuple[Any, ...]:
    """Compute the odds for a nu; (sum of c p, sum of c p (1 - p))."""
    odds = row_array(shard, "odds", np.float64)
    smooth.set_odds(shard.state["annealed"], lam_u, temperature, nu, odds)
    return belief_sums(shard, 1.0)


@operation(reads=["odds"])
def belief_sums(shard: Shard, factor: float) -> tuple[Any, ...]:
    """(sum of c p, sum of c p (1 - p)) with the odds times a factor."""
    return smooth.belief_sums(shard.codes, shard.state["cost"], shard.state["odds"], factor)


@operation(reads=["costs"])
def weighted_column_squares(shard: Shard, bias: float) -> tuple[np.ndarray]:
    """(sum of c_i x_i^2 by column,) over all rows."""
    rows = np.arange(shard.n_rows, dtype=np.uint32)
    return (weighted_squares(shard.rows, rows, shard.state["cost"], bias, shard.n_features),)


# The multiplier: root of an increasing function whose every value takes a round ---------------


def increasing_root(
    function: Callable[[float], tuple[float, float]],
    start: float,
    width: float,
    tol: float,
    max_rounds: int = 200,
) -> float:
    """Find x with |f(x)| <= tol for an increasing f, by Newton's method within a bracket.

    Parameters
    ----------
    function : x -> (f(x), f'(x)).
    start : first guess.
    width : scale on which f changes; the first step outwards has it, later ones double it.
    tol : bound on |f(x)|.
    max_rounds : bound on the calls of `function`.
    """
    low, high = -math.inf, math.inf
    x, reach = start, width
    for _ in range(max_rounds):
        value, slope = function(x)
        if abs(value) <= tol:
            break
        low, high = (low, x) if value > 0 else (x, high)
        if math.isfinite(high - low) and high - low <= 1e-15 * max(abs(low), abs(high)):
            break
        x = _next(x, value, slope, low, high, reach)
        reach *= 2.0
    return x


def _next(x: float, value: float, slope: float, low: float, high: float, reach: float) -> float:
    """Newton's point if it is in the bracket or near, else the middle, else a step outwards."""
    newton = x - value / slope if slope > 0 else math.nan
    if low > -math.inf and high < math.inf:
        return newton if low < newton < high else 0.5 * (low + high)
    if abs(newton - x) <= reach:  # false for nan
        return newton
    return x - math.copysign(reach, value)
