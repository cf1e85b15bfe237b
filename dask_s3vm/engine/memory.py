"""The memory that this process may use, and whether mapped pages and copies of rows still fit.

dask pauses a worker whose process memory exceeds 80 % of its limit, and terminates it at 95 %.
Process memory is the resident set, which includes the pages of mapped files. These pages are
therefore released after a pass if the process has grown beyond `KEEP_MAPPED` of its limit. Copies
of mapped rows, which only save time, are made up to `KEEP_COPIES`.
"""

import psutil

from dask_s3vm.engine.computing import inside_task

#: Share of the limit beyond which the pages of mapped rows are released after each pass.
KEEP_MAPPED = 0.5

#: Share of the limit up to which active rows are copied out of mapped files.
KEEP_COPIES = 0.35

_limits: set[int] = set()


def learn_limit() -> None:
    """Record the memory limit of the worker that runs this task.

    Threads that are not tasks cannot find it out later.
    """
    if not inside_task():
        return
    import distributed

    limit = distributed.get_worker().memory_manager.memory_limit
    if limit:
        _limits.add(limit)


def limit_here() -> int:
    """Return the bytes that this process may use: the worker's limit, else the machine's memory."""
    if _limits:
        return min(_limits)
    from distributed.system import MEMORY_LIMIT

    return MEMORY_LIMIT


def crowded() -> bool:
    """Whether the process uses so much memory that mapped pages should be released."""
    return psutil.Process().memory_info().rss > KEEP_MAPPED * limit_here()


def room_for_copy(nbytes: int) -> bool:
    """Whether there is memory for a copy of mapped rows; pages of files do not count as used."""
    used = psutil.Process().memory_info()
    return used.rss - getattr(used, "shared", 0) + nbytes < KEEP_COPIES * limit_here()
