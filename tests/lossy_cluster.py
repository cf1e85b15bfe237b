"""A cluster that loses workers at chosen calls."""

import types

import numpy as np
import pytest

from dask_s3vm.engine import cluster, computing
from dask_s3vm.engine.calls import RemoteGroup, WorkerGroup
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.shard import Shard
from dask_s3vm.engine.workers import first_runs
from dask_s3vm.exceptions import WorkerLostError


class Losses:
    """A real cluster engine over groups of this process; call number `at` meets a lost worker.

    There are three workers; the shards of a lost one go to those that are left, which keep theirs
    with all row state, and to a new one.
    """

    def __init__(self, source, monkeypatch):
        self.source = source
        self.calls, self.at = 0, None
        monkeypatch.setattr("dask_s3vm._config.elastic_interval", lambda: 0.0)
        monkeypatch.setattr(cluster, "call_all", self.call_all)
        monkeypatch.setattr(cluster, "worker_threads", lambda *_: self.threads)
        monkeypatch.setattr(computing.interrupts, "sleep", lambda seconds: None)
        monkeypatch.setattr(cluster.distributed, "get_worker", self.worker)

    def worker(self):
        return types.SimpleNamespace(
            state=types.SimpleNamespace(actors=self.actors),
            memory_manager=types.SimpleNamespace(memory_limit=None),
        )

    def assign(self, threads):
        runs = first_runs(self.source.layout.n_shards, list(threads.values()))
        return {home: list(range(*run)) for home, run in zip(threads, runs, strict=False)}

    def build(self, shards, threads):
        groups, n_shards = [], self.source.layout.n_shards
        for home, numbers in shards.items():
            fresh = []
            for number in numbers:
                old = self.source._group._shards[number]
                fresh.append(
                    Shard(
                        old.number, old.first_row, old.n_features, old.rows, old.codes, old.weights
                    )
                )
            key = f"group-{len(self.actors)}"
            self.actors[key] = WorkerGroup(fresh, n_shards, 1)
            actor = types.SimpleNamespace(
                member=self.actors[key], future=None, address=home, key=key, lost=False
            )
            groups.append(RemoteGroup(actor, numbers, n_shards))
        return groups

    def call_all(self, client, calls, method, patience=None):
        if method == "run":
            self.calls += 1
            if self.calls == self.at:  # the last one is gone; the others do their part
                lost = calls[-1][0]
                lost.lost = True
                del self.threads[lost.address]
                self.threads["new"] = 1
        return [
            WorkerLostError("gone") if actor.lost else getattr(actor.member, method)(*args)
            for actor, args in calls
        ]

    def engine(self, at=None):
        self.calls, self.at = 0, at
        self.actors, self.threads = {}, {"a": 1, "b": 1, "c": 1}
        client = types.SimpleNamespace(cancel=lambda futures: None, status="running")
        return ClusterEngine(client, self, self.source.layout)

    def bits_of(self, train, n_moments=20, least=50):
        """Return `train(engine)`, which has to be the same whenever a worker is lost.

        n_moments : how many of the calls meet a lost worker, each in a training of its own.
        least : a training has more calls than this.
        """
        wanted = train(self.engine())
        total = self.calls
        assert total > least
        for at in range(1, total + 1, max(1, total // n_moments)):
            engine = self.engine(at)
            assert train(engine) == wanted, f"lost at call {at}"
            assert engine.losses == 1
        return wanted


@pytest.fixture
def losses(monkeypatch):
    """Maker of `Losses` over rows."""

    def make(X, y):
        return Losses(ingest(X, y).place(np.arange(int(y.max()) + 1)), monkeypatch)

    return make
