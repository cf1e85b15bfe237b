"""The parts of the guard: folds, paired counts, the decision."""

import numpy as np
import pytest
from scipy.stats import binomtest

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.safe import LEAST_GAIN, N_FOLDS, Trials, assign_folds, choose, compare
from dask_s3vm.problems.sample import draw_sample


def trials(*wrong):
    wrong = np.array(wrong, dtype=np.uint8)
    return Trials(wrong, N_FOLDS, N_FOLDS)


@pytest.mark.parametrize(("n", "repeats"), [(10, 4), (100, 3), (150, 2), (1000, 1)])
def test_folds_are_stratified_and_repeated_for_few_labels(n, repeats):
    codes = np.random.default_rng(0).integers(0, 3, n)
    folds = assign_folds(codes)
    assert folds.shape == (repeats, n)
    assert np.array_equal(folds, assign_folds(codes))
    for own in folds:
        sizes = np.bincount(own, minlength=N_FOLDS)
        assert sizes.max() - sizes.min() <= 1
        for code in range(3):
            inside = np.bincount(own[codes == code], minlength=N_FOLDS)
            assert inside.max() - inside.min() <= 1
    assert len({tuple(own) for own in folds}) == repeats


def test_rows_are_compared_one_by_one():
    first = [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    other = [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]]
    supervised, found = compare(["supervised", "other"], trials(first, other))
    assert (supervised.fixed, supervised.broken) == (0, 0)
    assert (found.fixed, found.broken) == (2.0, 0.5)
    assert found.fold_error == pytest.approx(2 / 12)
    assert found.net == 1.5


@pytest.mark.parametrize(("fixed", "broken"), [(0, 0), (3, 1), (5, 0), (2, 6)])
def test_the_sign_test_is_that_of_scipy(fixed, broken):
    first = [[1] * fixed + [0] * broken + [0]]
    other = [[0] * fixed + [1] * broken + [0]]
    found = compare(["supervised", "other"], trials(first, other))[1]
    wanted = 1.0
    if fixed + broken:
        wanted = binomtest(fixed, fixed + broken, alternative="greater").pvalue
    assert found.p_value == pytest.approx(wanted)


@pytest.mark.parametrize(("gain", "kept"), [(-1, 0), (0, 0), (LEAST_GAIN, 1), (3, 1)])
def test_a_candidate_has_to_gain_a_row(gain, kept):
    n = 10
    first, other = np.zeros((1, n)), np.zeros((1, n))
    first[0, :5] = 1
    other[0, : 5 - int(gain)] = 1
    assert choose(compare(["supervised", "other"], trials(first, other))) == kept


def test_the_better_candidate_is_kept_and_the_first_of_equals():
    first, good, better = np.ones((1, 6)), np.ones((1, 6)), np.ones((1, 6))
    good[0, :2] = 0
    better[0, :4] = 0
    names = ["supervised", "a", "b", "c"]
    assert choose(compare(names, trials(first, good, better, better))) == 2


def test_a_sample_is_the_same_from_any_chunks(make_rows, as_dask, tiny_shards):
    X, y = make_rows(400, 20, seed=3)
    codes = np.where(np.arange(400) % 9 == 0, y, -1)
    found = []
    for rows in (X, as_dask(X, (150, 250)), as_dask(X, (1, 99, 0, 300))):
        engine = ingest(rows, codes).place(np.array([0, 1]))
        found.append(draw_sample(engine, 0.5, 0.3))
        order = engine.layout.to_external(np.eye(21)[None, -1])  # the layout is the same
        assert order.shape == (1, 21)
        engine.close()
    first = found[0]
    for other in found[1:]:
        assert np.array_equal(first.numbers, other.numbers)
        assert np.array_equal(first.codes, other.codes)
        assert (first.matrix() != other.matrix()).nnz == 0
    assert np.array_equal(first.codes, codes[first.numbers])
    assert 60 < len(first.numbers) < 200


def test_ranges_of_columns(make_rows):
    X, y = make_rows(80, 6, seed=1)
    for rows in (X, X.toarray()):
        engine = ingest(rows, y).place(np.array([0, 1]))
        sample = draw_sample(engine, 1.0, 1.0)
        dense = X.toarray()
        assert sample.widths() == pytest.approx(dense.max(axis=0) - dense.min(axis=0))
        engine.close()
