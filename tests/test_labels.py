"""Which values of y mark rows without a label, in every part that reads labels."""

import re

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score

from dask_s3vm import L2SVM, QPS3VM, RLSC, S2RLSC, STARSVM, TSVM
from dask_s3vm.baselines import baseline
from dask_s3vm.datasets import hide_labels
from dask_s3vm.labels import Tally, as_labels, find_classes, is_unlabeled, of_kind
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV


def data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 3)) + (2 * y - 1)[:, None], y, np.arange(n) < 30


X, TRUE, KNOWN = data()
WORDS = np.array(["no", "yes"])

#: y in the types that people have, and the classes.
FORMS = {
    "integers": (np.where(KNOWN, TRUE, -1), [0, 1]),
    "whole floats": (np.where(KNOWN, TRUE, -1.0), [0, 1]),
    "NaN": (np.where(KNOWN, TRUE, np.nan), [0, 1]),
    "NaN, signs": (np.where(KNOWN, 2.0 * TRUE - 1, np.nan), [-1, 1]),
    "empty": (np.where(KNOWN, WORDS[TRUE], ""), ["no", "yes"]),
    "None": (np.where(KNOWN, WORDS[TRUE].astype(object), None), ["no", "yes"]),
    "words, -1": (np.where(KNOWN, WORDS[TRUE].astype(object), -1), ["no", "yes"]),
    "words, NaN": (np.where(KNOWN, WORDS[TRUE].astype(object), np.nan), ["no", "yes"]),
    "numbers, None": (np.where(KNOWN, TRUE.astype(object), None), [0, 1]),
    "bytes": (np.where(KNOWN, WORDS[TRUE], "").astype("S"), [b"no", b"yes"]),
    "string": (pd.Series(np.where(KNOWN, WORDS[TRUE].astype(object), None), dtype="string"), None),
    "category": (pd.Series(np.where(KNOWN, WORDS[TRUE].astype(object), None)).astype("category"),
                 ["no", "yes"]),
    "Int64": (pd.Series(np.where(KNOWN, TRUE.astype(object), pd.NA), dtype="Int64"), [0, 1]),
    "boolean": (pd.Series(np.where(KNOWN, TRUE.astype(object), pd.NA), dtype="boolean"), [0, 1]),
}  # fmt: skip

#: Those whose numbers are floats for their missing values alone.
WITH_GAPS = ("NaN", "NaN, signs", "numbers, None", "Int64", "boolean")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "estimator", [L2SVM(), TSVM(positive_ratio=0.5), RLSC()], ids=["l2svm", "tsvm", "rlsc"]
)
def test_the_missing_value_of_the_type_is_the_mark(form, estimator):
    y, classes = FORMS[form]
    wanted = estimator.fit(X, np.where(KNOWN, TRUE, -1))
    coef, accuracy = wanted.coef_, (wanted.predict(X) == TRUE)[KNOWN].mean()
    model = estimator.fit(X, y)
    assert model.classes_.tolist() == (classes or ["no", "yes"])
    assert np.array_equal(model.coef_, coef)
    assert model.score(X, y) == pytest.approx(accuracy)
    predicted = model.predict(X)
    assert (np.searchsorted(model.classes_, predicted) == TRUE).mean() > 0.9
    assert (predicted.dtype == np.int64) == (form in (*WITH_GAPS, "integers"))
    if estimator.__class__ is TSVM:
        assert np.isin(model.transduction_, model.classes_).all()
        assert model.transduction_.dtype == model.classes_.dtype
    if form == "bytes":  # scikit-learn refuses them
        return
    folds = list(LabeledKFold(3).split(X, y))
    assert np.array_equal(
        np.sort(np.concatenate([test for _, test in folds])), np.flatnonzero(KNOWN)
    )


