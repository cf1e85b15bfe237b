"""Lazy values computed where dask's user expects it, without ever waiting for a dead cluster."""

from collections.abc import Sequence
from typing import Any

import dask

from dask_s3vm import _config
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.clients import current_client
from dask_s3vm.exceptions import LineageError


def compute_all(lazy: Sequence[Any]) -> tuple[Any, ...]:
    """As `dask.compute`; on a cluster with a watch, and again after a loss."""
    client = current_client()
    if client is None:
        return dask.compute(*lazy)
    from dask_s3vm.engine.calls import LOST
    from dask_s3vm.engine.watch import gathered
    from dask_s3vm.engine.workers import worker_threads

    budget = Budget()
    worker_threads(client)
    while True:
        try:
            return tuple(gathered(client, client.compute(list(lazy))))
        except LOST as error:
            check_lineage(error)
            budget.spend(error)
            worker_threads(client, patience=_config.replacement_timeout())


def check_lineage(loss: BaseException) -> None:
    """Raise `LineageError` if what was lost were data of the user that nobody can make again."""
    # dask says so of a task that needs what the scheduler knows neither to be nor to make
    if "lost dependencies" not in str(loss):
        return
    raise LineageError(
        "blocks of the data were lost with their worker and cannot be made again: they were "
        "scattered, or the futures of persisted ones are gone; hand in a lazy dask array (or a "
        f"persisted one that is kept meanwhile), or the rows in memory ({loss})"
    ) from loss
