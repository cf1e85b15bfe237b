"""Fits on rows that stay in files: the same models, without a copy, also after a loss."""

import os
import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from clients import KillOneWorker
from distributed import Client, LocalCluster
from mapped_cases import mapped_array

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, TSVM
from dask_s3vm.engine import memory
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.exceptions import MemoryShortError, MemoryShortWarning
from dask_s3vm.io import read_data, write_data

pytestmark = [
    pytest.mark.usefixtures("tiny_shards"),
    pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="Linux alone knows"),
]

CHUNKS = (200, 0, 150, 50, 200)


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_, model.n_iter_


def mapping(how):
    return dask.config.set({"s3vm.mapped": how})


@pytest.fixture
def in_file(tmp_path, sparse_data):
    """Rows in a file, as a dask array, the same rows in memory, and labels."""
    X, y = sparse_data
    return mapped_array(str(tmp_path / "rows.bin"), X, CHUNKS), X, y


@pytest.mark.parametrize("form", ["csr", "gcxs"])
def test_where_rows_fit_they_are_copied_and_nothing_is_different(tmp_path, sparse_data, form):
    X, y = sparse_data
    lazy = mapped_array(str(tmp_path / "rows.bin"), X, CHUNKS, form)
    wanted = bits(L2SVM(tol=1e-9).fit(X, y))
    for how in ("auto", "never"):
        with mapping(how):
            assert bits(L2SVM(tol=1e-9).fit(lazy, y)) == wanted


