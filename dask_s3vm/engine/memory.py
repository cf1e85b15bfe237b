"""How much memory a process may use, and how much of that it does.

dask pauses a worker whose process memory is beyond 80 % of its limit, and ends it at 95 %. What
counts is the resident set, to which the pages of mapped files belong. So these are let go after a
pass when the process has grown beyond `KEEP_MAPPED` of its limit, and copies of mapped rows, which
only save time, are made up to `KEEP_COPIES`.
"""

import contextlib
import socket
from typing import Any

import distributed
import psutil
from distributed.system import MEMORY_LIMIT

#: Share of the limit beyond which pages of mapped rows are let go as soon as they were read.
KEEP_MAPPED = 0.5

#: Share of the limit up to which active rows are copied out of mapped ones.
KEEP_COPIES = 0.35

_limits: set[int] = set()


def learn_limit() -> None:
    """Note the limit of the worker whose task this is: what runs later is told of none."""
    with contextlib.suppress(ValueError):  # no task, no limit of a worker
        limit = distributed.get_worker().memory_manager.memory_limit
        if limit:
            _limits.add(limit)


def limit_here() -> int:
    """Bytes that this process may use: the worker's limit, else what the machine has."""
    return min(_limits, default=MEMORY_LIMIT)


def crowded() -> bool:
    """Whether mapped pages should not stay."""
    return psutil.Process().memory_info().rss > KEEP_MAPPED * limit_here()


def room_for_copy(nbytes: int) -> bool:
    """Whether a copy of mapped rows may be made; the pages of files do not count."""
    used = psutil.Process().memory_info()
    return used.rss - getattr(used, "shared", 0) + nbytes < KEEP_COPIES * limit_here()


def worker_limits(client: distributed.Client) -> dict[str, int]:
    """Bytes that each worker may use; one without a limit has its share of the machine."""
    found: dict[str, Any] = client.run(_limit_and_host, on_error="return")
    there = {worker: answer for worker, answer in found.items() if isinstance(answer, tuple)}
    hosts = [host for limit, host, _ in there.values() if not limit]
    return {
        worker: limit or whole // hosts.count(host)
        for worker, (limit, host, whole) in there.items()
    }


def _limit_and_host(dask_worker: Any) -> tuple[int, str, int]:
    return dask_worker.memory_manager.memory_limit or 0, socket.gethostname(), MEMORY_LIMIT
