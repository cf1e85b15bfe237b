"""The parts of the guard: folds, paired counts, the decision."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.safe import (
    WIDTH,
    Candidate,
    FoldTrials,
    Trials,
    change_allowed,
    choose,
    compare,
    part_of_folds,
)
from dask_s3vm.methods.unseen import CLEAR_GAIN, LEAST_GAIN, OPEN
from dask_s3vm.problems.folds import LEAST_TESTED, N_FOLDS, assign_folds
from dask_s3vm.problems.sample import draw_sample


def trials(*wrong):
    """Trials in which every margin is 1 or -1."""
    wrong = np.array(wrong)
    return Trials(1.0 - 2.0 * wrong, N_FOLDS * wrong.shape[1])


def candidate(gain, fixed=0.0, broken=0.0):
    return Candidate("any", 0.1, gain, fixed, broken, 1.0)


@pytest.mark.parametrize(("n", "repeats"), [(10, 4), (100, 3), (150, 2), (1000, 1)])
def test_folds_are_stratified_and_repeated_for_few_labels(n, repeats):
    codes = np.random.default_rng(0).integers(0, 3, n)
    keys = np.random.default_rng(1).permutation(n).astype(np.uint64)
    folds = assign_folds(codes, keys)
    assert folds.shape == (repeats, n)
    assert np.array_equal(folds, assign_folds(codes, keys))
    order = np.random.default_rng(2).permutation(n)
    assert np.array_equal(folds[:, order], assign_folds(codes[order], keys[order]))
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
    assert found.gain == pytest.approx(1.5), "all margins are alike, so that whole rows count"


@pytest.mark.parametrize(("fixed", "broken"), [(0, 0), (3, 1), (5, 0), (2, 6)])
def test_the_sign_test_is_that_of_scipy(fixed, broken):
    first = [[1] * fixed + [0] * broken + [0]]
    other = [[0] * fixed + [1] * broken + [0]]
    found = compare(["supervised", "other"], trials(first, other))[1]
    wanted = 1.0
    if fixed + broken:
        wanted = binomtest(fixed, fixed + broken, alternative="greater").pvalue
    assert found.p_value == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("fixed", "broken", "wanted"),
    [(5, 0, 0.0), (4, 0, None), (9, 2, 0.0), (8, 2, None), (0, 5, 1.0), (2, 9, 1.0), (0, 0, None)],
)
def test_what_rows_say_clearly(fixed, broken, wanted):
    first = [[1] * fixed + [0] * (20 - fixed)]
    other = [[0] * fixed + [1] * broken + [0] * (20 - fixed - broken)]
    found = compare(["supervised", "other"], trials(first, other))[1]
    assert (found.fixed, found.broken) == (fixed, broken)
    assert part_of_folds(found, LEAST_TESTED) == wanted


@pytest.mark.parametrize(
    ("gain", "n_labeled", "wanted"),
    [(-1.0, 100, 1.0), (-0.9, 100, None), (-3.0, 300, None), (-1.0, 299, 1.0)],
)
def test_few_labels_may_not_be_lost(gain, n_labeled, wanted):
    found = Candidate("other", 0.1, gain, 2.0, 2.0, p_value=0.7)
    assert part_of_folds(found, n_labeled) == wanted
    assert part_of_folds(replace(found, p_value=0.01), n_labeled) == 0.0


@pytest.mark.parametrize(("fixed", "broken"), [(0, 0), (3, 2), (1, 6), (5, 2), (9, 2)])
def test_what_few_labels_allow_to_change(fixed, broken):
    found = Candidate("other", 0.1, 0.0, float(fixed), float(broken), p_value=0.5)
    right = beta.ppf(0.1, fixed + 1, broken + 1)
    allowed = change_allowed(found)
    if right >= 0.5:
        assert allowed == 1.0
    else:
        assert allowed * (1.0 - 2.0 * right) == pytest.approx(0.03)
    assert (right >= 0.5) == ((fixed, broken) == (9, 2))


def test_a_gain_is_counted_by_margins_in_units_of_each_model():
    """Against a loop over rows."""
    rng = np.random.default_rng(0)
    margins = rng.normal(0.3, [[[1.0]], [[5.0]]], size=(2, 3, 20))
    total = 0.0
    for repeat in range(3):
        for sign, own in zip((-1.0, 1.0), margins[:, repeat], strict=True):
            half = WIDTH * np.sqrt(np.mean(own**2))
            for m in own:
                total += sign * (1.0 if m > half else 0.0 if m < -half else 0.5 + 0.5 * m / half)
    found = Trials(margins, 3 * N_FOLDS)
    assert found.gains == pytest.approx([0.0, total / 3])
    scaled = Trials(margins * np.array([[[7.0]], [[0.01]]]), 3 * N_FOLDS)
    assert scaled.gains == pytest.approx(found.gains)
    assert not np.isnan(Trials(np.zeros((2, 1, 5)), N_FOLDS).gains).any()


@pytest.mark.parametrize(("gain", "kept"), [(-1.0, 0), (1.4, 0), (CLEAR_GAIN, 1), (3.0, 1)])
def test_a_candidate_has_to_gain_clearly(gain, kept):
    assert choose([candidate(0.0), candidate(gain)]) == kept


def test_the_better_candidate_is_kept_and_the_first_of_equals():
    assert choose([candidate(gain) for gain in (0.0, 2.0, 4.0, 4.0)]) == 2


def test_margins_do_not_outweigh_mistakes():
    """A candidate that is surer of rows that are right anyway, but puts others wrong."""
    assert choose([candidate(0.0), candidate(2.0, 0.0, 1.0)]) == 0
    assert choose([candidate(0.0), candidate(2.0, 1.0, 1.0)]) == 1
    assert choose([candidate(0.0), candidate(4.0, 1.0, 2.0), candidate(2.0, 3.0, 2.0)]) == 2


@pytest.mark.parametrize("at_once", [1, 2, 5])
@pytest.mark.parametrize("gain", [-1, 0, 1, 2])
def test_folds_are_drawn_again_while_the_gain_is_open(gain, at_once):
    """One fold of each repeat has rows that only one of the models puts right."""
    codes = np.arange(40) % 2
    folds = assign_folds(codes, np.arange(len(codes)))
    done = []

    def margins_of(outs):
        assert 1 <= len(outs) <= at_once
        found = []
        for out in outs:
            margins = np.ones((2, np.count_nonzero(out)))
            if len(done) % N_FOLDS == 0:
                margins[0 if gain > 0 else 1, : abs(gain)] = -1.0
            done.append(out)
            found.append(margins)
        return found

    method = FoldTrials(folds, 2, margins_of, at_once)
    state = method.start()
    while not state.done:
        state = method.advance(state)
    assert state.n_repeats == (len(folds) if abs(gain - LEAST_GAIN) < OPEN else 1)
    assert np.array_equal(np.sum(done, axis=0), np.full(40, state.n_repeats)), "rows are held out"
    found = compare(["supervised", "other"], method.finish(state))[1]
    assert found.gain == pytest.approx(gain)


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("right", "n_folds"), [((0, 8), 1), ((8, 0), 1), ((0, 5), 2), ((1, 3), 5), ((2, 2), 5)]
)
def test_no_more_folds_are_asked_once_they_are_clear(right, n_folds, at_once):
    """In each fold, so many rows are put right by one of the models alone."""
    codes = np.arange(400) % 2
    folds = assign_folds(codes, np.arange(len(codes)))

    def margins_of(outs):
        margins = np.ones((2, 80))
        margins[1, : right[0]] = -1.0
        margins[0, right[0] : sum(right)] = -1.0
        return [margins for _ in outs]

    method = FoldTrials(folds, 2, margins_of, at_once, until_clear=True)
    state = method.start()
    while not state.done:
        state = method.advance(state)
    assert state.n_repeats == 1
    assert state.held_out.shape == (2, 1, 80 * n_folds)
    found = compare(["supervised", "other"], method.finish(state))[1]
    assert (found.broken, found.fixed) == (n_folds * right[0], n_folds * right[1])
    assert found.fold_error == pytest.approx(right[0] / 80)
    state = FoldTrials(folds, 2, margins_of, at_once).start()
    assert state.tested is None, "no fold is left out where only whole repeats count"


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
