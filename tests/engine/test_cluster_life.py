"""Fits on a cluster leave nothing behind, survive losses, and name what is wrong."""

import gc
import itertools
import weakref
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from clients import KillOneWorker
from distributed import Client, LocalCluster, span
from waiting import wait_until

import dask_s3vm
from dask_s3vm import L2SVM, S2RLSC
from dask_s3vm.engine import computing, watch, workers
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.sources import LocalSource
from dask_s3vm.exceptions import EngineError, VersionMismatchError

pytestmark = pytest.mark.usefixtures("tiny_shards")

CHUNKS = (150, 150, 150, 150)


def held(dask_worker):
    """Number of results and of actors on a worker."""
    return len(dask_worker.data), len(dask_worker.state.actors)


def assert_nothing_left(client):
    wait_until(
        lambda: not client.futures and all(n == (0, 0) for n in client.run(held).values()),
        lambda: f"left on the cluster: {client.run(held)}, futures {list(client.futures)}",
    )


def test_a_fit_leaves_nothing_on_the_cluster(client, sparse_data, as_dask):
    X, y = sparse_data
    for rows in (X, as_dask(X, CHUNKS)):
        for kernel in ("linear", "rbf"):
            L2SVM(tol=1e-3, kernel=kernel, n_components=20).fit(rows, y)
            gc.collect()
            assert_nothing_left(client)


def test_actors_are_gone_without_waiting_for_the_garbage_collector(client, sparse_data):
    gc.collect()
    gc.disable()
    try:
        L2SVM(tol=1e-3).fit(*sparse_data)
        assert_nothing_left(client)
    finally:
        gc.enable()


def spans_of(dask_scheduler):
    return {span.name for span in dask_scheduler.extensions["spans"].spans.values()}


def n_spans(dask_scheduler):
    return len(dask_scheduler.extensions["spans"].spans)


def test_all_fits_of_a_client_share_one_span(client, sparse_data, as_dask):
    """Neither the scheduler nor the workers ever forget the times of one."""
    X, y = sparse_data
    L2SVM(tol=1e-3).fit(as_dask(X, CHUNKS), y)
    before = client.run_on_scheduler(n_spans)
    assert ("s3vm",) in client.run_on_scheduler(spans_of)
    L2SVM(tol=1e-3).fit(as_dask(X, CHUNKS), y)
    assert client.run_on_scheduler(n_spans) == before
    with span("mine"):
        L2SVM(tol=1e-3).fit(as_dask(X, CHUNKS), y)
    assert ("mine",) in client.run_on_scheduler(spans_of), "a span of the caller stays in force"


def groups_of(dask_scheduler):
    spans = dask_scheduler.extensions["spans"].spans.values()
    return [group.name for one in spans for group in one.groups]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_fit_is_one_group_of_tasks(client, sparse_data, as_dask, lazy):
    """The scheduler keeps a record of every group, and a span for data that it does not know."""
    X, y = sparse_data
    rows = as_dask(X, CHUNKS) if lazy else X
    model = S2RLSC(lam=0.1, n_restarts=2, positive_ratio=0.5, random_state=0)
    few = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    for one, labels in ((L2SVM(tol=1e-3), y), (model, few)):
        one.fit(rows, labels)
        before, n_before = client.run_on_scheduler(groups_of), client.run_on_scheduler(n_spans)
        one.fit(rows, labels)
        new = Counter(client.run_on_scheduler(groups_of)) - Counter(before)
        if lazy:  # the tasks of the array are the user's
            new = Counter({name: new[name] for name in new if "block-" not in name})
        assert new == {"s3vm": 1}
        assert client.run_on_scheduler(n_spans) == n_before


def own_span(dask_scheduler):
    """Groups of tasks and records of graphs of the span of this package; whether its times fit."""
    spans = dask_scheduler.extensions["spans"].spans.values()
    own = max((one for one in spans if one.name == ("s3vm",)), key=lambda one: one.enqueued)
    in_order = own.enqueued <= own.start <= own.stop
    return len(own.groups), len(own.metadata["collections"]), own.done and in_order


