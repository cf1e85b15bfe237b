"""scikit-learn's scorers, one or several."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring, get_scorer


@dataclass(frozen=True)
class Scoring:
    """Scorers by name; a single one is called "score".

    train : whether training rows are scored too.
    """

    scorers: dict[str, Any]
    train: bool = False

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
                    f"scoring must give a number, got {value!r} of type {type(value).__name__} "
                    f"from {name!r}"
                )
            found[name] = float(value)
        return found


def scoring_of(estimator: Any, scoring: Any, train: bool) -> Scoring:
    """Scorers of `scoring` of a search: None, a name, a callable, several names, or a dict."""
    if isinstance(scoring, (list, tuple, set)):
        names = sorted(scoring) if isinstance(scoring, set) else list(scoring)
        if len(set(names)) < len(names):
            raise ValueError(f"scoring must name different scorers, got {scoring!r}")
        return Scoring({name: get_scorer(name) for name in names}, train)
    if isinstance(scoring, dict):
        return Scoring({name: _scorer(one) for name, one in scoring.items()}, train)
    return Scoring({"score": check_scoring(estimator, scoring)}, train)


def _scorer(given: Any) -> Any:
    return get_scorer(given) if isinstance(given, str) else given


def is_multimetric(scoring: Any) -> bool:
    """Whether `scoring` stands for several scores."""
    return isinstance(scoring, (list, tuple, set, dict))
