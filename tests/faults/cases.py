"""Every method, the faults that it is to survive, and how a fault finds its moment."""

import asyncio
import contextlib
import threading
import time

import dask
import dask.array as da
import numpy as np
from distributed.core import Status
from processes import MEMORY
from waiting import LIMIT

from dask_s3vm import (
    CCCPS3VM,
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    S3VM,
    STARSVM,
    TSVM,
    LapSVM,
    MaxMarginClustering,
    SubmodularS3VM,
)
from dask_s3vm.engine import cluster, placement, workers
from dask_s3vm.engine.operations import operation

SMALL = {"s3vm.shard-bytes": 2048, "s3vm.local-bytes": 0}
N_WORKERS = 3

SEMI = {"positive_ratio": 0.45}
METHODS = {
    "l2svm": lambda: L2SVM(lam=1e-2),
    "tsvm": lambda: TSVM(lam=0.1, **SEMI),
    "s3vm": lambda: S3VM(lam=0.1, **SEMI),
    "rlsc safe": lambda: RLSC(lam=1e-2, safe=True),
    "da": lambda: DAS3VM(lam=0.3, balance="predictions", **SEMI),
    "qn": lambda: QNS3VM(lam=0.05, **SEMI),
    "rlsc": lambda: RLSC(lam=[1e-2, 1e-1]),
    "s2rlsc pool": lambda: S2RLSC(lam=0.05, n_restarts=8, random_state=7, **SEMI),
    "s2rlsc shards": lambda: S2RLSC(lam=0.05, n_restarts=8, random_state=7, sharded=True, **SEMI),
    "clustering": lambda: MaxMarginClustering(n_clusters=3, n_restarts=4, random_state=1),
    "qp": lambda: QPS3VM(C=1.0, **SEMI),
    "sqp": lambda: SubmodularS3VM(C=1.0, **SEMI),
    "star": lambda: STARSVM(C=0.05, kernel="linear", min_share=0.3, tol=0.02),
    "cccp": lambda: CCCPS3VM(lam=0.05, **SEMI),
    "lapsvm": lambda: LapSVM(lam=1e-2),
}

#: Which of them run pieces of work on a pool instead of rounds, or beside them.
POOLED = ("s2rlsc pool", "clustering")


def rows():
    """300 sparse rows in four chunks, one row in eight labeled."""
    rng = np.random.default_rng(5)
    dense = np.abs(rng.normal(size=(300, 15)))
    dense[rng.random(dense.shape) > 0.3] = 0.0
    dense = np.minimum(dense, 1.0)
    y = (dense @ rng.normal(size=15) + 0.3 * rng.normal(size=300) > 0).astype(int)
    return dense, np.where(np.arange(300) % 8 == 0, y, -1)


def fit(name, **params):
    """Fit a method to rows as a dask array."""
    X, y = rows()
    model = METHODS[name]().set_params(**params)
    lazy = da.from_array(X, chunks=(75, 15))
    return model.fit(lazy) if name == "clustering" else model.fit(lazy, y)


def found(model):
    """All that a fit found, as plain values; not how long it took or how many rounds it needed."""
    out = {}
    for name, value in sorted(vars(model).items()):
        if not name.endswith("_") or name in ("n_rounds_", "kernel_map_"):
            continue
        if name == "history_":
            value = [{k: v for k, v in row.items() if k != "seconds"} for row in value]
        elif isinstance(value, (np.ndarray, da.Array)):
            with dask.config.set(scheduler="synchronous"):
                value = np.asarray(value)
            value = value.dtype.str, value.shape, value.tobytes()
        out[name] = value
    return out


