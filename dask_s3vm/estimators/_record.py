"""The record of a fit: its history, who is told of it, and the state that `checkpoint` keeps."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from numbers import Integral
from typing import Any

from dask_s3vm import _config
from dask_s3vm.checkpoints import FileCheckpoint, check_directory, fingerprint, identity_of
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.live.course import Course
from dask_s3vm.live.line import Progress
from dask_s3vm.live.publisher import published
from dask_s3vm.methods.run import Checkpoint, HistoryRow, Record

logger = logging.getLogger(__name__)


def check_resumable(estimator: Any) -> None:
    """Refuse a checkpoint that cannot be written, or that another process could not resume."""
    if getattr(estimator, "checkpoint", None) is None:
        return
    draws = estimator.kernel != "linear" or getattr(estimator, "n_restarts", 0) > 0
    if draws and not isinstance(estimator.random_state, Integral):
        raise ValueError(
            "checkpoint: a fit that draws at random can be resumed only if random_state is an int, "
            f"got {estimator.random_state!r}; on the command line: --seed"
        )
    check_directory(estimator.checkpoint)


@contextmanager
def recorded(
    estimator: Any,
    engine: Engine,
    extra: dict[str, Any],
    n_problems: int = 1,
    rounds_before: int = 0,
) -> Iterator[Record]:
    """Have a record for the time of a fit, with the state of an interrupted one in it.

    A fit that ends before its time, for whatever reason, leaves its last state behind; one that is
    done leaves none.

    Parameters
    ----------
    estimator : what is fitted.
    engine : the rows.
    extra : what identifies the fit beside its parameters and rows.
    n_problems : number of binary problems, or of splits.
    rounds_before : rounds of the engine that were not made for this fit.
    """
    with closing(_checkpoint_of(estimator, engine, extra)) as checkpoint, ExitStack() as stack:
        told: list[Course] = []

        def tell(tags: HistoryRow, what: str, done: float | None) -> None:
            for one in told:
                one.at(tags, what, done)

        record = Record(callbacks_of(estimator.callbacks), checkpoint, engine, rounds_before, tell)

        def rounds() -> int:
            return record.rounds

        if estimator.verbose:
            told.append(stack.enter_context(closing(Progress(rounds, n_problems))))
        publisher = stack.enter_context(published(estimator, engine, rounds, n_problems))
        if publisher is not None:
            told.append(publisher)
        for one in told:
            record.callbacks.append(one.add_row)
            one.start(record.history)
        try:
            yield record
        except BaseException:
            try:
                checkpoint.flush()
            except OSError as error:  # what ended the fit matters more
                logger.error("the state of the fit could not be saved: %s", error)
            raise
        checkpoint.clear()


def callbacks_of(
    callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None,
) -> list[Any]:
    """List the callbacks of an estimator's parameter."""
    if callable(callbacks):
        return [callbacks]
    listed = [] if callbacks is None else list(callbacks)
    for one in listed:
        if not callable(one):
            raise TypeError(f"callbacks has {one!r} among its entries; wanted functions")
    return listed


def _checkpoint_of(estimator: Any, engine: Engine, extra: dict[str, Any]) -> Checkpoint:
    interval = _config.checkpoint_interval()
    directory = getattr(estimator, "checkpoint", None)
    if directory is None:
        return Checkpoint(interval)
    return FileCheckpoint(directory, identity_of(estimator, fingerprint(engine), extra), interval)
