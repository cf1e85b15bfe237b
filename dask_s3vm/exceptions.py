"""Errors and warnings of the package."""

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ConvergenceWarning", "EngineError", "VersionMismatchError", "WorkerLostError"]


class EngineError(RuntimeError):
    """A round over the rows could not be carried out."""


class WorkerLostError(EngineError):
    """A worker that held rows of this fit is gone."""


class VersionMismatchError(EngineError):
    """A worker runs another version of this package than the client."""
