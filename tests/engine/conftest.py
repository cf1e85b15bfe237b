"""Engines over workers that are made up, see `two_workers`."""

import types

import pytest
from two_workers import LAYOUT, World, done

from dask_s3vm.engine.cluster import ClusterEngine


@pytest.fixture
def engine_with(monkeypatch):
    """Make an engine of two groups; `losses` says in which of its next calls one is lost."""
    world = World()
    monkeypatch.setattr("dask_s3vm._config.elastic_interval", lambda: 0.0)
    monkeypatch.setattr("dask_s3vm.engine.cluster.call_all", world.call_all)
    monkeypatch.setattr("dask_s3vm.engine.cluster.worker_threads", lambda *_: world.workers)
    monkeypatch.setattr("dask_s3vm.engine.cluster.check_versions", lambda *_: None)
    monkeypatch.setattr("dask_s3vm.engine.computing.interrupts.sleep", world.pauses.append)
    monkeypatch.setattr("dask_s3vm.engine.cluster.distributed.get_worker", world.worker)
    monkeypatch.setattr("dask_s3vm.engine.memory.inside_task", lambda: False)

    def make(losses, workers=None):
        world.workers = workers or world.workers
        client = types.SimpleNamespace(cancel=world.cancel, status="running")
        engine = ClusterEngine(client, world, LAYOUT)
        world.losses = list(losses)
        done.clear()
        return engine, world

    return make
