"""Where a run took place: versions, machine, cluster."""

import importlib.metadata
import os
import platform
from typing import Any

from dask_s3vm import _config
from dask_s3vm._version import __version__

_PACKAGES = ("dask", "distributed", "numpy", "scipy", "scikit-learn", "numba", "sparse")


def environment() -> dict[str, Any]:
    """Versions of what takes part, and the machine of the client."""
    return {
        "dask-s3vm": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "system": platform.platform(),
        "machine": platform.node(),
        "processor": platform.machine(),
        "cores": _config.available_cores(),
        "memory_bytes": _memory(),
    }


def cluster_facts(client: Any) -> dict[str, Any]:
    """Who carries the rows; `client` is None where that is this process."""
    if client is None:
        return {"kind": "threads of this process", "threads": _config.local_threads()}
    info = client.scheduler_info(n_workers=-1)
    workers = info["workers"].values()
    return {
        "kind": "dask cluster",
        "scheduler": info["address"],
        "workers": len(workers),
        "threads": sum(worker["nthreads"] for worker in workers),
        "memory_bytes": sum(worker["memory_limit"] for worker in workers),
        "hosts": len({worker["host"] for worker in workers}),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
