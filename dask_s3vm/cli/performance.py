"""dask's own report of what a cluster did, as far as it can be had."""

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from dask_s3vm.reports.record import RunRecord

FILE = "dask-performance.html"


@contextlib.contextmanager
def performance_report(client: Any, record: RunRecord) -> Iterator[None]:
    """Write dask's performance report of what is inside into the folder of a run.

    Where there is no cluster, or no bokeh to draw with, a note says so. A report that fails does
    not take the run with it.
    """
    if record.directory is None:
        yield
        return
    if client is None:
        record.note(f"no {FILE}: threads of this process did the work, not a dask cluster")
        yield
        return
    if importlib.util.find_spec("bokeh") is None:
        record.note(f"no {FILE}: bokeh is not installed (pip install 'dask-s3vm[plot]')")
        yield
        return
    import distributed

    report = distributed.performance_report(str(record.directory / FILE), mode="inline")
    report.__enter__()
    try:
        yield
    finally:
        try:
            if client.status != "running":
                raise RuntimeError("the scheduler is gone")
            report.__exit__(None, None, None)
        except Exception as error:
            record.note(f"no {FILE}: {error}")
