"""Silent workers count as lost only if they work for this client."""

import dask
import distributed
import pytest

from dask_s3vm.engine import calls
from dask_s3vm.engine.watch import Watch, in_loop
from dask_s3vm.exceptions import WorkerLostError


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


def test_rows_for_a_worker_that_has_just_left_are_a_loss(client, monkeypatch):
    monkeypatch.setattr(calls._config, "connect_timeout", lambda: 0.1)
    with pytest.raises(WorkerLostError, match=r"127\.0\.0\.1:1 is gone"):
        calls.scattered_to(client, {"tcp://127.0.0.1:1": [0]}, str)


def worker(status, executing):
    """What a scheduler says of a worker."""
    return {"status": status, "nthreads": 1, "metrics": {"task_counts": {"executing": executing}}}


@pytest.mark.parametrize(
    ("workers", "wanted"),
    [
        ({}, "no worker"),
        ({"a": worker("paused", 0)}, "no worker"),
        ({"a": worker("paused", 0), "b": worker("closing_gracefully", 0)}, "no worker"),
        ({"a": worker("paused", 1)}, None),
        ({"a": worker("running", 0), "b": worker("paused", 0)}, None),
    ],
)
def test_who_runs_no_tasks_and_starts_none(client, workers, wanted):
    watch = Watch(client)
    watch._note_idle(workers)
    with dask.config.set({"s3vm.worker-timeout": "100 s"}):
        in_loop(client, watch.check_tasks_run)
    with dask.config.set({"s3vm.worker-timeout": 0}):
        if wanted is None:  # nothing of this client waits on b
            in_loop(client, watch.check_tasks_run)
        else:
            with pytest.raises(WorkerLostError, match=wanted):
                in_loop(client, watch.check_tasks_run)
    watch._note_idle({"a": worker("running", 0)})
    with dask.config.set({"s3vm.worker-timeout": 0}):
        in_loop(client, watch.check_tasks_run)


def test_an_actor_that_is_lost_before_it_is_known_is_a_lost_worker(client, monkeypatch):
    """Dask has no class for this error; any other one of a constructor is the user's to see."""

    def fail(client, futures):
        raise RuntimeError(words)

    monkeypatch.setattr(calls, "gathered", fail)
    words = "Worker holding Actor was lost."
    with pytest.raises(WorkerLostError, match="holding Actor"):
        calls.remote_actors(client, [])
    words = "something else"
    with pytest.raises(RuntimeError, match="something else"):
        calls.remote_actors(client, [])
