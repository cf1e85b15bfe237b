"""What becomes of the weights that a method finds: one decision, in this order.

1. `_weighed`, for each binary problem: the bias is moved until the share of positive predictions
   agrees with the ratio, and the supervised SVM is trained beside the method. Both are looked at by
   the rows, which tell how much of the SVM they ask for (`methods.blend`), and whether few rows of
   a rare class are to be predicted (`methods.unseen`).
2. `_part_by_folds`, for all binary problems, whose outputs compete and get one part: where labels
   are many, or many predictions would change, folds of the labels may overrule the rows, and bound
   the share of predictions that change.
3. `_mixed`: the part times the supervised SVM, plus the rest times what the method found. The mean
   of two balanced models need not be balanced: its bias is moved once more.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.exceptions import warn
from dask_s3vm.methods.base import (
    BinarySolution,
    BinaryTask,
    balanced_weights,
    is_balanced,
    n_predicted_positive,
)
from dask_s3vm.methods.blend import Evidence, evidence_of_weights, supervised_part
from dask_s3vm.methods.l2svm import train_beside
from dask_s3vm.methods.labeled_rows import labeled_alone
from dask_s3vm.methods.ratio import can_gather
from dask_s3vm.methods.run import RecordPart
from dask_s3vm.methods.safe import (
    MOST_LOSS,
    SUPERVISED,
    Candidate,
    change_allowed,
    part_of_folds,
    sample_for_folds,
)
from dask_s3vm.methods.unseen import Mistakes, unseen_mistakes
from dask_s3vm.parameters.facts import MethodFacts
from dask_s3vm.parameters.shared import DEFAULT_LAM
from dask_s3vm.problems.fold_scores import gather_labeled
from dask_s3vm.problems.folds import LEAST_TESTED

#: Largest relative gap, and most Newton steps, of the supervised SVM in a model.
BLEND_TOL = 1e-6
BLEND_STEPS = 100

#: Share of the predictions that may change without a look at folds: what could be lost.
FREE_CHANGE = MOST_LOSS

#: Labels below which folds tell nothing.
LEAST_ASKED = 20


class Weighed(NamedTuple):
    """The solution of a binary problem, balanced, and the supervised SVM that is to be added to it.

    supervised : weights of that SVM; None if there is none to add.
    part : how much of it the rows ask for.
    modest : whether few rows of a rare class are to be predicted; see `methods.unseen`.
    found : what the rows say of both; None if they were not asked.
    """

    solution: Any
    supervised: np.ndarray | None = None
    part: float = 0.0
    modest: bool = False
    found: Evidence | None = None


def weighed(
    models: Sequence["SettledModel"], rows: FitRows, task: BinaryTask, solved: list[Any]
) -> list[Weighed]:
    """Step 1 for one binary problem and all models."""
    if rows.supervised or not rows.ratios:
        return [Weighed(solution) for solution in solved]
    return [
        model._weighed(rows, task, solution, place)
        for place, (model, solution) in enumerate(zip(models, solved, strict=True))
    ]


def settled(
    models: Sequence["SettledModel"],
    rows: FitRows,
    tasks: Sequence[BinaryTask],
    by_class: list[list[Weighed]],
) -> list[list[Any]]:
    """Steps 2 and 3: the solutions of all binary problems, for each model."""
    return [
        model._mixed(rows, tasks, own, model._part_by_folds(rows, own, place))
        for place, (model, own) in enumerate(zip(models, zip(*by_class, strict=True), strict=True))
    ]


def check_steps(name: str, weights: np.ndarray, solved: Sequence[Any], is_trial: bool) -> None:
    """Refuse weights of 0 from which rounding allowed no step: that is no model.

    Warn of others, unless the model is one of many that are compared.
    """
    for own, one in zip(weights, solved, strict=True):
        if own.any():
            continue
        if one.termination == "precision":
            raise ValueError(
                f"{name}: X has rows so long or so short that every step is lost to rounding, and "
                "the weights are 0; divide the columns by their ranges "
                "(dask_s3vm.features.UnitScaler), or change the weight of the regularizer"
            )
        if is_trial:
            continue
        warn(
            f"{name}: the weights of all columns are 0, so that every row has the same output; "
            "either X tells nothing, or its values are too small: divide the columns by their "
            "ranges (dask_s3vm.features.UnitScaler)",
            UserWarning,
        )


class SettledModel:
    """What an estimator does with the solutions of its binary problems."""

    facts: ClassVar[MethodFacts]
    balance: str = "paper"
    decision_: str
    decision_reason_: str
    candidates_: list[dict[str, Any]]

    #: whether the method looks for a boundary where rows are few, so that the rows can tell how
    #: much of the supervised SVM to add; else it is as much as the labeled rows ask for
    _seeks_gap: ClassVar[bool] = True

    #: part of the supervised SVM that folds of the labels have decided on; None if not asked
    _part_of_folds: float | None = None

    @property
    def _is_guarded(self) -> bool:
        """Whether folds of the labels decide if the model is kept; see `_safe`."""
        return False

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

    @property
    def _supervised_bias(self) -> bool:
        """Whether it has a bias."""
        return bool(getattr(self, "fit_intercept", self.balance == "predictions"))

    def _wanted(self, task: BinaryTask) -> BinaryTask:
        """What the predictions of the method alone are to agree with."""
        return task

    @property
    def _trains_supervised(self) -> bool:
        """Whether that SVM is trained."""
        return self._part_supervised != 0.0

    def _with_labeled(self, rows: FitRows) -> FitRows:
        """Bring the labeled rows together, where that SVM is trained on them alone.

        Costs: 1 round, the labeled rows to the client.
        """
        is_wanted = self._trains_supervised and not rows.supervised and rows.ratios
        if not is_wanted or not can_gather(rows.engine, rows.totals):
            return rows
        gather = partial(labeled_alone, rows.engine, len(rows.classes))
        return replace(rows, labeled=rows.once("labeled", gather))

    # 1. What the rows ask for -------------------------------------------------------------------

    def _weighed(self, rows: FitRows, task: BinaryTask, solution: Any, place: int) -> Weighed:
        """Balance what was found, and train the supervised SVM; `place` is that of the model.

        Costs: one on the labeled rows. If the rows decide its part, 1 round and 2 passes, and again
        where a bias was moved; those of `unseen_mistakes` where a rule asks for them.
        """
        part = self._part_supervised
        if part == 0.0 or not task.n_unlabeled:
            return Weighed(self._balanced(rows, self._wanted(task), solution))
        own = replace(task, costs=rows.costs)
        supervised, unseen = self._beside(rows, own, place)
        if part is not None:
            solution = self._balanced(rows, self._wanted(task), solution)
            return Weighed(solution, supervised, part)
        engine, found = rows.engine, evidence_of_weights(rows.engine, solution.w, supervised, own)
        given, n = (solution.w, supervised), found.n_positive.tolist()
        solution = self._balanced(rows, self._wanted(task), solution, n[0])
        if not (task.competes or is_balanced(found.share, task.ratio)) and self._supervised_bias:
            supervised = balanced_weights(engine, supervised, 1.0, task, n[1])
        if solution.w is not given[0] or supervised is not given[1]:
            found = evidence_of_weights(engine, solution.w, supervised, own)
        modest = (
            unseen is not None
            and rows.ratios[0].source != "given"
            and task.rare_is_known
            and unseen().speaks_for_one_class(task.ratio_interval)
        )
        part = supervised_part(found, task.competes, unseen) if self._seeks_gap else found.asked
        return Weighed(solution, supervised, part, modest, found)

    def _beside(
        self, rows: FitRows, task: BinaryTask, place: int
    ) -> tuple[np.ndarray, Callable[[], Mistakes] | None]:
        """Train the supervised SVM: (weights, what finds its mistakes on rows it has not seen).

        These are not asked of classes that compete, nor of more labeled rows than can be gathered.
        """
        w = self._supervised_weights(rows, task, place)
        if task.competes or not can_gather(rows.engine, rows.totals):
            return w, None
        kind, key = self._supervised_kind(task)

        def ask() -> Mistakes:
            labeled = rows.once("labeled rows", partial(gather_labeled, rows.engine))
            return unseen_mistakes(rows.engine, task, **kind, labeled=labeled)

        asked = partial(rows.once, ("unseen", *key), ask)
        return w, cache(partial(rows.record.once, f"unseen, model {place}", Mistakes, asked))

    def _supervised_weights(self, rows: FitRows, task: BinaryTask, place: int) -> np.ndarray:
        """Train the supervised SVM, or return it if a method has begun with it."""
        kind, key = self._supervised_kind(task)
        tol = min(BLEND_TOL, getattr(self, "tol", BLEND_TOL))
        train = partial(train_beside, rows.engine) if rows.labeled is None else rows.labeled.train
        trained = partial(train, task, **kind, tol=tol, max_iter=BLEND_STEPS)
        name = f"supervised, class {task.positive}, model {place}"
        once = partial(rows.once, ("supervised", *key, tol), trained)
        return rows.record.once(name, BinarySolution, once).w

    def _supervised_kind(self, task: BinaryTask) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """What that SVM is: its parameters, and all that it depends on."""
        kind = {"lam": self._supervised_lam, "fit_intercept": self._supervised_bias}
        return kind, (task.positive, task.costs.tobytes(), *kind.values())

    # 2. What folds of the labels say ------------------------------------------------------------

    def _part_by_folds(self, rows: FitRows, weighed: Sequence[Weighed], place: int) -> float:
        """Part of the supervised SVM in all binary problems.

        It is the mean of what the rows ask for, and 0 or 1 where folds of the labels ask for that
        (`methods.safe.part_of_folds`). Where few labels leave it open, it is so much that no more
        predictions change than they justify (`methods.safe.change_allowed`). Folds are asked where
        labels are many, and, of two classes, where many predictions would change; of more, if the
        rows say nothing (`_seeks_gap`). Fits on folds and in searches do not ask: theirs would be
        folds of folds.

        Sets: decision_reason_, candidates_.
        Costs: 1 round, and two fits for each fold; see `sample_for_folds`.
        """
        self._part_of_folds = None
        part = self._part_supervised
        if part is not None:
            return part
        part = sum(one.part for one in weighed) / len(weighed)
        if not self._asks_folds(rows, weighed):
            return part
        # these build on the classes of this module
        from dask_s3vm.estimators._l2svm import L2SVM
        from dask_s3vm.estimators._trials import compare_on_folds

        name, weight = self.facts.name, getattr(self, "class_weight", None)
        supervised = L2SVM(
            self._supervised_lam, fit_intercept=self._supervised_bias, class_weight=weight
        )
        sample = sample_for_folds(rows.engine, rows.totals)
        record = RecordPart(rows.record, f"part, model {place}")
        compared = compare_on_folds(
            {name: self._alone()}, rows, sample, record, supervised, once=True
        )
        asked = part_of_folds(compared.candidates[1], compared.n_labeled)
        found = weighed[0].found if len(weighed) == 1 else None
        if asked is None and compared.n_labeled < LEAST_TESTED and found is not None:
            asked = found.part_that_changes(change_allowed(compared.candidates[1]), part)
        self._part_of_folds = part if asked is None else asked
        errors = [f"{100 * one.fold_error:.1f} %" for one in compared.candidates]
        what = {0.0: f"{name} alone", 1.0: "the supervised SVM alone"}.get(
            self._part_of_folds, f"{100 * self._part_of_folds:.0f} % the supervised SVM"
        )
        self._keep_decision(
            name,
            f"Of {compared.n_tested} labeled rows, held out in turn, the supervised SVM has "
            f"{errors[0]} wrong and {name} {errors[1]}: the model is {what}.",
            compared.candidates,
        )
        return self._part_of_folds

    def _asks_folds(self, rows: FitRows, weighed: Sequence[Weighed]) -> bool:
        """Whether folds are asked for the part of the supervised SVM."""
        if rows.is_trial or self._is_guarded or all(one.supervised is None for one in weighed):
            return False
        counts = rows.totals.counts
        n_labeled = int(counts.sum())
        if n_labeled >= LEAST_TESTED:
            return True
        is_told = n_labeled >= LEAST_ASKED and int(counts.min()) > 1
        if len(weighed) > 1:
            return is_told and not self._seeks_gap
        (one,) = weighed
        return is_told and one.found is not None and one.found.changed(one.part) > FREE_CHANGE

    def _alone(self) -> Any:
        """The method without the supervised SVM, to be trained on folds."""
        return clone(self).set_params(supervised_part=0.0)

    def _keep_decision(self, decision: str, reason: str, compared: list[Candidate]) -> None:
        """Sets: decision_, decision_reason_, candidates_."""
        self.decision_ = decision
        self.decision_reason_ = reason
        self.candidates_ = [asdict(one) for one in compared]

    # 3. The model -------------------------------------------------------------------------------

    def _mixed(
        self, rows: FitRows, tasks: Sequence[BinaryTask], weighed: Sequence[Weighed], part: float
    ) -> list[Any]:
        """Add the supervised SVM to the solutions of all binary problems.

        The sum is balanced again, but not where its outputs compete with those of other classes:
        the supervised SVM of a rare class predicts it seldom, and its largest output may be right.

        Sets: decision_ and its reason, where nothing but the supervised SVM is left.
        """
        found = []
        for task, one in zip(tasks, weighed, strict=True):
            solution = one.solution
            if one.supervised is not None:
                w = part * one.supervised + (1.0 - part) * solution.w
                solution = replace(solution, w=w, supervised_part=part)
                if not task.competes:
                    solution = self._balanced(rows, task, solution)
                if one.modest:
                    before = solution.w[-1]
                    solution = self._balanced(rows, replace(task, modest=True), solution)
                    solution = replace(solution, moved=float(solution.w[-1] - before))
            found.append(solution)
        if all(one.supervised_part == 1.0 for one in found):
            self.decision_ = SUPERVISED
            if self._part_of_folds is None:
                who = "the rows ask for that" if self._part_supervised is None else "as given"
                self.decision_reason_ = f"The model is the supervised SVM alone: {who}."
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