@pytest.mark.parametrize("form", ["integers", "NaN", "empty", "None", "Int64"])
def test_searches_and_baselines_read_the_same_marks(form):
    y, _ = FORMS[form]
    search = S3VMGridSearchCV(L2SVM(), {"lam": [1e-3, 1e-1]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    for name in ("SVM", "label spreading"):
        model = baseline(name).fit(X, y)
        assert model.classes_.tolist() == search.best_estimator_.classes_.tolist()


@pytest.mark.parametrize("form", ["integers", "NaN", "empty", "None"])
def test_blocks_of_marks_alone_are_read_as_marks(form):
    y, _ = FORMS[form]
    order = np.argsort(~KNOWN, kind="stable")  # later blocks have marks alone
    lazy = da.from_array(np.asarray(y)[order], chunks=10)
    rows = da.from_array(X[order], chunks=(10, 3))
    model = TSVM(positive_ratio=0.5).fit(rows, lazy)
    assert np.array_equal(
        model.coef_, TSVM(positive_ratio=0.5).fit(X[order], np.asarray(y)[order]).coef_
    )
    assert np.isin(model.transduction_.compute(), model.classes_).all()
    assert model.score(rows, lazy) > 0.9


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize(
    "estimator", [L2SVM(), TSVM(), RLSC(), S2RLSC(), STARSVM(), QPS3VM()], ids=str
)
def test_two_readings_are_refused(kind, estimator):
    y = np.where(KNOWN, 2 * TRUE - 1, 0).astype(kind)
    with pytest.raises(ValueError, match=r"pass unlabeled=0; if -1 .* pass unlabeled=-1"):
        estimator.fit(X, y)


def test_both_readings_work_when_they_are_named():
    y = np.where(KNOWN, 2 * TRUE - 1, 0)
    assert TSVM(unlabeled=0, positive_ratio=0.5).fit(X, y).classes_.tolist() == [-1, 1]
    assert TSVM(unlabeled=-1, positive_ratio=0.5).fit(X, y).classes_.tolist() == [0, 1]
    assert L2SVM(unlabeled=None).fit(X, y).classes_.tolist() == [-1, 0, 1]
    with pytest.raises(ValueError, match="two ways"):
        find_classes(Tally.of(np.array([-1, 0, 0, 1])), "auto")
    # hidden labels: -1 is most of all
    assert find_classes(Tally.of(np.array([-1, -1, 0, 1])), "auto").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "unlabeled", "message"),
    [
        (np.array(["a", "b", None], object), "?", "y has missing labels, and unlabeled='[?]'"),
        (np.array(["a", "b", None], object), None, "y has missing labels, and unlabeled=None"),
        (np.array([0.0, 1.0, np.nan]), -1, "y has missing labels, and unlabeled=-1"),
        (np.array(["-1", "1", "2"]), "auto", 'strings "-1" and other numbers'),
        (np.array([np.nan, np.nan, np.nan]), "auto", "no labeled row: every entry is nan"),
        (np.array(["", "", ""]), "auto", "no labeled row: every entry is ''"),
        (np.array([-1, 1, 1]), "auto", "-1, is the mark of rows without"),
    ],
)
def test_what_cannot_be_told_is_refused(y, unlabeled, message):
    with pytest.raises(ValueError, match=message):
        TSVM(unlabeled=unlabeled).fit(np.eye(3), y)


def test_explicit_marks_still_work():
    for y, mark in (
        (np.where(KNOWN, TRUE, 7), 7),
        (np.where(KNOWN, WORDS[TRUE], "?"), "?"),
        (np.where(KNOWN, TRUE, np.nan), np.nan),
        (np.where(KNOWN, WORDS[TRUE], ""), ""),
    ):
        model = TSVM(unlabeled=mark, positive_ratio=0.5).fit(X, y)
        assert len(model.classes_) == 2
        assert model.score(X, y) > 0.9


