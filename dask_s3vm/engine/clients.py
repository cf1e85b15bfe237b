"""Which dask client is in charge, if any.

`distributed` is looked for, not imported: where nobody has imported it there is no client, and
small work should not wait for it.
"""

import sys
from typing import TYPE_CHECKING

import dask.config

from dask_s3vm.exceptions import EngineError

if TYPE_CHECKING:
    import distributed

_LOCAL = ("sync", "synchronous", "single-threaded", "threads", "threading", "processes")


def current_client() -> "distributed.Client | None":
    """Find the client that a dask user expects to be used, or None for this process.

    A scheduler named in dask's configuration wins; then the current client, if any. Inside a
    task the work stays in the task: a fit that waited there for other tasks could block the
    worker that should run them.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    scheduler = dask.config.get("scheduler", None)
    if isinstance(scheduler, distributed.Client):
        return scheduler
    if (isinstance(scheduler, str) and scheduler.lower() in _LOCAL) or inside_task():
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise EngineError(
            "the current dask client is asynchronous; fit needs a synchronous one: "
            "create it with Client(..., asynchronous=False)"
        )
    return client


def inside_task() -> bool:
    """Whether this is a task of a dask worker."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True
