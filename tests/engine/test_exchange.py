"""Vectors that go from worker to worker: the bits of a plain round, and nothing left behind."""

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from waiting import wait_until

from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.exchange import Exchange
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.peers import PeerGroup

pytestmark = pytest.mark.usefixtures("tiny_shards")


@pytest.fixture(scope="module", params=[2, 3, 5])
def client(request):
    """A client of workers in threads of this process that have different numbers of threads."""
    with (
        LocalCluster(
            n_workers=request.param, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(request.param)
        yield client


@pytest.fixture
def exchanging():
    """Vectors of any length are exchanged."""
    with dask.config.set({"s3vm.exchange-bytes": 0}):
        yield


def many_parts(shard, v, counts, matrix, scale):
    """Parts of all kinds and sizes; the large ones depend on the order of addition."""
    x = np.sin(np.arange(7) * (shard.number + 1)) * v.sum() * 10.0 ** (shard.number % 9 - 4)
    return (
        scale * shard.number,
        x * matrix[0, 0],
        [shard.number],
        np.outer(x, x[:3]),
        np.float64(0.1 * shard.number),
        counts + shard.number,
        np.asfortranarray(np.outer(x[:4], x[:2])),
        np.array(0.3),
        x[:1],
    )


ARGS = (np.linspace(0, 1, 12), np.arange(5), np.eye(3), 0.7)


def whole(parts):
    return [
        (part.dtype.str, part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part
        for part in parts
    ]


@pytest.fixture
def spied(monkeypatch):
    """What every exchange returned."""
    seen, run = [], Exchange.run

    def told(self, *args):
        seen.append(run(self, *args))
        return seen[-1]

    monkeypatch.setattr(Exchange, "run", told)
    return seen


@pytest.fixture
def engine(client, sparse_data):
    engine = ingest(*sparse_data).place(np.array([0, 1]))
    assert isinstance(engine, ClusterEngine)
    yield engine
    engine.close()


def test_a_sum_has_the_bits_of_a_plain_round_and_of_threads(engine, spied, sparse_data):
    plain = engine.sum(many_parts, *ARGS)
    assert not spied
    with dask.config.set({"s3vm.exchange-bytes": 0}):
        found = engine.sum(many_parts, *ARGS)
    ((answers, totals),) = spied
    assert sorted(totals) == [1, 3, 5, 8]
    assert len(answers) == len(engine.holdings)
    with dask.config.set(scheduler="synchronous"):
        alone = ingest(*sparse_data).place(np.array([0, 1]))
        assert whole(found) == whole(plain) == whole(alone.sum(many_parts, *ARGS))


def arguments(shard, *args):
    return shard.number, *whole(args)


def test_each_shard_gets_the_whole_arguments(engine, spied, exchanging):
    matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    args = (*ARGS, matrix, np.array(["a", None]), np.zeros(0), np.array(2.0), "text")
    found = engine.each(arguments, *args)
    assert spied
    assert found == [(number, *whole(args)) for number in range(engine.layout.n_shards)]


def kept(dask_worker):
    groups = [one for one in dask_worker.state.actors.values() if isinstance(one, PeerGroup)]
    return len(groups), sum(len(group._turns) for group in groups)


def assert_nothing_kept(client):
    wait_until(lambda: not any(n for _, n in client.run(kept).values()), lambda: client.run(kept))
    assert all(n == 1 for n, _ in client.run(kept).values())


def test_nothing_is_kept_after_a_round(client, engine, exchanging, spied):
    for _ in range(3):
        engine.sum(many_parts, *ARGS)
        engine.each(arguments, *ARGS)
    assert len(spied) == 6
    assert_nothing_kept(client)
