"""Lazy values computed where dask's user expects it, without ever waiting for a dead cluster."""

from collections.abc import Sequence
from typing import Any

import dask
import distributed

from dask_s3vm import _config
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.calls import LOST
from dask_s3vm.engine.clients import current_client, worker_threads
from dask_s3vm.engine.watch import gathered
from dask_s3vm.exceptions import LineageError


def compute_all(lazy: Sequence[Any]) -> tuple[Any, ...]:
    """As `dask.compute`; on a cluster with a watch, and again after a loss."""
    client = current_client()
    if client is None:
        return dask.compute(*lazy)
    budget = Budget()
    worker_threads(client)
    while True:
        try:
            return tuple(gathered(client, client.compute(list(lazy))))
        except LOST as error:
            check_lineage(lazy, error)
            budget.spend(error)
            worker_threads(client, patience=_config.replacement_timeout())


def check_lineage(lazy: Sequence[Any], loss: BaseException) -> None:
    """Raise `LineageError` if data that lazy values are made of can never be computed again."""
    gone = {
        str(future.key)
        for future in distributed.futures_of(list(lazy))
        if future.status in ("cancelled", "lost")
    }
    if gone:
        raise LineageError(
            f"{len(gone)} block(s) of the data are lost with their worker and cannot be made "
            f"again, such as {min(gone)!r}: they were scattered, or their futures are cancelled; "
            "hand in a lazy dask array (or a persisted one that can be computed again), or the "
            "rows in memory"
        ) from loss