def test_cross_validation_by_scikit_learn_is_right():
    y = np.where(KNOWN, TRUE, -1)
    scores = cross_val_score(TSVM(positive_ratio=0.5), X, y, cv=5)
    assert scores.mean() > 0.9  # -1 does not count as a class
    weighted = L2SVM().fit(X, y)
    assert weighted.score(X, TRUE, KNOWN.astype(float)) == pytest.approx(weighted.score(X, y))
    with pytest.raises(ValueError, match="no labeled row to score on"):
        weighted.score(X, np.full(80, -1))
    wrong = np.where(np.arange(80) < 40, 5, TRUE)  # a class that was never seen is an error
    assert weighted.score(X, wrong) < 0.6


def test_calibration_works_on_the_labeled_rows():
    everything = CalibratedClassifierCV(L2SVM(), cv=3).fit(X, TRUE)
    assert (everything.predict(X) == TRUE).mean() > 0.9
    fitted = TSVM(positive_ratio=0.5).fit(X, np.where(KNOWN, TRUE, -1))
    model = CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X[KNOWN], TRUE[KNOWN])
    assert model.classes_.tolist() == [0, 1]
    assert (model.predict(X) == TRUE).mean() > 0.9


# hide_labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("y", "mark"),
    [
        (TRUE, -1),
        (TRUE.astype(float), np.nan),
        (WORDS[TRUE], ""),
        (WORDS[TRUE].astype("S"), b""),
        (WORDS[TRUE].astype(object), None),
    ],
    ids=["int", "float", "str", "bytes", "object"],
)
def test_labels_of_any_type_can_be_hidden(y, mark, lazy):
    given_y = da.from_array(y, chunks=17) if lazy else y
    (found,) = dask.compute(hide_labels(given_y, 20))
    hidden = is_unlabeled(as_labels(found), "auto")
    assert hidden.sum() == 60
    assert np.array_equal(found[~hidden], y[~hidden])
    numbers = dask.compute(hide_labels(TRUE, 20))[0]
    assert np.array_equal(numbers >= 0, ~hidden)  # the same rows, whatever the type
    assert all(one == mark or one != one or one is mark for one in found[hidden])
    assert TSVM(positive_ratio=0.5).fit(X, found).score(X, y) > 0.85


def test_the_mark_of_strings_may_be_wider_than_the_labels():
    y = np.array(["a", "b"] * 10)
    assert set(hide_labels(y, 4, unlabeled="unknown")) == {"a", "b", "unknown"}
    lazy = hide_labels(da.from_array(y, chunks=5), 4, unlabeled="unknown")
    assert lazy.dtype == "<U7"
    assert set(lazy.compute()) == {"a", "b", "unknown"}


def test_labels_that_are_missing_already_cannot_be_hidden():
    for y in (np.array(["a", "b", ""]), np.array(["a", "b", None], object), [0.0, 1.0, np.nan]):
        with pytest.raises(ValueError, match="y must hold no"):
            hide_labels(y, 2)


# The parts ---------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0, 1, 2, None, float("nan")]), min_size=1, max_size=12))
def test_objects_that_are_numbers_become_numbers(values):
    found = as_labels(np.array([*values, None], dtype=object)[:-1])
    for one, value in zip(found.tolist(), values, strict=True):
        missing = value is None or value != value
        assert (one != one) if missing else one == value


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "b", None, -1]), min_size=1, max_size=5),
        min_size=1,
        max_size=6,
    )
)
def test_blocks_together_are_as_one(blocks):
    blocks = [["a", "b"], *blocks]
    parts = [as_labels(np.array([*block, None], object)[:-1]) for block in blocks]
    whole = as_labels(np.array([one for block in blocks for one in block], object))
    together, wanted = Tally.joined([Tally.of(part) for part in parts]), Tally.of(whole)
    assert together.values.tolist() == wanted.values.tolist()
    assert together.counts.tolist() == wanted.counts.tolist()
    joined = np.concatenate([of_kind(part, "U") for part in parts])
    assert joined.tolist() == whole.tolist()


