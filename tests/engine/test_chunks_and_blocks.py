"""Chunks never change a bit of the model; types of blocks change it by rounding at most."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse

from dask_s3vm import L2SVM

CHUNKS = (100, 1, 250, 249)


@pytest.fixture(autouse=True)
def alone(tiny_shards):
    with dask.config.set(scheduler="synchronous"):
        yield


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_


def fitted(X, y):
    return bits(L2SVM(lam=1e-2, tol=1e-5).fit(X, y))


def test_block_types_agree_to_the_tolerance_of_the_solver(sparse_data, as_dask):
    X, y = sparse_data
    kinds = {
        "csr": None,
        "gcxs": sparse.GCXS.from_scipy_sparse,
        "coo": sparse.COO.from_scipy_sparse,
        "csc": sp.csc_array,
        "dense": lambda block: block.toarray(),
        "float32": lambda block: block.astype(np.float32),
    }
    models = {
        name: L2SVM(lam=1e-2, tol=1e-12).fit(as_dask(X, CHUNKS, convert=convert), y)
        for name, convert in kinds.items()
    }
    for name, model in models.items():
        close = 1e-5 if name == "float32" else 1e-7
        np.testing.assert_allclose(model.coef_, models["csr"].coef_, atol=close)
    for name in ("gcxs", "coo", "csc"):
        assert bits(models[name]) == bits(models["csr"])


@pytest.mark.parametrize("n_features", [50, 4096])
def test_dense_and_sparse_blocks_in_one_array_agree_with_either(n_features, make_rows):
    X, y = make_rows(300, n_features, seed=3, density=0.1)
    parts = [X[:150], X[150:].toarray()]
    blocks = [
        da.from_delayed(dask.delayed(part, pure=False), shape=(150, n_features), dtype=float)
        for part in parts
    ]
    mixed = L2SVM(lam=1e-2, tol=1e-12).fit(da.concatenate(blocks), y)
    plain = L2SVM(lam=1e-2, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(mixed.coef_, plain.coef_, atol=1e-6)


@pytest.mark.parametrize("chunks", [(600,), (1,) * 600, (599, 1), (0, 300, 0, 300, 0)])
def test_any_chunking_gives_the_same_bits(chunks, sparse_data, as_dask):
    X, y = sparse_data
    assert fitted(as_dask(X, chunks), y) == fitted(X, y)


def test_blocks_of_float32_and_of_float64_values_give_the_same_bits(sparse_data, as_dask):
    X, y = sparse_data
    X = X.astype(np.float32).astype(np.float64)
    X.data[X.indptr[300] :] *= 1 + 2.0**-40  # only the second half needs float64
    halves = fitted(as_dask(X, (300, 300)), y)
    assert fitted(X, y) == halves
    assert fitted(as_dask(X, (600,)), y) == halves


def test_rows_chosen_by_a_lazy_mask_are_the_rows_of_a_mask_in_memory(sparse_data):
    X, y = sparse_data
    dense = X.toarray()
    lazy, labels = da.from_array(dense, chunks=(100, 30)), da.from_array(y, chunks=100)
    wanted = dense[:, 3] + dense[:, 4] != 0
    keep = lazy[:, 3] + lazy[:, 4] != 0
    assert np.isnan(lazy[keep].shape[0])
    assert fitted(lazy[keep], labels[keep]) == fitted(dense[wanted], y[wanted])
