"""Errors and warnings of the package."""

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ConvergenceWarning",
    "EngineError",
    "LineageError",
    "RatioWarning",
    "SchedulerLostError",
    "VersionMismatchError",
    "WorkerLostError",
]


class RatioWarning(UserWarning):
    """The share of positive rows was estimated from too few labels to be sure of it."""


class EngineError(RuntimeError):
    """A round over the rows could not be carried out."""


class WorkerLostError(EngineError):
    """A worker that held rows of this fit is gone."""


class LineageError(WorkerLostError):
    """Rows were on a lost worker, and nobody knows how to make them again."""


class SchedulerLostError(EngineError):
    """The scheduler does not answer."""


class VersionMismatchError(EngineError):
    """A worker runs another version of this package than the client."""
