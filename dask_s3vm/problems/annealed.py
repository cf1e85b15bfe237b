"""Rows without a label that are +1 with a probability: the problem inside DA (section 1.4).

    F(w, p) = 1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2
        + c_u/2 sum_unl [p_j max(0, 1 - o_j)^2 + (1 - p_j) max(0, 1 + o_j)^2] - T/2 mean_unl H(p_j)

with H the entropy and mean p = r (Sindhwani & Keerthi, eq. 1.6). For given w the best p are
(eq. 1.9, nu for their 2 nu)

    p_j = 1 / (1 + exp((g_j - nu) / T)),    g_j = lam_u [max(0, 1 - o_j)^2 - max(0, 1 + o_j)^2]

so that F_T(w) = min_p F(w, p) is a smooth function of w alone, and its gradient is that of F(., p)
at these p. Its stationary points are those at which the paper's alternation of p and w rests.

Row state in a shard: `target` (0 where unlabeled), `cost`, `outputs0`, `odds`, (1 - p) / p at a
certain nu, and `pulls`, the slope of the loss by output. The last three are made anew by each
evaluation.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import annealing, passes
from dask_s3vm.problems.l2svm import row_costs
from dask_s3vm.problems.quadratic import kept, weighted_squares
from dask_s3vm.problems.transductive import set_known_targets
from dask_s3vm.solvers.root import increasing_root

#: A factor of exp of this on the odds still leaves those that matter between 0 and infinity.
NEAR = 300.0

#: Mean p is r up to this part of the smaller class.
BALANCE = 1e-9


@dataclass(frozen=True)
class AnnealedPoint:
    """A place w at a temperature.

    value, gradient : of F_T.
    nu : the multiplier; a good guess for the next point.
    entropy : mean entropy of p.
    objective : the transductive objective, each unlabeled row on the side of its own output.
    """

    w: np.ndarray
    value: float
    gradient: np.ndarray
    nu: float
    entropy: float
    objective: float


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
        """Value and gradient, with the multiplier looked for from `nu` on.

        Costs: 4 rounds as a rule, 1 pass over the rows; d + 1 numbers to and from each group.
        """
        scale = self._lam_u, temperature
        first = self._engine.sum(look, w, self._bias, *scale, nu)
        nu, base = self._multiplier(first, temperature, nu)
        factor = math.exp((base - nu) / temperature)
        gradient, loss, entropy, own_side = self._engine.sum(pull, self._bias, factor, *scale, nu)
        entropy /= self._lam_u
        regularizer = 0.5 * self.lam * float(np.add.reduce(w * w))
        return AnnealedPoint(
            w,
            0.5 * loss + regularizer - 0.5 * temperature * entropy,
            gradient + self.lam * w,
            nu,
            entropy,
            0.5 * own_side + regularizer,
        )

    def _multiplier(
        self, first: tuple[Any, ...], temperature: float, start: float
    ) -> tuple[float, float]:
        """nu with mean p = r, by a safeguarded Newton iteration, and the nu that odds are kept for.

        `first` are the sums at `start`.
        """
        base = start

        def excess(nu: float) -> tuple[float, float]:
            nonlocal base
            sums = first
            if abs(nu - base) > NEAR * temperature:
                base = nu
                sums = self._engine.sum(look_again, self._lam_u, temperature, nu)
            elif nu != start:
                sums = self._engine.sum(belief_sums, math.exp((base - nu) / temperature))
            total, slope = sums
            return total / self._lam_u - self._ratio, slope / (self._lam_u * temperature)

        tol = BALANCE * min(self._ratio, 1.0 - self._ratio)
        return increasing_root(excess, start, temperature, tol), base

    def diagonal(self) -> np.ndarray:
        """Diagonal of the Hessian where all rows are inside the margin, as they are at w = 0.

        Costs: 1 round, 1 pass over the rows.
        """
        (total,) = self._engine.sum(squares, self._bias)
        return total + self.lam


# Operations on one shard --------------------------------------------------------------------


@operation(sets="costs")
def set_costs(shard: Shard, costs: np.ndarray) -> None:
    """Cost of each row: by its class number, the last entry for unlabeled rows."""
    shard.state["cost"] = row_costs(shard, costs)


@operation(sets="odds", reads=["targets", "costs"])
def look(
    shard: Shard, w: np.ndarray, bias: float, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """Outputs, and odds for nu; (sum of c p, sum of c p (1 - p))."""
    outputs = kept(shard, "outputs0", np.float64)
    passes.outputs_of(shard.rows, shard.n_rows, shard.pair(w), bias, outputs)
    return look_again(shard, lam_u, temperature, nu)


@operation(changes="odds")
def look_again(shard: Shard, lam_u: float, temperature: float, nu: float) -> tuple[Any, ...]:
    """Odds for another nu; (sum of c p, sum of c p (1 - p))."""
    odds = kept(shard, "odds", np.float64)
    annealing.set_odds(shard.state["outputs0"], lam_u, temperature, nu, odds)
    return belief_sums(shard, 1.0)


@operation(reads=["odds"])
def belief_sums(shard: Shard, factor: float) -> tuple[Any, ...]:
    """(sum of c p, sum of c p (1 - p)) with the odds times a factor."""
    return annealing.belief_sums(shard.codes, shard.state["cost"], shard.state["odds"], factor)


@operation(reads=["odds"])
def pull(
    shard: Shard, bias: float, factor: float, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """(gradient, loss, sum of c H(p), loss on the own side) at the outputs that were looked at."""
    state, pulls = shard.state, kept(shard, "pulls", np.float64)
    sums = annealing.annealed_pulls(
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
    return shard.take(pair), *sums


@operation(reads=["costs"])
def squares(shard: Shard, bias: float) -> tuple[np.ndarray]:
    """(sum of c_i x_i^2 by column,) over all rows."""
    rows = np.arange(shard.n_rows, dtype=np.uint32)
    return (weighted_squares(shard.rows, rows, shard.state["cost"], bias, shard.n_features),)