def test_the_scheduler_forgets_past_tasks_of_fits(client, sparse_data, as_dask, monkeypatch):
    """Dask itself would keep a record of each group of tasks, and of each graph."""
    X, y = sparse_data
    monkeypatch.setattr(computing, "FORGET_AFTER", 1)
    for _ in range(3):
        L2SVM(tol=1e-3).fit(as_dask(X, CHUNKS), y)
    gc.collect()
    assert_nothing_left(client)
    with computing.in_one_span(client):
        pass
    wait_until(
        lambda: client.run_on_scheduler(own_span) == (1, 1, True),
        lambda: f"groups, graphs, times: {client.run_on_scheduler(own_span)}",
    )


def test_a_scheduler_that_cannot_forget_is_asked_once(client, monkeypatch):
    """One without this package logs an error each time."""
    asked, real = [], Client._run_on_scheduler

    def cannot(*args, **kwargs):
        raise ImportError

    def noting(self, function, *args):
        asked.append(function)
        return real(self, function, *args)

    monkeypatch.setattr(computing, "FORGET_AFTER", 1)
    monkeypatch.setattr(watch, "_cannot_forget", weakref.WeakSet())
    monkeypatch.setattr(watch, "forget_past", cannot)
    monkeypatch.setattr(Client, "_run_on_scheduler", noting)
    for _ in range(3):
        with computing.in_one_span(client):
            pass
        wait_until(lambda: client in watch._cannot_forget, lambda: "it was not asked")
    assert asked == [cannot]


def test_a_fit_that_fails_leaves_nothing_on_the_cluster(client, sparse_data, as_dask):
    X, y = sparse_data

    def fail(row):
        raise ZeroDivisionError("from a callback")

    with pytest.raises(ZeroDivisionError):
        L2SVM(callbacks=fail).fit(as_dask(X, CHUNKS), y)
    gc.collect()
    assert_nothing_left(client)
    with pytest.raises(ValueError, match="one class"):
        L2SVM().fit(as_dask(X, CHUNKS), np.zeros(600))
    gc.collect()
    assert_nothing_left(client)


def test_during_a_fit_the_rows_are_there_once(client, sparse_data, as_dask):
    X, y = sparse_data
    gc.collect()
    assert_nothing_left(client)
    engine = ingest(as_dask(X, CHUNKS), y).place(np.array([0, 1]))
    try:
        assert isinstance(engine, ClusterEngine)
        wait_until(
            lambda: not any(n for n, _ in client.run(results_beside_actors).values()),
            lambda: client.run(results_beside_actors),
        )
        assert sorted(n for _, n in client.run(results_beside_actors).values()) == [1, 1]
    finally:
        engine.close()


def results_beside_actors(dask_worker):
    actors = dask_worker.state.actors
    return len([key for key in dask_worker.data if key not in actors]), len(actors)


def test_small_data_stays_in_this_process(client, sparse_data, as_dask):
    X, y = sparse_data
    with dask.config.set({"s3vm.local-bytes": "1 MiB"}):
        assert isinstance(ingest(X, y), LocalSource)
        assert isinstance(ingest(as_dask(X, CHUNKS), y), LocalSource)
    gc.collect()
    assert_nothing_left(client)


def test_a_local_scheduler_in_the_configuration_wins(client, sparse_data):
    with dask.config.set(scheduler="threads"):
        assert isinstance(ingest(*sparse_data), LocalSource)


def test_another_version_on_a_worker_is_named(client, sparse_data, monkeypatch):
    monkeypatch.setattr(workers, "_done", weakref.WeakKeyDictionary())  # they were asked before
    monkeypatch.setattr(dask_s3vm, "__version__", "0.0.0")
    worker = min(client.nthreads())
    message = rf"2 of 2 workers do not run dask_s3vm .*{worker} has version 0\.0\.0"
    with pytest.raises(VersionMismatchError, match=message):
        L2SVM().fit(*sparse_data)


