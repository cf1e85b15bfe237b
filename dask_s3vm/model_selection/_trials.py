"""What is fitted for a candidate of a search: its model, or the models that its guard compares.

A guarded model (`S3VM`, or any with `safe=True`) is the supervised model or the semi-supervised
one, whichever cross-validation on the labeled rows prefers. In a search on folds of these rows that
would be folds within folds, some ten fits where two do: both models are fitted on each fold, and
the folds of the search say which of them the candidate is. As in the guard, they are fitted to a
loose tolerance, on all labeled rows and a sample of the unlabeled ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from dask_s3vm.estimators._rows import as_array
from dask_s3vm.estimators._safe import CLEAR_GAIN, GuardedS3VM
from dask_s3vm.estimators._trials import TRIAL_TOL
from dask_s3vm.features.landmarks import take_rows
from dask_s3vm.model_selection._results import Score
from dask_s3vm.model_selection._run import Job

#: Most unlabeled rows that candidates are compared on.
MOST_UNLABELED = 5_000


@dataclass(frozen=True)
class Trials:
    """The models to fit, numbered; `of[number]` is the candidate that a model belongs to.

    The models of a guarded candidate follow each other, the supervised one last.
    """

    models: dict[int, Any]
    of: list[int]

    @property
    def all_guarded(self) -> bool:
        """Whether every candidate has several models."""
        return min(self.of.count(candidate) for candidate in {*self.of}) > 1

    def settled(self, scores: Sequence[Score], name: str, n_labeled: int) -> list[Score]:
        """Return the scores of candidates: of its models, that of the one its guard would keep.

        That is the supervised one, unless the mean score `name` of another is higher by what a row
        and a half are to the accuracy, as the guard asks.
        """
        groups: dict[int, dict[int, list[Score]]] = {}
        for score in scores:
            own = groups.setdefault(self.of[score.candidate], {})
            own.setdefault(score.candidate, []).append(score)
        found = []
        for candidate, own in groups.items():
            means = {one: np.mean([score.test[name] for score in own[one]]) for one in own}
            *others, kept = sorted(own)
            least = means[kept] + CLEAR_GAIN / n_labeled - 1e-12
            kept = max(
                (one for one in others if means[one] >= least),
                key=lambda one: means[one],
                default=kept,
            )
            seconds = _seconds(own)
            found += [
                replace(score, candidate=candidate, fit_time=seconds[score.fold])
                for score in own[kept]
            ]
        return found


def _seconds(own: dict[int, list[Score]]) -> dict[int, float]:
    """Seconds of all fits of a candidate, by fold."""
    found: dict[int, float] = {}
    for score in (score for some in own.values() for score in some):
        found[score.fold] = found.get(score.fold, 0.0) + score.fit_time
    return found


def with_few_unlabeled(job: Job) -> Job:
    """Return the search on all labeled rows and a sample of the unlabeled ones.

    Which rows are drawn depends on their numbers alone. Costs: these rows come to this process.
    """
    labeled = job.labeled
    free = np.setdiff1d(np.arange(labeled.n_rows), labeled.numbers)
    if len(free) <= MOST_UNLABELED:
        return job
    drawn = np.random.default_rng(0).choice(free, MOST_UNLABELED, replace=False)
    rows = np.union1d(labeled.numbers, drawn)
    weight = None if job.sample_weight is None else np.asarray(job.sample_weight)[rows]
    numbers = np.searchsorted(rows, labeled.numbers)
    return replace(
        job,
        X=take_rows(as_array(job.X), rows),
        y=labeled.all_labels()[rows],
        sample_weight=weight,
        labeled=replace(labeled, numbers=numbers, n_rows=len(rows)),
        folds=[
            replace(fold, held_out=np.flatnonzero(np.isin(rows, fold.held_out)))
            for fold in job.folds
        ],
    )


def trials_of(candidates: dict[int, Any], on_folds: bool) -> Trials:
    """Return what to fit for the models of all candidates.

    Without folds of the labeled rows, a guard has to ask its own.
    """
    models: list[Any] = []
    of: list[int] = []
    for number, model in candidates.items():
        own = (_compared(model) if on_folds else []) or [model]
        models += own
        of += [number] * len(own)
    return Trials(dict(enumerate(models)), of)


def _compared(model: Any) -> list[Any]:
    """The models that a guard compares, the supervised one last; none if there is no guard."""
    if not isinstance(model, GuardedS3VM) or not model._is_guarded:
        return []
    variants = [clone(one).set_params(safe=False) for one in model._variants().values()]
    known = variants[0].get_params(deep=False)
    if not known.keys() >= {"lam_unlabeled", "tol"}:
        return []
    for one in variants:
        one.set_params(tol=max(one.tol, TRIAL_TOL))
    return [*variants, clone(variants[0]).set_params(lam_unlabeled=0.0)]
