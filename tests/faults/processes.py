"""A scheduler and workers in processes of their own, which can be killed and frozen one by one."""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import signal
import tempfile
import threading
import time

import psutil
from distributed import Client
from distributed.security import Security
from hosts import Hosts, enter
from waiting import LIMIT, receive, wait_until

_context = multiprocessing.get_context("forkserver")  # what it imports: tests/conftest.py

#: Seconds that a worker may take from its start until the scheduler knows it.
STARTING = 3.0

#: What a worker with a nanny may use, in bytes.
MEMORY = 1 << 30


def run_scheduler(pipe, host, security):
    from distributed import Scheduler

    async def main():
        async with Scheduler(
            host=host, port=0, dashboard_address=":0", security=Security(**security)
        ) as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    asyncio.run(main())


def run_worker(scheduler, folder, nanny, security, place, name):
    from distributed import Nanny, Worker

    home, address = place
    if home is not None:
        enter(home)

    async def main():
        async with (Nanny if nanny else Worker)(
            scheduler,
            name=name,
            nthreads=1,
            host=address,
            local_directory=folder,
            memory_limit=MEMORY if nanny else 0,
            security=Security(**security),
        ) as worker:
            await worker.finished()

    with contextlib.suppress(BaseException):
        asyncio.run(main())


