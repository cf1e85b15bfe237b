"""Shared fixtures: a dask configuration in which even tiny data makes several shards."""

import itertools
import os
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def tiny_shards():
    """Shards of a few hundred entries, and no retreat to this process for small data."""
    with dask.config.set({"s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture(scope="session")
def data_dir():
    """Folder of real data sets; tests that need a file of it skip where it is absent."""
    root = Path(__file__).resolve().parents[1]
    return Path(os.environ.get("DASK_S3VM_DATA", root.parent / "shared" / "data"))


def _sparse_rows(n_rows, n_features, seed, density=0.2):
    """Random CSR rows of uneven lengths, every tenth one empty, and noisy labels 0 and 1."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n_rows, n_features))
    dense[rng.random(dense.shape) > density * rng.uniform(0.2, 1.8, (n_rows, 1))] = 0.0
    dense[::10] = 0.0
    y = (dense @ rng.normal(size=n_features) + rng.normal(size=n_rows) > 0).astype(np.int64)
    return sp.csr_array(dense), y


@pytest.fixture(scope="session")
def make_rows():
    """Maker of (csr_array, y); see `_sparse_rows`."""
    return _sparse_rows


@pytest.fixture(scope="session")
def sparse_data():
    """600 sparse rows of 30 columns and their labels; 18 shards where `tiny_shards` is set."""
    return _sparse_rows(600, 30, seed=5)


@pytest.fixture(scope="session")
def as_dask():
    """Make a dask array of csr blocks with the given row chunks, sizes known or not."""

    def make(X, chunks, known=True, convert=None):
        edges = np.cumsum([0, *chunks])
        pieces = [X[low:high] for low, high in itertools.pairwise(edges)]
        blocks = [
            da.from_delayed(
                dask.delayed(piece, pure=False),
                shape=(piece.shape[0] if known else np.nan, X.shape[1]),
                meta=X[:0],
                dtype=X.dtype,
            )
            for piece in pieces
        ]
        joined = da.concatenate(blocks, allow_unknown_chunksizes=True)
        return joined if convert is None else joined.map_blocks(convert, meta=convert(X[:0]))

    return make
