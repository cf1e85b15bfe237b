"""Memory of a cluster over many fits, beside that of the same traffic without this package.

Dask itself grows with use: scheduler and workers keep logs, events, profiles and statistics of what
they did. So the memory of fits says little by itself. `measure_soak` records what one fit of each
method asks of dask, and has plain dask do just that as often and for as long, in a cluster of its
own. What fits grow by beyond this control is the share of this package.

Workers take no profiles meanwhile. Dask keeps a tree of calls for each second of work, up to 1,000
of them, and these are larger the deeper the code that it finds at work.
"""

import collections
import contextlib
import gc
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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

#: Share of the fits that warm up: kernels are compiled and memory pools fill.
WARM_UP = 0.25

#: MiB in a hundred fits beyond the control, below which memory counts as flat.
FLAT = 0.5


class Soak(NamedTuple):
    """MiB of each process after each fit, and after each repetition of its traffic.

    left : tasks and futures that the fits have left behind.
    """

    fits: dict[str, np.ndarray]
    control: dict[str, np.ndarray]
    left: dict[str, int]

    def rows(self) -> list[Row]:
        """Compare the growth of each process."""
        return [_row(name, self.fits[name], self.control[name], self.left) for name in self.fits]

    def plot(self, ax: Any = None) -> Any:
        """Draw the growth of each process since the warm-up; returns the matplotlib Axes."""
        ax = tidy(axes(ax))
        for mib, color, what in ((self.control, GRAY, "plain dask"), (self.fits, BLUE, "fits")):
            for (name, own), style in zip(mib.items(), ("-", "--", ":"), strict=False):
                first = _warm(len(own))
                label = f"{what}: {name}"
                ax.plot(own - own[first], color=color, ls=style, lw=1, label=label)
        ax.set_xlabel("fits")
        ax.set_ylabel("MiB more than after the warm-up")
        return finish(ax)


def measure_soak(n_fits: int, n_rows: int) -> Soak:
    """Fit four methods in turn, then repeat their traffic.

    The scheduler of a local cluster runs in this process, with the client.
    """
    settings = {
        "s3vm.shard-bytes": "256 KiB",
        "s3vm.local-bytes": 0,
        "distributed.worker.profile.enabled": False,
    }
    with dask.config.set(settings):
        with worker_processes(2) as client:
            fits = _fits(n_rows)
            traffic = [_traffic_of(fit) for fit in fits]
            ours, left, seconds = _memory_over(client, fits, n_fits)
        with worker_processes(2) as client:
            repeats = [lambda one=one: one.repeat(client) for one in traffic]
            # profiles and samples of the system grow with time
            control, _, _ = _memory_over(client, repeats, n_fits, seconds)
    return Soak(ours, control, left)


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


def _memory_over(
    client: distributed.Client,
    work: Sequence[Callable[[], Any]],
    times: int,
    least: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, int], np.ndarray]:
    """Do pieces of work in turn: MiB of each process after each, what is left, seconds of each.

    least : seconds that each shall take at least.
    """
    pids = {"client and scheduler": os.getpid()}
    for number, pid in enumerate(client.run(os.getpid).values()):
        pids[f"worker {number}"] = pid
    memory, seconds = np.empty((times, len(pids))), np.empty(times)
    for number in range(times):
        began = time.monotonic()
        work[number % len(work)]()
        if least is not None:
            time.sleep(max(0.0, least[number] - (time.monotonic() - began)))
        seconds[number] = time.monotonic() - began
        gc.collect()
        memory[number] = [psutil.Process(pid).memory_info().rss / 2**20 for pid in pids.values()]
    left = {
        "tasks": client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)),
        "futures": len(client.futures),
    }
    return {name: memory[:, number] for number, name in enumerate(pids)}, left, seconds


def _row(name: str, fits: np.ndarray, control: np.ndarray, left: dict[str, int]) -> Row:
    (growth, error), (dasks, other) = _growth(fits), _growth(control)
    ours, both = growth - dasks, float(np.hypot(error, other))
    return {
        "process": name,
        "fits": len(fits),
        "first_MiB": fits[0],
        "last_MiB": fits[-1],
        "MiB_per_100_fits": growth,
        "without_us": dasks,
        "ours": ours,
        "standard_error": both,
        "flat": "yes" if ours < max(FLAT, 2.0 * both) else "no",
        **left,
    }


def _warm(n_fits: int) -> int:
    """Number of the first fit after the warm-up."""
    return int(WARM_UP * n_fits)


def _growth(mib: np.ndarray) -> tuple[float, float]:
    """Return MiB per hundred after the warm-up, by least squares, and its standard error."""
    later = mib[_warm(len(mib)) :]
    x = np.arange(len(later)) - 0.5 * (len(later) - 1)
    slope = float(x @ later / (x @ x))
    rest = later - later.mean() - slope * x
    error = float(np.sqrt(rest @ rest / max(len(later) - 2, 1) / (x @ x)))
    return 100.0 * slope, 100.0 * error
