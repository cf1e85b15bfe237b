"""Hiding labels of numpy and dask arrays."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.datasets import _labels, hide_labels, make_text


@st.composite
def problems(draw):
    classes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    rest = draw(st.lists(st.sampled_from(classes), max_size=60))
    y = np.array(draw(st.permutations(classes + rest)), np.int8)
    return y, draw(st.integers(len(classes), len(y)))


@given(problem=problems(), chunk=st.integers(1, 70), seed=st.integers(0, 2**70))
@settings(max_examples=60, deadline=None)
def test_properties(problem, chunk, seed):
    y, n_labeled = problem
    before = y.copy()
    hidden = hide_labels(y, n_labeled, random_state=seed)
    kept = hidden != -1
    assert kept.sum() == n_labeled
    assert hidden.dtype == y.dtype
    np.testing.assert_array_equal(hidden[kept], y[kept])
    np.testing.assert_array_equal(np.unique(hidden[kept]), np.unique(y))
    np.testing.assert_array_equal(y, before)
    lazy = hide_labels(da.from_array(y, chunks=chunk), n_labeled, random_state=seed)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), hidden)


def test_dask_in_dask_out():
    y = make_text(5000, 50, 3, chunks=700)[1]
    hidden = hide_labels(y, 40)
    assert isinstance(hidden, da.Array)
    assert hidden.chunks == y.chunks
    assert hidden.dtype == hidden.compute().dtype == np.int8
    np.testing.assert_array_equal(hidden.compute(), hide_labels(y.compute(), 40))
    assert hide_labels(y, 40).name == hidden.name


def test_seeds_choose_different_rows():
    y = np.arange(1000) % 2
    first, second = (hide_labels(y, 100, random_state=seed) != -1 for seed in (0, 1))
    assert (first & second).sum() < 40


def test_all_rows_are_equally_likely():
    y = np.arange(20) % 2
    times = sum((hide_labels(y, 5, random_state=seed) != -1).astype(int) for seed in range(2000))
    np.testing.assert_allclose(times / 2000, 0.25, atol=0.04)


@pytest.mark.parametrize("row", [0, 4321, 9999])
def test_a_single_row_of_a_class_is_kept(row):
    y = np.zeros(10_000, np.int64)
    y[row] = 7
    for labels in (y, da.from_array(y, chunks=999)):
        hidden = np.asarray(hide_labels(labels, 2))
        assert hidden[row] == 7
        assert (hidden == 0).sum() == 1


def test_enough_keys_are_found_when_the_first_guess_is_short(monkeypatch):
    bounds = []
    found = _labels._keys_below

    def stingy(seed, n_rows, bound):
        bounds.append(int(bound))
        return found(seed, n_rows, bound if len(bounds) > 1 else np.uint64(bound // np.uint64(50)))

    expected = hide_labels(np.zeros(5000), 100)
    monkeypatch.setattr(_labels, "_keys_below", stingy)
    np.testing.assert_array_equal(hide_labels(np.zeros(5000), 100), expected)
    assert len(bounds) == 2


def test_other_marks():
    y = np.array([-1, 1, -1, 1])
    assert sorted(hide_labels(y, 2, unlabeled=0)) == [-1, 0, 0, 1]
    assert np.isnan(hide_labels(y.astype(float), 2, unlabeled=np.nan)).sum() == 2
    assert hide_labels([0, 1, 1], 3).tolist() == [0, 1, 1]


def test_keeping_everything_copies():
    y = np.array([0, 1])
    assert hide_labels(y, 2) is not y
    lazy = da.from_array(y, chunks=1)
    np.testing.assert_array_equal(hide_labels(lazy, 2).compute(), y)


@pytest.mark.parametrize(
    ("y", "n_labeled", "kwargs", "message"),
    [
        ([0, 1], 0, {}, "n_labeled must be a positive integer, got 0"),
        ([0, 1], 3, {}, "n_labeled must be at most the 2 rows of y, got 3"),
        ([0, 1, 2], 2, {}, "n_labeled must be at least the number of classes in y, 3, got 2"),
        ([-1, 1], 2, {}, "y must not hold the value of unlabeled, got -1"),
        ([[0, 1]], 1, {}, "y must be one-dimensional, got 2 dimensions"),
        ([0.0, np.nan], 2, {}, "y must hold no NaN"),
        ([0, 1], 2, {"unlabeled": np.nan}, "unlabeled must be a number that int64 can hold"),
        ([0, 1], 2, {"unlabeled": None}, "unlabeled must be a number that int64 can hold"),
        (np.array([0, 1], np.uint8), 2, {}, "unlabeled must be a number that uint8 can hold"),
        ([0, 1], 2, {"random_state": -5}, "random_state must be a non-negative integer, got -5"),
    ],
)
def test_wrong_arguments(y, n_labeled, kwargs, message):
    with pytest.raises(ValueError, match=message):
        hide_labels(y, n_labeled, **kwargs)


def test_wrong_types():
    with pytest.raises(TypeError, match="y must hold numbers or strings, got bool"):
        hide_labels([True, False], 2)
    with pytest.raises(TypeError, match=r"n_labeled must be a positive integer, got 1\.5"):
        hide_labels([0, 1], 1.5)


def test_unknown_chunk_sizes():
    y = da.from_array(np.arange(10) % 2, chunks=5)
    with pytest.raises(ValueError, match="y must have known chunk sizes"):
        hide_labels(y[y >= 0], 2)