def reference(name):
    """What a fit finds in this process, without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        return found(fit(name))


def moments_of(name):
    """What a fit finds in this process, and how many moments it has on a cluster."""
    with dask.config.set(scheduler="synchronous"):
        model = fit(name)
    pieces = len(model.history_) if name in POOLED else 0
    return found(model), {"placement": 3, "training": model.n_rounds_ + pieces}


def outcome(method, wanted, **params):
    """What becomes of a fit: "survived", "hung", or how it failed."""
    ends = []

    def run():
        try:
            ends.append("survived" if found(fit(method, **params)) == wanted else "other bits")
        except Exception as error:
            ends.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return ends[0] if ends else "hung"


class Moments:
    """Counts what a fit asks of the cluster, and does things at numbered moments.

    Moments of placement are waits for blocks and shards; moments of training are rounds and
    results of the pool.
    """

    def __init__(self, monkeypatch):
        self.counts = {"placement": 0, "training": 0}
        self.plan = {}
        self.done = []
        self._patch(monkeypatch, placement, "gathered", "placement")
        self._patch(monkeypatch, placement, "remote_actors", "placement")
        self._patch(monkeypatch, workers, "next_done", "training")
        self._patch(monkeypatch, cluster, "call_all", "training")

    def reset(self, plan):
        """Begin another fit; `plan`: {(kind, number): action}."""
        self.counts = dict.fromkeys(self.counts, 0)
        self.plan, self.done = dict(plan), []

    def _patch(self, monkeypatch, module, name, kind):
        original = getattr(module, name)

        def told(*args, **kwargs):
            if not (name == "call_all" and args[2] == "close"):
                self._meet(kind)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, told)

    def _meet(self, kind):
        self.counts[kind] += 1
        action = self.plan.pop((kind, self.counts[kind]), None)
        if action is not None:
            self.done.append(action())


def shortly(action, rng):
    """Do something within the next milliseconds: while a call is under way, as a rule."""
    wait = float(rng.uniform(0.0, 0.004))

    def late():
        time.sleep(wait)
        action()

    def begin():
        thread = threading.Thread(target=late)
        thread.start()
        return thread

    return begin


#: What may happen, by kind of cluster.
FAULTS = {
    "plain": [
        *["kill", "placement", "two at once", "kill again", "all", "join", "freeze"],
        *["pause", "stutter", "client"],
    ],
    "tls": ["kill", "placement", "two at once", "all", "freeze", "client"],
    "nannies": ["kill", "placement", "kill again", "memory", "client"],
    "hosts": ["kill", "cut", "slow", "cut and kill"],
}

#: Faults that are noticed by a worker's silence, or by tasks that it keeps.
SILENT = ("freeze", "pause", "cut", "cut and kill")


def pause(dask_worker):
    dask_worker.status = Status.paused


def go_on(dask_worker):
    dask_worker.status = Status.running


async def hog(dask_worker):
    """Use more memory than the nanny allows, until it ends the worker."""
    content = np.ones(MEMORY // 8)
    await asyncio.sleep(60.0)
    return content.sum()


def faults(world, client, rng, totals, other):
    """Plans by name: {moment: action}; `other` is the process of another client."""

    def at(kind):
        return kind, int(rng.integers(1, max(totals[kind], 1) + 1))

    def kill():
        world.kill(rng)

    def join():
        world.start()
        world.n_faults += 1
        world.wait(client, len(world.workers))

    def kill_all():
        for _ in range(len(world.workers)):
            world.kill(rng)
        for _ in range(N_WORKERS):
            world.start()

    def on_any(function, **how):
        client.wait_for_workers(1)  # nannies may be about to start the only ones
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        chosen = workers[int(rng.integers(len(workers)))]
        with contextlib.suppress(OSError):  # another fault has ended it: the fit must not see that
            client.run(function, workers=[chosen], **how)
        world.n_faults += 1

    def kill_client():
        other.kill()
        world.n_faults += 1

    moment = at("training")
    return {
        "kill": {moment: shortly(kill, rng)},
        "placement": {at("placement"): shortly(kill, rng)},
        "two at once": {moment: lambda: (kill(), kill())},
        "kill again": {moment: shortly(kill, rng), (moment[0], moment[1] + 2): kill},
        "all": {moment: kill_all},
        "join": {moment: join},
        "freeze": {moment: lambda: world.freeze(rng)},
        "pause": {at("placement"): shortly(lambda: on_any(pause), rng)},
        "stutter": {moment: shortly(lambda: world.stutter(rng), rng)},
        "memory": {moment: lambda: on_any(hog, wait=False)},
        "client": {moment: shortly(kill_client, rng)},
        "cut": {moment: lambda: world.cut(rng)},
        "slow": {at("placement"): lambda: world.slow(rng)},
        "cut and kill": {moment: lambda: (world.cut(rng), kill())},
    }


# Operations on one shard


@operation(reads=["seen"])
def number_and_state(shard):
    """(number, what `remember` left)."""
    return shard.number, shard.state.get("seen")


@operation(sets="seen")
def remember(shard, value):
    """Set row state."""
    shard.state["seen"] = value
