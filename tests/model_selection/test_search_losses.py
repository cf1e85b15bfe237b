"""A worker that is lost in the middle of a search changes no score."""

import types
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from search_cases import FOLDS, few_labels, smooth, split_scores

from dask_s3vm import S2RLSC, TSVM
from dask_s3vm.engine import cluster
from dask_s3vm.engine.cluster import ActorGroup, ClusterEngine
from dask_s3vm.engine.group import Group
from dask_s3vm.engine.shard import Shard
from dask_s3vm.exceptions import WorkerLostError
from dask_s3vm.model_selection import S3VMGridSearchCV, _run


class Losses:
    """Groups of this process behind a real cluster engine; call number `at` meets a loss."""

    def __init__(self, at):
        self.calls, self.at = 0, at

    def engine(self, shards, layout):
        def place():
            fresh = [
                Shard(old.number, old.start, old.n_features, old.rows, old.codes, old.weights)
                for old in shards
            ]
            n, half = len(fresh), len(fresh) // 2
            groups = []
            for part in (fresh[:half], fresh[half:]):
                actor = types.SimpleNamespace(group=Group(part, n, 1), future=None)
                groups.append(ActorGroup(actor, part[0].number, part[-1].number + 1, n))
            return groups

        return ClusterEngine(types.SimpleNamespace(cancel=lambda futures: None), place, layout)

    def call_all(self, client, actors, method, args):
        if method == "close":
            return []
        self.calls += 1
        if self.calls == self.at:
            getattr(actors[0].group, method)(*args)
            raise WorkerLostError("gone")
        return [getattr(actor.group, method)(*args) for actor in actors]


@pytest.mark.parametrize("kind", [TSVM, S2RLSC])
def test_a_loss_at_any_moment_changes_no_score(kind, tiny_shards, monkeypatch):
    X, y, _ = few_labels(n=300)
    estimator = S2RLSC(n_restarts=2) if kind is S2RLSC else TSVM()
    grid = {"lam": [1.0, 0.1], "lam_unlabeled": [0.1, 1.0]}
    search = S3VMGridSearchCV(estimator, grid, cv=FOLDS, scoring=smooth, refit=False)
    wanted = split_scores(search.fit(X, y))
    original = _run.placed_once

    def searched(at):
        world = Losses(at)
        engines = []

        @contextmanager
        def placed(*args):
            with original(*args) as rows:
                held = rows.engine.held()
                engines.append(world.engine(held.shards, held.layout))
                yield _run.replace(rows, engine=engines[0])

        monkeypatch.setattr(_run, "placed_once", placed)
        monkeypatch.setattr(cluster, "call_all", world.call_all)
        monkeypatch.setattr(cluster.time, "sleep", lambda seconds: None)
        return split_scores(search.fit(X, y)), world.calls, engines[0].generation

    scores, total, _ = searched(None)
    assert np.array_equal(scores, wanted)
    for at in np.linspace(2, total - 1, 8).astype(int):
        scores, _, generation = searched(at)
        assert generation == 1
        assert np.array_equal(scores, wanted), f"lost at call {at} of {total}"


@pytest.mark.cluster
def test_worker_processes_run_the_fits():
    X, y, _ = few_labels()
    search = S3VMGridSearchCV(
        TSVM(), {"lam": [1.0, 0.1], "lam_unlabeled": [0.1, 1.0]}, cv=FOLDS, scoring=smooth
    )
    wanted = search.fit(X, y)
    scores, final = split_scores(wanted), wanted.best_estimator_.coef_
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
        Client(workers),
    ):
        assert np.array_equal(split_scores(search.fit(X, y)), scores)
        with dask.config.set({"s3vm.local-bytes": 0}):
            lazy = da.from_array(X, chunks=(45, 5))
            assert np.array_equal(split_scores(search.fit(lazy, y)), scores)
        assert np.array_equal(search.best_estimator_.coef_, final)