def test_labels_that_another_type_could_not_tell_apart_are_refused():
    ids = [2**60, 2**60 + 1, None, None]
    for labels in (ids, pd.Series(ids, dtype="Int64").to_numpy(float, na_value=np.nan)):
        with pytest.raises(ValueError, match="two labels may have become one"):
            as_labels(np.array(labels))
    assert as_labels(np.array(ids[:2], dtype=object)).tolist() == ids[:2]
    with pytest.raises(ValueError, match="y has 1180591620717411303424, which is too large"):
        as_labels(np.array([0, 2**70], dtype=object))
    with pytest.raises(ValueError, match="numbers beside strings of the same digits"):
        as_labels(np.array([1, "1", "b"], dtype=object))


def test_numpys_booleans_are_labels_as_those_of_python_are():
    for no, yes in ((False, True), (np.False_, np.True_)):
        labels = as_labels(np.array([no, yes, None], dtype=object))
        np.testing.assert_array_equal(labels, [0.0, 1.0, np.nan])


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_a_mark_that_lost_its_sign_is_refused(kind):
    y = np.where(KNOWN, TRUE, -1).astype(kind)
    top = np.iinfo(kind).max
    with pytest.raises(ValueError, match=f"label of y is {top}, which -1 becomes"):
        TSVM().fit(X, y)
    with pytest.raises(ValueError, match="which -1 becomes"):
        TSVM().fit(da.from_array(X, chunks=(30, 3)), da.from_array(y, chunks=30))
    wanted = TSVM(positive_ratio=0.5).fit(X, np.where(KNOWN, TRUE, -1))
    found = TSVM(positive_ratio=0.5, unlabeled=int(top)).fit(X, y)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


def test_a_class_of_the_largest_unsigned_number_stays_one():
    y = np.where(TRUE == 1, 255, 0).astype(np.uint8)
    y[:50] = 0
    assert L2SVM().fit(X, y).classes_.tolist() == [0, 255]
    y = np.where(np.arange(len(y)) < 5, 0, 255).astype(np.uint8)
    assert L2SVM(unlabeled=None).fit(X, y).classes_.tolist() == [0, 255]


@pytest.mark.parametrize("blank", [" ", "\t "])
@pytest.mark.parametrize("n_blank", [1, 40])
def test_blanks_are_no_class(blank, n_blank):
    blanks = np.arange(len(TRUE)) >= len(TRUE) - n_blank
    y = np.where(blanks, blank, WORDS[TRUE])
    with pytest.raises(ValueError, match=f"y has the label {re.escape(repr(blank))}, blanks alone"):
        TSVM().fit(X, y)
    assert TSVM(positive_ratio=0.5, unlabeled=blank).fit(X, y).classes_.tolist() == ["no", "yes"]
    assert len(L2SVM(unlabeled=None).fit(X, y).classes_) == 3


def test_errors_of_large_labels_are_short():
    with pytest.raises(ValueError, match=r"as large as 1\.0000000000000001e\+300, of which"):
        as_labels(np.array([1e300, 0.0, np.nan]))


@pytest.mark.parametrize("word", ["NA", "Unknown", "-", "nan", "None", "?"])
def test_words_that_often_mean_nothing_are_refused(word):
    y = np.where(KNOWN, WORDS[TRUE], word)
    with pytest.raises(ValueError, match=f"label of y is '{re.escape(word)}', which often means"):
        TSVM().fit(X, y)
    wanted = TSVM(positive_ratio=0.5).fit(X, np.where(KNOWN, TRUE, -1))
    found = TSVM(positive_ratio=0.5, unlabeled=word).fit(X, y)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    assert len(L2SVM(unlabeled=None).fit(X, y).classes_) == 3
    rare = np.where(np.arange(len(y)) < 3, word, WORDS[TRUE])
    assert len(L2SVM().fit(X, rare).classes_) == 3
