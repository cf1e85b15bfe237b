"""On a shared cluster: others are left alone, and workers may pause, retire, come and go."""

import gc
import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from cases import Moments, fit, found, go_on, pause, reference
from distributed import Client, LocalCluster
from processes import Processes
from waiting import LIMIT, wait_until

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.watch import Watch, gathered
from dask_s3vm.exceptions import EngineError

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("impatient")]


@pytest.fixture
def shared():
    """A cluster of two workers, for one test."""
    processes = Processes(2)
    yield processes
    processes.close()


def addresses(client):
    return set(client.scheduler_info(n_workers=-1)["workers"])


def slow(shard):
    time.sleep(0.3)
    return shard.number


def wait_long(seconds):
    time.sleep(seconds)


def test_a_frozen_worker_of_another_client_is_left_alone(shared, monkeypatch):
    """It holds a result of the other client and computes one; our waits find it silent."""
    found_silent, removed = set(), []
    silent_of = Watch._silent

    def silent(self, workers):
        found_silent.update(silent_of(self, workers))
        return silent_of(self, workers)

    async def remove(self, address, nanny):
        removed.append(address)

    monkeypatch.setattr(Watch, "_silent", silent)
    monkeypatch.setattr(Watch, "_remove", remove)
    X, y = np.random.default_rng(0).normal(size=(300, 10)), np.arange(300) % 2
    with shared.connect() as client, Client(shared.address, set_as_default=False) as other:
        shared.wait(client, 2)
        ours = addresses(client)
        with dask.config.set({"s3vm.elastic-interval": "0 s"}):
            engine = ingest(X, y).place(np.arange(2))
        try:
            frozen = shared.start().pid
            shared.wait(client, 3)
            (theirs,) = addresses(client) - ours
            held = other.submit(int, 7, workers=[theirs], pure=False)
            assert other.gather(held) == 7
            computing = other.submit(wait_long, 600, workers=[theirs], pure=False)
            wait_until(lambda: other.processing()[theirs], lambda: "the task does not start")
            os.kill(frozen, signal.SIGSTOP)
            with dask.config.set({"s3vm.worker-timeout": "1 s"}):
                while theirs not in found_silent:
                    assert engine.each(slow) == list(range(engine.layout.n_shards))
                found_silent.clear()
                own = client.submit(wait_long, 8, workers=sorted(ours), pure=False)
                gathered(client, [own])
            assert theirs in found_silent
            assert theirs not in removed
            assert engine.losses == 0 or removed
            assert theirs in addresses(client), "it is part of the cluster"
            os.kill(frozen, signal.SIGCONT)
            assert other.gather(held) == 7
            assert computing.status == "pending"
            assert other.run(os.getpid, workers=[theirs]) == {theirs: frozen}
        finally:
            os.kill(frozen, signal.SIGCONT)
            engine.close()


@pytest.mark.parametrize("method", ["tsvm", "s2rlsc pool"])
def test_a_worker_that_is_paused_for_memory_changes_nothing(shared, monkeypatch, method):
    wanted = reference(method)
    moments = Moments(monkeypatch)
    with shared.connect() as client:
        shared.wait(client, 2)
        paused = min(addresses(client))
        moments.reset({("training", 5): lambda: client.run(pause, workers=[paused])})
        assert found(fit(method)) == wanted
        assert moments.done
        client.run(go_on, workers=[paused])


def slow_block(block):
    time.sleep(0.3)
    return block


def slow_rows():
    """Rows and labels; each of twelve blocks takes a while."""
    X, y = np.random.default_rng(0).normal(size=(300, 10)), np.arange(300) % 2
    return X, da.from_array(X, chunks=(25, 10)).map_blocks(slow_block, dtype=float), y


