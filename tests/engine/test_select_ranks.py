"""Order statistics from rounds against numpy's stable sort."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine import select as module
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.select import Ranked, select, select_each
from dask_s3vm.engine.shard import Shard


def engine_of(values, edges, threads=1):
    """Shards that hold nothing but `values`, cut at `edges`."""
    shards = []
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        rows = np.zeros((high - low, 1))
        shards.append(Shard(number, low, 1, rows, state={"values": values[low:high]}))
    layout = Layout(len(values), 1, 1, tuple(edges), None, False)
    return LocalEngine(shards, layout, threads)


def all_values(shard):
    return shard.state["values"], np.arange(shard.n_rows, dtype=np.uint32)


def every(shard, step):
    """The rows whose global number is a multiple of `step`."""
    rows = np.flatnonzero((shard.first_row + np.arange(shard.n_rows)) % step == 0)
    return shard.state["values"][rows], rows


def falling(shard, step):
    return -shard.state["values"], np.arange(shard.n_rows, dtype=np.uint32)


FEW = st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, -5e-324])
VALUES = st.lists(st.one_of(FEW, st.floats(allow_nan=False)), min_size=1, max_size=60)


@given(data=st.data(), values=VALUES, gather=st.sampled_from([1, 3, 2048]))
@settings(deadline=None, max_examples=200)
def test_select_is_a_stable_sort(data, values, gather):
    values = np.array(values)
    n = len(values)
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=5))), n]
    step = data.draw(st.integers(1, 4))
    k = data.draw(st.integers(0, -(-n // step) - 1))
    rows = np.arange(0, n, step)
    wanted = rows[np.argsort(values[rows], kind="stable")[k]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GATHER", gather)
        engine = engine_of(values, edges)
        found = select(engine, k, every, step)
    assert found.row == wanted
    assert found.value == values[wanted]


@given(data=st.data(), values=VALUES, gather=st.sampled_from([1, 3, 2048]))
@settings(deadline=None, max_examples=100)
def test_several_lists_are_searched_in_the_rounds_of_one(data, values, gather):
    values = np.array(values)
    n = len(values)
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=5))), n]
    step = data.draw(st.integers(1, 4))
    lists = [(falling, np.arange(n), -values), (every, np.arange(0, n, step), values)]
    places = [data.draw(st.integers(0, len(rows) - 1)) for _, rows, _ in lists]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GATHER", gather)
        engine = engine_of(values, edges)
        found = select_each(engine, places, [one for one, _, _ in lists], step)
        together = engine.rounds
        alone = []
        for k, (values_of, _, _) in zip(places, lists, strict=True):
            engine.rounds = 0
            select(engine, k, values_of, step)
            alone.append(engine.rounds)
    for one, k, (_, rows, keys) in zip(found, places, lists, strict=True):
        wanted = rows[np.argsort(keys[rows], kind="stable")[k]]
        assert one == Ranked(keys[wanted], wanted)
    assert together <= max(alone) + 1


@pytest.mark.parametrize("threads", [1, 3])
def test_more_ties_than_are_gathered(threads):
    rng = np.random.default_rng(0)
    values = rng.choice([-2.5, 0.25, 7.0], size=9000, p=[0.1, 0.8, 0.1])
    engine = engine_of(values, [0, 1000, 1000, 5000, 9000], threads)
    order = np.argsort(values, kind="stable")
    for k in (0, 899, 900, 901, 4500, 8000, 8999):
        assert select(engine, k, all_values) == Ranked(values[order[k]], order[k])
    engine.close()


def test_rounds_stay_within_the_documented_number():
    (limit,) = re.findall(r"(\d+) at most", select.__doc__)
    cases = [np.zeros(5000), np.full(5000, np.pi), np.linspace(1, 1 + 1e-9, 5000)]
    for values in cases:
        engine = engine_of(values, [0, 2500, 5000])
        select(engine, 2500, all_values)
        assert engine.rounds <= int(limit)


@pytest.mark.parametrize("k", [-1, 4, 100])
def test_a_position_outside_is_an_index_error(k):
    with pytest.raises(IndexError, match=f"position {k} is outside the 4 values"):
        select(engine_of(np.arange(4.0), [0, 2, 4]), k, all_values)


def test_nothing_to_select_from_is_an_index_error():
    with pytest.raises(IndexError, match="outside the 0 values"):
        select(engine_of(np.zeros(0), [0, 0]), 0, all_values)


def test_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        select(engine_of(np.array([1.0, np.nan]), [0, 2]), 0, all_values)


def test_ranked_compares_by_value_then_row():
    assert Ranked(1.0, 5) < Ranked(1.0, 6) < Ranked(2.0, 0)
