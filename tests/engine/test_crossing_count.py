"""Counting the pairs that are in order against sorting both lists."""

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
from dask_s3vm.engine.select import count_crossing
from dask_s3vm.engine.shard import Shard

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, 5e-324, -5e-324, 1.0 + 2**-52]
NUMBERS = st.one_of(st.sampled_from(SPECIAL), st.floats(allow_nan=False), st.floats(-1, 1))


def engine_of(values, rising, edges):
    """Shards that hold `values`, and which of them belong to the first list."""
    shards = [
        Shard(k, a, 1, np.zeros((b - a, 1)), state={"values": values[a:b], "rising": rising[a:b]})
        for k, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    return LocalEngine(shards, Layout(len(values), 1, 1, tuple(edges), None, False), 1)


def first_list(shard):
    rows = np.flatnonzero(shard.state["rising"] == 1)
    return shard.state["values"][rows], rows


def second_list(shard):
    rows = np.flatnonzero(shard.state["rising"] == 0)
    return shard.state["values"][rows], rows


def by_sorting(values, rising):
    """Walk down both sorted lists until a pair is not in order."""
    pairs = 0
    for low, high in zip(sorted(values[rising == 1]), sorted(values[rising == 0])[::-1]):  # noqa: B905
        if not low < high:
            break
        pairs += 1
    return pairs


def counted(values, rising, edges, gather=2048):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GATHER", gather)
        return count_crossing(engine_of(values, rising, edges), first_list, second_list)


@given(data=st.data(), gather=st.sampled_from([0, 1, 3, 2048]))
@settings(deadline=None, max_examples=300)
def test_it_is_what_sorting_both_lists_gives(data, gather):
    drawn = data.draw(st.lists(st.tuples(NUMBERS, st.sampled_from([0, 1, 2])), max_size=60))
    values, rising = (np.array([pair[k] for pair in drawn], dtype=float) for k in (0, 1))
    n = len(values)
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=5))), n]
    assert counted(values, rising, edges, gather) == by_sorting(values, rising)


@pytest.mark.parametrize("gather", [0, 5, 2048])
@pytest.mark.parametrize("choices", [[0.25], [0.25, 0.5], [-0.5, 0.0, 0.5], None])
def test_long_lists_with_ties(choices, gather):
    rng = np.random.default_rng(len(choices or []))
    values = rng.uniform(-1, 1, 9000) if choices is None else rng.choice(choices, 9000)
    rising = rng.integers(0, 3, 9000)
    edges = [0, 10, 10, 4000, 9000]
    assert counted(values, rising, edges, gather) == by_sorting(values, rising)


@pytest.mark.parametrize("rising", [[0, 0, 0], [1, 1, 1], [2, 2, 2]])
def test_an_empty_list_makes_no_pair(rising):
    assert counted(np.array([0.1, 0.2, 0.3]), np.array(rising), [0, 2, 3]) == 0


def test_no_rows_at_all_make_no_pair():
    assert counted(np.zeros(0), np.zeros(0), [0, 0]) == 0


def test_lists_wholly_in_order_are_counted_to_the_end_of_the_shorter():
    values = np.concatenate([np.linspace(-1, -0.5, 40), np.linspace(0.5, 1, 25)])
    rising = np.repeat([1, 0], [40, 25])
    assert counted(values, rising, [0, 30, 65]) == 25
    assert counted(-values, rising, [0, 30, 65]) == 0


def test_rounds_stay_within_the_documented_number():
    (limit,) = re.findall(r"(\d+) at most", count_crossing.__doc__)
    for values in (np.zeros(9000), np.full(9000, np.pi), np.linspace(1, 1 + 1e-9, 9000)):
        engine = engine_of(values, np.arange(9000) % 2, [0, 4500, 9000])
        count_crossing(engine, first_list, second_list)
        assert engine.rounds <= int(limit)


def test_lists_on_either_side_of_zero_take_one_round():
    values = np.concatenate([np.linspace(-1, -1e-3, 4000), np.linspace(1e-3, 1, 5000)])
    for rising, pairs in ((values > 0, 0), (values < 0, 4000)):
        engine = engine_of(values, rising.astype(int), [0, 4500, 9000])
        assert count_crossing(engine, first_list, second_list) == pairs
        assert engine.rounds == 1


def test_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        counted(np.array([1.0, np.nan]), np.array([0, 1]), [0, 2])
