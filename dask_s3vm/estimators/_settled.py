"""From what a method finds to the model: the share of positive predictions, the supervised part."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

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
from dask_s3vm.methods.blend import part_of_weights
from dask_s3vm.methods.l2svm import train_beside
from dask_s3vm.parameters.shared import DEFAULT_LAM

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

    #: whether the method looks for a boundary in an empty place; see `methods.blend`
    _seeks_gap: ClassVar[bool] = True

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

    @property
    def _part_supervised(self) -> float | None:
        """Part of the supervised SVM in the model; None if the rows are to tell."""
        given = getattr(self, "supervised_part", 0.0)
        if given is None and self.balance == "predictions":
            return None
        return float(given or 0.0)

    @property
    def _supervised_lam(self) -> float:
        """The lam of that SVM."""
        lam = getattr(self, "lam", None)
        return DEFAULT_LAM if lam is None else float(lam)

    def _blended(self, rows: FitRows, task: BinaryTask, solution: Any, place: int) -> Any:
        """Add the supervised SVM to what the method found.

        Costs: one on the labeled rows; 1 round and 2 passes where the rows are to tell its part.
        """
        part = self._part_supervised
        if part == 0.0 or not task.n_unlabeled:
            return solution
        train = partial(
            train_beside, rows.engine, replace(task, costs=rows.costs), lam=self._supervised_lam,
            fit_intercept=getattr(self, "fit_intercept", self.balance == "predictions"),
            tol=min(BLEND_TOL, getattr(self, "tol", BLEND_TOL)), max_iter=BLEND_STEPS,
        )  # fmt: skip
        name = f"supervised, class {task.positive}, model {place}"
        beside = rows.record.once(name, BinarySolution, train)
        if part is None:
            part = part_of_weights(
                rows.engine, solution.w, beside.w, task.positive, self._seeks_gap
            )
        w = part * beside.w + (1.0 - part) * solution.w
        return replace(solution, w=w, supervised_part=part)

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
