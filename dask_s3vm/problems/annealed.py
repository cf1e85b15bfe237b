"""Rows without a label that are +1 with a probability: the problem inside DA (section 1.4).

    1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2
        + c_u/2 sum_unl [p_j max(0, 1 - o_j)^2 + (1 - p_j) max(0, 1 + o_j)^2]

For given p this is a quadratic problem (Sindhwani & Keerthi, eq. 1.8); an unlabelled row counts
twice but is read once. For given w, the p that minimise the objective with its entropy at
temperature T, under mean p = r, are (eq. 1.9, nu for their 2 nu)

    p_j = 1 / (1 + exp((g_j - nu) / T)),    g_j = lam_u [max(0, 1 - o_j)^2 - max(0, 1 + o_j)^2]

Row state in a shard: `target` (0 where unlabelled), `cost`, `belief` (p), `share` (weight of an
unlabelled row in means).
"""

from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import annealing, line, passes
from dask_s3vm.kernels.annealing import LARGE
from dask_s3vm.problems.base import Point
from dask_s3vm.problems.l2svm import row_costs
from dask_s3vm.problems.quadratic import fill_slot, kept, slot_arrays
from dask_s3vm.problems.transductive import SemiSupervisedProblem, all_outputs, set_known_targets

#: Rows whose second derivative is below this part of their cost are left out of H: they lie outside
#: the margin on the side they are believed to be on. Value and gradient are exact all the same.
NEGLIGIBLE = 1e-4


def evaluate(shard: Shard, w: np.ndarray, bias: float, slot: int) -> tuple[Any, ...]:
    """(gradient of the losses, their sum, number of active rows)."""
    state = shard.state
    outputs, active = slot_arrays(shard, slot)
    weight = kept(shard, f"second{slot}", np.float64)
    pair = shard.pair(w)
    loss, n_active = passes.annealed_hinge(
        shard.rows,
        state["target"],
        state["cost"],
        state["belief"],
        pair,
        bias,
        NEGLIGIBLE,
        outputs,
        active,
        weight,
    )
    fill_slot(shard, slot, n_active, weight)
    return shard.take(pair), 0.5 * loss, n_active


def slope(shard: Shard, here: int, there: int, step: float) -> tuple[Any, ...]:
    """Slope and curvature of the losses between the outputs of two slots."""
    state = shard.state
    outputs = state[f"outputs{here}"], state[f"outputs{there}"]
    return line.annealed_slope(state["target"], state["cost"], state["belief"], *outputs, step)


class AnnealedProblem(SemiSupervisedProblem):
    """The problem above, with operations on the beliefs p.

    Parameters
    ----------
    engine, lam, positive, costs, bias : see `L2SVMProblem`.
    lam_u : weight of the unlabelled rows' loss.
    unlabeled_weight : their total sample weight.
    ratio : r, the mean of p, with which p starts.
    """

    evaluate_op = staticmethod(evaluate)
    slope_op = staticmethod(slope)

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
        super().__init__(engine, lam, bias)
        self._lam_u = lam_u
        engine.prepare("targets", set_known_targets, positive)
        engine.prepare("costs", set_costs, costs, lam_u, unlabeled_weight)
        engine.prepare("beliefs", set_equal_beliefs, ratio)

    def mean_belief(self, point: Point, temperature: float, nu: float) -> tuple[float, float]:
        """Mean of p for a multiplier nu, and its derivative by nu.

        Costs: 1 round, no pass over the rows.
        """
        return self.engine.sum(belief_sums, point.slot, self._lam_u, temperature, nu)

    def believe(self, point: Point, temperature: float, nu: float) -> tuple[float, float]:
        """Set p for a multiplier nu; returns mean KL(p, last p) and mean entropy of p.

        Costs: 1 round, no pass over the rows. Points from before are no longer valid.
        """
        sums = self.engine.sum(set_beliefs, point.slot, self._lam_u, temperature, nu)
        self.engine.remember(
            "beliefs", restore_beliefs, point.w, self._bias, self._lam_u, temperature, nu
        )
        return sums


# Operations on one shard --------------------------------------------------------------------


def set_costs(shard: Shard, costs: np.ndarray, lam_u: float, unlabeled_weight: float) -> None:
    """Costs of all rows, and the shares of unlabelled rows in means."""
    share = 1.0 / unlabeled_weight if unlabeled_weight else 0.0
    none = np.zeros_like(costs)
    shard.state["cost"] = row_costs(shard, np.append(costs, lam_u * share))
    shard.state["share"] = row_costs(shard, np.append(none, share))


def set_equal_beliefs(shard: Shard, ratio: float) -> None:
    """P = r for every unlabelled row."""
    with np.errstate(divide="ignore"):
        logit = np.log(ratio) - np.log1p(-ratio)
    shard.state["belief"] = np.full(shard.n_rows, ratio)
    shard.state["logit"] = np.full(shard.n_rows, np.clip(logit, -LARGE, LARGE))


def belief_sums(
    shard: Shard, slot: int, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """(mean of p, its derivative by nu)."""
    state = shard.state
    outputs = state[f"outputs{slot}"]
    return annealing.belief_sums(shard.codes, state["share"], outputs, lam_u, temperature, nu)


def set_beliefs(
    shard: Shard, slot: int, lam_u: float, temperature: float, nu: float
) -> tuple[Any, ...]:
    """Write p; (mean KL(p, last p), mean entropy of p)."""
    state = shard.state
    return annealing.set_beliefs(
        shard.codes,
        state["share"],
        state[f"outputs{slot}"],
        lam_u,
        temperature,
        nu,
        state["belief"],
        state["logit"],
    )


def restore_beliefs(
    shard: Shard, w: np.ndarray, bias: float, lam_u: float, temperature: float, nu: float
) -> None:
    """Put p back, from the weights that it was made with."""
    kept(shard, "belief", np.float64)
    kept(shard, "logit", np.float64)
    all_outputs(shard, w, bias)
    set_beliefs(shard, 0, lam_u, temperature, nu)
