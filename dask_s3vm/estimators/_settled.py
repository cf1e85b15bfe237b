"""From what a method finds to the model: the share of positive predictions, the supervised part."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

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
from dask_s3vm.methods.blend import evidence_of_weights, supervised_part
from dask_s3vm.methods.l2svm import train_beside
from dask_s3vm.methods.ratio import can_gather
from dask_s3vm.methods.unseen import Mistakes, unseen_mistakes
from dask_s3vm.parameters.shared import DEFAULT_LAM

#: Largest relative gap, and most Newton steps, of the supervised SVM in a model.
BLEND_TOL = 1e-6
BLEND_STEPS = 100


class Settled(NamedTuple):
    """The solution of a binary problem, balanced, and the supervised SVM that is to be added to it.

    supervised : weights of that SVM; None if there is none to add.
    part : how much of it; outputs that compete get one part, the mean over the classes.
    modest : whether few rows of a rare class are to be predicted; see `methods.unseen`.
    """

    solution: Any
    supervised: np.ndarray | None = None
    part: float = 0.0
    modest: bool = False


def settled(
    models: Sequence["SettledModel"], rows: FitRows, task: BinaryTask, solved: list[Any]
) -> list[Settled]:
    """Settle the solutions of one binary problem, one for each model."""
    if rows.supervised or not rows.ratios:
        return [Settled(solution) for solution in solved]
    return [
        model._settled(rows, task, solution, place)
        for place, (model, solution) in enumerate(zip(models, solved, strict=True))
    ]


def blended(
    models: Sequence["SettledModel"],
    rows: FitRows,
    tasks: Sequence[BinaryTask],
    by_class: list[list[Settled]],
) -> list[list[Any]]:
    """Solutions of all binary problems, for each model: with the supervised SVM in them."""
    return [
        model._blended(rows, tasks, own, place)
        for place, (model, own) in enumerate(zip(models, zip(*by_class, strict=True), strict=True))
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

    def _settled(self, rows: FitRows, task: BinaryTask, solution: Any, place: int) -> Settled:
        """Balance what was found, and train the supervised SVM; `place` is that of the model.

        Costs: one on the labeled rows. If the rows decide its part, 1 round and 2 passes, and again
        where a bias was moved; those of `unseen_mistakes` where a rule asks for them.
        """
        part = self._part_supervised
        if part == 0.0 or not task.n_unlabeled:
            return Settled(self._balanced(rows, task, solution))
        engine, own = rows.engine, replace(task, costs=rows.costs)
        lam = self._supervised_lam
        bias = bool(getattr(self, "fit_intercept", self.balance == "predictions"))
        train = partial(
            train_beside, engine, own, lam=lam, fit_intercept=bias,
            tol=min(BLEND_TOL, getattr(self, "tol", BLEND_TOL)), max_iter=BLEND_STEPS,
        )  # fmt: skip
        name = f"supervised, class {task.positive}, model {place}"
        key = task.positive, rows.costs.tobytes(), *train.keywords.values()
        once = partial(rows.once, ("supervised", *key), train)
        supervised = rows.record.once(name, BinarySolution, once).w
        if part is not None:
            return Settled(self._balanced(rows, task, solution), supervised, part)
        found = evidence_of_weights(engine, solution.w, supervised, own)
        given, n = (solution.w, supervised), found.n_positive.tolist()
        solution = self._balanced(rows, task, solution, n[0])
        if bias and not task.competes and not is_balanced(found.share, task.ratio):
            supervised = balanced_weights(engine, supervised, 1.0, task, n[1])
        if solution.w is not given[0] or supervised is not given[1]:
            found = evidence_of_weights(engine, solution.w, supervised, own)
        unseen = None
        if not task.competes and can_gather(engine, rows.totals):
            ask = partial(unseen_mistakes, engine, own, lam=lam, fit_intercept=bias)
            asked = partial(rows.once, ("unseen", *key), ask)
            unseen = cache(partial(rows.record.once, f"unseen, model {place}", Mistakes, asked))
        part = supervised_part(found, task.competes, unseen)
        modest = (
            unseen is not None
            and rows.ratios[0].source != "given"
            and task.rare_is_known
            and unseen().speaks_for_one_class(task.ratio_interval)
        )
        return Settled(solution, supervised, part, modest)

    def _part_by_folds(self, rows: FitRows, part: float, place: int) -> float:
        """Part of the supervised SVM after a look at folds of the labels; `part` is that so far."""
        return part

    def _blended(
        self, rows: FitRows, tasks: Sequence[BinaryTask], settled: Sequence[Settled], place: int
    ) -> list[Any]:
        """Add the supervised SVM to the solutions of all binary problems.

        The sum is balanced again, but not where its outputs compete with those of other classes:
        the supervised SVM of a rare class predicts it seldom, and its largest output may be right.
        """
        part = self._part_supervised
        if part is None:
            part = sum(one.part for one in settled) / len(settled)
            if any(one.supervised is not None for one in settled):
                part = self._part_by_folds(rows, part, place)
        found = []
        for task, (solution, supervised, _, modest) in zip(tasks, settled, strict=True):
            if supervised is not None:
                w = part * supervised + (1.0 - part) * solution.w
                solution = replace(solution, w=w, supervised_part=part)
                if not task.competes:
                    solution = self._balanced(rows, replace(task, modest=modest), solution)
            found.append(solution)
        return found

    def _balanced(
        self, rows: FitRows, task: BinaryTask, solution: Any, n: int | None = None
    ) -> Any:
        """Move the bias where `balance` asks for it, else warn of predictions far from the ratio.

        n : number of positive predictions, if it is known.

        A model without a bias stays without one.
        """
        engine, bias = rows.engine, float(getattr(self, "fit_intercept", False))
        if bias and self.balance == "predictions":
            return replace(solution, w=balanced_weights(engine, solution.w, bias, task, n))
        n = n_predicted_positive(engine, solution.w, bias) if n is None else n
        share = n / task.n_unlabeled
        if not is_balanced(share, task.ratio):
            warn(
                f"{type(self).__name__}: {100 * share:.1f} % of the unlabeled rows are predicted "
                f"to be of class {rows.classes[task.positive].item()!r}, where positive_ratio says "
                f"{100 * task.ratio:.1f} %; the fit may have collapsed: check positive_ratio, or "
                "use balance='predictions' with a bias",
                UserWarning,
            )
        return solution
