"""Values that all are 1 are not stored, and nothing else changes."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, QPS3VM, RLSC, TSVM
from dask_s3vm.engine import blocks
from dask_s3vm.engine.blocks import copy_rows, make_block, slice_rows, stack_rows
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.numerics.ones import is_ones

pytestmark = pytest.mark.usefixtures("tiny_shards")

METHODS = [
    L2SVM(lam=1e-2),
    TSVM(lam=1e-2, positive_ratio=0.5),
    DAS3VM(lam=1e-2, positive_ratio=0.5),
    QNS3VM(lam=1e-2, positive_ratio=0.5),
    QPS3VM(positive_ratio=0.5),
    RLSC(lam=1e-2),
]


def indicators(n=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.csr_array((rng.random((n, d)) < 0.2).astype(np.float64))
    y = (X @ rng.normal(size=d) > 0).astype(int)
    y[:2] = 0, 1
    return X, np.where(np.arange(n) < 40, y, -1)


def rows_of(X):
    rows = make_block(X).rows
    assert isinstance(rows, CSR)
    return rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, bool])
def test_ones_of_any_type_take_no_memory(dtype):
    X, y = indicators()
    engine = ingest(X.astype(dtype), y).place(np.array([0, 1]))
    shards = engine._group.shards
    assert len(shards) > 1
    for shard in shards:
        assert is_ones(shard.rows.values)
        assert shard.nbytes == shard.rows.indptr.nbytes + shard.rows.indices.nbytes + len(
            shard.codes
        )
    engine.close()


def test_other_values_are_stored():
    X, _ = indicators()
    for place in (0, X.nnz - 1):
        other = X.copy()
        other.data[place] = 2.0
        assert not is_ones(rows_of(other).values)
    same = X.copy()
    same.data = np.broadcast_to(np.float32(2.0), X.nnz)
    assert sorted(set(pickle.loads(pickle.dumps(rows_of(same))).values)) == [2.0]
    twice = sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(1, 3))
    assert rows_of(twice).values.tolist() == [2.0]


def test_parts_copies_and_pickles_store_none():
    X, _ = indicators()
    rows = rows_of(X)
    half = slice_rows(rows, 100, 200)
    parts = [half, slice_rows(rows, 200, 300)]
    chosen = np.array([3, 50, 99], dtype=np.uint32)
    sent = pickle.dumps(rows, protocol=5)
    assert len(sent) < rows.indptr.nbytes + rows.indices.nbytes + 500
    for found, wanted in [
        (half, X[100:200]),
        (stack_rows(parts), X[100:]),
        (copy_rows(half, chosen), X[[103, 150, 199]]),
        (pickle.loads(sent), X),
    ]:
        assert is_ones(found.values)
        triple = (found.values.copy(), found.indices, found.indptr)
        assert (sp.csr_array(triple, shape=wanted.shape) != wanted).nnz == 0
    mixed = stack_rows([half, rows_of(2.0 * X[200:])])
    assert sorted(set(mixed.values)) == [1.0, 2.0]


@pytest.mark.parametrize("model", METHODS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("chunks", [None, 70])
def test_the_bits_are_those_of_stored_ones(model, chunks, monkeypatch):
    X, y = indicators()
    with dask.config.set(scheduler="synchronous"):
        given = X if chunks is None else da.from_array(X, chunks=(chunks, -1), asarray=False)
        found = model.fit(given, y)
        coef, intercept, predictions = found.coef_, found.intercept_, found.predict(X)
        monkeypatch.setattr(blocks, "without_ones", lambda values: values)
        stored = model.fit(X, y)
    assert np.array_equal(coef, stored.coef_)
    assert np.array_equal(intercept, stored.intercept_)
    assert np.array_equal(predictions, stored.predict(X))
