"""A cluster of processes of this machine, which comes and goes in silence."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

import distributed


@contextlib.contextmanager
def local_cluster(n_workers: int, threads: int, **options: Any) -> Iterator[distributed.Client]:
    """Start a cluster, and make it the current one for a while.

    dask logs what it meets while a cluster is closed: connections that end, workers that take
    long, results that nobody wants any more. None of that is for whoever ran the command.

    Parameters
    ----------
    n_workers, threads : number of workers, and of threads in each.
    options : see `distributed.LocalCluster`.
    """
    before = logging.root.manager.disable
    options = {"dashboard_address": ":0", **options}
    try:
        with _deaf_children():
            cluster = distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=threads, **options
            )
        with cluster, distributed.Client(cluster) as client:
            client.run(_hush)
            try:
                yield client
            finally:
                logging.disable(logging.CRITICAL)
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Have processes that are started here not hear Ctrl-C, which a terminal sends to all.

    They end with the one that has started them. The mask of blocked signals is inherited, by the
    threads that dask starts processes in, and by the processes.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # as it starts it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hush() -> None:
    """Have a worker keep to itself that the profile of a deep stack cannot be measured."""
    logging.getLogger("distributed.sizeof").setLevel(logging.ERROR)
