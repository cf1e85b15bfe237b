"""Axes and colors of all pictures, and access to the rows and columns of a history."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

#: Colors that people with a color vision deficiency can tell apart (Okabe & Ito).
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip
COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
GRAY = "#8a8a8a"

Row = Mapping[str, Any]


def axes(ax: Any = None) -> Any:
    """Return the given Axes, or those of a new figure."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "dask_s3vm.plotting needs matplotlib: pip install 'dask-s3vm[plot]'"
            ) from error
        _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    return ax


def tidy(ax: Any) -> Any:
    """Apply the common style to Axes; returns them."""
    ax.grid(True, color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def rows_of(source: Any) -> list[Row]:
    """Return the rows of a history, or of the history of a fitted estimator."""
    rows = getattr(source, "history_", source)
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise TypeError(f"wanted a fitted estimator or its history_, got a {type(source).__name__}")
    rows = list(rows)
    if not rows:
        raise ValueError("the history is empty: there is nothing to draw")
    return rows


def by_problem(rows: Iterable[Row], wanted: str) -> dict[Any, list[Row]]:
    """Group the rows that have the column `wanted` by class (or split), in order of occurrence."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        if row.get(wanted) is not None:
            groups.setdefault(row.get("class", row.get("split")), []).append(row)
    return groups


def column(rows: Iterable[Row], name: str) -> np.ndarray:
    """Return a column as numbers."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def name_of(problem: Any, groups: Mapping[Any, Any]) -> str | None:
    """Return the name of a problem in the legend; None if there is only one problem."""
    return f"class {problem}" if len(groups) > 1 else None


def finish(ax: Any, beside: bool = False) -> Any:
    """Add a legend if anything has a label; returns the Axes.

    Parameters
    ----------
    ax : matplotlib Axes
    beside : whether the legend belongs beside the Axes, because there is no empty place in them. It
        stays inside a figure without a layout engine, which would not make room for it.
    """
    handles, _ = ax.get_legend_handles_labels()
    if not handles:
        return ax
    place: dict[str, Any] = {"frameon": True, "framealpha": 0.8, "edgecolor": "none"}
    if beside and ax.figure.get_layout_engine() is not None:
        place = {"frameon": False, "loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(fontsize="small", **place)
    return ax


def scale_to(ax: Any, values: np.ndarray) -> None:
    """Use a logarithmic scale if the values span more than a factor of 30."""
    if len(values) and values.min() > 0 and values.max() > 30 * values.min():
        ax.set_yscale("log")
