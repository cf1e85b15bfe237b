"""Silent workers count as lost only if they work for this client."""

import distributed
import pytest

from dask_s3vm.engine.watch import Watch, in_loop


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def all_silent(client, monkeypatch, removed):
    watch = Watch(client)
    monkeypatch.setattr(watch, "_silent", set)

    async def remove(address, nanny):
        removed.append(address)

    monkeypatch.setattr(watch, "_remove", remove)
    return watch


def test_a_silent_worker_of_others_is_left_alone(cluster, client, monkeypatch):
    removed = []
    watch = all_silent(client, monkeypatch, removed)
    with distributed.Client(cluster) as other:
        held = other.submit(int, 7, key="of-another-client", pure=False)
        other.gather(held)
        assert in_loop(client, watch.look) == set()
    assert removed == []


def test_a_silent_worker_that_holds_or_makes_our_results_is_lost(client, monkeypatch):
    removed = []
    watch = all_silent(client, monkeypatch, removed)
    first = client.submit(int, 7, pure=False)
    last = client.submit(int, first, pure=False)
    client.gather(last)
    (home,) = client.who_has([last])[last.key]
    del first  # inputs of a result count too
    assert home in in_loop(client, watch.look)
    assert home in removed


def test_a_silent_worker_that_is_concerned_is_lost(client, monkeypatch):
    removed = []
    watch = all_silent(client, monkeypatch, removed)
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    assert in_loop(client, watch.look, [workers[0], "tcp://who.has.left"]) == {
        workers[0],
        "tcp://who.has.left",
    }
    assert removed == [workers[0]]
