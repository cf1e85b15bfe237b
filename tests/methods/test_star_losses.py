"""STAR-SVM on shards: a worker that is lost, at any moment, changes nothing."""

import types

import numpy as np
import pytest

from dask_s3vm.engine import cluster
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.group import Group
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.placement import ActorGroup
from dask_s3vm.engine.shard import Shard
from dask_s3vm.exceptions import WorkerLostError
from dask_s3vm.methods.base import History
from dask_s3vm.methods.star import StarSettings, class_codes, train_sharded

pytestmark = pytest.mark.usefixtures("tiny_shards")


@pytest.fixture
def world(monkeypatch, make_rows):
    """A cluster of two groups in this process; call number `world.at` meets a lost worker."""
    X, y = make_rows(300, 20, seed=8)
    few = np.where(np.arange(300) % 6 == 0, y, -1)
    source = ingest(X, few).place(np.array([0, 1]))
    world = types.SimpleNamespace(calls=0, at=None)

    def place():
        fresh = [
            Shard(old.number, old.start, old.n_features, old.rows, old.codes, old.weights)
            for old in source._group._shards
        ]
        n, half, groups = len(fresh), len(fresh) // 2, []
        for part in (fresh[:half], fresh[half:]):
            actor = types.SimpleNamespace(group=Group(part, n, 1), future=None)
            groups.append(ActorGroup(actor, part[0].number, part[-1].number + 1, n))
        return groups

    def call_all(client, actors, method, args):
        if method == "close":
            return []
        world.calls += 1
        if world.calls == world.at:
            getattr(actors[0].group, method)(*args)  # one worker is done, the other one is gone
            raise WorkerLostError("gone")
        return [getattr(actor.group, method)(*args) for actor in actors]

    def engine(at=None):
        world.calls, world.at = 0, at
        client = types.SimpleNamespace(cancel=lambda futures: None)
        return ClusterEngine(client, place, source.layout)

    monkeypatch.setattr(cluster, "call_all", call_all)
    monkeypatch.setattr(cluster.time, "sleep", lambda seconds: None)
    world.engine, world.local = engine, source
    return world


def trained_bits(engine):
    history = History()
    settings = StarSettings(0.8, 1e-4, 1e-2, 1000, None, 0.05)
    found = []
    for positive in (0, 1):
        costs = np.array([0.7, 1.3])
        w, one = train_sharded(engine, costs, (1.3, 0.7), settings, history, positive)
        found += [w.tobytes(), one.labels.tobytes(), one.stages.tobytes(), one.ranking.tobytes()]
    codes, weights = class_codes(engine)
    assert weights is None
    return [*found, codes.tobytes()], [{**row, "seconds": 0} for row in history.rows]


def test_a_loss_at_any_moment_changes_no_bit(world):
    wanted = trained_bits(world.local)
    assert trained_bits(world.engine()) == wanted
    total = world.calls
    assert total > 50
    for at in range(1, total + 1, max(1, total // 20)):
        engine = world.engine(at)
        assert trained_bits(engine) == wanted, f"lost at call {at}"
        assert engine.generation == 1