def when_there_is_work(client, workers, action):
    """Do something as soon as each of some workers has more tasks than it can run at once."""

    def wait():
        wait_until(
            lambda: all(len(client.processing()[one]) > 1 for one in workers), client.processing
        )
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.fixture
def uncollected():
    """What is in cycles stays, as it may for a while: frames of waits that were given up."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_rows_are_placed_though_a_worker_is_paused_with_tasks(shared):
    """Dask leaves them there for as long as the worker is paused."""
    X, lazy, y = slow_rows()
    with dask.config.set(scheduler="synchronous"):
        wanted = found(L2SVM().fit(X, y))
    times = {"s3vm.worker-timeout": "5 s", "s3vm.recovery-attempts": 2}
    with shared.connect() as client, dask.config.set(times):
        shared.wait(client, 2)
        paused = min(addresses(client))
        thread = when_there_is_work(client, [paused], lambda: client.run(pause, workers=[paused]))
        assert found(L2SVM().fit(lazy, y)) == wanted
        thread.join()
        assert paused in addresses(client), "it may work again, for others or for us"


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("moment", [1, 3])
def test_rows_are_placed_though_all_workers_were_replaced_meanwhile(shared, monkeypatch, moment):
    """Dask gives tasks that prefer a worker that is gone to none that joins later."""
    wanted = reference("l2svm")
    moments = Moments(monkeypatch)
    with shared.connect() as client:
        shared.wait(client, 2)

        def replace():
            shared.kill()
            shared.kill()
            shared.wait(client, 0)
            shared.start()

        moments.reset({("placement", moment): replace})
        assert found(fit("l2svm")) == wanted
        assert moments.done


@pytest.mark.parametrize("how", ["paused", "killed"])
def test_no_worker_is_an_error_in_time_while_rows_are_placed(shared, how):
    _, lazy, y = slow_rows()
    times = {"s3vm.worker-timeout": "5 s", "s3vm.replacement-timeout": "1 s"}
    with shared.connect() as client, dask.config.set(times):
        shared.wait(client, 2)

        def strike():
            if how == "paused":
                client.run(pause)
            else:
                shared.kill()
                shared.kill()

        thread = when_there_is_work(client, addresses(client), strike)
        with pytest.raises(EngineError, match=r"has no worker \(waited 1 s\)"):
            L2SVM().fit(lazy, y)
        thread.join()


@pytest.mark.parametrize("method", ["tsvm", "s2rlsc pool"])
def test_a_worker_that_is_to_retire_does_so_after_the_fit(shared, monkeypatch, method):
    """Dask retires no worker that holds an actor; nothing of a fit is left to hinder it."""
    wanted = reference(method)
    moments = Moments(monkeypatch)
    with shared.connect() as client:
        shared.wait(client, 2)
        leaving = min(addresses(client))
        moments.reset({("training", 5): lambda: client.retire_workers([leaving])})
        assert found(fit(method)) == wanted
        assert moments.done
        client.retire_workers([leaving])
        shared.wait(client, 1)


@pytest.fixture(scope="module")
def elastic():
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.mark.parametrize("method", ["tsvm", "s2rlsc pool"])
def test_a_cluster_that_grows_and_shrinks_changes_nothing(elastic, monkeypatch, method):
    wanted = reference(method)
    moments = Moments(monkeypatch)
    with Client(elastic, timeout=LIMIT) as client:

        def scale(n_workers):
            elastic.scale(n_workers)
            wait_until(lambda: len(addresses(client)) == n_workers, lambda: f"{addresses(client)}")

        scale(1)
        moments.reset({("training", 3): lambda: scale(3), ("training", 8): lambda: scale(1)})
        assert found(fit(method)) == wanted
        assert len(moments.done) == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tsvm", "s2rlsc pool", "qp"])
def test_an_adaptive_cluster_changes_nothing(elastic, method):
    """It grows while tasks wait, and shrinks while a fit makes rounds, which are no tasks."""
    wanted = reference(method)
    with Client(elastic, timeout=LIMIT) as client, dask.config.set({"s3vm.recovery-attempts": 50}):
        pace = {"interval": "100 ms", "wait_count": 2, "target_duration": "10 ms"}
        adaptive = elastic.adapt(minimum=1, maximum=3, **pace)
        try:
            for _ in range(5):
                busy = client.map(wait_long, [0.2] * 20, pure=False)
                assert found(fit(method)) == wanted
                client.cancel(busy)
        finally:
            elastic.adapt(minimum=1, maximum=1)
        assert len(adaptive.log) > 1, "the cluster never changed"
