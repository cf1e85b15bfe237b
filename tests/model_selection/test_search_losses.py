"""The loss of a worker during a search changes no score."""

from contextlib import contextmanager
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from search_cases import FOLDS, few_labels, smooth, split_scores

from dask_s3vm import S2RLSC, TSVM
from dask_s3vm.model_selection import S3VMGridSearchCV, _run


@pytest.mark.parametrize("kind", [TSVM, S2RLSC])
def test_a_loss_at_any_moment_changes_no_score(kind, losses, tiny_shards, monkeypatch):
    X, y, _ = few_labels(n=300)
    estimator = S2RLSC(n_restarts=2, random_state=0) if kind is S2RLSC else TSVM()
    grid = {"lam": [1.0, 0.1], "lam_unlabeled": [0.1, 1.0]}
    search = S3VMGridSearchCV(estimator, grid, cv=FOLDS, scoring=smooth, refit=False)
    wanted = split_scores(search.fit(X, y))
    world = losses(X, y)
    original = _run.placed_once

    def searched(at):
        engine = world.engine(at)

        @contextmanager
        def placed(*args):
            with original(*args) as rows:
                yield replace(rows, engine=engine)

        monkeypatch.setattr(_run, "placed_once", placed)
        return split_scores(search.fit(X, y)), world.calls, engine.losses

    scores, total, _ = searched(None)
    assert np.array_equal(scores, wanted)
    for at in np.linspace(2, total - 1, 8).astype(int):
        scores, _, lost = searched(at)
        assert lost > 0
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
