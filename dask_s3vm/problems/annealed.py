"""Unlabeled rows that are +1 with a probability: the problem of deterministic annealing (1.4).

    F(w, p) = 1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2
        + c_u/2 sum_unl [p_j max(0, 1 - o_j)^2 + (1 - p_j) max(0, 1 + o_j)^2] - T/2 mean_unl H(p_j)

with H the entropy and mean p = r (Sindhwani & Keerthi, eq. 1.6). For given w the best p are
(eq. 1.9, nu for their 2 nu)

    p_j = 1 / (1 + exp((g_j - nu) / T)),    g_j = lam_u [max(0, 1 - o_j)^2 - max(0, 1 + o_j)^2]

so that F_T(w) = min_p F(w, p) is a smooth function of w alone, and its gradient is that of F(., p)
at these p. Its stationary points are the fixed points of the paper's alternation between p and w.

Row state in a shard: `target` (0 where unlabeled), `cost`, `outputs0`, `odds` (1 - p) / p at some
nu, and `pulls`, half the derivative of the loss by the output. Each evaluation overwrites the last
three.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes, smooth
from dask_s3vm.problems.hinge import row_array, row_costs, weighted_squares
from dask_s3vm.problems.transductive import set_known_targets

#: Largest |change of nu| / T that scales stored odds: beyond, they are recomputed.
MAX_LOG_FACTOR = 300.0

#: Tolerance of mean p = r, as a part of min(r, 1 - r).
BALANCE = 1e-9


@dataclass(frozen=True)
class AnnealedPoint:
    """A point w at a temperature.

    value, gradient : of F_T.
    nu : the multiplier; a good start for the next point.
    entropy : mean entropy of p.
    objective : the transductive objective, each unlabeled row on the side of its own output.
    n_positive : number of unlabeled rows of positive output.
    """

    w: np.ndarray
    value: float
    gradient: np.ndarray
    nu: float
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
        self.lam = lam
        self._engine = engine
        self._lam_u = lam_u
        self._ratio = ratio
        self._bias = 1.0 if bias else 0.0
        engine.each(set_known_targets, positive)
        engine.each(set_costs, np.append(costs, lam_u / unlabeled_weight))

    def evaluate(self, w: np.ndarray, temperature: float, nu: float) -> AnnealedPoint:
        """Value and gradient; the search for the multiplier starts at `nu`.

        Costs: usually 4 rounds, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        scale = self._lam_u, temperature
        first = self._engine.sum(set_outputs_and_odds, w, self._bias, *scale, nu)
        nu, base = self._multiplier(first, temperature, nu)
        factor = math.exp((base - nu) / temperature)
        gradient, loss, entropy, own_side, n_positive = self._engine.sum(
            annealed_gradient, self._bias, factor, *scale, nu
        )
        entropy /= self._lam_u
        regularizer = 0.5 * self.lam * float(np.add.reduce(w * w))
        return AnnealedPoint(
            w,
            0.5 * loss + regularizer - 0.5 * temperature * entropy,
            gradient + self.lam * w,
            nu,
            entropy,
            0.5 * own_side + regularizer,
            int(n_positive),
        )

    def _multiplier(
        self, first: tuple[Any, ...], temperature: float, start: float
    ) -> tuple[float, float]:
        """Return (nu with mean p = r, nu of the stored odds), by a safeguarded Newton iteration.

        `first` has the sums at `start`.
        """
        base = start

        def excess(nu: float) -> tuple[float, float]:
            nonlocal base
            sums = first
            if abs(nu - base) > MAX_LOG_FACTOR * temperature:
                base = nu
                sums = self._engine.sum(set_odds, self._lam_u, temperature, nu)
            elif nu != start:
                sums = self._engine.sum(belief_sums, math.exp((base - nu) / temperature))
            total, slope = sums
            return total / self._lam_u - self._ratio, slope / (self._lam_u * temperature)

        tol = BALANCE * min(self._ratio, 1.0 - self._ratio)
        return increasing_root(excess, start, temperature, tol), base

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


@operation(sets="odds", reads=["targets", "costs"])
def set_outputs_and_odds(
    shard: Shard, w: np.ndarray, bias: float, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """Compute outputs at w and odds for nu; (sum of c p, sum of c p (1 - p))."""
    outputs = row_array(shard, "outputs0", np.float64)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(w), bias, outputs)
    return set_odds(shard, lam_u, temperature, nu)


@operation(changes="odds")
def set_odds(shard: Shard, lam_u: float, temperature: float, nu: float) -> tuple[Any, ...]:
    """Recompute the odds for another nu; (sum of c p, sum of c p (1 - p))."""
    odds = row_array(shard, "odds", np.float64)
    smooth.set_odds(shard.state["outputs0"], lam_u, temperature, nu, odds)
    return belief_sums(shard, 1.0)


@operation(reads=["odds"])
def belief_sums(shard: Shard, factor: float) -> tuple[Any, ...]:
    """(sum of c p, sum of c p (1 - p)) with the odds times a factor."""
    return smooth.belief_sums(shard.codes, shard.state["cost"], shard.state["odds"], factor)


@operation(reads=["odds"])
def annealed_gradient(
    shard: Shard, bias: float, factor: float, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """(gradient, loss, sum of c H(p), loss on the own side, positive outputs), as set last."""
    state, pulls = shard.state, row_array(shard, "pulls", np.float64)
    sums = smooth.annealed_pulls(
        shard.codes,
        state["target"],
        state["cost"],
        state["outputs0"],
        state["odds"],
        factor,
        lam_u,
        temperature,
        nu,
        pulls,
    )
    pair = shard.pair(0.0)
    passes.add_rows(shard.rows, pulls, pair, bias)
    n_positive = int(np.count_nonzero(shard.unlabeled & (state["outputs0"] > 0)))
    return shard.take(pair), *sums, n_positive


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
