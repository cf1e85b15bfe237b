"""TSVM and DAS3VM: input of all kinds, transduction, and the same bits everywhere."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from clients import KillOneWorker
from distributed import Client, LocalCluster
from transductive_cases import ALL, assert_identical, each, quiet

from dask_s3vm import DAS3VM, TSVM

pytestmark = quiet


# input of all kinds, and transduction


@pytest.fixture(scope="module")
def thin(small):
    """Rows with zeros among them."""
    X, _, y = small
    return np.where(np.abs(X) < 0.5, 0.0, X), y


@each
def test_all_kinds_of_input_give_the_same_model(kind, thin):
    X, y = thin
    csr = sp.csr_array(X)
    rows = [
        csr, sp.csc_matrix(X), sparse.COO.from_numpy(X), sparse.GCXS.from_numpy(X),
        da.from_array(X, chunks=(50, 4)), da.from_array(X, chunks=50).map_blocks(sp.csr_array),
    ]  # fmt: skip
    params = {"positive_ratio": 0.5, "tol": 1e-9}
    wanted = kind(0.01, **params).fit(X, y)
    for one in rows:
        model = kind(0.01, **params).fit(one, y)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-4)
        assert np.array_equal(np.asarray(model.transduction_), wanted.transduction_)
    lazy = da.from_array(y, chunks=33)
    assert_identical(kind(0.01, **params).fit(X, lazy), wanted)


@each
@pytest.mark.parametrize("y_chunks", [None, 40, 30, ((50, 30, 40),)])
def test_transduction_keeps_known_labels_and_is_lazy(kind, thin, y_chunks):
    X, y = thin
    computed = []

    def watch(block):
        computed.append(len(block))
        return block

    wanted = kind(0.01, positive_ratio=0.5).fit(X, y).transduction_
    assert isinstance(wanted, np.ndarray)
    assert np.array_equal(wanted[y >= 0], y[y >= 0])
    assert set(wanted) == {0, 1}
    lazy = da.from_array(X, chunks=(40, 6)).map_blocks(watch, dtype=X.dtype, meta=X[:0])
    labels = y if y_chunks is None else da.from_array(y, chunks=y_chunks)
    with dask.config.set(scheduler="synchronous"):
        model = kind(0.01, positive_ratio=0.5).fit(lazy, labels)
        assert isinstance(model.transduction_, da.Array)
        before = len(computed)
        assert before == 3
        assert np.array_equal(model.transduction_.compute(), wanted)
        assert len(computed) == before + 3
    assert model.transduction_.dtype == wanted.dtype


@each
@pytest.mark.parametrize("lazy_y", [False, True])
def test_transduction_of_unknown_chunks_keeps_known_labels(kind, thin, lazy_y, as_dask):
    X, y = thin
    y = y.copy()
    y[y >= 0] = 1 - y[y >= 0]  # labels that the model will not predict
    rows = as_dask(sp.csr_array(X), (40, 50, 30), known=False)
    labels = da.from_array(y, chunks=((40, 50, 30),)) if lazy_y else y
    model = kind(100.0, positive_ratio=0.5).fit(rows, labels)
    found = np.asarray(model.transduction_)
    assert np.array_equal(found[y >= 0], y[y >= 0])


# the same bits everywhere


@pytest.fixture(scope="module")
def many(make_rows):
    """Sparse rows in several shards, every tenth one empty."""
    X, y = make_rows(600, 30, 5)
    return X, np.where(np.random.default_rng(1).random(600) < 0.1, y, -1)


def fitted_bits(kind, X, y, callbacks=None):
    model = kind(0.1, positive_ratio=0.5, callbacks=callbacks).fit(X, y)
    found = model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_
    return *found, np.asarray(model.transduction_).tolist()


@pytest.fixture(scope="module")
def reference(many):
    """Models of one thread."""
    alone = {"scheduler": "synchronous", "s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}
    with dask.config.set(alone):
        return {kind: fitted_bits(kind, *many) for kind in ALL}


@each
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("tiny_shards")
def test_any_number_of_threads_gives_the_same_bits(kind, threads, many, reference, as_dask):
    X, y = many
    with dask.config.set({"scheduler": "threads", "s3vm.threads": threads}):
        assert fitted_bits(kind, X, y) == reference[kind]
        rows = as_dask(X, (100, 250, 250))
        assert (
            fitted_bits(kind, rows, da.from_array(y, chunks=((100, 250, 250),))) == reference[kind]
        )


@pytest.fixture(
    scope="module", params=["inproc", pytest.param("processes", marks=pytest.mark.cluster)]
)
def client(request):
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=request.param == "processes",
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


@each
@pytest.mark.usefixtures("tiny_shards")
def test_a_cluster_gives_the_same_bits(kind, client, many, reference, as_dask):
    X, y = many
    rows = as_dask(X, (100, 250, 250))
    assert fitted_bits(kind, rows, da.from_array(y, chunks=((100, 250, 250),))) == reference[kind]


@each
@pytest.mark.cluster
@pytest.mark.usefixtures("tiny_shards")
def test_a_killed_worker_changes_no_bit(kind, mortal_client, many, reference, as_dask):
    X, y = many
    mortal_client.wait_for_workers(2)
    killer = KillOneWorker(mortal_client, at=15)
    rows = as_dask(X, (150, 150, 150, 150))
    found = fitted_bits(kind, rows, da.from_array(y, chunks=150), killer)
    assert killer.killed is not None
    assert found == reference[kind]


# figures of another program on the same rows


@pytest.mark.parametrize(
    ("kind", "theirs", "slack", "accuracy"),
    [(TSVM, 0.13387809, 1.001, 0.92), (DAS3VM, 0.12386709, 1.001, 0.935)],
)
def test_the_objective_is_that_of_svmlin(data_dir, kind, theirs, slack, accuracy):
    path = data_dir.parent / "reference" / "svmlin_example.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the data folder")
    with np.load(path) as held:
        X, test = (
            sp.csr_array(
                (held[f"{part}data"], held[f"{part}indices"], held[f"{part}indptr"]),
                shape=tuple(held[f"{part}shape"]),
            )
            for part in ("", "test_")
        )
        y, test_y = held["y_partial"], held["test_y"]
    model = kind(1e-3, 1.0, positive_ratio=0.5, unlabeled=0).fit(X, y)
    assert model.objective_ <= slack * theirs
    assert (model.predict(test) == test_y).mean() >= accuracy
