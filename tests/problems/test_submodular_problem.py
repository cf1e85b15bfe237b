"""The set function: the paper's formula, and Theorem 3 on random sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_cases import Case

from dask_s3vm.problems.label_sums import kernel_bounds
from dask_s3vm.problems.submodular import (
    SetFunction,
    bits_of_rows,
    gather_items,
    picking_of,
    proven_share,
)

pytestmark = pytest.mark.usefixtures("tiny_shards")


def function_of(case, sparse=False):
    engine = case.engine(sparse)
    sums = case.sums(engine)
    return SetFunction(sums, *kernel_bounds(engine, sums)), engine


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_formula_of_the_paper_where_kernels_are_not_negative(seed):
    case = Case(seed)
    function, _ = function_of(case)
    assert function.low == 0.0
    assert function.value(np.zeros(4)) == 0.0
    for size in (1, 3, case.u):
        for A in list(case.sets(size))[:20]:
            wanted = case.set_function(A, function.high)
            assert function.value(case.raw(case.member(A))) == pytest.approx(wanted, rel=1e-10)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 40),
    center=st.booleans(),
    positive_rows=st.booleans(),
    order=st.permutations(range(9)),
    sizes=st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
def test_theorem_3_monotone_and_submodular(seed, center, positive_rows, order, sizes):
    case = Case(seed, center=center, positive_rows=positive_rows)
    function, _ = function_of(case)
    small, large = sorted(sizes)
    A, B, m = set(order[:small]), set(order[:large]), order[8]

    def value(chosen):
        return function.value(case.raw(case.member(chosen)))

    scale = 1e-12 * abs(value(range(case.u)))
    assert value(B) >= value(A) - scale
    gain_a, gain_b = value(A | {m}) - value(A), value(B | {m}) - value(B)
    assert gain_b >= -scale
    assert gain_a >= gain_b - scale


def test_without_its_last_term_it_is_neither():
    # the test above can fail
    case = Case(0, positive_rows=False)
    function, _ = function_of(case)
    values = [
        function.value(case.raw(case.member(range(n)))) - function.by_size(n)
        for n in range(case.u + 1)
    ]
    gains = np.diff(values)
    assert gains.min() < 0
    assert np.diff(gains).max() > 0


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_reaches_its_share_of_the_best_set(seed, center):
    case = Case(seed, center=center, positive_rows=bool(seed % 2))
    function, engine = function_of(case, sparse=bool(seed // 2))
    rows = np.flatnonzero(case.free)
    for k in range(1, case.u + 1):
        items = gather_items(engine)
        used, _ = items.pick(picking_of(function), k)
        picks = items.picked(used)
        raw = items.sum(used, 3)
        np.testing.assert_allclose(raw, case.raw(np.isin(rows, picks).astype(float)))
        best = max(function.value(case.raw(case.member(A))) for A in case.sets(k))
        reached = function.value(raw)
        assert best * (1 - 1 / np.e) <= reached <= best * (1 + 1e-12)
        proven = proven_share(engine, function, raw, picks)
        assert 0.3 < proven <= reached / best * (1 + 1e-12)


def test_equal_rows_of_several_shards_are_one_item():
    case = Case(1, n_unlabeled=400)
    case.X[:] = case.X[np.arange(405) % 5]
    engine = case.engine()
    assert engine.layout.n_shards > 3
    items = gather_items(engine)
    assert len(items.starts) == 5 + 1
    assert sorted(items.numbers.tolist()) == np.flatnonzero(case.free).tolist()
    for i in range(5):
        equal = items.numbers[items.starts[i] : items.starts[i + 1]]
        assert (np.diff(equal) > 0).all()
        assert np.array_equal(case.X[equal], np.repeat(items.rows[i : i + 1], len(equal), axis=0))


def test_bits_tell_the_rows():
    case = Case(1, n_unlabeled=400)
    engine = case.engine()
    numbers = np.array([0, 3, 77, 78, 200, 403])
    starts = engine.layout.starts
    found = [
        np.flatnonzero(np.unpackbits(bits)) + start
        for bits, start in zip(bits_of_rows(engine, numbers), starts, strict=False)
    ]
    assert np.concatenate(found).tolist() == numbers.tolist()
