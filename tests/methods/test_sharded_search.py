"""The search whose factor stays in the shards: monotone, balanced, near the pool."""

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.restarts import SearchSettings, restart_seeds
from dask_s3vm.methods.run import Record
from dask_s3vm.methods.s2rlsc import LabelSearch, label_array, prepare_rows
from dask_s3vm.methods.sharded_search import Batch, _combine, _spread
from dask_s3vm.problems import label_search as ops
from dask_s3vm.problems.label_search import Task, window_of

N, KNOWN = 240, 20


def placed(seed, n=N, d=6, gap=1.0):
    """An engine of many shards, with labels on the first rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d))
    X[:, 0] += gap * (2 * y - 1)
    with dask.config.set({"s3vm.shard-bytes": 2048}):
        engine = ingest(X, np.where(np.arange(n) < KNOWN, y, -1)).place(np.array([0, 1]))
    return engine


def searched(engine, sharded, lam=0.1, tolerance=0.1, restarts=12, n=N):
    costs = np.full(2, 1.0 / KNOWN)
    rows = prepare_rows(engine, costs, 1.0 / (n - KNOWN), True, [1])
    search = LabelSearch(rows, lam, n - KNOWN, sharded, "float64")
    assert search.sharded is sharded
    window = window_of(n - KNOWN, 0.5, tolerance)
    record = Record()
    plan = SearchSettings(restarts, (1, 1), None, np.random.SeedSequence(4))
    found = search.run(record, "class 1", {}, 0, window, plan)
    assert found.n_iter == len(record.history) == restarts
    return rows, search, window, found, record.history


@pytest.mark.parametrize("gap", [0.0, 0.5, 2.0])
def test_it_comes_near_the_pool(gap):
    engine = placed(1, gap=gap)
    assert engine.layout.n_shards > 5
    _, _, window, shards, rows = searched(engine, True)
    *_, pool, pooled = searched(engine, False)
    assert shards.objective <= pool.objective + 0.01
    median = [np.median([row["objective"] for row in each]) for each in (rows, pooled)]
    assert median[0] <= median[1] + 0.02
    free = label_array(engine, shards, False)[KNOWN:]
    assert window.low <= free.sum() <= window.high


@pytest.mark.parametrize("tolerance", [0.0, 0.005, 0.1])
def test_fitness_never_rises_and_the_balance_always_holds(tolerance, monkeypatch):
    engine = placed(2, gap=0.5)
    rows, search, window, _, _ = searched(engine, True, tolerance=tolerance, restarts=1)
    task = Task(search._factor.T @ rows.moments[:, 0], window, rows.total)
    batch = Batch(engine, task, [11, 12, 13])
    counts, inner = [], engine.each

    def watched(op, *args):
        answer = inner(op, *args)
        if op is ops.propose:  # labels as they stand at the beginning of this round
            counts.append(np.sum(inner(n_positive), axis=0))
        return answer

    monkeypatch.setattr(engine, "each", watched)
    found = batch.run(None)
    trace = np.array(batch.trace)
    assert len(trace) > 4
    assert (np.diff(trace, axis=0) <= 1e-12).all()
    assert (np.array(counts) >= window.low).all()
    assert (np.array(counts) <= window.high).all()
    for place, one in enumerate(found):
        assert one.fitness == pytest.approx(trace[-1, place], abs=1e-10)
        assert one.fitness < one.start


def n_positive(shard):
    return np.count_nonzero(shard.state["labels"] > 0, axis=1)


def test_no_flip_within_the_balance_lowers_the_fitness_in_the_end():
    engine = placed(3, gap=0.3)
    rows, search, _, found, _ = searched(engine, True, tolerance=0.4)
    G = np.concatenate(engine.each(take, "G"))
    fixed = search._factor.T @ rows.moments[:, 0]
    y = 2.0 * label_array(engine, found, False)[KNOWN:] - 1
    z = fixed + G.T @ y
    changes = 4 * y * (G @ z) - 4 * np.square(G).sum(axis=1)
    assert changes.min() > -1e-10


def take(shard, name):
    return shard.state[name]


@given(seed=st.integers(0, 10**6), shards=st.integers(1, 9), r=st.integers(1, 5))
@settings(max_examples=80, deadline=None)
def test_a_combination_is_no_worse_than_the_best_proposal(seed, shards, r):
    rng = np.random.default_rng(seed)
    z, moves = rng.normal(size=r), rng.normal(size=(shards, r))
    moved = rng.random(shards) < 0.7
    chosen = _combine(z, moves, moved)
    assert not (chosen & ~moved).any()
    value = np.square(z + moves[chosen].sum(axis=0)).sum()
    alone = np.square(z + moves[moved]).sum(axis=1) if moved.any() else np.zeros(1)
    assert value >= max(np.square(z).sum(), alone.max()) - 1e-12


@given(seed=st.integers(0, 10**6), shards=st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_counts_are_spread_over_the_rows_there_are(seed, shards):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 20, shards)
    counts = rng.integers(0, sizes + 1)
    wanted = int(rng.integers(0, sizes.sum() + 1))
    spread = _spread(counts, sizes, wanted)
    assert spread.sum() == wanted
    assert (spread >= 0).all()
    assert (spread <= sizes).all()


def test_starts_do_not_depend_on_the_shards():
    labels = []
    for size in (2048, 8192):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(N, 6))
        with dask.config.set({"s3vm.shard-bytes": size}):
            engine = ingest(X, np.full(N, -1)).place(np.array([0, 1]))
        engine.each(set_ones)
        engine.each(ops.draw_starts, [5, 6], 0.3)
        labels.append(np.concatenate(engine.each(take, "labels"), axis=1))
    assert np.array_equal(*labels)
    assert abs((labels[0] > 0).mean() - 0.3) < 0.1


def set_ones(shard):
    shard.state["square"] = np.ones(shard.n_rows)


def test_seeds_are_children_of_one_sequence():
    seed = np.random.SeedSequence(9)
    one, two = (
        restart_seeds(SearchSettings(n, (1, 1), None, seed), problem)
        for n, problem in ((4, 0), (6, 0))
    )
    assert two[:4] == one
    other = restart_seeds(SearchSettings(4, (1, 1), None, seed), 1)
    assert len({*two, *other}) == 10
