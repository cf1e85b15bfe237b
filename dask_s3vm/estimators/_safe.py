"""The guard: a semi-supervised model is kept only where the labels do not speak against it.

Folds of the labeled rows are trained with and without the unlabeled rows; see `methods.safe`. The
model of all rows must then predict a share of positives that the ratio allows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from dask_s3vm.estimators._base import LinearS3VM, Seeds
from dask_s3vm.estimators._fit_rows import FitRows, Found
from dask_s3vm.estimators._trials import Compared, compare_on_folds
from dask_s3vm.methods.base import balanced_weights, n_predicted_positive
from dask_s3vm.methods.ratio import can_gather
from dask_s3vm.methods.run import RecordPart
from dask_s3vm.methods.safe import (
    SUPERVISED,
    Sample,
    choose,
    sample_for_folds,
)
from dask_s3vm.methods.unseen import CLEAR_GAIN, Mistakes, unseen_mistakes


class GuardedS3VM(LinearS3VM):
    """Base of the semi-supervised classifiers, whose parameters have `GuardAttributes`."""

    @property
    def _is_guarded(self) -> bool:
        """Whether the labels are asked."""
        return bool(self.safe)

    def _validate_params(self) -> None:
        super()._validate_params()
        if self._is_guarded and getattr(self, "lam_unlabeled", None) == 0:
            raise ValueError(
                "safe=True has no effect with lam_unlabeled=0, which uses no unlabeled rows; "
                "leave one of them out"
            )

    def _variants(self) -> dict[str, LinearS3VM]:
        """The semi-supervised models to compare with the supervised one, by name."""
        return {self.facts.name: clone(self)}

    def _trial(self) -> LinearS3VM:
        """The variant that was kept; the supervised model is any of them."""
        variants = self._variants()
        model = variants.get(self.decision_, next(iter(variants.values())))
        part = self._part_of_folds
        return model if part is None else model.set_params(supervised_part=part)

    def _looked_at(self, sample: Sample, rows: FitRows) -> None:
        """Take notice of a sample of the rows."""

    def _find(
        self, rows: FitRows, models: Sequence[Any], seeds: Seeds | None, with_labels: bool
    ) -> list[Found]:
        if self._is_guarded and not rows.supervised:
            return [
                model._find_guarded(
                    replace(rows, record=RecordPart(rows.record, f"model {place}")), with_labels
                )
                for place, model in enumerate(models)
            ]
        for model in models:
            name = SUPERVISED if rows.supervised else self.facts.name
            why = "unlabeled rows count for nothing" if rows.supervised else "safe=False"
            model._keep_decision(name, f"Nothing was compared: {why}.", [])
        return super()._find(rows, models, seeds, with_labels)

    def _find_guarded(self, rows: FitRows, with_labels: bool) -> Found:
        """Compare on folds, train what was chosen, and look at its share of positives."""
        variants = self._variants()
        names = [SUPERVISED, *variants]
        sample = sample_for_folds(rows.engine, rows.totals)
        self._looked_at(sample, rows)
        compared = compare_on_folds(variants, rows, sample, rows.record)
        best = choose(compared.candidates)
        reason = _reason(compared, best)
        mistakes = compared.mistakes
        if best:
            model = variants[names[best]]
            own = replace(rows, record=RecordPart(rows.record, names[best]))
            (solved,) = model._train(own, [model], None)
            solved, moved = self._made_modest(rows, solved, mistakes[best])
            off = _off_balance(rows, solved, self)
            if not off:
                kept, reason = names[best], reason + moved
                if getattr(model, "decision_", kept) == SUPERVISED:  # all that a blend left of it
                    kept, reason = SUPERVISED, f"{reason} {model.decision_reason_}"
                self._keep_decision(kept, reason, compared.candidates)
                labels = model._found_labels(own, solved) if with_labels else None
                return Found(own, solved, labels)
            reason = off
        model = next(iter(variants.values()))
        own = replace(
            rows,
            totals=replace(rows.totals, n_unlabeled=0, unlabeled_weight=0.0),
            supervised=True,
            record=RecordPart(rows.record, SUPERVISED),
        )
        (solved,) = model._train(own, [model], None)
        solved, moved = self._made_modest(rows, solved, mistakes[0], supervised=True)
        self._keep_decision(SUPERVISED, reason + moved, compared.candidates)
        return Found(own, solved, model._found_labels(own, solved) if with_labels else None)

    def _made_modest(
        self, rows: FitRows, solved: list[Any], mistakes: Mistakes, supervised: bool = False
    ) -> tuple[list[Any], str]:
        """Predict few rows of a rare class where the folds ask for it; (solutions, what was done).

        Only for two classes, and not for a ratio that was given; see `methods.unseen`. The
        supervised SVM is asked on all divisions into folds, of which one may have been compared.
        """
        bias = float(getattr(self, "fit_intercept", True))
        if not _has_one_share(rows, solved) or not bias:
            return solved, ""
        ratio = rows.ratios[0]
        if ratio.source == "given" or not mistakes.speaks_for_one_class(ratio.interval):
            return solved, ""
        (task,) = self._tasks(rows)
        if supervised and can_gather(rows.engine, rows.totals):
            bare = replace(task, costs=rows.costs)
            again = unseen_mistakes(
                rows.engine, bare, lam=self._supervised_lam, fit_intercept=self._supervised_bias
            )
            if not again.speaks_for_one_class(ratio.interval):
                return solved, ""
        task, w = replace(task, modest=True), solved[0].w
        n = n_predicted_positive(rows.engine, w, bias)
        change, is_rare = task.nearest_count(n) - n, ratio.value < 0.5
        if change == 0 or (change > 0) == is_rare:
            return solved, ""  # not more than before
        moved = balanced_weights(rows.engine, w, bias, task, n)
        rare = rows.classes[int(is_rare)].item()
        far = solved[0].moved + float(moved[-1] - w[-1])
        return [replace(solved[0], w=moved, moved=far)], (
            f" Fewer of these rows were wrong if none were predicted to be of class {rare!r}: as "
            "few are as the ratio allows."
        )


def _reason(compared: Compared, best: int) -> str:
    """Say what the folds said."""
    candidates, repeats = compared.candidates, compared.n_repeats
    rival = candidates[best] if best else max(candidates[1:], key=lambda one: one.gain)
    times = "once" if repeats == 1 else f"{repeats} times"
    head = f"The unlabeled rows were used ({rival.name})" if best else "Only the labels were used"
    return (
        f"{head}: on {compared.n_labeled} labeled rows, cross-validated {times}, {rival.name} "
        f"corrects {rival.fixed:.3g} of the supervised model's errors and makes {rival.broken:.3g} "
        f"new. Every row held out counts by its margin, the more the farther it is from the "
        f"boundary: that is a gain of {rival.gain:.2g} rows; at least {CLEAR_GAIN:g} are "
        "required, and not more new errors than corrected ones."
    )


def _has_one_share(rows: FitRows, solved: list[Any]) -> bool:
    """Whether the share of positive predictions tells something: outputs of classes compete."""
    return len(solved) == 1 and bool(rows.ratios) and rows.exact_rows is None


def _off_balance(rows: FitRows, solved: list[Any], parameters: Any) -> str:
    """Say what is wrong with the share of positive predictions; "" if nothing is.

    Costs: 1 round, 1 pass.
    """
    if not _has_one_share(rows, solved):
        return ""
    low, high = rows.ratios[0].interval
    bias = float(getattr(parameters, "fit_intercept", True))
    n_unlabeled = rows.totals.n_unlabeled
    share = n_predicted_positive(rows.engine, solved[0].w, bias) / n_unlabeled
    if low - 0.02 <= share <= high + 0.02:
        return ""
    return (
        f"Only the labels were used: the other model predicts {100 * share:.1f} % of the unlabeled "
        f"rows to be of class "
        f"{rows.classes[1].item()!r}, where the ratio allows {100 * low:.1f} % to "
        f"{100 * high:.1f} %."
    )
