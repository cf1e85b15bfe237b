"""Settings of the package: the `s3vm` namespace of dask's configuration."""

import functools
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


def mapped() -> str:
    """Whether rows in memory-mapped files stay there: "auto", "always" or "never"."""
    wanted = str(dask.config.get("s3vm.mapped")).lower()
    if wanted not in ("auto", "always", "never"):
        raise ValueError(f"s3vm.mapped is {wanted!r}; wanted auto, always or never")
    return wanted


def recovery_attempts() -> int:
    """How often a fit goes on after losses of workers that are not forgotten."""
    return int(dask.config.get("s3vm.recovery-attempts"))


def checkpoint_interval() -> float:
    """Least seconds between two states of a fit that are written."""
    return parse_timedelta(dask.config.get("s3vm.checkpoint-interval"), default="s")


def recovery_window() -> float:
    """Seconds after which a loss may be forgotten."""
    return _seconds("recovery-window")


def recovery_backoff() -> float:
    """Seconds to wait before the second attempt to recover."""
    return _seconds("recovery-backoff")


def replacement_timeout() -> float:
    """Seconds to wait for a worker when all are lost."""
    return _seconds("replacement-timeout")


def worker_timeout() -> float:
    """Seconds of silence after which a worker counts as lost."""
    return _seconds("worker-timeout")


def scheduler_timeout() -> float:
    """Seconds of silence after which the scheduler is given up."""
    return _seconds("scheduler-timeout")


def elastic_interval() -> float:
    """Seconds between looks at who has joined; 0 for none."""
    return _seconds("elastic-interval")


def connect_timeout() -> float:
    """Seconds to wait for a scheduler and a first worker."""
    return _seconds("connect-timeout")


def _seconds(name: str) -> float:
    return _parsed(dask.config.get(f"s3vm.{name}"))


@functools.lru_cache(maxsize=64)  # asked in every round
def _parsed(text: str | float) -> float:
    return float(parse_timedelta(text, default="s"))


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
