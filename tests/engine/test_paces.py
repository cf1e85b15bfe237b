"""A worker that is much slower than others for long gets fewer shards; bits stay the same."""

import time

import dask
import numpy as np
import pytest
from waiting import wait_until

from dask_s3vm import TSVM
from dask_s3vm.engine import calls
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.paces import LOOKS, Paces
from dask_s3vm.engine.workers import rebalance

THREADS = {"a": 1, "b": 1, "c": 1}
HELD = {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7], "c": [8, 9, 10, 11]}


class Run:
    """A fit on three workers, by the seconds that a shard takes each in a look of one second."""

    def __init__(self, threads=THREADS, held=HELD):
        self.now, self.seconds = 0.0, dict.fromkeys(threads, 0.0)
        self.threads, self.held = threads, held
        self.paces = Paces(lambda: self.now)
        self.look({})

    def look(self, per_shard, times=1):
        for _ in range(times):
            self.now += 1.0
            for name, seconds in per_shard.items():
                self.seconds[name] += seconds * len(self.held[name]) / self.threads[name]
            self.paces.look(self.seconds, self.threads, self.held)
        return self.paces.changed


@pytest.mark.parametrize(("slow", "weight"), [(0.1, 0.5), (0.22, 0.25), (0.5, 0.125)])
def test_a_worker_that_is_slow_for_long_counts_for_less(slow, weight):
    run = Run()
    assert not run.look({"a": 0.05, "b": slow, "c": 0.04}, LOOKS - 1)
    assert run.look({"a": 0.05, "b": slow, "c": 0.04})
    assert run.paces.weights(THREADS) == {"a": 1.0, "b": weight, "c": 1.0}
    assert not run.paces.changed


def test_shards_per_thread_are_compared():
    run = Run({"a": 4, "b": 1, "c": 1})
    assert not run.look({"a": 0.1, "b": 0.1, "c": 0.1}, 3 * LOOKS)


def test_a_short_delay_and_idle_workers_do_not_count():
    run = Run()
    for _ in range(5):
        assert not run.look({"a": 0.05, "b": 0.5, "c": 0.05}, LOOKS - 1)
        assert not run.look({"a": 0.05, "b": 0.05, "c": 0.05})
    assert not run.look({"a": 0.001, "b": 0.03, "c": 0.001}, 5 * LOOKS), "nobody waits for it"


def test_a_worker_that_is_fast_again_counts_in_full():
    run = Run()
    assert run.look({"a": 0.05, "b": 0.25, "c": 0.05}, LOOKS)
    run.paces.weights(THREADS)
    assert not run.look({"a": 0.05, "b": 0.18, "c": 0.05}, 5 * LOOKS), "about as slow as before"
    assert run.look({"a": 0.05, "b": 0.06, "c": 0.05}, LOOKS)
    assert run.paces.weights(THREADS) == THREADS


def test_shards_move_away_from_it_and_back():
    moving = rebalance({"a": 1.0, "b": 0.25, "c": 1.0}, HELD)
    assert sum(map(len, moving.values())) == 3
    assert set(moving) == {"a", "c"}
    left = {"a": [0, 1, 2, 3, 5], "b": [4], "c": [6, 7, 8, 9, 10, 11]}
    assert rebalance({"a": 1.0, "b": 0.25, "c": 1.0}, left) == {}
    assert list(rebalance(THREADS, left)) == ["b"]


@pytest.fixture
def slow_worker(client, monkeypatch):
    """Have each shard take one of two workers, which are threads of this process, much longer."""
    slow, run = min(client.nthreads()), calls.WorkerGroup.run

    def slowed(self, method, numbers, *args):
        try:
            return run(self, method, numbers, *args)
        finally:
            each = 0.02 if calls.distributed.get_worker().address == slow else 0.001
            began = time.perf_counter()
            time.sleep(each * len(self._shards))
            self._seconds += time.perf_counter() - began

    monkeypatch.setattr(calls.WorkerGroup, "run", slowed)
    with dask.config.set({"s3vm.elastic-interval": "50 ms"}):
        yield slow


def number(shard):
    return shard.number


@pytest.mark.usefixtures("tiny_shards")
def test_shards_leave_a_slow_worker(client, sparse_data, slow_worker):
    engine = ingest(*sparse_data).place(np.arange(2))
    try:
        before = engine.shard_counts

        def moved():
            assert engine.each(number) == list(range(engine.layout.n_shards))
            return engine.shard_counts.get(slow_worker, 0) <= before[slow_worker] / 4

        wait_until(moved, lambda: f"{before} -> {engine.shard_counts}")
        assert sum(engine.shard_counts.values()) == engine.layout.n_shards
    finally:
        engine.close()


@pytest.mark.usefixtures("tiny_shards")
def test_a_slow_worker_changes_no_bit(client, sparse_data, slow_worker, caplog):
    X, y = sparse_data
    few = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    with dask.config.set(scheduler="threads"):
        alone = TSVM(lam=0.1, positive_ratio=0.5).fit(X, few)
    with caplog.at_level("INFO", logger="dask_s3vm.engine"):
        slowed = TSVM(lam=0.1, positive_ratio=0.5).fit(X, few)
    assert np.array_equal(alone.coef_, slowed.coef_)
    assert np.array_equal(alone.transduction_, slowed.transduction_)
    assert "times as long as others" in caplog.text
    assert "shards moved to" in caplog.text
