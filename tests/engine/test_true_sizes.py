"""What dask believes that blocks weigh."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from dask.sizeof import sizeof

from dask_s3vm.engine.blocks import make_block
from dask_s3vm.engine.plan import facts_of, layout_of
from dask_s3vm.engine.shard import build_shard
from dask_s3vm.kernels.rows import CSR

DENSE = np.random.default_rng(0).random((500, 300)) * (
    np.random.default_rng(1).random((500, 300)) < 0.2
)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sparse_blocks_weigh_what_they_weigh(kind):
    X = sp.csr_array(DENSE.astype(kind))
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert sizeof(X) == pytest.approx(stored, rel=0.01)
    gcxs = sparse.GCXS.from_scipy_sparse(X)
    stored = gcxs.data.nbytes + gcxs.indices.nbytes + gcxs.indptr.nbytes
    assert sizeof(gcxs) == pytest.approx(stored, rel=0.01)
    coo = sparse.COO.from_scipy_sparse(X)
    assert sizeof(coo) == pytest.approx(coo.data.nbytes + coo.coords.nbytes, rel=0.01)
    for form in ("coo", "csc", "bsr"):
        block = X.asformat(form)
        assert sizeof(block) == pytest.approx(len(pickle.dumps(block, 5)), rel=0.05)


def shard_of(X):
    block = make_block(X, np.arange(500) % 2, np.ones(500))
    return build_shard(
        0,
        0,
        layout_of([facts_of(block)], (0, 500), None),
        [(block, 0, 500)],
        np.array([0, 1]),
        None,
        (None, None),
    )


@pytest.mark.parametrize("X", [DENSE, sp.csr_array(DENSE)], ids=["dense", "csr"])
def test_a_shard_weighs_its_arrays(X):
    shard = shard_of(X)
    shard.state["outputs0"] = np.zeros(500)
    assert sizeof(shard) == pytest.approx(len(pickle.dumps(shard, 5)), rel=0.01)
    assert sizeof(shard) == pytest.approx(shard.nbytes, rel=0.01)


def test_a_shard_weighs_its_packed_rows_too():
    shard = shard_of(sp.csr_array(DENSE))
    before = sizeof(shard)
    packed = CSR(*(part.copy() for part in shard.rows))
    shard.state["packed0"] = (packed, np.arange(500, dtype=np.uint32), np.ones(500))
    assert sizeof(shard) - before >= sum(part.nbytes for part in packed)


def test_an_array_under_two_names_weighs_once():
    shard = shard_of(sp.csr_array(DENSE))
    shard.state["cost"] = shard.state["curvature0"] = shard.state["curvature1"] = np.ones(500)
    assert sizeof(shard) == pytest.approx(len(pickle.dumps(shard, 5)), rel=0.01)


def test_a_shard_shares_no_memory_with_its_blocks():
    X = sp.csr_array(DENSE)
    block = make_block(X, np.zeros(500), np.ones(500), narrow=False)
    shard = build_shard(
        0,
        0,
        layout_of([facts_of(block)], (0, 200), None),
        [(block, 100, 300)],
        np.array([0.0]),
        None,
        (None, None),
    )
    assert not any(np.shares_memory(a, b) for a, b in zip(shard.rows, block.rows, strict=True))
    assert not np.shares_memory(shard.weights, block.weights)
    assert np.array_equal(shard.rows.values, X[100:300].data)


def test_a_shard_from_the_wire_is_aligned_and_read_only():
    shard = shard_of(sp.csr_array(DENSE))
    buffers = []
    text = pickle.dumps(shard, 5, buffer_callback=buffers.append)
    moved = []
    for buffer in buffers:
        raw = buffer.raw()
        shifted = bytearray(1 + raw.nbytes)
        shifted[1:] = raw
        moved.append(memoryview(shifted)[1:])
    copy = pickle.loads(text, buffers=moved)
    assert len(moved) >= 3
    for part, original in zip(copy.rows, shard.rows, strict=True):
        assert part.flags.aligned
        assert not part.flags.writeable
        assert np.array_equal(part, original)