@pytest.mark.parametrize(
    "model",
    [
        L2SVM(tol=1e-9),
        TSVM(lam_unlabeled=0.5, positive_ratio=0.5, tol=1e-9),
        DAS3VM(lam_unlabeled=0.5, positive_ratio=0.5, tol=1e-9),
        QNS3VM(lam_unlabeled=0.5, positive_ratio=0.5, tol=1e-9),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_objective_is_that_of_rows_in_memory(in_file, model):
    lazy, X, y = in_file
    few = y.copy()
    few[60:] = -1
    wanted = model.fit(X, few).objective_
    with mapping("always"):
        found = model.fit(lazy, few)
    assert found.objective_ == pytest.approx(wanted, rel=1e-7)


def test_chunks_do_not_matter_but_for_the_last_bits(tmp_path, sparse_data):
    X, y = sparse_data
    found = []
    with mapping("always"):
        for number, chunks in enumerate([(600,), CHUNKS, (1,) * 20 + (580,)]):
            lazy = mapped_array(str(tmp_path / f"{number}.bin"), X, chunks)
            found.append(L2SVM(tol=1e-10).fit(lazy, y))
    for model in found[1:]:
        assert model.objective_ == pytest.approx(found[0].objective_, rel=1e-9)
        assert np.allclose(model.coef_, found[0].coef_, atol=1e-6)


def test_placing_mapped_rows_copies_none_of_them(tmp_path):
    X = sp.random_array((5000, 200), density=0.9, format="csr", rng=np.random.default_rng(0))
    y = np.arange(5000) % 2
    lazy = mapped_array(str(tmp_path / "rows.bin"), X, (2000, 3000))
    settings = {"scheduler": "synchronous", "s3vm.shard-bytes": "1 MiB"}
    with mapping("always"), dask.config.set(settings):
        ingest(lazy, y).place(np.array([0, 1])).close()  # imports, caches
        tracemalloc.start()
        try:
            engine = ingest(lazy, y).place(np.array([0, 1]))
            arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
            found = tracemalloc.take_snapshot().filter_traces([arrays])
        finally:
            tracemalloc.stop()
        assert engine.layout.mapped
        held = sum(trace.size for trace in found.traces)
        assert 0 < held < 0.05 * (X.data.nbytes + X.indices.nbytes)
        engine.close()


def test_rows_in_memory_that_are_views_of_a_file_can_stay_there(tmp_path, sparse_data):
    X, y = sparse_data
    dense = X.toarray()
    np.save(tmp_path / "X.npy", dense)
    with mapping("always"):
        engine = ingest(np.load(tmp_path / "X.npy", mmap_mode="r"), y).place(np.array([0, 1]))
        assert engine.layout.mapped
        engine.close()
        found = L2SVM(tol=1e-9).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert found.objective_ == pytest.approx(L2SVM(tol=1e-9).fit(dense, y).objective_, rel=1e-9)


@pytest.mark.parametrize("ending", ["arrow", "npy"])
def test_rows_of_readers_can_stay_in_their_files(tmp_path, sparse_data, ending):
    if ending == "arrow":
        pytest.importorskip("pyarrow")
    X, y = sparse_data
    rows = X if ending == "arrow" else X.toarray()
    write_data(rows, y, tmp_path / f"rows.{ending}")
    lazy, _ = read_data(str(tmp_path / f"rows.{ending}"))
    wanted = L2SVM(tol=1e-9).fit(rows, y)
    with mapping("always"):
        engine = ingest(lazy, y).place(np.array([0, 1]))
        assert engine.layout.mapped
        engine.close()
        found = L2SVM(tol=1e-9).fit(lazy, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-9)


def test_mapped_only_if_all_blocks_are(tmp_path, sparse_data, as_dask):
    X, y = sparse_data
    lazy = da.concatenate(
        [mapped_array(str(tmp_path / "rows.bin"), X[:300], (300,)), as_dask(X[300:], (300,))]
    )
    with mapping("always"):
        engine = ingest(lazy, y).place(np.array([0, 1]))
        assert not engine.layout.mapped
        engine.close()


def test_rows_beyond_a_comfortable_size_are_left_in_their_file(in_file, monkeypatch):
    lazy, _, y = in_file
    monkeypatch.setattr(memory, "limit_here", lambda: 2**20)
    engine = ingest(lazy, y).place(np.array([0, 1]))
    assert engine.layout.mapped
    engine.close()


def test_a_setting_that_means_nothing_is_refused(in_file):
    lazy, _, y = in_file
    with mapping("perhaps"), pytest.raises(ValueError, match="wanted auto, always or never"):
        L2SVM().fit(lazy, y)


# on a cluster


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="2 GiB",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


@pytest.mark.cluster
def test_a_lost_worker_changes_nothing(client, in_file):
    lazy, _, y = in_file
    labels = da.from_array(y, chunks=100)
    params = {"lam": 1e-3, "tol": 1e-8}
    with mapping("always"):
        with dask.config.set(scheduler="synchronous"):
            wanted = L2SVM(**params).fit(lazy, y)
        killer = KillOneWorker(client)
        found = L2SVM(callbacks=killer, **params).fit(lazy, labels)
    assert killer.killed is not None
    assert bits(found) == bits(wanted)
    client.wait_for_workers(2)


@pytest.mark.cluster
def test_no_task_of_a_fit_has_the_bytes_of_mapped_rows(client, tmp_path):
    X = sp.random_array((4000, 50), density=1.0, format="csr", rng=np.random.default_rng(0))
    lazy = mapped_array(str(tmp_path / "rows.bin"), X, (2000, 2000))
    with mapping("always"):
        source = ingest(lazy, np.arange(4000) % 2)
        weights = [size for sizes in client.run(stored_sizes).values() for size in sizes]
        source.close()
    assert weights
    assert max(weights) < 0.1 * X.data.nbytes / 2


def stored_sizes(dask_worker):
    return [dask_worker.state.tasks[key].nbytes for key in dask_worker.data]


@pytest.mark.cluster
def test_rows_that_cannot_fit_are_refused_before_work_begins(client, sparse_data, monkeypatch):
    X, y = sparse_data
    small = dict.fromkeys(client.nthreads(), 300 * 2**20)
    monkeypatch.setattr("dask_s3vm.engine.placement.worker_limits", lambda *given: small)
    with pytest.raises(MemoryShortError, match=r"in each of 2 workers, whose memory limit is 300"):
        L2SVM().fit(X, y)
    tight = dict.fromkeys(client.nthreads(), 430 * 2**20)
    monkeypatch.setattr("dask_s3vm.engine.placement.worker_limits", lambda *given: tight)
    with pytest.warns(MemoryShortWarning, match="memory will be short"):
        L2SVM().fit(X, y)
