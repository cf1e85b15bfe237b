"""Properties that all generators share: reproducible, lazy, of the right shape and type."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from distributed import Client, LocalCluster

from dask_s3vm import datasets
from dask_s3vm.datasets import _sampling, make_g2c, make_g4c, make_intrusion, make_moons, make_text

N_ROWS = 241
# csr_array blocks by default: compiling the kernels of GCXS takes longer than all tests here.
GENERATORS = {
    "g2c": lambda n=N_ROWS, **kwargs: make_g2c(n, 7, **kwargs),
    "g4c": lambda n=N_ROWS, **kwargs: make_g4c(n, 6, **kwargs),
    "moons": lambda n=N_ROWS, **kwargs: make_moons(n, **kwargs),
    "text": lambda n=N_ROWS, **kwargs: make_text(n, 300, 12, **{"block": "scipy", **kwargs}),
    "intrusion": lambda n=N_ROWS, **kwargs: make_intrusion(n, **{"block": "scipy", **kwargs}),
}
SPARSE = ("text", "intrusion")
KINDS = ("gcxs", "scipy")


@pytest.fixture(params=GENERATORS)
def make(request):
    return GENERATORS[request.param]


def dense(array, **kwargs):
    block = array.compute(**kwargs)
    return block if isinstance(block, np.ndarray) else block.toarray()


def test_everything_public_is_listed():
    assert sorted(datasets.__all__) == datasets.__all__
    assert all(callable(getattr(datasets, name)) for name in datasets.__all__)


@pytest.mark.parametrize("chunks", [1, 50, 120, 10_000])
def test_chunks_do_not_change_the_data(make, chunks):
    x, y = make()
    other_x, other_y = make(chunks=chunks)
    assert other_x.chunks[0][0] == min(chunks, N_ROWS)
    np.testing.assert_array_equal(dense(x), dense(other_x))
    np.testing.assert_array_equal(y.compute(), other_y.compute())


def test_more_rows_only_add_rows(make):
    x, y = make()
    more_x, more_y = make(N_ROWS + 60, chunks=77)
    np.testing.assert_array_equal(dense(x), dense(more_x)[:N_ROWS])
    np.testing.assert_array_equal(y.compute(), more_y.compute()[:N_ROWS])


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_schedulers_give_the_same_data(make, scheduler):
    x, y = make()
    other_x, other_y = make(chunks=20)
    np.testing.assert_array_equal(dense(x), dense(other_x, scheduler=scheduler))
    np.testing.assert_array_equal(y.compute(), other_y.compute(scheduler=scheduler))


@pytest.mark.cluster
def test_cluster_gives_the_same_data():
    made = [make(chunks=20) for make in GENERATORS.values()]
    alone = dask.compute(made, scheduler="synchronous")[0]
    # Any free port: without an address, too, the scheduler serves HTTP, and on a fixed port.
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster),
    ):
        together = dask.compute(made)[0]
    for (x, y), (other_x, other_y) in zip(alone, together, strict=True):
        assert type(x) is type(other_x)
        assert (x != other_x).sum() == 0
        np.testing.assert_array_equal(y, other_y)


def test_seeds_differ(make):
    first, second = (dense(make(random_state=seed)[0]) for seed in (0, 1))
    assert not np.any(np.all(first == second, axis=1))


def test_same_arguments_give_the_same_graph_keys(make):
    assert make()[0].name == make()[0].name
    assert make()[0].name != make(random_state=1)[0].name
    assert make()[0].name != make()[1].name


def test_shapes_and_types(make):
    x, y = make(chunks=100)
    assert x.chunks[0] == y.chunks[0] == (100, 100, 41)
    assert x.numblocks == (3, 1)
    assert x.shape == (N_ROWS, x.compute().shape[1])
    assert x.dtype == x.compute().dtype == np.float64
    assert y.dtype == y.compute().dtype == np.int8
    assert set(y.compute().tolist()) == {0, 1}
    assert type(x._meta) is type(x.blocks[0].compute()) is type(x.compute())


def test_one_row(make):
    x, y = make(1)
    assert dense(x).shape == x.shape
    assert y.compute().shape == (1,)


def test_classes_do_not_need_the_rows(make):
    x, y = make(chunks=100)
    assert x.name not in {key[0] for key in y.__dask_graph__()}
    assert len(y.__dask_graph__()) == y.npartitions == 3


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("dtype", [np.float32, "float64"])
def test_sparse_blocks(name, dtype):
    kwargs = {"dtype": dtype, "chunks": 100}
    for kind, block in ((sparse.GCXS, "gcxs"), (sp.csr_array, "scipy")):
        x = GENERATORS[name](block=block, **kwargs)[0]
        made = x.blocks[1].compute()
        assert type(x._meta) is type(made) is kind
        assert x.dtype == x._meta.dtype == made.dtype == np.dtype(dtype)
        assert made.indices.dtype == made.indptr.dtype == np.int32
        assert made.shape == (100, x.shape[1])
    gcxs, csr = (GENERATORS[name](block=b, **kwargs)[0].blocks[1].compute() for b in KINDS)
    assert gcxs.compressed_axes == (0,)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(gcxs, part), getattr(csr, part))


def test_gcxs_can_be_computed_sliced_and_mapped():
    gcxs, csr = (make_text(N_ROWS, 300, 12, block=kind, chunks=100)[0] for kind in KINDS)
    expected = csr.compute().toarray()
    for x, rows in ((gcxs, expected), (gcxs[90:130], expected[90:130])):
        assert type(x._meta) is type(x.compute()) is sparse.GCXS
        np.testing.assert_array_equal(x.compute().todense(), rows)
    sums = gcxs.map_blocks(lambda block: block.todense().sum(axis=1), drop_axis=1, dtype=float)
    np.testing.assert_allclose(sums.compute(), expected.sum(axis=1))


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_rows_are_canonical(name):
    block = GENERATORS[name](block="scipy")[0].compute()
    assert np.all(block.data > 0)
    for row in range(N_ROWS):
        columns = block.indices[block.indptr[row] : block.indptr[row + 1]]
        assert np.all(np.diff(columns) > 0)
        assert columns[0] >= 0
        assert columns[-1] < block.shape[1]


@pytest.mark.parametrize("name", SPARSE)
def test_float32_rounds_the_same_data(name):
    full, half = (GENERATORS[name](dtype=dtype)[0] for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(dense(half), dense(full), rtol=1e-6)


def test_automatic_chunks_have_a_sensible_size():
    for x, row_bytes in (
        (make_text(804_414)[0], 76 * 12),
        (make_intrusion(4_898_431)[0], 17 * 12),
        (make_g2c(100_000)[0], 500 * 8),
        (make_text(804_414, dtype=np.float32)[0], 76 * 8),
    ):
        assert 7.5 * 2**20 <= x.chunks[0][0] * row_bytes <= 16 * 2**20
        assert len(x.chunks[1]) == 1


def test_rows_wider_than_a_chunk():
    assert make_g2c(3, 3_000_000)[0].chunks[0] == (1, 1, 1)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"n": -3}, ValueError, "n_rows must be a positive integer, got -3"),
        ({"n": 0}, ValueError, "n_rows must be a positive integer, got 0"),
        ({"n": 2.5}, TypeError, "n_rows must be a positive integer, got 2.5"),
        ({"n": True}, TypeError, "n_rows must be a positive integer, got True"),
        ({"chunks": 0}, ValueError, "chunks must be a positive integer, got 0"),
        ({"chunks": "all"}, TypeError, "chunks must be 'auto' or a positive integer, got 'all'"),
        ({"chunks": None}, TypeError, "chunks must be 'auto' or a positive integer, got None"),
        ({"random_state": -1}, ValueError, "random_state must be a non-negative integer, got -1"),
        ({"random_state": None}, TypeError, "random_state must be a non-negative integer"),
    ],
)
def test_wrong_arguments(make, kwargs, error, message):
    with pytest.raises(error, match=message):
        make(**kwargs)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"block": "coo"}, "block must be 'gcxs' or 'scipy', got 'coo'"),
        ({"dtype": np.int32}, "dtype must be float32 or float64, got"),
        ({"dtype": "floaty"}, "dtype must be float32 or float64, got 'floaty'"),
    ],
)
def test_wrong_blocks(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        GENERATORS[name](**kwargs)


def test_too_many_nonzeros_in_a_chunk():
    with pytest.raises(ValueError, match="chunks must give fewer than 2147483647 nonzeros"):
        _sampling.row_pointers(np.array([2**30, 2**30]))
