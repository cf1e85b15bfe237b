"""Which dask client is in charge, and whether its workers can do our work."""

import time
from collections.abc import Collection
from typing import Any

import dask.config
import distributed

from dask_s3vm import _config
from dask_s3vm._version import __version__
from dask_s3vm.engine.watch import cluster_state, watched
from dask_s3vm.exceptions import EngineError, VersionMismatchError, WorkerLostError

_LOCAL = ("sync", "synchronous", "single-threaded", "threads", "threading", "processes")


def current_client() -> distributed.Client | None:
    """Find the client that a dask user expects to be used, or None for this process.

    A scheduler named in dask's configuration wins; then the current client, if any. Inside a
    task the work stays in the task: a fit that waited there for other tasks could block the
    worker that should run them.
    """
    scheduler = dask.config.get("scheduler", None)
    if isinstance(scheduler, distributed.Client):
        return scheduler
    if (isinstance(scheduler, str) and scheduler.lower() in _LOCAL) or _inside_task():
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


def worker_threads(
    client: distributed.Client, known: Collection[str] = (), patience: float | None = None
) -> dict[str, int]:
    """Return the threads of each worker, by address, once all are found to run this version.

    known : addresses of workers that have been looked at before.
    patience : seconds to wait for a first worker; default s3vm.connect-timeout.
    """
    patience = _config.connect_timeout() if patience is None else patience
    deadline = time.monotonic() + patience
    while not (found := running_workers(cluster_state(client))):
        if time.monotonic() > deadline:
            raise EngineError(
                f"the scheduler at {client.scheduler.address} has no worker "
                f"(waited {patience:g} s); start one with `dask worker ADDRESS`"
            )
        time.sleep(0.1)
    try:
        check_versions(client, [address for address in found if address not in known])
    except WorkerLostError:  # it is no worker any more
        return worker_threads(client, known, patience)
    return found


def running_workers(state: dict[str, Any]) -> dict[str, int]:
    """Threads of the workers that take on work, by address, of what a scheduler says."""
    workers = state["workers"].items()
    return {
        address: about["nthreads"]
        for address, about in sorted(workers)
        if about.get("status", "running") == "running" and about["nthreads"] > 0
    }


def _inside_task() -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def _worker_version() -> str:
    import dask_s3vm

    return dask_s3vm.__version__


def check_versions(client: distributed.Client, workers: list[str]) -> None:
    """Raise `VersionMismatchError` if one of some workers runs another version."""
    if not workers:
        return
    found = watched(
        client,
        lambda: client.run(_worker_version, workers=workers, on_error="return", asynchronous=True),
        workers,
    )
    wrong = {
        worker: version
        for worker, version in found.items()
        if version != __version__ and not isinstance(version, OSError)  # gone: no worker any more
    }
    if wrong:
        worker, version = next(iter(sorted(wrong.items())))
        what = f"version {version}" if isinstance(version, str) else f"none ({version!r})"
        raise VersionMismatchError(
            f"{len(wrong)} of {len(found)} workers do not run dask_s3vm {__version__} as the "
            f"client does: worker {worker} has {what}; install one version everywhere"
        )
