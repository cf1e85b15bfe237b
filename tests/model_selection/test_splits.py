"""Splitters: only labeled rows are split, unlabeled rows are always trained on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_cases import few_labels
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.model_selection import LabeledKFold, LabeledLeaveOneOut, LabeledShuffleSplit

SPLITTERS = [
    LabeledKFold(3),
    LabeledKFold(3, stratify=False),
    LabeledKFold(2, shuffle=False),
    LabeledShuffleSplit(4, test_size=0.4),
    LabeledShuffleSplit(4, test_size=3, stratify=False),
    LabeledLeaveOneOut(),
]
each = pytest.mark.parametrize("cv", SPLITTERS, ids=repr)


@each
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_free=st.integers(0, 40),
    counts=st.tuples(*[st.integers(3, 9)] * 3),
)
def test_unlabeled_rows_train_and_labeled_rows_are_tested(cv, seed, n_free, counts):
    y = np.repeat([-1, 0, 1, 2], [n_free, *counts])
    y = np.random.default_rng(seed).permutation(y)
    free = np.flatnonzero(y == -1)
    for train, test in cv.split(None, y):
        assert np.array_equal(np.sort(np.append(train, test)), np.arange(len(y)))
        assert np.all(np.diff(train) > 0)
        assert np.all(np.diff(test) > 0)
        assert np.isin(free, train).all()
        assert (y[test] >= 0).all()
        assert len(test) > 0
        assert set(y[train]) >= {0, 1, 2} or not getattr(cv, "stratify", True)
    assert len(list(cv.split(None, y))) == cv.get_n_splits(None, y)


@pytest.mark.parametrize("stratify", [True, False])
def test_folds_are_a_partition_of_the_labeled_rows(stratify):
    _, y, _ = few_labels()
    tests = [test for _, test in LabeledKFold(5, stratify=stratify).split(None, y)]
    assert np.array_equal(np.sort(np.concatenate(tests)), np.flatnonzero(y >= 0))
    assert max(map(len, tests)) - min(map(len, tests)) <= 1 + stratify
    if stratify:
        shares = [np.bincount(y[test], minlength=2) for test in tests]
        assert np.ptp(shares, axis=0).max() <= 1


def test_same_seed_same_folds_and_another_seed_others():
    _, y, _ = few_labels()

    def held(cv):
        return [test.tolist() for _, test in cv.split(None, y)]

    assert held(LabeledKFold(4, random_state=3)) == held(LabeledKFold(4, random_state=3))
    assert held(LabeledKFold(4, random_state=3)) != held(LabeledKFold(4, random_state=4))
    assert held(LabeledKFold(4, shuffle=False)) != held(LabeledKFold(4))


def test_other_marks_and_strings():
    y = np.array(["a", "?", "b", "a", "?", "b"])
    splits = list(LabeledKFold(2, unlabeled="?").split(None, y))
    assert [len(test) for _, test in splits] == [2, 2]
    assert all({1, 4} <= set(train.tolist()) for train, _ in splits)
    everything = list(LabeledKFold(2, unlabeled=None).split(None, np.array([-1, 1, -1, 1])))
    assert [len(train) for train, _ in everything] == [2, 2]


def test_few_labels_of_a_class_make_fewer_folds():
    y = np.array([0] * 6 + [1] * 3 + [-1] * 6)
    cv = LabeledKFold(5)
    assert cv.get_n_splits(None, y) == 3
    assert cv.get_n_splits() == 5
    with pytest.warns(UserWarning, match=r"3 folds in place of n_splits=5: class 1 has 3"):
        assert len(list(cv.split(None, y))) == 3


@pytest.mark.parametrize(
    ("cv", "y", "message"),
    [
        (LabeledKFold(3, unlabeled=-1), [0, 0, 0, 1, -1], "class 1 has 1 labeled row"),
        (LabeledLeaveOneOut(unlabeled=-1), [0, 0, 0, 1, -1], "class 1 has 1 labeled row"),
        (LabeledKFold(3), [0, 0, 0, 1, -1], "two ways"),
        (LabeledKFold(3, stratify=False), [0, -1, -1], "there are 1 labeled"),
        (LabeledKFold(3), [-1, -1], "no labeled row"),
        (LabeledKFold(3), [[0, 1]], "1-dimensional"),
        (LabeledKFold(3), None, "needs y"),
    ],
)
def test_labels_that_cannot_be_split_are_refused(cv, y, message):
    with pytest.raises(ValueError, match=message):
        list(cv.split(None, y))


def test_wrong_parameters_are_refused():
    for n_splits in (1, 2.5, "3"):
        with pytest.raises(ValueError, match="n_splits"):
            LabeledKFold(n_splits)
    with pytest.raises(ValueError, match="n_splits"):
        LabeledShuffleSplit(0)
    with pytest.raises(ValueError, match="test_size"):
        LabeledShuffleSplit(test_size=0)
    with pytest.raises(ValueError, match="does not fit X"):
        list(LabeledKFold(2).split(np.zeros((3, 1)), [0, 0, 1, 1]))
    with pytest.raises(ValueError, match="needs y"):
        LabeledLeaveOneOut().get_n_splits()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_takes_the_splitters():
    X, y, _ = few_labels()
    cv = LabeledKFold(3)
    scores = cross_val_score(TSVM(0.1), X, y, cv=cv)
    wanted = [TSVM(0.1).fit(X[a], y[a]).score(X[b], y[b]) for a, b in cv.split(X, y)]
    assert scores.tolist() == wanted
    search = GridSearchCV(L2SVM(), {"lam": [0.1, 1.0]}, cv=cv).fit(X, y)
    assert search.n_splits_ == 3
    assert clone(search).cv.n_splits == 3
