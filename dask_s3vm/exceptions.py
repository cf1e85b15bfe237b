"""Errors and warnings of the package."""

__all__ = [
    "CheckpointError",
    "EngineError",
    "LineageError",
    "MemoryShortError",
    "MemoryShortWarning",
    "RatioWarning",
    "SchedulerLostError",
    "VersionMismatchError",
    "WorkerLostError",
]


class RatioWarning(UserWarning):
    """The share of positive rows was estimated from too few labels to be sure of it."""


class CheckpointError(ValueError):
    """A directory holds no state that a fit can go on from.

    Parameters
    ----------
    path : the file or directory.
    reason : what is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)  # all of it: unpickling calls the class with `args`
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class EngineError(RuntimeError):
    """A round over the rows could not be carried out."""


class WorkerLostError(EngineError):
    """A worker that held rows of this fit is gone."""


class MemoryShortError(EngineError):
    """The rows do not fit into the memory of the workers."""


class MemoryShortWarning(UserWarning):
    """The rows may not fit into the memory of the workers."""


class LineageError(WorkerLostError):
    """Rows were on a lost worker, and nobody knows how to make them again."""


class SchedulerLostError(EngineError):
    """The scheduler does not answer."""


class VersionMismatchError(EngineError):
    """A worker runs another version of this package than the client."""
