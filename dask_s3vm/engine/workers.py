"""The workers of a cluster: who they are, what they have, and whether they can do our work."""

import sys
import time
from collections.abc import Collection
from typing import Any

import distributed
from distributed.system import MEMORY_LIMIT

from dask_s3vm import _config, interrupts
from dask_s3vm._version import __version__
from dask_s3vm.engine.watch import cluster_state, watched
from dask_s3vm.exceptions import EngineError, VersionMismatchError, WorkerLostError

_HERE = ("127.0.0.1", "localhost", "::1")


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
        interrupts.sleep(0.1)
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


def worker_limits(client: distributed.Client, workers: Collection[str]) -> dict[str, int]:
    """Bytes that workers may use.

    Those without a limit share the memory of the machine, if it is this one; of others nothing is
    known, and they are believed to have room for everything.
    """
    found = cluster_state(client)["workers"]
    there = {address: found[address] for address in workers if address in found}
    free = [about["host"] for about in there.values() if not about["memory_limit"]]
    shared = MEMORY_LIMIT // max(1, len(free))
    return {
        address: about["memory_limit"] or (shared if about["host"] in _HERE else sys.maxsize)
        for address, about in there.items()
    }
