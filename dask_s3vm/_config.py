"""Settings of the package: the `s3vm` namespace of dask's configuration."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.config
import yaml  # type: ignore[import-untyped]
from dask.utils import parse_bytes, parse_timedelta

_here = threading.local()

_FILE = Path(__file__).with_name("s3vm.yaml")


def load_defaults() -> None:
    """Add the defaults of `s3vm.yaml` to dask's configuration; what is set already wins."""
    with _FILE.open() as stream:
        dask.config.update_defaults(yaml.safe_load(stream))


def shard_bytes() -> int:
    """Target size of a shard."""
    return parse_bytes(dask.config.get("s3vm.shard-bytes"))


def local_bytes() -> int:
    """Size up to which data is trained in the client's threads."""
    return parse_bytes(dask.config.get("s3vm.local-bytes"))


def greedy_bytes() -> int:
    """Size of distinct rows up to which exact greedy brings them together."""
    return parse_bytes(dask.config.get("s3vm.greedy-bytes"))


def recovery_attempts() -> int:
    """How often a step is started again after workers were lost."""
    return int(dask.config.get("s3vm.recovery-attempts"))


def connect_timeout() -> float:
    """Seconds to wait for a scheduler and a first worker."""
    return parse_timedelta(dask.config.get("s3vm.connect-timeout"), default="s")


def local_threads() -> int:
    """Threads of the engine in this process; `scheduler="synchronous"` means one."""
    if getattr(_here, "is_one", False):
        return 1
    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    wanted = dask.config.get("s3vm.threads", None) or dask.config.get("num_workers", None)
    return int(wanted) if wanted else available_cores()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use no thread beside the calling one: it is one of several that share the cores already."""
    before = getattr(_here, "is_one", False)
    _here.is_one = True
    try:
        yield
    finally:
        _here.is_one = before


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


load_defaults()
