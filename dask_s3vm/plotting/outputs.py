"""Pictures of a model: histogram of its outputs, decision boundary, error over labels.

A margin with few rows, in the histogram, is the sign of an S3VM that worked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dask_s3vm.labels import AUTO, as_labels, is_unlabeled
from dask_s3vm.plotting.style import BLUE, COLORS, GRAY, ORANGE, axes, finish, tidy

#: Approximate number of bars of a histogram.
_BARS = 80

#: Share of the rows that may be cut off at either end: a few outliers would squeeze all others.
_FEW = 0.0025


def plot_outputs(
    source: Any, X: Any = None, y: Any = None, *, unlabeled: Any = AUTO, ax: Any = None
) -> Any:
    """Draw a histogram of the outputs of rows.

    A semi-supervised SVM looks for a boundary in a region with few rows. If it found one, the
    histogram has a gap between -1 and +1. A peak there means that the classes overlap, or that
    the fit failed.

    Parameters
    ----------
    source : estimator or array of shape (n,)
        Fitted estimator of two classes, or outputs.
    X : array of shape (n, d)
        Rows, if `source` is an estimator.
    y : array of shape (n,) or None
        Labels; labeled and unlabeled rows are drawn in different colors.
    unlabeled : object
        Mark of rows without a label.
    ax : matplotlib Axes or None
        Axes to draw on; None: those of a new figure.

    Returns
    -------
    Axes
    """
    outputs = source.decision_function(X) if hasattr(source, "decision_function") else source
    outputs = np.asarray(outputs, dtype=np.float64)
    if outputs.ndim != 1:
        raise ValueError(f"wanted outputs of two classes, of shape (n,), got shape {outputs.shape}")
    if len(outputs) == 0:
        raise ValueError("there are no outputs to draw")
    reach = max(1.5, float(np.quantile(np.abs(outputs), 1 - _FEW, method="higher")))
    edges = np.linspace(-reach, reach, _BARS + 1)
    hidden = np.ones(len(outputs), bool)
    if y is not None:
        hidden = is_unlabeled(as_labels(y), unlabeled, getattr(source, "classes_", None))
    labeled, others = (np.histogram(outputs[part], edges)[0] for part in (~hidden, hidden))
    beyond = len(outputs) - int(labeled.sum() + others.sum())
    if y is None:
        return plot_output_counts(edges, None, others, beyond=beyond, ax=ax, names=("", "rows"))
    return plot_output_counts(edges, labeled, others, beyond=beyond, ax=ax)


def plot_output_counts(
    edges: Any,
    labeled: Any,
    unlabeled: Any,
    *,
    beyond: int = 0,
    ax: Any = None,
    names: tuple[str, str] = ("labeled rows", "unlabeled rows"),
) -> Any:
    """Draw a histogram of outputs from its counts.

    Parameters
    ----------
    edges : array of shape (m + 1,)
        Edges of the bins.
    labeled, unlabeled : arrays of shape (m,), or None
        Number of rows in each bin.
    beyond : int
        Number of rows outside all bins. The label of the x axis shows it, plus the outliers that
        are cut off.
    ax : matplotlib Axes or None
        Axes to draw on; None: those of a new figure.
    names : tuple of str
        Names of both kinds of rows in the legend.

    Returns
    -------
    Axes
    """
    edges = np.asarray(edges, dtype=np.float64)
    parts = [None if part is None else np.asarray(part) for part in (labeled, unlabeled)]
    total = sum(int(part.sum()) for part in parts if part is not None)
    edges, parts = _coarser(*_trimmed(edges, parts))
    beyond += total - sum(int(part.sum()) for part in parts if part is not None)
    ax = tidy(axes(ax))
    ax.axvspan(-1, 1, color="#f0f0f0", zorder=0, lw=0)
    for at, style in ((-1, ":"), (0, "-"), (1, ":")):
        ax.axvline(at, color=GRAY, ls=style, lw=1, zorder=1)
    # the smaller histogram is in front
    shown = [
        (part, name, color)
        for part, name, color in zip(parts[::-1], names[::-1], (BLUE, ORANGE), strict=True)
        if part is not None and part.any()
    ]
    shown.sort(key=lambda one: -one[0].sum())
    for part, name, color in shown:
        ax.stairs(part, edges, fill=True, color=color, alpha=0.75, label=name, zorder=2)
    if len(shown) == 2 and shown[0][0].max() > 50 * shown[1][0].max():
        ax.set_yscale("log")
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel("output w.x + b (margin shaded" + (f"; {beyond:,} beyond)" if beyond else ")"))
    ax.set_ylabel("rows")
    return finish(ax)


def _trimmed(edges: np.ndarray, parts: list[Any]) -> tuple[np.ndarray, list[Any]]:
    """Cut off bins with few or no rows on both sides, but not those of the margin."""
    total = sum(part for part in parts if part is not None)
    share = np.cumsum(total) / max(1, np.sum(total))
    if share[-1] == 0:
        raise ValueError("there are no outputs to draw")
    first = int(np.searchsorted(share, _FEW, "right"))
    last = int(np.searchsorted(share, 1.0 - _FEW, "left"))
    reach = max(abs(edges[first]), abs(edges[last + 1]), 1.5)
    low = max(0, int(np.searchsorted(edges, -reach, "right")) - 1)
    high = min(len(edges) - 1, int(np.searchsorted(edges, reach, "left")))
    cut = [None if part is None else part[low:high] for part in parts]
    return edges[low : high + 1], cut


def _coarser(edges: np.ndarray, parts: list[Any]) -> tuple[np.ndarray, list[Any]]:
    """Join neighboring bins until there are about `_BARS`."""
    size = max(1, round((len(edges) - 1) / _BARS))
    starts = np.arange(0, len(edges) - 1, size)
    joined = [None if part is None else np.add.reduceat(part, starts) for part in parts]
    return np.append(edges[starts], edges[-1]), joined


def plot_decision_boundary(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    unlabeled: Any = AUTO,
    resolution: int = 200,
    ax: Any = None,
) -> Any:
    """Draw the regions of the classes in the plane, the boundary, its margins, and rows.

    Parameters
    ----------
    estimator : estimator
        Fitted classifier of rows with two columns; has `decision_function` and `classes_`.
    X : array of shape (n, 2)
        Rows to draw; their range is the part of the plane that is shown.
    y : array of shape (n,) or None
        Labels; unlabeled rows are small and gray.
    unlabeled : object
        Mark of rows without a label.
    resolution : int
        Points of the grid in each direction.
    ax : matplotlib Axes or None
        Axes to draw on; None: those of a new figure.

    Returns
    -------
    Axes
    """
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != 2 or len(X) == 0:
        raise ValueError(f"X has shape {X.shape}, wanted (n, 2) with n > 0 to draw a boundary")
    ax = tidy(axes(ax))
    ax.grid(False)
    low, high = X.min(axis=0), X.max(axis=0)
    room = 0.08 * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a - r, b + r, resolution) for a, b, r in zip(low, high, room, strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1)
    flat = grid.reshape(-1, 2)
    outputs = np.asarray(estimator.decision_function(flat))
    if outputs.ndim == 1:
        _two_sides(ax, grid, outputs.reshape(resolution, resolution))
    else:
        _regions(ax, grid, outputs.reshape(resolution, resolution, -1))
    _rows(ax, X, None if y is None else as_labels(y), estimator.classes_, unlabeled)
    ax.set_xlim(*sides[0][[0, -1]])
    ax.set_ylim(*sides[1][[0, -1]])
    ax.set_xlabel("column 0")
    ax.set_ylabel("column 1")
    return finish(ax, beside=True)


def _two_sides(ax: Any, grid: np.ndarray, outputs: np.ndarray) -> None:
    """Draw the regions of two classes, the boundary and the margins."""
    bounds = [min(-2.0, outputs.min()) - 1, 0, max(2.0, outputs.max()) + 1]
    ax.contourf(*grid.T.swapaxes(1, 2), outputs, bounds, colors=COLORS[:2], alpha=0.12)
    if outputs.min() < 0 < outputs.max():
        ax.contour(*grid.T.swapaxes(1, 2), outputs, [0], colors="black", linewidths=1.5)
    margins = [side for side in (-1, 1) if outputs.min() < side < outputs.max()]
    if margins:
        ax.contour(
            *grid.T.swapaxes(1, 2), outputs, margins, colors=GRAY, linewidths=1, linestyles="--"
        )


def _regions(ax: Any, grid: np.ndarray, outputs: np.ndarray) -> None:
    """Draw the regions of several classes: at each point, that of the largest output."""
    winner, count = outputs.argmax(axis=2), outputs.shape[2]
    colors = [COLORS[number % len(COLORS)] for number in range(count)]
    ax.contourf(
        *grid.T.swapaxes(1, 2), winner, np.arange(count + 1) - 0.5, colors=colors, alpha=0.12
    )
    for number in range(count):
        lead = outputs[:, :, number] - np.delete(outputs, number, axis=2).max(axis=2)
        if lead.min() < 0 < lead.max():
            ax.contour(*grid.T.swapaxes(1, 2), lead, [0], colors="black", linewidths=1)


def _rows(ax: Any, X: np.ndarray, y: np.ndarray | None, classes: Any, unlabeled: Any) -> None:
    small = {"s": 8, "color": GRAY, "alpha": 0.5, "lw": 0}
    if y is None:
        ax.scatter(*X.T, **small)
        return
    hidden = ~np.isin(y, classes) | (np.asarray(y) == unlabeled)
    if hidden.any():
        ax.scatter(*X[hidden].T, label="unlabeled", **small)
    for number, label in enumerate(classes):
        own = (y == label) & ~hidden
        color = COLORS[number % len(COLORS)]
        if own.any():
            ax.scatter(*X[own].T, s=36, color=color, edgecolor="black", lw=0.8, label=str(label))


def plot_error_over_labels(results: Mapping[str, Mapping[int, Any]], ax: Any = None) -> Any:
    """Draw the error of several methods over the number of labeled rows.

    Parameters
    ----------
    results : dict of str to dict of int to float or sequence of float
        Method -> number of labels -> error (0 to 1), or the errors of several draws of labels. Of
        several, the mean is drawn with a band of one standard deviation.
    ax : matplotlib Axes or None
        Axes to draw on; None: those of a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> results = {"L2SVM": {50: [0.21, 0.25], 100: [0.16, 0.18]}, "TSVM": {50: 0.1, 100: 0.09}}
    >>> ax = plot_error_over_labels(results)  # doctest: +SKIP
    """
    if not results or not all(results.values()):
        raise ValueError("results is empty: wanted method -> number of labels -> errors")
    ax = tidy(axes(ax))
    counts: set[int] = set()
    for number, (name, errors) in enumerate(results.items()):
        at = sorted(errors)
        counts.update(at)
        runs = [100 * np.atleast_1d(np.asarray(errors[count], dtype=np.float64)) for count in at]
        means = np.array([run.mean() for run in runs])
        spread = np.array([run.std() for run in runs])
        color = COLORS[number % len(COLORS)]
        ax.plot(at, means, color=color, marker="o", ms=4, label=name)
        if spread.any():
            ax.fill_between(at, means - spread, means + spread, color=color, alpha=0.15, lw=0)
    if max(counts) > 10 * max(1, min(counts)):
        ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("labeled rows")
    ax.set_ylabel("error [%]")
    return finish(ax)
