"""Error over the number of labels: whether the unlabeled rows are worth it, and until when."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dask_s3vm.plotting.style import COLORS, axes, finish, tidy


def plot_error_over_labels(results: Mapping[str, Mapping[int, Any]], ax: Any = None) -> Any:
    """Draw the error of some methods over the number of labeled rows.

    Parameters
    ----------
    results : dict of str to dict of int to float or sequence of float
        Method -> number of labels -> error (a share, 0 to 1), or those of several draws of labels:
        then the mean is drawn, with a band of one standard deviation.
    ax : matplotlib Axes or None

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