class Processes:
    """A small cluster of real processes.

    Without nannies, what dies stays dead.

    Parameters
    ----------
    n_workers : number of workers.
    nannies : whether a nanny watches over every worker, and over its memory.
    security : arguments of `distributed.Security`.
    hosts : whether every worker is a host of its own.
    """

    def __init__(self, n_workers, nannies=False, security=None, hosts=False):
        self._folder = tempfile.TemporaryDirectory(prefix="s3vm-faults-")
        self._nannies, self._security = nannies, security or {}
        self._hosts = Hosts() if hosts else None
        self._places = {}  # (name, address) of the host by the process id of its worker
        self._names = {}  # of workers, by the same
        self._numbers = itertools.count()
        self._lock = threading.RLock()  # faults strike from several threads
        self._started = 0.0  # when the last worker was started
        host = self._hosts.address if hosts else "127.0.0.1"
        ours, theirs = _context.Pipe()
        self.scheduler = _context.Process(
            target=run_scheduler, args=(theirs, host, self._security), daemon=True
        )
        self.workers = []
        self.frozen = []
        self.n_faults = 0  # so far
        self.diary = []  # (seconds, what was done to a worker): why a fit failed
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
        place = self._hosts.add() if self._hosts else (None, "127.0.0.1")
        name = f"{next(self._numbers)}"
        args = (self.address, self._folder.name, self._nannies, self._security, place, name)
        # a nanny has a child, which a daemon must not have
        process = _context.Process(target=run_worker, args=args, daemon=not self._nannies)
        with self._lock:
            process.start()
            self._places[process.pid] = place
            self._names[process.pid] = name
            self.workers.append(process)
            self._started = time.monotonic()
            self.note(f"start {process.pid}")
        return process

    def note(self, what):
        """Write to the diary what is done, and how many workers are left."""
        self.diary.append((time.monotonic(), f"{what}, {len(self.workers)} left"))

    @contextlib.contextmanager
    def kept(self, client, n_workers):
        """Have somebody start a worker whenever fewer than so many take tasks."""
        done = threading.Event()

        def keep():
            while not done.wait(0.5):
                known = client.scheduler_info(n_workers=-1)["workers"].values()
                running = sum(info["status"] == "running" for info in known)
                with self._lock:
                    if not done.is_set() and running - len(self.frozen) < n_workers:
                        self._replace()

        keeper = threading.Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()

    def _replace(self):
        """Start a worker, unless one has just been started and may be on its way."""
        if time.monotonic() - self._started > STARTING:
            self.start()

    def kill(self, rng=None):
        """SIGKILL for a worker drawn at random, or for the one that is there longest.

        A nanny brings its worker back.
        """
        with self._lock:
            process = self._any(rng)
            if self._nannies:
                for child in psutil.Process(process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
            else:
                self.workers.remove(process)
                process.kill()
            self.note(f"kill {process.pid}")
            self.n_faults += 1

    def freeze(self, rng):
        """SIGSTOP for a worker drawn at random."""
        process = self._take(rng)
        os.kill(process.pid, signal.SIGSTOP)

    def stutter(self, rng):
        """Freeze a worker for a moment, five times."""
        with self._lock:
            process = self._any(rng)
            self.note(f"stutter {process.pid}")
            self.n_faults += 1
        with contextlib.suppress(ProcessLookupError):  # another fault may end it meanwhile
            for _ in range(5):
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(0.1)
                os.kill(process.pid, signal.SIGCONT)
                time.sleep(0.02)

    def cut(self, rng):
        """Cut a host off."""
        self._hosts.cut(self._places[self._take(rng).pid][0])

    def slow(self, rng):
        """Slow the link of a host down."""
        self._hosts.slow(self._places[self._take(rng).pid][0])

    def _any(self, rng):
        # those that were taken for silent, and removed, have ended by themselves
        self.workers = [process for process in self.workers if process.is_alive()]
        if not self.workers:  # another fault was faster: strike one that is about to join
            self.start()
        return self.workers[0 if rng is None else int(rng.integers(len(self.workers)))]

    def _take(self, rng):
        """Draw a worker that is not what it was from now on."""
        with self._lock:
            process = self._any(rng)
            self.workers.remove(process)
            self.frozen.append(process)
            self.note(f"take {process.pid}")
            self.n_faults += 1
        return process

    def mend(self, client, n_workers):
        """Have exactly so many healthy workers again, known to the scheduler."""
        for process in self.frozen:
            if self._hosts is not None:
                self._hosts.join(self._places[process.pid][0])
            self._end(process)
        self.frozen.clear()
        self.workers = [process for process in self.workers if process.is_alive()]
        while len(self.workers) < n_workers:
            self.start()
        while len(self.workers) > n_workers:
            self._end(self.workers.pop())
        if self._nannies and not self._come_back(client, n_workers):
            for process in self.workers:
                self._end(process)
            self.workers = []
            for _ in range(n_workers):
                self.start()
        # not their number alone: one that was ended may be known still, and another not yet
        names = {self._names[process.pid] for process in self.workers}
        wait_until(lambda: self._known(client) == names, lambda: (self._known(client), names))

    def _known(self, client):
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        return {info["name"] for info in workers}

    def _come_back(self, client, n_workers):
        """Whether all nannies bring back their workers: after several kills, not all do."""
        with contextlib.suppress(AssertionError):
            self.wait(client, n_workers, seconds=30)
            return True
        return False

    def _end(self, process):
        """SIGKILL, for a nanny's worker too."""
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end at any moment
            process = psutil.Process(process.pid)
            for one in [*process.children(recursive=True), process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()

    def wait(self, client, n_workers, seconds=LIMIT):
        """Wait until the scheduler knows exactly so many workers."""
        wait_until(
            lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == n_workers,
            lambda: f"workers do not come or go: {client.scheduler_info()['workers']}",
            seconds,
        )

    def connect(self):
        security = Security(**self._security)
        return Client(self.address, timeout=LIMIT, set_as_default=True, security=security)

    def close(self):
        for process in [*self.workers, *self.frozen, self.scheduler]:
            if process.pid is not None:
                self._end(process)
                process.join()
        if self._hosts is not None:
            self._hosts.close()
        self._folder.cleanup()


def fit_elsewhere(address, method, security, pipe, params):
    import dask
    from cases import SMALL, fit, found

    with (
        dask.config.set(SMALL | {"s3vm.checkpoint-interval": 0}),
        Client(address, timeout=LIMIT, security=Security(**security)) as client,
    ):
        pipe.send(client.id)
        pipe.send(found(fit(method, **params)))


@contextlib.contextmanager
def in_process(world, method, **params):
    """Run a fit in another process; gives the process and a function that waits for its result."""
    ours, theirs = _context.Pipe()
    args = (world.address, method, world._security, theirs, params)
    process = _context.Process(target=fit_elsewhere, args=args, daemon=True)
    process.start()
    try:
        receive(ours, process)  # it is connected
        yield process, lambda: receive(ours, process)
    finally:
        process.kill()
        process.join()
