"""Which candidate is chosen."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from dask_s3vm.model_selection._scoring import is_multimetric

#: What makes a candidate simple, in this order: parameters, and whether large or small is simple.
SIMPLE = (("lam", -1.0), ("C", 1.0), ("lam_unlabeled", 1.0), ("C_unlabeled", 1.0))


def check_choice(search: Any, candidates: list[dict[str, Any]]) -> None:
    """Refuse parameters of a search that do not go together, before work starts."""
    if not candidates:
        raise ValueError("there is no candidate; wanted at least one")
    if search.ties not in ("first", "simplest"):
        raise ValueError(f"ties must be 'first' or 'simplest', got {search.ties!r}")
    if search.test_set is not None and search.cv is not None:
        raise ValueError(
            f"cv={search.cv!r} has no effect with a test_set, which takes the place of folds; give "
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
            "checkpoint of the estimator would be shared by all fits; give checkpoint to the "
            f"{type(search).__name__}, or train best_params_ by itself"
        )
    if not is_multimetric(search.scoring):
        if isinstance(search.refit, str):
            raise ValueError(f"refit={search.refit!r} is for several scores; wanted True or False")
        return
    names = list(search.scoring)
    if not names:
        raise ValueError("scoring is empty; wanted at least one scorer")
    if search.refit and not callable(search.refit) and search.refit not in names:
        raise ValueError(
            f"refit must be False, a function, or the score that chooses, one of {names}; got "
            f"{search.refit!r}"
        )


def best_candidate(search: Any, candidates: list[dict[str, Any]]) -> int:
    """Number of the chosen candidate."""
    if callable(search.refit):
        index = search.refit(search.cv_results_)
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(candidates):
            raise ValueError(
                f"refit must give the number of a candidate, 0 to {len(candidates) - 1}, got "
                f"{index!r}"
            )
        return int(index)
    name = search.refit if is_multimetric(search.scoring) else "score"
    ranks = search.cv_results_[f"rank_test_{name}"]
    first = np.flatnonzero(ranks == ranks.min())
    if search.ties == "first":
        return int(first[0])
    return int(min(first, key=lambda number: (*_complexity(candidates[number]), number)))


def _complexity(params: dict[str, Any]) -> tuple[float, ...]:
    """Sort key of a candidate: simple ones come first."""
    found = []
    for name, sign in SIMPLE:
        value = params.get(name)
        found.append(sign * float(value) if isinstance(value, Real) else 0.0)
    return tuple(found)
