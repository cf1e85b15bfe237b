"""Errors and warnings of the package."""

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ConvergenceWarning",
    "EngineError",
    "MemoryShortError",
    "MemoryShortWarning",
    "RatioWarning",
    "VersionMismatchError",
    "WorkerLostError",
]


class RatioWarning(UserWarning):
    """The share of positive rows was estimated from too few labels to be sure of it."""


class EngineError(RuntimeError):
    """A round over the rows could not be carried out."""


class WorkerLostError(EngineError):
    """A worker that held rows of this fit is gone."""


class MemoryShortError(EngineError):
    """The rows do not fit into the memory of the workers."""


class MemoryShortWarning(UserWarning):
    """The rows may not fit into the memory of the workers."""


class VersionMismatchError(EngineError):
    """A worker runs another version of this package than the client."""
