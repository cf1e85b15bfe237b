"""Lazy greedy against plain greedy, and the kernels that it uses."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.blocks import canonical_rows
from dask_s3vm.kernels import greedy as greedy
from dask_s3vm.kernels.greedy import find_items
from dask_s3vm.kernels.passes import gram_matrix, products, square_norms, sum_rows


def blocks_of(dense):
    """The same rows, dense and sparse, as blocks for kernels."""
    return [canonical_rows(dense)[0], canonical_rows(sp.csr_array(dense))[0]]


def plain_greedy(Z, q, rise, n_picks):
    """Algorithm 1 of the paper: all gains for every pick, ties by the lowest row number."""
    chosen, order = np.zeros(len(Z), dtype=bool), []
    for _ in range(n_picks):
        gains = Z @ (q + rise * Z[chosen].sum(axis=0)) + 0.5 * rise * (Z**2).sum(axis=1)
        gains[chosen] = -np.inf
        order.append(int(np.argmax(gains)))
        chosen[order[-1]] = True
    return sorted(order)


def picked_lazily(block, n, width, mean, q, rise, n_picks):
    first, item = find_items(block, np.arange(n, dtype=np.uint32))
    dense = isinstance(block, np.ndarray)
    rows = block[first] if dense else canonical_rows(to_scipy(block, width)[first])[0]
    starts = np.append(0, np.cumsum(np.bincount(item)))
    numbers = np.argsort(item, kind="stable")
    every = np.arange(len(first), dtype=np.uint32)
    along = np.zeros(len(first))
    products(rows, every, mean, along)
    square = square_norms(rows, every, width)
    used, _ = greedy.lazy_greedy(rows, starts, numbers, square, along, mean, q, rise, n_picks)
    return sorted(
        int(row) for i, n in enumerate(used) for row in numbers[starts[i] : starts[i] + n]
    )


def to_scipy(block, width):
    parts = (block.values, block.indices.astype(np.int64), block.indptr.astype(np.int64))
    return sp.csr_array(parts, (len(block.indptr) - 1, width))


# small whole numbers: every sum is exact, and there are ties and equal rows in plenty
whole_rows = st.integers(1, 3).flatmap(
    lambda d: st.lists(
        st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=1, max_size=30
    )
)


@settings(max_examples=150, deadline=None)
@given(rows=whole_rows, center=st.integers(-1, 1), pull=st.integers(-3, 3), data=st.data())
def test_lazy_greedy_is_plain_greedy_ties_included(rows, center, pull, data):
    dense = np.array(rows, dtype=np.float64)
    n, d = dense.shape
    n_picks = data.draw(st.integers(0, n))
    mean, q = np.full(d, float(center)), np.arange(d) * float(pull)
    wanted = plain_greedy(dense - mean, q, 2.0, n_picks)
    for block in blocks_of(dense):
        assert picked_lazily(block, n, d, mean, q, 2.0, n_picks) == wanted


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("centered", [False, True])
def test_lazy_greedy_with_centers_and_equal_rows(seed, centered):
    # 12 clumps, so that centers are used; each row up to three times
    rng = np.random.default_rng(seed)
    clumps = rng.random((12, 6))
    dense = clumps[rng.integers(12, size=500)] + 0.01 * rng.normal(size=(500, 6))
    dense = np.repeat(dense, rng.integers(1, 4, size=500), axis=0)
    mean = dense.mean(axis=0) if centered else np.zeros(6)
    q, n_picks = rng.normal(size=6), len(dense) // 2
    wanted = plain_greedy(dense - mean, q, 0.01, n_picks)
    for block in blocks_of(dense):
        assert len(greedy.choose_centers(block, 500, 6)) > 3
        assert picked_lazily(block, len(dense), 6, mean, q, 0.01, n_picks) == wanted


def test_few_gains_are_computed():
    rng = np.random.default_rng(0)
    dense = rng.random((4000, 8))
    every, rest = np.arange(4000), np.zeros(4000)
    block = canonical_rows(dense)[0]
    square = (dense**2).sum(axis=1)
    _, computed = greedy.lazy_greedy(
        block, np.arange(4001), every, square, rest, np.zeros(8), np.zeros(8), 1e-3, 2000
    )
    assert computed < 100 * 2000 < 2000 * 3000  # plain greedy computes 6,000,000


@settings(max_examples=60, deadline=None)
@given(rows=whole_rows)
def test_items_are_classes_of_equal_rows(rows):
    dense = np.array(rows, dtype=np.float64)
    _, first, item = np.unique(dense, axis=0, return_index=True, return_inverse=True)
    for block in blocks_of(dense):
        found_first, found = find_items(block, np.arange(len(dense), dtype=np.uint32))
        assert found_first.tolist() == sorted(first.tolist())
        assert np.array_equal(found_first[found], first[item.reshape(-1)])


def test_items_of_some_rows_only():
    dense = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    for block in blocks_of(dense):
        first, item = find_items(block, np.array([1, 2, 3], dtype=np.uint32))
        assert first.tolist() == [0, 1]
        assert item.tolist() == [0, 1, 1]


def test_listed_rows_are_added_and_multiplied(rng):
    dense = np.round(rng.normal(size=(9, 5)), 1) * (rng.random((9, 5)) < 0.6)
    rows, weight = np.array([7, 2, 2], dtype=np.uint32), np.array([0.5, -1.0, 2.0])
    for block in blocks_of(dense):
        out = np.zeros(6)
        sum_rows(block, rows, weight, out)
        np.testing.assert_allclose(out, np.append(weight @ dense[rows], weight.sum()))
        np.testing.assert_allclose(
            gram_matrix(block, rows, 5), dense[rows] @ dense[rows].T, atol=1e-14
        )
        np.testing.assert_allclose(square_norms(block, rows, 5), (dense[rows] ** 2).sum(axis=1))
