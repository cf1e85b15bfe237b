"""A scheduler and workers in processes of their own, which can be killed and frozen one by one."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import tempfile

from distributed import Client
from waiting import LIMIT, receive, wait_until

_context = multiprocessing.get_context("forkserver")  # what it imports: tests/conftest.py


def run_scheduler(pipe):
    from distributed import Scheduler

    async def main():
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    asyncio.run(main())


def run_worker(scheduler, folder):
    from distributed import Worker

    async def main():
        async with Worker(
            scheduler, nthreads=1, host="127.0.0.1", local_directory=folder, memory_limit=0
        ) as worker:
            await worker.finished()

    with contextlib.suppress(BaseException):
        asyncio.run(main())


class Processes:
    """A small cluster of real processes, without nannies: what dies stays dead."""

    def __init__(self, n_workers):
        self._folder = tempfile.TemporaryDirectory(prefix="s3vm-faults-")
        ours, theirs = _context.Pipe()
        self.scheduler = _context.Process(target=run_scheduler, args=(theirs,), daemon=True)
        self.workers = []
        self.frozen = []
        self.n_faults = 0  # so far
        try:
            self.scheduler.start()
            self.address = receive(ours, self.scheduler)
            for _ in range(n_workers):
                self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        """Start a worker, and do not wait for it."""
        args = (self.address, self._folder.name)
        process = _context.Process(target=run_worker, args=args, daemon=True)
        process.start()
        self.workers.append(process)
        return process

    def kill(self, rng=None):
        """SIGKILL for a worker drawn at random, or for the one that is there longest."""
        process = self.workers.pop(0 if rng is None else int(rng.integers(len(self.workers))))
        os.kill(process.pid, signal.SIGKILL)
        self.n_faults += 1

    def freeze(self, rng):
        """SIGSTOP for a worker drawn at random."""
        process = self.workers.pop(int(rng.integers(len(self.workers))))
        os.kill(process.pid, signal.SIGSTOP)
        self.n_faults += 1
        self.frozen.append(process)

    def mend(self, client, n_workers):
        """Have exactly so many healthy workers again, known to the scheduler."""
        for process in self.frozen:
            os.kill(process.pid, signal.SIGKILL)
        self.frozen.clear()
        while len(self.workers) < n_workers:
            self.start()
        while len(self.workers) > n_workers:
            os.kill(self.workers.pop().pid, signal.SIGKILL)
        self.wait(client, n_workers)

    def wait(self, client, n_workers):
        """Wait until the scheduler knows exactly so many workers."""
        wait_until(
            lambda: len(client.scheduler_info()["workers"]) == n_workers,
            lambda: f"workers do not come or go: {client.scheduler_info()['workers']}",
        )

    def connect(self):
        return Client(self.address, timeout=LIMIT, set_as_default=True)

    def close(self):
        for process in [*self.workers, *self.frozen, self.scheduler]:
            if process.pid is not None:
                process.kill()
                process.join()
        self._folder.cleanup()


def fit_elsewhere(address, method, pipe):
    import dask
    from cases import SMALL, fit, found

    with dask.config.set(SMALL), Client(address, timeout=LIMIT):
        pipe.send(found(fit(method)))


@contextlib.contextmanager
def in_process(address, method):
    """Run a fit in another process; gives a function that waits for what it found."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=fit_elsewhere, args=(address, method, theirs), daemon=True)
    process.start()
    try:
        yield lambda: receive(ours, process)
    finally:
        process.kill()
        process.join()
