"""Memory of a cluster over many fits, beside that of the same traffic without this package.

Dask itself grows with use: scheduler and workers keep logs, events, profiles and statistics of what
they did. So the memory of fits says little by itself. `measure_soak` records what one fit of each
method asks of dask, and has plain dask do just that as often, on the same cluster: blocks of fits
and of their traffic alternate. What fits grow by beyond this control is the share of this package.

Logs are short and workers take no profiles meanwhile: these grow with time until they reach their
limits, after an hour or more. Before memory is read, all that is free goes back to the system.
"""

import collections
import contextlib
import ctypes
import gc
import multiprocessing
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import dask
import distributed
import numpy as np
import psutil
from dask.utils import key_split
from distributed.protocol import to_serialize

from dask_s3vm.bench.safety import worker_processes
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.engine.calls import RemoteActor
from dask_s3vm.estimators import L2SVM, QPS3VM, S2RLSC, TSVM
from dask_s3vm.plotting.style import BLUE, GRAY, axes, finish, tidy

Row = dict[str, Any]

#: Largest number of blocks of fits, and of their traffic.
N_BLOCKS = 20

#: Share of the blocks that warm up: kernels are compiled, logs and memory pools fill.
WARM_UP = 0.25

#: MiB in a hundred fits beyond the control, below which memory counts as flat.
FLAT = 0.5

SETTINGS = {
    "s3vm.shard-bytes": "256 KiB",
    "s3vm.local-bytes": 0,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.log-length": 100,
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.system-monitor.log-length": 100,
}


