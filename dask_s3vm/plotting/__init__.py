"""Pictures of a fit, by matplotlib (``pip install dask-s3vm[plot]``).

Functions take a fitted estimator or its history, draw on `ax` (a new one if it is None) and return
the Axes. matplotlib is imported when something is drawn, not before.
"""

from dask_s3vm.plotting.boundary import plot_decision_boundary
from dask_s3vm.plotting.errors import plot_error_over_labels
from dask_s3vm.plotting.history import plot_annealing, plot_objective, plot_switches
from dask_s3vm.plotting.outputs import plot_output_counts, plot_outputs

__all__ = [
    "plot_annealing",
    "plot_decision_boundary",
    "plot_error_over_labels",
    "plot_objective",
    "plot_output_counts",
    "plot_outputs",
    "plot_switches",
]
