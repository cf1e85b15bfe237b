"""From what a method finds to the model: the share of positive predictions, the supervised part."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.exceptions import warn
from dask_s3vm.methods.base import (
    BinarySolution,
    BinaryTask,
    balanced_weights,
    is_balanced,
    n_predicted_positive,
)
from dask_s3vm.methods.l2svm import train_beside

#: supervised_part=None with balance="predictions": this, and beyond so many labels less by the part
#: that they are more. Few labels say little of the plane that a method may go to; many do.
SUPERVISED_PART = 0.75
FEW_LABELS = 100

#: Largest relative gap, and most Newton steps, of the supervised SVM in a model.
BLEND_TOL = 1e-6
BLEND_STEPS = 100


def settled(
    models: Sequence["SettledModel"], rows: FitRows, task: BinaryTask, solved: list[Any]
) -> list[Any]:
    """Settle the solutions of one binary problem, one for each model."""
    if rows.supervised or not rows.ratios:
        return solved
    return [
        model._settled(rows, task, solution, place)
        for place, (model, solution) in enumerate(zip(models, solved, strict=True))
    ]


def check_steps(name: str, weights: np.ndarray, solved: Sequence[Any]) -> None:
    """Refuse weights of 0 from which rounding allowed no step: that is no model."""
    for own, one in zip(weights, solved, strict=True):
        if one.termination == "precision" and not own.any():
            raise ValueError(
                f"{name}: X has rows so long that every step is lost to rounding, and the weights "
                "are 0; divide the columns by their ranges (dask_s3vm.features.UnitScaler), or "
                "regularize more"
            )


class SettledModel:
    """What an estimator does with the solution of a binary problem."""

    balance: str = "paper"
    lam: Any

    def _settled(self, rows: FitRows, task: BinaryTask, solution: Any, place: int) -> Any:
        """Balance what was found, and add the supervised SVM; `place` is the number of the model.

        The sum is balanced again, but not where its outputs compete with those of other classes:
        the supervised SVM of a rare class predicts it seldom, and its largest output may be right.
        """
        balanced = self._balanced(rows, task, solution)
        blend = self._blended(rows, task, balanced, place)
        if blend is balanced or task.competes:
            return blend
        return self._balanced(rows, task, blend)

    def _part_supervised(self, rows: FitRows) -> float:
        """Part of the supervised SVM in the model."""
        given = getattr(self, "supervised_part", 0.0)
        if given is not None:
            return float(given)
        if self.balance != "predictions":
            return 0.0
        return SUPERVISED_PART * min(1.0, FEW_LABELS / int(rows.totals.counts.sum()))

    @property
    def _supervised_lam(self) -> float:
        """The lam of that SVM."""
        return float(self.lam)

    def _blended(self, rows: FitRows, task: BinaryTask, solution: Any, place: int) -> Any:
        """Add the supervised SVM to what the method found. Costs: one on the labeled rows."""
        part = self._part_supervised(rows)
        if not part or not task.n_unlabeled:
            return solution
        train = partial(
            train_beside, rows.engine, task, lam=self._supervised_lam,
            fit_intercept=getattr(self, "fit_intercept", self.balance == "predictions"),
            tol=min(BLEND_TOL, getattr(self, "tol", BLEND_TOL)), max_iter=BLEND_STEPS,
        )  # fmt: skip
        name = f"supervised, class {task.positive}, model {place}"
        beside = rows.record.once(name, BinarySolution, train)
        return replace(solution, w=part * beside.w + (1.0 - part) * solution.w)

    def _balanced(self, rows: FitRows, task: BinaryTask, solution: Any) -> Any:
        """Move the bias where `balance` asks for it, else warn of predictions far from the ratio.

        A model without a bias stays without one.
        """
        engine, bias = rows.engine, float(getattr(self, "fit_intercept", False))
        if bias and self.balance == "predictions":
            return replace(solution, w=balanced_weights(engine, solution.w, bias, task))
        share = n_predicted_positive(engine, solution.w, bias) / task.n_unlabeled
        if not is_balanced(share, task.ratio):
            warn(
                f"{type(self).__name__}: {100 * share:.1f} % of the unlabeled rows are predicted "
                f"to be of class {rows.classes[task.positive].item()!r}, where positive_ratio says "
                f"{100 * task.ratio:.1f} %; the fit may have collapsed: check positive_ratio, or "
                "use balance='predictions' with a bias",
                UserWarning,
            )
        return solution
