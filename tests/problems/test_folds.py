"""Keys of rows: the same wherever a row is, others for other rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems import folds
from dask_s3vm.problems.fold_scores import gather_labeled
from dask_s3vm.problems.folds import content_keys


def some_rows(n=60, d=9):
    """Rows with zeros, some of them equal."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0.0)
    X[10:14] = X[0]
    X[20] = 0.0
    return X, np.where(np.arange(n) % 7 == 0, 2.0, 1.0)


@given(seed=st.integers(0, 1000))
def test_keys_move_with_the_rows(seed):
    X, weights = some_rows()
    keys = content_keys(X, None, weights)
    order = np.random.default_rng(seed).permutation(len(X))
    assert np.array_equal(keys[order], content_keys(X[order], None, weights[order]))


def test_rows_that_differ_have_different_keys():
    X, weights = some_rows()
    keys = content_keys(X, None, weights)
    _, groups = np.unique(np.column_stack([X, weights]), axis=0, return_inverse=True)
    assert len(np.unique(keys)) == groups.max() + 1
    assert keys[10] == keys[11] != keys[0], "equal rows, of equal and of different weights"
    swapped = X[:, ::-1]
    nonzero = X.any(axis=1) & (swapped != X).any(axis=1)
    assert not np.any((content_keys(swapped, None, weights) == keys)[nonzero])


@pytest.mark.parametrize("batch", [1, 50, 1 << 20])
def test_storage_does_not_matter(monkeypatch, batch):
    monkeypatch.setattr(folds, "BATCH", batch)
    X, weights = some_rows()
    keys = content_keys(X, None, weights)
    assert np.array_equal(keys, content_keys(sp.csr_array(X), None, weights))
    assert np.array_equal(keys, content_keys(X.astype(np.float32), None, weights))
    assert np.array_equal(keys, content_keys(-0.0 + X * (1.0 + 1e-15), None, weights))
    columns = np.random.default_rng(1).permutation(X.shape[1])
    assert np.array_equal(keys, content_keys(X[:, columns], columns, weights))
    stored = sp.csr_array(X)
    stored.data[3] = 0.0  # a zero that is stored
    assert np.array_equal(
        content_keys(stored, None, weights), content_keys(stored.toarray(), None, weights)
    )


@given(seed=st.integers(0, 1000))
def test_axes_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(50, 6)), np.ones(50)
    axes = np.linalg.qr(rng.normal(size=(9, 6)))[0].T  # of a kernel with other landmarks
    turned = content_keys(X @ axes, None, weights)
    assert np.array_equal(np.argsort(content_keys(X, None, weights)), np.argsort(turned))


def test_long_and_short_rows_have_keys_of_their_own():
    rng = np.random.default_rng(0)
    for size in (1e-30, 1e15, 1e30):
        keys = content_keys(size * rng.normal(size=(50, 6)), None, np.ones(50))
        assert len(np.unique(keys)) == 50


@pytest.mark.parametrize("n_features", [30, 5000])
def test_labeled_rows_come_in_an_order_of_their_own(n_features, tiny_shards):
    rng = np.random.default_rng(0)
    X = sp.random_array((90, n_features), density=0.1, rng=rng, format="csr")
    codes = np.where(np.arange(90) % 3 == 0, rng.integers(0, 2, 90), -1)
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(90)
        engine = ingest(X[order], codes[order]).place(np.array([0, 1]))
        labeled = gather_labeled(engine)
        external = engine.layout.order
        rows = labeled.rows.toarray()
        if external is not None:
            rows, internal = np.zeros((len(rows), n_features)), rows
            rows[:, external] = internal
        found.append((rows, labeled.codes))
        engine.close()
    for rows, own in found[1:]:
        assert np.array_equal(rows, found[0][0])
        assert np.array_equal(own, found[0][1])
