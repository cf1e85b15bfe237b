"""The decision boundary in the plane."""

from typing import Any

import numpy as np

from dask_s3vm.plotting.style import COLORS, GRAY, axes, finish, tidy


def plot_decision_boundary(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    unlabeled: Any = -1,
    resolution: int = 200,
    ax: Any = None,
) -> Any:
    """Draw the classes of the plane, the boundary with its margins, and rows.

    Parameters
    ----------
    estimator : fitted classifier of rows with two columns
        Anything with `decision_function`, `predict` and `classes_`.
    X : array of shape (n, 2)
        Rows to draw; they also set what part of the plane is shown.
    y : array of shape (n,) or None
        Labels; rows of the mark `unlabeled` are small and gray.
    unlabeled : mark of rows without a label
    resolution : points of the grid in each direction
    ax : matplotlib Axes or None

    Returns
    -------
    Axes
    """
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != 2 or len(X) == 0:
        raise ValueError(f"X has shape {X.shape}; a boundary can be drawn for (n, 2), n > 0")
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
    _rows(ax, X, None if y is None else np.asarray(y), estimator.classes_, unlabeled)
    ax.set_xlim(*sides[0][[0, -1]])
    ax.set_ylim(*sides[1][[0, -1]])
    ax.set_xlabel("column 0")
    ax.set_ylabel("column 1")
    return finish(ax)


def _two_sides(ax: Any, grid: np.ndarray, outputs: np.ndarray) -> None:
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
    apart = ~np.isin(y, classes) | (y == unlabeled)
    if apart.any():
        ax.scatter(*X[apart].T, label="unlabeled", **small)
    for number, label in enumerate(classes):
        own = (y == label) & ~apart
        color = COLORS[number % len(COLORS)]
        if own.any():
            ax.scatter(*X[own].T, s=36, color=color, edgecolor="black", lw=0.8, label=str(label))
