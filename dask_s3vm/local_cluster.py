"""A cluster of worker processes on this machine that starts and stops without log output."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

import distributed


@contextlib.contextmanager
def local_cluster(n_workers: int, threads: int, **options: Any) -> Iterator[distributed.Client]:
    """Start a cluster, and make its client the current one within the ``with`` block.

    While a cluster closes, dask logs broken connections, slow workers and forgotten results. None
    of that concerns the user of a command, so logging is off during the shutdown.

    Parameters
    ----------
    n_workers, threads : number of workers, and of threads in each.
    options : passed on to `distributed.LocalCluster`.
    """
    before = logging.root.manager.disable
    options = {"dashboard_address": ":0", **options}
    try:
        with _sigint_blocked():
            cluster = distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=threads, **options
            )
        with cluster, distributed.Client(cluster) as client:
            client.run(_quiet_worker)
            try:
                yield client
            finally:
                logging.disable(logging.CRITICAL)
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Shield the processes that are started here from Ctrl-C, which a terminal sends to all.

    They end with their parent. Threads and processes inherit the mask of blocked signals, so it
    passes from this thread to the one in which dask starts processes, and on to these.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start unblocks the signal: get that over with
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _quiet_worker() -> None:
    """Suppress what a worker logs that nobody can act on.

    That the profile of a deep stack cannot be measured; and heartbeats that fail, with a traceback,
    when a signal ends the command, and with it the scheduler.
    """
    logging.getLogger("distributed.sizeof").setLevel(logging.ERROR)
    logging.getLogger("distributed.worker").addFilter(_is_no_heartbeat)


def _is_no_heartbeat(record: logging.LogRecord) -> bool:
    return "during heartbeat" not in str(record.msg)
