"""The record of a fit: its history, and the state that `checkpoint` keeps of it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from dask_s3vm import _config
from dask_s3vm.checkpoints import FileKeeper, identity_of
from dask_s3vm.engine.fingerprint import fingerprint
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.estimators._progress import callbacks_of, progress_of
from dask_s3vm.methods.base import History
from dask_s3vm.methods.keeping import Keeper

logger = logging.getLogger(__name__)


def check_resumable(estimator: Any) -> None:
    """Refuse a checkpoint of a fit that another process could not resume."""
    if getattr(estimator, "checkpoint", None) is None:
        return
    draws = estimator.kernel != "linear" or getattr(estimator, "n_restarts", 0) > 0
    if draws and not isinstance(estimator.random_state, Integral):
        raise ValueError(
            "checkpoint: a fit that draws at random can be resumed only if random_state is an int, "
            f"got {estimator.random_state!r}; on the command line: --seed"
        )


@contextmanager
def recorded(
    estimator: Any, engine: Engine, about: dict[str, Any], problems: int = 1
) -> Iterator[History]:
    """Have a history for the time of a fit, and the state of an earlier one in it.

    A fit that ends before its time, for whatever reason, leaves its last state behind; one that is
    done leaves none. `about` tells the fit from others, beside parameters and rows; `problems` is
    the number of binary problems.
    """
    keeper = _keeper_of(estimator, engine, about)
    progress = progress_of(estimator, lambda: engine.rounds, problems)
    history = History([*callbacks_of(estimator.callbacks), *progress], keeper, engine)
    for shown in progress:
        shown.start(history.rows)
    try:
        yield history
    except BaseException:
        try:
            keeper.rescue()
        except OSError as error:  # what ended the fit matters more
            logger.error("the state of the fit could not be kept: %s", error)
        raise
    finally:
        for shown in progress:
            shown.close()
    keeper.finish()


def _keeper_of(estimator: Any, engine: Engine, about: dict[str, Any]) -> Keeper:
    interval = _config.checkpoint_interval()
    directory = getattr(estimator, "checkpoint", None)
    if directory is None:
        return Keeper(interval)
    return FileKeeper(directory, identity_of(estimator, fingerprint(engine), about), interval)
