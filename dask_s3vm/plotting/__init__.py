"""Plots of a fit and of a model, drawn with matplotlib (``pip install dask-s3vm[plot]``).

The functions draw on `ax`, or on a new figure if it is None, and return the Axes. matplotlib is
imported when a function is called. `plot_objective`, `plot_annealing` and `plot_switches` take a
fitted estimator, or a `history_` with `method`, the name of its method on the command line.
"""

from dask_s3vm.plotting.history import plot_annealing, plot_objective, plot_switches
from dask_s3vm.plotting.outputs import (
    plot_decision_boundary,
    plot_error_over_labels,
    plot_output_counts,
    plot_outputs,
)
from dask_s3vm.plotting.reliability import plot_reliability
from dask_s3vm.plotting.search import plot_search

__all__ = [
    "plot_annealing",
    "plot_decision_boundary",
    "plot_error_over_labels",
    "plot_objective",
    "plot_output_counts",
    "plot_outputs",
    "plot_reliability",
    "plot_search",
    "plot_switches",
]
