"""A cluster engine over groups of this process, whose calls fail when told to."""

import types

import numpy as np

from dask_s3vm.engine import cluster
from dask_s3vm.engine.cluster import ActorGroup, ClusterEngine
from dask_s3vm.engine.group import Group
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.shard import Shard
from dask_s3vm.exceptions import WorkerLostError


class LossyCluster:
    """Stands in for a cluster; the call number `at` meets a lost worker."""

    def __init__(self, X, y, monkeypatch):
        self.source = ingest(X, y).place(np.arange(int(y.max()) + 1))
        self.calls, self.at = 0, None
        monkeypatch.setattr(cluster, "call_all", self.call_all)
        monkeypatch.setattr(cluster.time, "sleep", lambda seconds: None)

    def place(self):
        fresh = [
            Shard(old.number, old.start, old.n_features, old.rows, old.codes, old.weights)
            for old in self.source._group._shards
        ]
        n, half = len(fresh), len(fresh) // 2
        groups = []
        for part in (fresh[:half], fresh[half:]):
            actor = types.SimpleNamespace(group=Group(part, n, 1), future=None)
            groups.append(ActorGroup(actor, part[0].number, part[-1].number + 1, n))
        return groups

    def call_all(self, client, actors, method, args):
        if method == "close":
            return []
        self.calls += 1
        if self.calls == self.at:
            getattr(actors[0].group, method)(*args)  # one worker is done, the other one is gone
            raise WorkerLostError("gone")
        return [getattr(actor.group, method)(*args) for actor in actors]

    def engine(self, at=None):
        self.calls, self.at = 0, at
        client = types.SimpleNamespace(cancel=lambda futures: None)
        return ClusterEngine(client, self.place, self.source.layout)
