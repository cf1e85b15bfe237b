"""One model, bit for bit, wherever and in whatever chunks the rows are."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster

from dask_s3vm import L2SVM
from dask_s3vm.datasets import make_text
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.problems import hinge
from dask_s3vm.solvers import newton

pytestmark = pytest.mark.usefixtures("tiny_shards")

PLACES = ["threads1", "threads2", "threads3", "synchronous", "inproc"]
PROCESSES = [
    pytest.param(f"{kind}{n}", marks=pytest.mark.cluster)
    for kind, n in (("processes", 1), ("processes", 2), ("exchange", 2), ("exchange", 4))
]
CHUNKS = (100, 1, 250, 249)


@pytest.fixture(scope="module", params=[*PLACES, *PROCESSES])
def place(request):
    """A place for rounds to run; gives the client, if there is one."""
    name, number = request.param.rstrip("1234"), request.param[-1]
    if name == "synchronous":
        with dask.config.set(scheduler="synchronous"):
            yield None
    elif name == "threads":
        with dask.config.set({"scheduler": "threads", "s3vm.threads": int(number)}):
            yield None
    else:
        processes = name in ("processes", "exchange")
        workers = int(number) if processes else 3
        threads = 1 if processes else 2
        with (
            dask.config.set({"s3vm.exchange-bytes": 0 if name == "exchange" else None}),
            LocalCluster(
                n_workers=workers,
                threads_per_worker=threads,
                processes=processes,
                dashboard_address=":0",
            ) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(workers)
            yield client


def widened(X):
    """The same rows among so many columns that those which do not occur are left out."""
    wide = sp.csr_array(X).copy()
    return sp.csr_array((wide.data, 1700 * wide.indices, wide.indptr), shape=(X.shape[0], 70_000))


def graded(X):
    """The same rows with columns of very different sizes: Newton systems are factored."""
    return X.toarray() * 10.0 ** np.linspace(-4, 3, X.shape[1])


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_


def fitted(X, y, sample_weight=None):
    return bits(L2SVM(lam=1e-2, tol=1e-5).fit(X, y, sample_weight))


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(9).random(600)


@pytest.fixture(scope="module")
def reference(sparse_data, weights):
    """Models of one thread: sparse, dense, weighted."""
    X, y = sparse_data
    alone = {"scheduler": "synchronous", "s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}
    with dask.config.set(alone):
        return {
            "sparse": fitted(X, y),
            "dense": fitted(X.toarray(), y),
            "weighted": fitted(X, y, weights),
            "wide": fitted(widened(X), y),
            "graded": fitted(graded(X), y),
        }


def test_rows_in_memory_give_the_same_bits(place, reference, sparse_data, weights):
    X, y = sparse_data
    assert fitted(X, y) == reference["sparse"]
    assert fitted(X.toarray(), y) == reference["dense"]
    assert fitted(X, da.from_array(y, chunks=77), weights) == reference["weighted"]


def test_factored_systems_give_the_same_bits(place, reference, sparse_data, as_dask, monkeypatch):
    made, factored = [], newton.factored
    monkeypatch.setattr(newton, "factored", lambda matrix: made.append(1) or factored(matrix))
    X, y = sparse_data
    assert fitted(as_dask(graded(X), CHUNKS, convert=np.asarray), y) == reference["graded"]
    assert made


def test_wide_rows_give_the_same_bits(place, reference, sparse_data, as_dask):
    X, y = sparse_data
    assert X.shape[1] * 1700 <= 70_000
    assert fitted(widened(X), y) == reference["wide"]
    assert fitted(as_dask(widened(X), CHUNKS), y) == reference["wide"]


def test_columns_that_do_not_occur_change_nothing(sparse_data):
    X, y = sparse_data
    narrow, wide = (L2SVM(lam=1e-2, tol=1e-12).fit(rows, y) for rows in (X, widened(X)))
    used = 1700 * np.arange(X.shape[1])
    np.testing.assert_allclose(wide.coef_[:, used], narrow.coef_, atol=1e-6)
    assert np.count_nonzero(wide.coef_) <= X.shape[1]
    assert np.array_equal(wide.predict(widened(X)), narrow.predict(X))


def test_dask_rows_give_the_same_bits(place, reference, sparse_data, as_dask):
    X, y = sparse_data
    lazy = as_dask(X, CHUNKS)
    assert fitted(lazy, y) == reference["sparse"]
    assert fitted(lazy, da.from_array(y, chunks=170)) == reference["sparse"]


def test_unknown_chunk_sizes_give_the_same_bits(place, reference, sparse_data, as_dask, weights):
    X, y = sparse_data
    lazy = as_dask(X, CHUNKS, known=False)
    chunks = (CHUNKS,)
    assert np.isnan(lazy.shape[0])
    assert fitted(lazy, y) == reference["sparse"]
    beside = da.from_array(y, chunks=chunks), da.from_array(weights, chunks=chunks)
    assert fitted(lazy, *beside) == reference["weighted"]


def test_weights_of_any_kind_give_the_same_bits(place, reference, sparse_data, as_dask, weights):
    X, y = sparse_data
    lazy = as_dask(X, CHUNKS)
    assert fitted(lazy, y, weights) == reference["weighted"]
    assert fitted(lazy, y, da.from_array(weights, chunks=64)) == reference["weighted"]


def test_dense_rows_in_several_column_chunks_give_the_same_bits(place, reference, sparse_data):
    X, y = sparse_data
    lazy = da.from_array(X.toarray(), chunks=(130, 11))
    assert fitted(lazy, da.from_array(y, chunks=200)) == reference["dense"]


def test_empty_chunks_give_the_same_bits(place, reference, sparse_data, as_dask):
    X, y = sparse_data
    lazy = as_dask(X, (0, 300, 0, 300, 0))
    assert lazy.chunks[0] == (0, 300, 0, 300, 0)
    assert fitted(lazy, y) == reference["sparse"]


def raw_sums(X, y, kind):
    """Sums of one evaluation and one product, and the shards they come from."""
    engine = ingest(X, y).place(np.array([0, 1]))
    try:
        assert isinstance(engine, kind)
        engine.each(hinge.set_targets, 1, np.array([0.4, 0.6]))
        w, p = np.random.default_rng(1).normal(size=(2, X.shape[1] + 1))
        gradient, loss, n_active = engine.sum(hinge.evaluate, w, 1.0, 0)
        product, curvature = engine.sum(hinge.gram, p, 1.0, 0)
        numbers = loss, n_active, curvature, engine.layout.starts
        return gradient.tobytes(), product.tobytes(), numbers
    finally:
        engine.close()


def test_raw_sums_are_the_same_bits(place, sparse_data, as_dask):
    X, y = sparse_data
    with dask.config.set(scheduler="synchronous"):
        wanted = raw_sums(X, y, LocalEngine)
    assert len(wanted[2][3]) > 10
    kind = LocalEngine if place is None else ClusterEngine
    assert raw_sums(X, y, kind) == wanted
    assert raw_sums(as_dask(X, CHUNKS), y, kind) == wanted


@pytest.mark.parametrize("block", ["gcxs", "scipy"])
def test_wide_text_gives_the_same_bits_for_every_block_and_chunk(place, block):
    # wide enough for columns to be renumbered
    X, y = make_text(400, 5000, 20, chunks=90, block="scipy")
    with dask.config.set(scheduler="synchronous", **{"s3vm.shard-bytes": 4096}):
        memory = sp.vstack(list(dask.compute(*X.to_delayed().ravel())), format="csr")
        labels = y.compute()
        with dask.config.set({"s3vm.threads": 1}):
            wanted = fitted(memory, labels)
    X, y = make_text(400, 5000, 20, chunks=160, block=block)
    assert fitted(X, y) == wanted
