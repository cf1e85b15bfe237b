"""Looking through many files, or parts of them, in parallel on the user's scheduler."""

from collections.abc import Callable, Sequence
from typing import Any

import dask

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.io.errors import DataFileError, LineError
from dask_s3vm.io.sources import DataFile

__all__ = ["attempt_all", "look_through", "text_lengths"]


def look_through(
    files: Sequence[Any],
    spans: Sequence[Sequence[Any]],
    look: Callable[[Any, Any], Any],
    kind: type[LineError],
) -> list[list[Any]]:
    """Look through all files, in parallel on the user's scheduler.

    Parameters
    ----------
    files : sequence
        The files; each has a `name`.
    spans : sequence of sequences
        For each file, the parts that it is looked through in.
    look : callable
        ``look(file, span)`` returns what a part holds; None if that is no row.
    kind : type
        The error of a file without rows.

    Returns
    -------
    list of list
        What was found in each file, in order.
    """
    shared = dask.delayed(look, traverse=False)
    calls = [(shared, file, span) for file, some in zip(files, spans, strict=True) for span in some]
    results = iter(attempt_all(calls))
    found = [[one for _ in some if (one := next(results)) is not None] for some in spans]
    for file, group in zip(files, found, strict=True):
        if not group:
            raise kind(file.name, "has no data rows")
    return found


def text_lengths(files: Sequence[DataFile], length: Callable[[DataFile], int]) -> list[int]:
    """Return the bytes of text of files; `length` decompresses those that are compressed."""
    found = iter(attempt_all([(length, file) for file in files if file.size is None]))
    return [next(found) if file.size is None else file.size for file in files]


def attempt_all(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call functions with their arguments, in parallel on the user's scheduler.

    The `DataFileError` of the first call that has one is raised: that of the first mistake in the
    files, whichever is found first.
    """
    if not calls:
        return []
    attempt = dask.delayed(_attempt, pure=False)
    results = compute_all([attempt(*call) for call in calls])
    for one in results:
        if isinstance(one, DataFileError):
            raise one
    return list(results)


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except DataFileError as error:
        return error
