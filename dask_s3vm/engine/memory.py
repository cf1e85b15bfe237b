"""How much memory a process may use, and how much of that it does.

dask pauses a worker whose process memory is beyond 80 % of its limit, and ends it at 95 %. What
counts is the resident set, to which the pages of mapped files belong. So these are let go after a
pass when the process has grown beyond `KEEP_MAPPED` of its limit, and copies of mapped rows, which
only save time, are made up to `KEEP_COPIES`.
"""

import psutil

from dask_s3vm.engine.clients import inside_task

#: Share of the limit beyond which pages of mapped rows are let go as soon as they were read.
KEEP_MAPPED = 0.5

#: Share of the limit up to which active rows are copied out of mapped ones.
KEEP_COPIES = 0.35

_limits: set[int] = set()


def learn_limit() -> None:
    """Note the limit of the worker whose task this is: what runs later is told of none."""
    if not inside_task():
        return
    import distributed

    limit = distributed.get_worker().memory_manager.memory_limit
    if limit:
        _limits.add(limit)


def limit_here() -> int:
    """Bytes that this process may use: the worker's limit, else what the machine has."""
    if _limits:
        return min(_limits)
    from distributed.system import MEMORY_LIMIT

    return MEMORY_LIMIT


def crowded() -> bool:
    """Whether mapped pages should not stay."""
    return psutil.Process().memory_info().rss > KEEP_MAPPED * limit_here()


def room_for_copy(nbytes: int) -> bool:
    """Whether a copy of mapped rows may be made; the pages of files do not count."""
    used = psutil.Process().memory_info()
    return used.rss - getattr(used, "shared", 0) + nbytes < KEEP_COPIES * limit_here()
