"""Picture of probabilities: how often what was said to be likely has come true."""

from typing import Any

import numpy as np

from dask_s3vm.labels import AUTO, as_labels, is_unlabeled
from dask_s3vm.plotting.style import COLORS, GRAY, axes, finish, tidy


def plot_reliability(
    source: Any,
    X: Any,
    y: Any,
    *,
    n_bins: int = 10,
    unlabeled: Any = AUTO,
    ax: Any = None,
) -> Any:
    """Draw the frequency of a class over its probability, in bins of equally many rows.

    Points on the diagonal are probabilities that can be taken at their word. Below it the model is
    too sure of the class, above it not sure enough. Bars are one standard error. The rows must not
    be those of training.

    Parameters
    ----------
    source : estimator
        Fitted classifier with `predict_proba` and `classes_`. With two classes the probability of
        `classes_[1]` is drawn, with more that of each.
    X : array of shape (n, d)
        Rows.
    y : array of shape (n,)
        Their labels; rows without one are left out.
    n_bins : int
        Number of bins.
    unlabeled : object
        Mark of rows without a label.
    ax : matplotlib Axes or None
        Axes to draw on; None: those of a new figure.

    Returns
    -------
    Axes
    """
    if not isinstance(n_bins, int) or n_bins < 1:
        raise ValueError(f"n_bins must be a whole number >= 1, got {n_bins!r}")
    labels = as_labels(y)
    known = ~is_unlabeled(labels, unlabeled, source.classes_)
    if not known.any():
        raise ValueError("y has no labeled row to compare probabilities with")
    probabilities = np.asarray(source.predict_proba(X))[known]
    several = len(source.classes_) > 2
    ax = tidy(axes(ax))
    ax.plot([0, 1], [0, 1], color=GRAY, ls=":", lw=1)
    for number, label in enumerate(source.classes_.tolist()):
        if not several and number == 0:
            continue
        p, came = probabilities[:, number], labels[known] == label
        said, share, error = reliability(p, came, n_bins)
        color = COLORS[number % len(COLORS)] if several else COLORS[0]
        brier = float(np.mean((p - came) ** 2))
        ax.errorbar(
            said, share, error, color=color, marker="o", ms=4, lw=1,
            label=f"class {label}, Brier score {brier:.3f}",
        )  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("probability")
    ax.set_ylabel("share of the rows that are of the class")
    return finish(ax)


def reliability(
    p: np.ndarray, came: np.ndarray, n_bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean probability, share that came true, its standard error) in bins of equally many rows."""
    parts = np.array_split(np.argsort(p, kind="stable"), min(n_bins, len(p)))
    said = np.array([p[part].mean() for part in parts])
    share = np.array([came[part].mean() for part in parts])
    # of the probabilities that were said: a bin in which all came true has an error too
    error = np.sqrt(said * (1.0 - said) / np.array([len(part) for part in parts]))
    return said, share, error