class Soak(NamedTuple):
    """What each process grows by in each block, in the two columns MiB and objects of Python.

    fits, control : by process; rows of an array are blocks of fits, and of their traffic.
    per_block : number of fits in a block.
    left : tasks and futures that the fits have left behind.
    """

    fits: dict[str, np.ndarray]
    control: dict[str, np.ndarray]
    per_block: int
    left: dict[str, int]

    @property
    def warm(self) -> int:
        """Number of the first block after the warm-up."""
        return int(WARM_UP * len(self.fits["client"]))

    def rows(self) -> list[Row]:
        """Compare the growth of each process."""
        return [self._row(name) for name in self.fits]

    def _row(self, name: str) -> Row:
        to_100 = 100.0 / self.per_block
        fits, control = (to_100 * of[name][self.warm :] for of in (self.fits, self.control))
        growth, without = np.median(fits, axis=0), np.median(control, axis=0)
        ours, n_objects = growth - without
        error = float(np.hypot(_error(fits[:, 0]), _error(control[:, 0])))
        flat = "yes" if ours + 2.0 * error < FLAT else "not shown"
        return {
            "process": name,
            "fits": self.per_block * len(self.fits[name]),
            "MiB_per_100_fits": growth[0],
            "without_us": without[0],
            "ours": ours,
            "standard_error": error,
            "flat": "no" if ours - 2.0 * error > FLAT else flat,
            "objects_per_fit": growth[1] / 100.0,
            "our_objects": n_objects / 100.0,
            **self.left,
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the growth of each process since the warm-up; returns the matplotlib Axes."""
        ax = tidy(axes(ax))
        for grown, color, what in ((self.control, GRAY, "plain dask"), (self.fits, BLUE, "fits")):
            for (name, own), style in zip(grown.items(), ("-", "--", "-.", ":"), strict=False):
                mib = np.concatenate([[0.0], np.cumsum(own[:, 0])])
                x = self.per_block * np.arange(len(mib))
                label = f"{what}: {name}"
                ax.plot(x, mib - mib[self.warm], color=color, ls=style, lw=1, label=label)
        ax.set_xlabel("fits")
        ax.set_ylabel("MiB more than after the warm-up")
        return finish(ax)


def _error(growth: np.ndarray) -> float:
    """Return the standard error of a median; single jumps hardly count."""
    away = np.median(np.abs(growth - np.median(growth)))
    return float(1.2533 * 1.4826 * away / np.sqrt(len(growth)))


def measure_soak(n_fits: int, n_rows: int, n_workers: int = 2) -> Soak:
    """Fit four methods in turn, and repeat their traffic; without workers, fit in this process.

    Scheduler and workers are processes of their own. In each block every method has as many fits as
    any other; their number is rounded up.
    """
    fits = _fits(n_rows)
    if n_workers == 0:
        return _soak(None, fits, len(fits) * [_nothing], n_fits)
    with dask.config.set(SETTINGS), _cluster(n_workers) as client:
        traffic = [_traffic_of(fit) for fit in fits]
        control = [lambda one=one: one.repeat(client) for one in traffic]
        return _soak(client, fits, control, n_fits)


def _nothing() -> None:
    pass


@contextlib.contextmanager
def _cluster(n_workers: int) -> Iterator[distributed.Client]:
    """Start a scheduler, and workers, in processes of their own."""
    own, other = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_serve, args=(n_workers, other))
    process.start()
    other.close()
    with own, distributed.Client(own.recv()) as client:
        yield client
    process.join()


def _serve(n_workers: int, pipe: Connection) -> None:
    """Run a scheduler in this process until the other end of the pipe is closed."""
    with dask.config.set(SETTINGS), worker_processes(n_workers) as client:
        pipe.send(client.scheduler.address)
        with contextlib.suppress(EOFError):
            pipe.recv()


def _soak(
    client: distributed.Client | None,
    fits: Sequence[Callable[[], Any]],
    control: Sequence[Callable[[], Any]],
    n_fits: int,
) -> Soak:
    n_blocks = max(1, min(N_BLOCKS, n_fits // len(fits)))
    repeats = -(-n_fits // (n_blocks * len(fits)))
    grown: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for works, found in n_blocks * [(fits, grown[0]), (control, grown[1])]:
        for work in works:  # logs hold what was done last: now they hold that of these works
            work()
        before = _held(client)
        for work in repeats * list(works):
            work()
        now = _held(client)
        found.append(np.array(list(now.values())) - np.array(list(before.values())))
    ours, plain = (dict(zip(now, np.stack(found, axis=1), strict=True)) for found in grown)
    left = {"tasks": 0, "futures": 0}
    if client is not None:
        n_tasks = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        left = {"tasks": n_tasks, "futures": len(client.futures)}
    return Soak(ours, plain, repeats * len(fits), left)


def _held(client: distributed.Client | None) -> dict[str, tuple[float, float]]:
    """Return what each process holds."""
    held = {"client": _held_here()}
    if client is not None:
        held["scheduler"] = client.run_on_scheduler(_held_here)
        of_workers = client.run(_held_here).values()
        held |= {f"worker {number}": own for number, own in enumerate(of_workers)}
    return held


def _held_here() -> tuple[float, float]:
    """MiB of this process, without what is free and what files hold, and objects of Python."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # there is no GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    memory = psutil.Process().memory_info()
    return (memory.rss - getattr(memory, "shared", 0)) / 2**20, sys.getallocatedblocks()


def _fits(n_rows: int) -> list[Callable[[], Any]]:
    X, y = make_text(n_rows, 2000, block="scipy", chunks=max(n_rows // 4, 1), random_state=0)
    all_labels = np.asarray(y.compute(scheduler="threads"))
    few = hide_labels(all_labels, 100, random_state=0)
    labels = hide_labels(all_labels[:400], 20, random_state=0)
    small = np.asarray(np.random.default_rng(0).random((len(labels), 10)))
    pooled = S2RLSC(lam=0.1, n_restarts=4, positive_ratio=0.5, random_state=0)
    return [
        lambda: L2SVM().fit(X, y),
        lambda: TSVM(lam=1e-2, positive_ratio=0.5).fit(X, few),
        lambda: QPS3VM(positive_ratio=0.5).fit(X, few),
        lambda: pooled.fit(small, labels),
    ]


@dataclass
class Traffic:
    """What a fit asks of dask.

    graphs : for each, the number of its tasks by name, its bytes, and whether the results are
        actors. The scheduler keeps a group of tasks per name for good.
    scattered : for each value, its bytes, and whether all workers get it.
    calls : bytes of the arguments of each call of an actor.
    runs : number of functions that were run on all workers.
    """

    graphs: list[tuple[dict[str, int], int, bool]] = field(default_factory=list)
    scattered: list[tuple[int, bool]] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    runs: int = 0

    def repeat(self, client: distributed.Client) -> None:
        """Ask as much of dask, with results that go when this returns."""
        for _ in range(self.runs):
            client.run(os.getpid)
        kept = [
            client.scatter(_content(nbytes), broadcast=broadcast, hash=False)
            for nbytes, broadcast in self.scattered
        ]
        actors: list[distributed.Future] = []
        for names, nbytes, is_actor in self.graphs:
            token = uuid.uuid4().hex
            keys = [f"{name}-{token}-{i}" for name, n_keys in names.items() for i in range(n_keys)]
            content = [_content(nbytes // len(keys))] * len(keys)
            made = client.map(_Echo, content, key=keys, actor=is_actor)
            (actors if is_actor else kept).extend(made)
        found = client.gather(actors)
        client.gather(kept)
        for number, nbytes in enumerate(self.calls if found else ()):
            client.sync(_call, client, found[number % len(found)], _content(nbytes))
        client.cancel(actors)


class _Echo:
    """A result, or an actor, of some size."""

    def __init__(self, content: np.ndarray) -> None:
        self.content = content

    def echo(self, content: np.ndarray) -> np.ndarray:
        """Return what came."""
        return content


def _content(nbytes: int) -> np.ndarray:
    return np.zeros(nbytes, dtype=np.uint8)


async def _call(client: distributed.Client, actor: Any, content: np.ndarray) -> Any:
    """Call an actor as `engine.calls` does: directly, without the scheduler."""
    rpc = client.rpc(actor._address)
    args = [to_serialize(content)]
    return await rpc.actor_execute(actor=actor.key, function="echo", args=args, kwargs={})


def _traffic_of(fit: Callable[[], Any]) -> Traffic:
    """Record what a fit asks of dask; it has compiled everything before."""
    fit()
    traffic = Traffic()

    def graph(expr: Any, keys: Any, *args: Any, actors: Any = None, **kwargs: Any) -> None:
        names = collections.Counter(map(key_split, expr.__dask_graph__()))
        traffic.graphs.append((dict(names), len(_pickled(expr)), bool(actors)))

    def scatter(data: Any, broadcast: bool = False, **kwargs: Any) -> None:
        traffic.scattered.append((len(_pickled(data)), broadcast))

    def run(*args: Any, **kwargs: Any) -> None:
        traffic.runs += 1

    def call(method: str, args: tuple[Any, ...]) -> None:
        traffic.calls.append(len(_pickled(args)))

    with (
        _noted(distributed.Client, "_graph_to_futures", graph),
        _noted(distributed.Client, "scatter", scatter),
        _noted(distributed.Client, "run", run),
        _noted(RemoteActor, "call", call),
    ):
        fit()
    return traffic


def _pickled(value: Any) -> bytes:
    """Pickle as dask does, functions of any kind included."""
    return distributed.protocol.pickle.dumps(value)


@contextlib.contextmanager
def _noted(owner: type, name: str, note: Callable[..., None]) -> Iterator[None]:
    """Have a method of a class call `note` with its arguments first."""
    original = getattr(owner, name)

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return original(self, *args, **kwargs)

    setattr(owner, name, noting)
    try:
        yield
    finally:
        setattr(owner, name, original)
