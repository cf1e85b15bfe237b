"""Clients of two workers on this machine, and a callback that ends one of them."""

import os
import signal
from contextlib import contextmanager

from distributed import Client, LocalCluster


@contextmanager
def two_workers(processes=False):
    """A client of two workers of one thread each, in this process or in processes of their own."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


class KillOneWorker:
    """Callback that ends a worker process at row number `at` of the history."""

    def __init__(self, client, at=2):
        self.client = client
        self.at = at
        self.seen = 0
        self.killed = None

    def __call__(self, row):
        self.seen += 1
        if self.seen == self.at:
            self.killed = min(self.client.run(os.getpid).values())
            os.kill(self.killed, signal.SIGKILL)
