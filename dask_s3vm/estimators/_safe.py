"""The guard: a semi-supervised model is kept only where the labels do not speak against it.

Folds of the labeled rows are trained with and without the unlabeled rows; see `methods.safe`. The
model of all rows must then predict a share of positives that the ratio allows.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from dask_s3vm.engine.blocks import make_block
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.engine.sources import Columns, LocalSource
from dask_s3vm.estimators._base import LinearS3VM, Seeds, fit_path
from dask_s3vm.estimators._fit_rows import FitRows, Found
from dask_s3vm.estimators._l2svm import L2SVM
from dask_s3vm.estimators._rows import PlacedRows
from dask_s3vm.exceptions import quiet
from dask_s3vm.features.landmarks import take_rows
from dask_s3vm.methods.base import balanced_weights, n_predicted_positive
from dask_s3vm.methods.run import RecordPart
from dask_s3vm.methods.safe import (
    LEAST_GAIN,
    LEAST_TESTED,
    Candidate,
    FoldTrials,
    Sample,
    assign_folds,
    choose,
    clear_part,
    compare,
    mistakes_of,
    sample_for_folds,
)
from dask_s3vm.methods.unseen import Mistakes

#: Trials stop at this gap, or restart so often: they need labels of rows, not digits of weights.
TRIAL_TOL = 1e-3
TRIAL_RESTARTS = 5

SUPERVISED = "supervised"


class GuardedS3VM(LinearS3VM):
    """Base of the semi-supervised classifiers, whose parameters have `GuardAttributes`."""

    decision_: str
    decision_reason_: str
    candidates_: list[dict[str, Any]]

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
        part = getattr(self, "_part_of_folds", None)
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
        with Trial(list(variants.values()), rows, sample) as trial:
            folds = assign_folds(trial.codes)
            trials = rows.record.run("folds", FoldTrials(folds, len(names), trial.margins))
        compared = compare(names, trials)
        best = choose(compared)
        reason = _reason(compared, best, len(trial.codes), trials.n_repeats)
        costs = rows.costs[trial.codes] * sample.weights[sample.codes >= 0]
        mistakes = mistakes_of(trials, trial.codes, costs)
        if best:
            model = variants[names[best]]
            own = replace(rows, record=RecordPart(rows.record, names[best]))
            (solved,) = model._train(own, [model], None)
            solved, moved = self._made_modest(rows, solved, mistakes[best])
            off = _off_balance(rows, solved, self)
            if not off:
                self._keep_decision(names[best], reason + moved, compared)
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
        solved, moved = self._made_modest(rows, solved, mistakes[0])
        self._keep_decision(SUPERVISED, reason + moved, compared)
        return Found(own, solved, model._found_labels(own, solved) if with_labels else None)

    def _part_by_folds(self, rows: FitRows, part: float, place: int) -> float:
        """Part of the supervised SVM: 0 or 1 where folds of many labels clearly ask for it.

        Few labels say nothing so clearly. Fits on folds and in searches are not asked: theirs would
        be folds of folds.

        Sets: decision_reason_, candidates_.
        Costs: 1 round, and two fits for each fold; see `sample_for_folds`.
        """
        self._part_of_folds: float | None = None
        if rows.is_trial or int(rows.totals.counts.sum()) < LEAST_TESTED:
            return part
        given = self.get_params(deep=False)
        bias = bool(given.get("fit_intercept", self.balance == "predictions"))
        supervised = L2SVM(
            self._supervised_lam, fit_intercept=bias, class_weight=given.get("class_weight")
        )
        alone = clone(self).set_params(supervised_part=0.0)
        sample = sample_for_folds(rows.engine, rows.totals)
        with Trial([alone], rows, sample, supervised) as trial:
            folds = assign_folds(trial.codes)[:1]
            own = RecordPart(rows.record, f"part, model {place}")
            trials = own.run("folds", FoldTrials(folds, 2, trial.margins))
        name = self.facts.name
        compared = compare([SUPERVISED, name], trials)
        asked = clear_part(compared[1])
        self._part_of_folds = part if asked is None else asked
        errors = [f"{100 * one.fold_error:.1f} %" for one in compared]
        what = "No clear difference: the rows ask for" if asked is None else "A clear difference:"
        self._keep_decision(
            name,
            f"Of {len(trial.codes)} labeled rows, held out in turn, the supervised SVM has "
            f"{errors[0]} wrong and {name} {errors[1]}. {what} {100 * self._part_of_folds:.0f} % "
            "of the supervised SVM.",
            compared,
        )
        return self._part_of_folds

    def _made_modest(
        self, rows: FitRows, solved: list[Any], mistakes: Mistakes
    ) -> tuple[list[Any], str]:
        """Predict few rows of a rare class where the folds ask for it; (solutions, what was done).

        Only for two classes, and not for a ratio that was given; see `methods.unseen`.
        """
        bias = float(getattr(self, "fit_intercept", True))
        if not _has_one_share(rows, solved) or not bias:
            return solved, ""
        ratio = rows.ratios[0]
        if ratio.source == "given" or not mistakes.speaks_for_one_class(ratio.interval):
            return solved, ""
        (task,) = self._tasks(rows)
        task, w = replace(task, modest=True), solved[0].w
        n = n_predicted_positive(rows.engine, w, bias)
        change, is_rare = task.nearest_count(n) - n, ratio.value < 0.5
        if change == 0 or (change > 0) == is_rare:
            return solved, ""  # not more than before
        w = balanced_weights(rows.engine, w, bias, task, n)
        rare = rows.classes[int(is_rare)].item()
        return [replace(solved[0], w=w)], (
            f" Fewer of these rows were wrong if none were predicted to be of class {rare!r}: as "
            "few are as the ratio allows."
        )

    def _keep_decision(self, decision: str, reason: str, compared: list[Candidate]) -> None:
        """Sets: decision_, decision_reason_, candidates_."""
        self.decision_ = decision
        self.decision_reason_ = reason
        self.candidates_ = [asdict(one) for one in compared]


class Trial:
    """Trains candidates on a sample of the rows, in this process.

    Parameters
    ----------
    models : the semi-supervised candidates.
    rows : all rows.
    sample : those to train on.
    supervised : the supervised one; None for the first of the others, without unlabeled rows.

    Attributes
    ----------
    codes : class numbers of the labeled rows of the sample.
    """

    def __init__(
        self, models: Sequence[Any], rows: FitRows, sample: Sample, supervised: Any = None
    ) -> None:
        self._models = [_hasty(model, _shares(rows)) for model in models]
        self._alone = self._models[0] if supervised is None else _hasty(supervised, None)
        self._classes = rows.classes
        self._labeled = np.flatnonzero(sample.codes >= 0)
        self.codes = sample.codes[self._labeled].astype(np.int64)
        X = sample.matrix()
        exact = None if rows.exact_rows is None else take_rows(rows.exact_rows, sample.numbers)
        everything = np.arange(len(sample.codes))
        self._all = _place(X, exact, sample, everything, rows.classes)
        self._few = _place(X, exact, sample, self._labeled, rows.classes)
        self._X = X if exact is None else exact

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *error: Any) -> None:
        self._all.engine.close()
        self._few.engine.close()

    def margins(self, out: np.ndarray) -> np.ndarray:
        """Margins of the labeled rows `out` by models of the other rows, (candidates, held out)."""
        held = np.flatnonzero(out)
        present = np.unique(self.codes[~out])
        if len(present) < 2:
            right = np.where(self.codes[held] == present[0], 1.0, -1.0)
            return np.broadcast_to(right, (1 + len(self._models), len(held)))
        models = [self._fitted(self._alone, self._few, held)]
        models += [self._fitted(one, self._all, self._labeled[held]) for one in self._models]
        test = self._X[self._labeled[held]]
        return np.stack([_margins(one.decision_function(test), self.codes[held]) for one in models])

    def outputs(self, out: np.ndarray, alone: bool) -> np.ndarray:
        """Outputs of the labeled rows `out`, by the first model of the other rows.

        alone : whether it is the supervised model, without the unlabeled rows.
        """
        held = np.flatnonzero(out)
        rows, own = (self._few, held) if alone else (self._all, self._labeled[held])
        model = self._fitted(self._models[0], rows, own)
        return model.decision_function(self._X[self._labeled[held]])

    def _fitted(self, model: Any, rows: PlacedRows, out: np.ndarray) -> Any:
        rows.engine.forget()
        rows.engine.each(hold_out, out)
        model = clone(model)
        with quiet():
            fit_path([model], rows, None)
        return model


def _shares(rows: FitRows) -> Any:
    """The shares of the classes, as users would give them."""
    values = [one.value for one in rows.ratios]
    if not values:
        return None
    if len(values) == 1:
        return values[0]
    return dict(zip(rows.classes.tolist(), values, strict=True))


def _hasty(model: Any, ratio: Any) -> Any:
    """The same model for trials: silent, with the ratio given, and not to the last digit."""
    wanted = {
        "callbacks": None, "verbose": False, "checkpoint": None, "warm_start": False,
        "positive_ratio": ratio, "probability": False,
    }  # fmt: skip
    if isinstance(model, GuardedS3VM):
        wanted["safe"] = False
    known = model.get_params(deep=False)
    if "tol" in known:
        wanted["tol"] = max(known["tol"], TRIAL_TOL)
    if "n_restarts" in known:
        wanted["n_restarts"] = min(known["n_restarts"], TRIAL_RESTARTS)
    return clone(model).set_params(**{k: v for k, v in wanted.items() if k in known})


def _place(
    X: Any, exact: Any, sample: Sample, chosen: np.ndarray, classes: np.ndarray
) -> PlacedRows:
    """Place some rows of a sample in this process."""
    codes, weights = sample.codes[chosen], sample.weights[chosen]
    block = make_block(X[chosen], codes, None if (weights == 1.0).all() else weights)
    engine = LocalSource([block], Columns(None, None), own=True).place(np.arange(len(classes)))
    rows = None if exact is None else exact[chosen]
    n_features = X.shape[1] if exact is None else exact.shape[1]
    return PlacedRows(engine, classes, n_features, None, None, (len(chosen),), rows)


def _margins(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Output of each row's own class over that of the best other one."""
    if outputs.ndim == 1:
        return np.where(codes == 1, outputs, -outputs)
    rows = np.arange(len(codes))
    others = outputs.copy()
    others[rows, codes] = -np.inf
    return outputs[rows, codes] - others.max(axis=1)


def _reason(compared: list[Candidate], best: int, n_labeled: int, repeats: int) -> str:
    """Say what the folds said."""
    rival = compared[best] if best else max(compared[1:], key=lambda one: one.gain)
    times = "once" if repeats == 1 else f"{repeats} times"
    head = f"The unlabeled rows were used ({rival.name})" if best else "Only the labels were used"
    return (
        f"{head}: on {n_labeled} labeled rows, cross-validated {times}, {rival.name} corrects "
        f"{rival.fixed:.3g} of the supervised model's errors and makes {rival.broken:.3g} new. "
        f"Rows near a boundary count less: the gain is {rival.gain:.2g} rows, and at least "
        f"{LEAST_GAIN:.0f} is required."
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
