"""The scores of a search."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from dask_s3vm.plotting.style import COLORS, axes, finish, tidy

#: Lines with a label of their own, at most; the legend would cover the picture.
_MOST_LABELS = 8


def plot_search(source: Any, ax: Any = None) -> Any:
    """Draw the mean score of each candidate of a search, and its deviation over the folds.

    The horizontal axis is the parameter with the most values that are numbers; candidates that
    agree in all other parameters are one line. Without such a parameter, candidates are in order.

    Parameters
    ----------
    source : fitted search, or its `cv_results_`, with one score
    ax : matplotlib Axes or None

    Returns
    -------
    Axes
    """
    results = getattr(source, "cv_results_", source)
    if not isinstance(results, Mapping) or "mean_test_score" not in results:
        raise TypeError("wanted a fitted search with one score, or its cv_results_")
    params = results["params"]
    mean, std = np.asarray(results["mean_test_score"]), np.asarray(results["std_test_score"])
    ax = tidy(axes(ax))
    name = _axis(params)
    lines: dict[str, list[int]] = {}
    for number, values in enumerate(params):
        others = ", ".join(
            f"{key} = {_word(value)}" for key, value in values.items() if key != name
        )
        lines.setdefault(others if name else "", []).append(number)
    for place, (label, numbers) in enumerate(lines.items()):
        at = np.array([params[number][name] if name else number for number in numbers], float)
        order = np.argsort(at)
        chosen = np.array(numbers)[order]
        shown = label if label and place < _MOST_LABELS else None
        style = {"color": COLORS[place % len(COLORS)], "marker": "o", "ms": 4, "capsize": 3}
        ax.errorbar(at[order], mean[chosen], std[chosen], label=shown, **style)
    values = [values[name] for values in params] if name else []
    if values and min(values) > 0 and max(values) > 30 * min(values):
        ax.set_xscale("log")
    ax.set_xlabel(name or "candidate")
    ax.set_ylabel("mean score over the folds")
    return finish(ax)


def _axis(params: list[dict[str, Any]]) -> str | None:
    """Return the parameter of most different numbers; None if there is none."""
    counts = {
        name: len({values[name] for values in params})
        for name in params[0]
        if all(_is_number(values.get(name)) for values in params)
    }
    best = max(counts, key=lambda name: counts[name], default=None)
    return best if best is not None and counts[best] > 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _word(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
