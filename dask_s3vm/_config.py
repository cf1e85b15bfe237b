"""Settings of the package: the `s3vm` namespace of dask's configuration.

The defaults, and what each setting means, are in `s3vm.yaml`. Every function reads the setting when
it is called, so that `dask.config.set` takes effect at once.
"""

import functools
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.config
import yaml  # type: ignore[import-untyped]
from dask.utils import parse_bytes, parse_timedelta

_FILE = Path(__file__).with_name("s3vm.yaml")

_this_thread = threading.local()


def load_defaults() -> None:
    """Add the defaults of `s3vm.yaml` to dask's configuration; existing settings win."""
    with _FILE.open() as stream:
        dask.config.update_defaults(yaml.safe_load(stream))


def shard_bytes() -> int:
    """Target size of a shard, in bytes."""
    return parse_bytes(dask.config.get("s3vm.shard-bytes"))


def local_bytes() -> int:
    """Bytes of rows up to which a fit runs in the client's own threads."""
    return parse_bytes(dask.config.get("s3vm.local-bytes"))


def greedy_bytes() -> int:
    """Bytes of distinct rows up to which the exact greedy method gathers them in the client."""
    return parse_bytes(dask.config.get("s3vm.greedy-bytes"))


def exchange_bytes() -> float:
    """Bytes of a vector from which on workers exchange it among themselves; infinity for never."""
    return _parsed_bytes(dask.config.get("s3vm.exchange-bytes"))


@functools.lru_cache(maxsize=64)  # needed in every round
def _parsed_bytes(text: str | float | None) -> float:
    return math.inf if text is None else parse_bytes(text)


def solves_at_once() -> int:
    """Most binary problems or fits that run at the same time on the same rows."""
    return max(1, int(dask.config.get("s3vm.solves-at-once")))


def mapped() -> str:
    """Whether rows in memory-mapped files stay there: "auto", "always" or "never"."""
    wanted = str(dask.config.get("s3vm.mapped")).lower()
    if wanted not in ("auto", "always", "never"):
        raise ValueError(f"setting s3vm.mapped is {wanted!r}; wanted auto, always or never")
    return wanted


def live() -> bool:
    """Whether fits on a cluster tell the live page of its dashboard how they are getting on."""
    return bool(dask.config.get("s3vm.live"))


def recovery_attempts() -> int:
    """Number of worker losses that a fit recovers from; old losses are forgotten."""
    return int(dask.config.get("s3vm.recovery-attempts"))


def checkpoint_interval() -> float:
    """Least seconds between two checkpoints of a fit."""
    return _seconds("checkpoint-interval")


def recovery_window() -> float:
    """Seconds after which a worker loss is forgotten, if a round was completed since."""
    return _seconds("recovery-window")


def recovery_backoff() -> float:
    """Seconds to wait before the second attempt to recover; doubles with each further one."""
    return _seconds("recovery-backoff")


def replacement_timeout() -> float:
    """Seconds to wait for a replacement when no worker is left."""
    return _seconds("replacement-timeout")


def worker_timeout() -> float:
    """Seconds of silence after which a worker counts as lost."""
    return _seconds("worker-timeout")


def scheduler_timeout() -> float:
    """Seconds of silence after which the scheduler counts as lost."""
    return _seconds("scheduler-timeout")


def elastic_interval() -> float:
    """Seconds between two looks for workers that have joined; 0 for no looks."""
    return _seconds("elastic-interval")


def connect_timeout() -> float:
    """Seconds to wait for a scheduler and for its first worker."""
    return _seconds("connect-timeout")


def _seconds(name: str) -> float:
    return _parsed(dask.config.get(f"s3vm.{name}"))


@functools.lru_cache(maxsize=64)  # needed in every round
def _parsed(text: str | float) -> float:
    return float(parse_timedelta(text, default="s"))


def local_threads() -> int:
    """Number of threads of the engine in this process.

    One within `one_thread` and with dask's `scheduler="synchronous"`; else `s3vm.threads`, else
    dask's `num_workers`, else one per core.
    """
    if getattr(_this_thread, "is_only_one", False):
        return 1
    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    wanted = dask.config.get("s3vm.threads", None) or dask.config.get("num_workers", None)
    return int(wanted) if wanted else available_cores()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have engines that this thread creates use no other thread.

    For code that runs in one of several threads which share the cores already.
    """
    before = getattr(_this_thread, "is_only_one", False)
    _this_thread.is_only_one = True
    try:
        yield
    finally:
        _this_thread.is_only_one = before


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


load_defaults()
