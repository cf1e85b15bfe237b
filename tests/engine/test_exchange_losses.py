"""Workers that are lost in the middle of an exchange: same bits, and every effect exactly once."""

import os
import signal

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from exchange_cases import assert_nothing_kept, count_up, counted_sum

from dask_s3vm.engine.exchange import Exchange
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.peers import PeerGroup

pytestmark = [pytest.mark.usefixtures("tiny_shards"), pytest.mark.cluster]

#: In which call of which method of its group a worker is lost, by the time of a round.
MOMENTS = {
    "before anything has come": ("exchange", 1),
    "before slices are given": ("slices_of", 1),
    "after slices were given to one": ("slices_of", 2),
    "before slices have come": ("_fetch", 1),
    "in the pass": ("run", 1),
    "after the pass": ("_fetch", 2),
    "before ranges are given": ("ranges_of", 1),
    "after ranges were given to one": ("ranges_of", 2),
    "while ranges are added": ("_sum", 1),
    "when its parts are taken": ("take", 1),
    "at the end": ("end", 1),
}

#: The others are left for a run by hand.
OFTEN = ("after slices were given to one", "in the pass", "after ranges were given to one")

EACH = [
    moment if moment in OFTEN else pytest.param(moment, marks=pytest.mark.slow)
    for moment in MOMENTS
]


@pytest.fixture
def client():
    """A client of three worker processes."""
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(3)
        yield client


@pytest.fixture
def engine(client, sparse_data):
    settings = {"s3vm.exchange-bytes": 0, "s3vm.elastic-interval": 0}
    with dask.config.set(settings):
        engine = ingest(*sparse_data).place(np.array([0, 1]))
        assert len(engine.shard_counts) == 3
        yield engine
        engine.close()


@pytest.fixture(scope="module")
def wanted(sparse_data):
    """What a round gives in this process."""
    settings = {"s3vm.shard-bytes": 4096, "scheduler": "synchronous"}
    with dask.config.set(settings):
        return counted_sum(ingest(*sparse_data).place(np.array([0, 1])))


def end_in(method, calls, signal_number):
    """Have this process end, or freeze, in one of the next calls of a method in a sum."""
    original = getattr(PeerGroup, method)
    left = [calls]

    def meet(group, args):
        if method in ("exchange", "run") and count_up not in args:
            return
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal_number)

    async def later(self, *args):
        meet(self, args)
        return await original(self, *args)

    def now(self, *args, **kwargs):
        meet(self, args)
        return original(self, *args, **kwargs)

    setattr(PeerGroup, method, now if method in ("run", "_sum") else later)


def fail_to_fetch():
    """Have this worker find, once, that its peers do not give their ranges."""
    original = PeerGroup._fetch

    async def fetch(self, turn, method, *args):
        if method != "ranges_of":
            return await original(self, turn, method, *args)
        PeerGroup._fetch = original
        return None

    PeerGroup._fetch = fetch


@pytest.mark.parametrize("moment", EACH)
def test_a_worker_is_killed(client, engine, wanted, moment):
    method, calls = MOMENTS[moment]
    victim = list(engine.shard_counts)[1]
    client.run(end_in, method, calls, signal.SIGKILL, workers=[victim])
    if method == "take":  # is called only if something else has failed
        client.run(fail_to_fetch, workers=[next(iter(engine.shard_counts))])
    assert counted_sum(engine) == wanted
    assert counted_sum(engine) == wanted  # with the workers that are left
    assert victim not in engine.shard_counts
    assert engine.losses == 1
    assert not engine._exchange._off
    assert_nothing_kept(client, list(engine.shard_counts))


@pytest.mark.parametrize("method", ["slices_of", pytest.param("ranges_of", marks=pytest.mark.slow)])
def test_a_worker_freezes(client, engine, wanted, method):
    """Its connections stay open: nobody notices but the scheduler, which hears nothing of it."""
    victim = next(iter(engine.shard_counts))
    client.run(end_in, method, 1, signal.SIGSTOP, workers=[victim])
    with dask.config.set({"s3vm.worker-timeout": "8 s"}):
        assert counted_sum(engine) == wanted
    assert victim not in engine.shard_counts
    assert engine.losses == 1


def test_exchanges_go_on_after_a_loss(client, engine, wanted, monkeypatch):
    totals, run = [], Exchange.run

    def told(self, *args):
        answers, found = run(self, *args)
        totals.append(sorted(found))
        return answers, found

    monkeypatch.setattr(Exchange, "run", told)
    client.run(end_in, "ranges_of", 1, signal.SIGKILL, workers=[list(engine.shard_counts)[2]])
    assert counted_sum(engine) == wanted
    assert totals == [[]]
    assert counted_sum(engine) == wanted
    assert totals == [[], [0]]
