"""Vectors that go from worker to worker: the bits of a plain round, and nothing left behind."""

import logging
import threading

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from exchange_cases import ARGS, assert_nothing_kept, count_up, counted_sum, many_parts, whole
from waiting import wait_until

from dask_s3vm.engine import calls, exchange, peers
from dask_s3vm.engine.calls import call_all
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.exchange import Exchange
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.peers import PeerGroup

pytestmark = pytest.mark.usefixtures("tiny_shards")


@pytest.fixture(scope="module", params=[2, 3, 5])
def client(request):
    """A client of workers in threads of this process."""
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
    assert len(answers) == len(engine.shard_counts)
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


def test_nothing_is_kept_after_a_round(client, engine, exchanging, spied):
    for _ in range(3):
        engine.sum(many_parts, *ARGS)
        engine.each(arguments, *ARGS)
    assert len(spied) == 6
    assert_nothing_kept(client)


def test_short_vectors_go_straight(engine, spied, monkeypatch):
    monkeypatch.setattr(exchange, "_is_here", lambda address: False)
    with dask.config.set({"s3vm.exchange-bytes": ARGS[0].nbytes + 1}):
        engine.each(arguments, *ARGS)
        assert not spied
    with dask.config.set({"s3vm.exchange-bytes": ARGS[0].nbytes}):
        engine.each(arguments, *ARGS)
        assert len(spied) == 1


def test_on_one_machine_vectors_go_straight(engine, spied):
    with dask.config.set({"s3vm.exchange-bytes": 1}):
        engine.each(arguments, *ARGS)
        assert not spied


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("tcp://127.0.0.1:4000", True),
        ("tls://localhost:4000", True),
        ("tcp://[::1]:4000", True),
        ("inproc://10.0.0.1/3/4", True),
        ("tls://10.0.0.1:4000", False),
        ("tcp://node1:4000", False),
    ],
)
def test_which_workers_are_on_this_machine(address, wanted):
    assert exchange._is_here(address) is wanted


@pytest.mark.parametrize("method", ["here", "slices_of", "ranges_of"])
def test_workers_that_do_not_reach_each_other_are_told_of_once(
    client, engine, spied, monkeypatch, caplog, method
):
    wanted = counted_sum(engine)
    first = min(engine._groups)
    ask = PeerGroup._ask

    async def unreachable(self, peer, what, *args):
        return None if (peer[0], what) == (first, method) else await ask(self, peer, what, *args)

    monkeypatch.setattr(PeerGroup, "_ask", unreachable)
    with (
        caplog.at_level(logging.INFO, logger="dask_s3vm"),
        dask.config.set({"s3vm.exchange-bytes": 0}),
    ):
        for _ in range(3):
            assert counted_sum(engine) == wanted
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "a peer cannot be reached" in caplog.text
    assert len(spied) == (method != "here")
    assert (engine.losses, len(engine.shard_counts)) == (0, len(client.nthreads()))
    assert_nothing_kept(client)


def test_through_the_scheduler(client, sparse_data, spied, monkeypatch, exchanging):
    """Where the client does not reach the workers, which reach each other."""

    async def none(client, addresses):
        return dict.fromkeys(addresses, False)

    monkeypatch.setattr(calls, "_reachable", none)
    engine = ingest(*sparse_data).place(np.array([0, 1]))
    try:
        found = engine.sum(many_parts, *ARGS)
        assert spied[-1][1]
        with dask.config.set({"s3vm.exchange-bytes": None}):
            assert whole(found) == whole(engine.sum(many_parts, *ARGS))
    finally:
        engine.close()


def fail_in_shard(shard, v):
    if shard.number == 3:
        raise KeyError("no such state")
    return (v.copy(),)


def test_an_error_in_an_operation_is_raised_and_nothing_is_kept(client, engine, exchanging):
    with pytest.raises(KeyError, match="no such state"):
        engine.sum(fail_in_shard, ARGS[0])
    assert engine.losses == 0
    assert_nothing_kept(client)
    assert counted_sum(engine)[1] == [1] * engine.layout.n_shards
    assert not engine._exchange._off


def uneven(shard, v):
    """Parts that can be added, though they have not one shape."""
    return (v * 0.1 if shard.number < 2 else 0.5,)


def test_parts_of_different_shapes_go_straight(client, engine, exchanging):
    found = engine.sum(uneven, ARGS[0])
    with dask.config.set({"s3vm.exchange-bytes": None}):
        assert whole(found) == whole(engine.sum(uneven, ARGS[0]))
    assert_nothing_kept(client)


def test_a_group_whose_client_is_gone_waits_for_nobody(client, engine, exchanging, monkeypatch):
    """One worker is called, the others never are; then all are released."""
    monkeypatch.setattr(peers, "TICK", 0.05)
    counted_sum(engine)
    actor = next(iter(engine._groups.values())).actor
    group = next(
        one
        for worker in client.cluster.workers.values()
        for one in worker.state.actors.values()
        if one is not None and worker.address == actor.address
    )
    args = (99, "sum", count_up, 0, {0: (12,)}, np.zeros(4))
    answers = []
    thread = threading.Thread(
        target=lambda: answers.extend(call_all(client, [(actor, args)], "exchange"))
    )
    thread.start()
    wait_until(lambda: 99 in group._turns, lambda: "the call has not come")
    client.cancel([one.actor.future for one in engine._groups.values()])
    thread.join(60)
    assert not thread.is_alive()
