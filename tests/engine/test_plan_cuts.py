"""Where rows are cut into shards."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine import plan
from dask_s3vm.engine.blocks import make_block, row_work


def rows_of(lengths, n_features):
    """CSR rows with the given numbers of entries."""
    indptr = np.append(0, np.cumsum(lengths))
    indices = np.concatenate([np.arange(length) for length in lengths] or [[]]).astype(np.int32)
    return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(lengths), n_features))


def cut(X, edges, shard_bytes):
    """Pieces and starts for X chunked at `edges`, as an engine makes them."""
    blocks = [make_block(X[low:high]) for low, high in itertools.pairwise(edges)]
    facts = [plan.facts_of(block) for block in blocks]
    total, n_shards, offsets = plan.equal_shares(facts, X.shape[1], shard_bytes)
    cuts = [
        plan.cut_points(block, offset, total, n_shards)
        for block, offset in zip(blocks, offsets, strict=True)
    ]
    return plan.assign_pieces(cuts, [fact.n_rows for fact in facts], n_shards)


lengths_of_rows = st.lists(st.integers(0, 12), min_size=1, max_size=150)


@given(data=st.data(), lengths=lengths_of_rows, dense=st.booleans())
@settings(deadline=None)
def test_starts_depend_on_the_rows_only(data, lengths, dense):
    X = rows_of(lengths, 12)
    X = X.toarray() if dense else X
    n = len(lengths)
    inner = data.draw(st.sets(st.integers(1, n - 1))) if n > 1 else set()
    edges = [0, *sorted(inner), n]
    pieces, starts = cut(X, edges, 600)
    assert starts == cut(X, [0, n], 600)[1]
    assert starts[0] == 0
    assert starts[-1] == n
    found = [edges[p.block] + i for own in pieces for p in own for i in range(p.low, p.high)]
    assert found == list(range(n))
    counts = [sum(p.high - p.low for p in own) for own in pieces]
    assert counts == np.diff(starts).tolist()


@given(lengths=lengths_of_rows)
@settings(deadline=None)
def test_shards_are_balanced_within_the_cost_of_one_row(lengths):
    X = rows_of(lengths, 12)
    _, starts = cut(X, [0, len(lengths)], 600)
    costs = row_work(make_block(X).rows)
    running = np.append(0, np.cumsum(costs))
    shares = np.diff(running[list(starts)])
    fair = costs.sum() / len(shares)
    assert np.all(np.abs(shares - fair) <= costs.max())


@pytest.mark.parametrize("edges", [[0, 0, 60], [0, 60, 60], [0, 20, 20, 20, 60]])
def test_empty_blocks_change_nothing(edges):
    X = rows_of([5] * 60, 12)
    pieces, starts = cut(X, edges, 600)
    assert starts == cut(X, [0, 60], 600)[1]
    assert all(own for own in pieces)


@pytest.mark.parametrize("place", [0, 7, 39])
def test_one_giant_row_leaves_empty_shards_and_loses_no_row(place):
    lengths = [1] * 40
    lengths[place] = 500
    blocks = [make_block(rows_of(lengths, 500))]
    total = plan.facts_of(blocks[0]).cost
    cuts = [plan.cut_points(blocks[0], 0, total, 10)]
    pieces, starts = plan.assign_pieces(cuts, [40], 10)
    assert len(pieces) == 10
    assert all(own for own in pieces)
    assert any(np.diff(starts) == 0)
    assert sum(p.high - p.low for own in pieces for p in own) == 40


def layout_with(order):
    return plan.Layout(1, len(order), len(order), (0, 1), order, True)


@given(order=st.integers(1, 50).flatmap(lambda d: st.permutations(range(d))), k=st.integers(1, 3))
def test_internal_and_external_order_are_inverse(order, k):
    layout = layout_with(np.array(order))
    w = np.random.default_rng(0).normal(size=(k, len(order) + 1))
    inside = layout.to_internal(w)
    assert np.array_equal(layout.to_external(inside), w)
    assert np.array_equal(inside[:, -1], w[:, -1])
    position = plan.positions(np.array(order), len(order))
    assert all(inside[0, position[j]] == w[0, j] for j in range(len(order)))


def test_without_an_order_vectors_pass_unchanged():
    layout = plan.Layout(1, 2, 2, (0, 1), None, False)
    w = np.arange(3.0)
    assert layout.to_internal(w) is w
    assert layout.to_external(w) is w


@given(cost=st.integers(1, 10**12), d=st.integers(1, 10**6), shard_bytes=st.integers(12, 10**9))
def test_shard_count_stays_within_its_limits(cost, d, shard_bytes):
    n = plan.shard_count(cost, d, shard_bytes)
    target = shard_bytes // 12
    fewest = cost // (2**32 - 1) + 1  # entries of a shard are counted by 32 bits
    assert fewest <= n <= max(8, -(-cost // target), fewest)
    if n > fewest:
        assert cost >= 4 * (d + 1)
        assert n == 2 or cost >= 16 * n * (d + 1)
    if target >= 20 and cost >= 8 * target:  # vectors of length 1 are no burden
        assert plan.shard_count(cost, 0, shard_bytes) == max(fewest, -(-cost // target))


def test_columns_are_ordered_by_frequency_and_only_where_it_pays(monkeypatch):
    monkeypatch.setattr(plan, "MAX_ENTRIES_TO_DROP", 0)
    X = rows_of([3, 2, 1, 1], 5000)
    X.indices = 4999 - X.indices
    block = make_block(X)
    facts = [plan.facts_of(block)]
    order = plan.column_order(
        facts, lambda head: sum(plan.count_columns(block, n) for _, n in head)
    )
    assert order[:4].tolist() == [4999, 4998, 4997, 0]
    assert sorted(order.tolist()) == list(range(5000))
    small = make_block(rows_of([3, 2], 10))
    assert plan.column_order([plan.facts_of(small)], lambda head: pytest.fail("counted")) is None


def test_column_frequencies_come_from_the_first_rows_whatever_the_chunks(monkeypatch):
    monkeypatch.setattr(plan, "ROWS_TO_COUNT", 25)
    monkeypatch.setattr(plan, "MAX_ENTRIES_TO_DROP", 0)
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((60, 5000)) < 0.01).astype(float))
    orders = []
    for edges in ([0, 60], [0, 10, 20, 30, 60], [0, 25, 60], [0, 1, 59, 60]):
        blocks = [make_block(X[a:b]) for a, b in itertools.pairwise(edges)]
        facts = [plan.facts_of(block) for block in blocks]
        orders.append(
            plan.column_order(
                facts, lambda head, b=blocks: sum(plan.count_columns(b[i], n) for i, n in head)
            ).tolist()
        )
    assert all(order == orders[0] for order in orders)
    counts = X[:25].toarray().sum(axis=0)
    assert orders[0] == np.argsort(-counts, kind="stable").tolist()


def test_columns_that_do_not_occur_get_no_number():
    X = rows_of([3, 2, 1], 70_000)
    X.indices = 60_000 + 7 * X.indices
    blocks = [make_block(X[:1]), make_block(X[1:])]
    facts = [plan.facts_of(block) for block in blocks]
    order = plan.column_order(
        facts, lambda head: sum(plan.count_columns(blocks[i], n) for i, n in head)
    )
    assert order.tolist() == [60_000, 60_007, 60_014]
    layout = plan.layout_of(facts, (0, 3), order)
    assert (layout.n_features, layout.n_features_in) == (3, X.shape[1])
    outside = layout.to_external(np.arange(8.0).reshape(2, 4))
    assert outside.shape == (2, X.shape[1] + 1)
    assert np.flatnonzero(outside[1]).tolist() == [60_000, 60_007, 60_014, X.shape[1]]
    assert np.array_equal(layout.to_internal(outside), np.arange(8.0).reshape(2, 4))
    assert plan.positions(order, X.shape[1])[order].tolist() == [0, 1, 2]


def test_data_without_entries_keeps_a_column():
    block = make_block(sp.csr_array((5, plan.MIN_COLUMNS_TO_ORDER)))
    order = plan.column_order([plan.facts_of(block)], lambda head: plan.count_columns(block, 5))
    assert len(order) == 1