def test_a_worker_is_asked_for_its_version_once(client, sparse_data, as_dask, monkeypatch):
    X, y = sparse_data
    monkeypatch.setattr(workers, "_done", weakref.WeakKeyDictionary())
    asked, run = [], client.run
    monkeypatch.setattr(
        client,
        "run",
        lambda *args, **how: (asked.append(sorted(how["workers"])), run(*args, **how))[1],
    )
    for rows in (X, as_dask(X, CHUNKS), X):
        L2SVM().fit(rows, y)
    present = sorted(client.nthreads())
    assert asked == [present]
    state, other = workers.cluster_state(client), present[0]
    state["workers"][other]["local_directory"] += "-of-a-successor"
    monkeypatch.setattr(workers, "cluster_state", lambda _: state)
    workers.worker_threads(client)
    assert asked == [present, [other]]


def test_blocks_come_to_be_where_their_shards_will_be(client, sparse_data, as_dask):
    X, y = sparse_data
    for rows in (X, as_dask(X, CHUNKS)):
        source = ingest(rows, y)
        try:
            blocks = source.blocks(range(source._make_blocks.n_blocks))
            holders = client.who_has(list(blocks.values()))
            homes = [holders[blocks[number].key] for number in sorted(blocks)]
            runs = [home for home, _ in itertools.groupby(homes)]
            assert runs == [[address] for address in sorted(client.nthreads())]
            first = client.gather(blocks[0]).rows
            assert first.indices.dtype == np.uint16  # narrow on its way, too
        finally:
            source.close()


def test_no_worker_is_an_error_soon(sparse_data, as_dask):
    X, y = sparse_data
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster),
        dask.config.set({"s3vm.connect-timeout": "0.5 s"}),
    ):
        for rows in (X, as_dask(X, CHUNKS)):
            with pytest.raises(EngineError, match=r"has no worker \(waited 0\.5 s\)"):
                L2SVM().fit(rows, y)


def test_an_error_in_an_operation_is_not_taken_for_a_lost_worker(
    client, sparse_data, as_dask, caplog
):
    X, y = sparse_data
    engine = ingest(as_dask(X, CHUNKS), y).place(np.array([0, 1]))
    try:
        with pytest.raises(KeyError, match="no such state"):
            engine.sum(fail_in_shard)
        assert engine.losses == 0
    finally:
        engine.close()
    gc.collect()
    assert "never retrieved" not in caplog.text, "it is raised once, and each worker fails"


def fail_in_shard(shard):
    raise KeyError("no such state")


@pytest.mark.parametrize("n_rows", [3, 40])
def test_rows_heavier_than_a_shard_can_be_sent(client, n_rows):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, 2000)), np.arange(n_rows) % 2
    found = L2SVM(tol=1e-9).fit(X, y)
    with dask.config.set(scheduler="synchronous"):
        assert bits(found) == bits(L2SVM(tol=1e-9).fit(X, y))


# loss of a worker


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_, model.n_iter_


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("kind", "kernel"),
    [("dask", "linear"), ("memory", "linear"), ("dask", "rbf"), ("memory", "rbf")],
)
def test_the_model_survives_a_killed_worker_bit_for_bit(
    mortal_client, sparse_data, as_dask, kind, kernel
):
    X, y = sparse_data
    params = {"lam": 1e-3, "tol": 1e-8, "kernel": kernel, "n_components": 40, "random_state": 0}
    with dask.config.set(scheduler="synchronous"):
        wanted = L2SVM(**params).fit(X, y)
    mortal_client.wait_for_workers(2)
    killer = KillOneWorker(mortal_client)
    rows = as_dask(X, CHUNKS) if kind == "dask" else X
    labels = da.from_array(y, chunks=100) if kind == "dask" else y
    found = L2SVM(callbacks=killer, **params).fit(rows, labels)
    assert killer.killed is not None
    assert wanted.n_iter_ > 2
    assert bits(found) == bits(wanted)
    assert [row["objective"] for row in found.history_] == [
        row["objective"] for row in wanted.history_
    ]
