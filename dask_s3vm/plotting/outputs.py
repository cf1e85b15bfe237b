"""Histogram of outputs: the empty margin is the picture of an S3VM that worked."""

from typing import Any

import numpy as np

from dask_s3vm.plotting.style import BLUE, GRAY, ORANGE, axes, finish, tidy

#: Bars of a picture, about.
_BARS = 80

#: Part of the rows that may be left out at either end: a few far away would squeeze all others.
_FEW = 0.0025


def plot_outputs(
    source: Any, X: Any = None, y: Any = None, *, unlabeled: Any = -1, ax: Any = None
) -> Any:
    """Draw how many rows have which output, inside the margin and outside.

    A semi-supervised SVM looks for a boundary where there are few rows: if it found one, the
    histogram has a gap between -1 and +1. A heap there says that the classes overlap, or that
    the fit went wrong.

    Parameters
    ----------
    source : fitted estimator of two classes, or array of outputs
    X : array of shape (n, d)
        Rows, where `source` is an estimator.
    y : array of shape (n,) or None
        Labels; rows of the mark `unlabeled` are drawn apart from the others.
    unlabeled : mark of rows without a label
    ax : matplotlib Axes or None

    Returns
    -------
    Axes
    """
    outputs = source.decision_function(X) if hasattr(source, "decision_function") else source
    outputs = np.asarray(outputs, dtype=np.float64)
    if outputs.ndim != 1:
        raise ValueError(f"wanted outputs of two classes, of shape (n,), got {outputs.shape}")
    if len(outputs) == 0:
        raise ValueError("there are no outputs to draw")
    reach = max(1.5, float(np.quantile(np.abs(outputs), 1 - _FEW, method="higher")))
    edges = np.linspace(-reach, reach, _BARS + 1)
    apart = np.ones(len(outputs), bool) if y is None else np.asarray(y) == unlabeled
    labeled, others = (np.histogram(outputs[part], edges)[0] for part in (~apart, apart))
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
    """Draw a histogram of outputs that has been counted already, block by block for example.

    Parameters
    ----------
    edges : array of shape (m + 1,)
        Edges of the bins.
    labeled, unlabeled : arrays of shape (m,), or None
        Rows in each bin.
    beyond : int
        Rows outside of all bins; those far out that are left out of the picture are added, and the
        sum is told.
    ax : matplotlib Axes or None
    names : words for the legend

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
    # the rarer kind stands in front
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
    """Cut off bins with few rows or none on both sides, but not those of the margin."""
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
    """Join neighboring bins until there are as many as can be seen."""
    size = max(1, round((len(edges) - 1) / _BARS))
    starts = np.arange(0, len(edges) - 1, size)
    joined = [None if part is None else np.add.reduceat(part, starts) for part in parts]
    return np.append(edges[starts], edges[-1]), joined
