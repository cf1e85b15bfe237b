"""Scores of a search: scorers, the table `cv_results_`, and the choice of a candidate."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import check_scoring, get_scorer

from dask_s3vm.estimators._linear import LinearClassifier, scores_of

#: Mean scores are equal if they agree to this many decimals: the order of a sum does not matter.
DIGITS = 12

#: Parameters that make a candidate simple, in this order; -1: a large value is simple, 1: a small
#: one.
SIMPLE = (("lam", -1.0), ("C", 1.0), ("lam_unlabeled", 1.0), ("C_unlabeled", 1.0))


@dataclass(frozen=True)
class Score:
    """Scores and times of one candidate on one fold; a failed fit has an `error`."""

    candidate: int
    fold: int
    test: dict[str, float]
    train: dict[str, float]
    fit_time: float
    score_time: float
    error: str | None = None


@dataclass(frozen=True)
class Scoring:
    """Scorers by name; a single one is called "score".

    Attributes
    ----------
    scorers : dict
        Name -> function of (model, X, y).
    train : bool
        Whether the training rows are scored too.
    own : bool
        Whether the only scorer is the method `score` of the estimators.
    """

    scorers: dict[str, Any]
    train: bool = False
    own: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the scores."""
        return list(self.scorers)

    def __call__(self, model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
        """Score a fitted model."""
        found = {}
        for name, scorer in self.scorers.items():
            value = scorer(model, X, y)
            if hasattr(value, "item"):
                value = value.item()
            if not isinstance(value, (int, float)):
                raise ValueError(
                    f"scoring must return a number, got {value!r} of type {type(value).__name__} "
                    f"from {name!r}"
                )
            found[name] = float(value)
        return found

    def of_path(self, models: Sequence[Any], X: Any, y: np.ndarray) -> list[dict[str, float]]:
        """Score fitted models that differ in lam alone."""
        alike = self.own and all(_scores_by_accuracy(model) for model in models)
        if not alike or hasattr(X, "dask"):
            return [self(model, X, y) for model in models]
        return [{"score": value} for value in scores_of(models, X, y)]


def scoring_of(estimator: Any, scoring: Any, train: bool) -> Scoring:
    """Make the scorers of `scoring`: None, a name, a callable, several names, or a dict."""
    if isinstance(scoring, (list, tuple, set)):
        names = sorted(scoring) if isinstance(scoring, set) else list(scoring)
        if len(set(names)) < len(names):
            raise ValueError(f"scoring must name different scorers, got {scoring!r}")
        return Scoring({name: get_scorer(name) for name in names}, train)
    if isinstance(scoring, dict):
        return Scoring({name: _scorer(one) for name, one in scoring.items()}, train)
    return Scoring({"score": check_scoring(estimator, scoring)}, train, scoring is None)


def _scores_by_accuracy(model: Any) -> bool:
    """Whether neither `score` nor `predict` is a method of its own."""
    kind, plain = type(model), LinearClassifier
    return isinstance(model, plain) and (kind.score, kind.predict) == (plain.score, plain.predict)


def _scorer(given: Any) -> Any:
    return get_scorer(given) if isinstance(given, str) else given


def is_multimetric(scoring: Any) -> bool:
    """Whether `scoring` means several scores."""
    return isinstance(scoring, (list, tuple, set, dict))


def results_table(
    candidates: list[dict[str, Any]], n_splits: int, scores: Iterable[Score], names: list[str]
) -> dict[str, Any]:
    """Make `cv_results_`, in the form of scikit-learn: one entry per candidate in each column.

    Parameters
    ----------
    candidates : list of dict
        Parameters of each candidate.
    n_splits : int
        Number of splits.
    scores : iterable of Score
        One for each candidate and split.
    names : list of str
        Names of the scores.
    """
    shape = (len(candidates), n_splits)
    fit_time, score_time = np.full(shape, np.nan), np.full(shape, np.nan)
    test = {name: np.full(shape, np.nan) for name in names}
    train: dict[str, np.ndarray] = {}
    for score in scores:
        place = score.candidate, score.fold
        fit_time[place], score_time[place] = score.fit_time, score.score_time
        for name, value in score.test.items():
            test[name][place] = value
        for name, value in score.train.items():
            train.setdefault(name, np.full(shape, np.nan))[place] = value
    table: dict[str, Any] = {}
    for name, seconds in (("fit_time", fit_time), ("score_time", score_time)):
        table[f"mean_{name}"], table[f"std_{name}"] = seconds.mean(axis=1), seconds.std(axis=1)
    table |= _parameters(candidates)
    for name, values in test.items():
        table |= _columns(f"test_{name}", values)
        table[f"rank_test_{name}"] = ranks(table[f"mean_test_{name}"])
    for name, values in train.items():
        table |= _columns(f"train_{name}", values)
    return table


def ranks(means: np.ndarray) -> np.ndarray:
    """Rank mean scores from 1, the best; equal scores share a rank, NaN is last."""
    low = np.nanmin(means) - 1.0 if np.isfinite(means).any() else 0.0
    rounded = np.round(np.where(np.isnan(means), low, means), DIGITS)
    return rankdata(-rounded, method="min").astype(np.int32)


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    columns = {f"split{number}_{name}": column.copy() for number, column in enumerate(values.T)}
    return columns | {f"mean_{name}": values.mean(axis=1), f"std_{name}": values.std(axis=1)}


def _parameters(candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of the parameters, masked where a candidate does not set one."""
    columns: dict[str, Any] = {}
    for name in sorted({name for params in candidates for name in params}):
        values = np.empty(len(candidates), dtype=object)
        mask = np.array([name not in params for params in candidates])
        for number, params in enumerate(candidates):
            values[number] = params.get(name)
        columns[f"param_{name}"] = np.ma.MaskedArray(values, mask=mask)
    return columns | {"params": candidates}


def check_choice(search: Any, candidates: list[dict[str, Any]]) -> None:
    """Refuse wrong or contradictory parameters of a search, before any fit."""
    if not candidates:
        raise ValueError("there are no candidates, wanted at least one")
    if search.ties not in ("first", "simplest"):
        raise ValueError(f"ties must be 'first' or 'simplest', got {search.ties!r}")
    if search.test_set is not None and search.cv is not None:
        raise ValueError(
            f"cv={search.cv!r} has no effect with a test_set, which replaces the folds; give only "
            "one of them"
        )
    if search.error_score != "raise" and not isinstance(search.error_score, Real):
        raise ValueError(f"error_score must be a number or 'raise', got {search.error_score!r}")
    if search.final_params is not None and not isinstance(search.final_params, Mapping):
        raise ValueError(f"final_params must be a dict or None, got {search.final_params!r}")
    if search.final_params and not search.refit:
        raise ValueError("final_params has no effect with refit=False")
    given = [search.estimator.get_params(deep=False), *candidates, search.final_params or {}]
    if any(params.get("checkpoint") is not None for params in given):
        raise ValueError(
            "checkpoint of the estimator would be shared by all fits; set checkpoint of the "
            f"{type(search).__name__} instead"
        )
    if not is_multimetric(search.scoring):
        if isinstance(search.refit, str):
            raise ValueError(f"refit={search.refit!r} is for several scores, wanted True or False")
        return
    names = list(search.scoring)
    if not names:
        raise ValueError("scoring is empty, wanted at least one scorer")
    if search.refit and not callable(search.refit) and search.refit not in names:
        raise ValueError(
            f"refit must be False, a function, or the name of a score, one of {names}; got "
            f"{search.refit!r}"
        )


def best_candidate(search: Any, candidates: list[dict[str, Any]]) -> int:
    """Return the number of the chosen candidate."""
    if callable(search.refit):
        index = search.refit(search.cv_results_)
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(candidates):
            raise ValueError(
                f"refit must return the number of a candidate, 0 to {len(candidates) - 1}, got "
                f"{index!r}"
            )
        return int(index)
    name = search.refit if is_multimetric(search.scoring) else "score"
    order = search.cv_results_[f"rank_test_{name}"]
    best = np.flatnonzero(order == order.min())
    if search.ties == "first":
        return int(best[0])
    return int(min(best, key=lambda number: (*_complexity(candidates[number]), number)))


def _complexity(params: dict[str, Any]) -> tuple[float, ...]:
    """Return the sort key of a candidate: simple candidates come first."""
    found = []
    for name, sign in SIMPLE:
        value = params.get(name)
        found.append(sign * float(value) if isinstance(value, Real) else 0.0)
    return tuple(found)
