"""Labels: classes, marks of unlabeled rows, and what may be written for them."""

import dask.array as da
import numpy as np
import pytest

from dask_s3vm import L2SVM


@pytest.fixture
def partly(make_rows):
    """Rows, classes 0 and 1, and which rows are labeled."""
    X, y = make_rows(200, 8, seed=6, density=0.8)
    return X, y, np.random.default_rng(0).random(200) < 0.5


def assert_same(a, b):
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-10)


def fit(X, y, **params):
    return L2SVM(1e-2, tol=1e-13, **params).fit(X, y)


@pytest.mark.parametrize("mark", [-1, 7, -5])
@pytest.mark.parametrize("lazy", [False, True])
def test_unlabeled_rows_are_left_out(partly, mark, lazy):
    X, y, on = partly
    marked = np.where(on, y, mark)
    marked = da.from_array(marked, chunks=33) if lazy else marked
    model = fit(X, marked, unlabeled=mark)
    assert model.classes_.tolist() == [0, 1]
    assert_same(model, fit(X[on], y[on]))


@pytest.mark.parametrize("kind", [str, object, np.bytes_])
def test_string_labels_have_a_string_mark(partly, kind):
    X, y, on = partly
    names = np.where(y == 1, "yes", "no")
    marked = np.where(on, names, "?").astype(kind)
    model = fit(X, marked, unlabeled="?")
    assert_same(model, fit(X[on], y[on]))
    assert len(model.classes_) == 2
    assert set(model.predict(X)) <= set(names.astype(kind))


def test_a_number_marks_strings_too(partly):
    X, y, on = partly
    numbers = np.where(on, y, -1).astype(str)
    assert fit(X, numbers, unlabeled=-1).classes_.tolist() == ["0", "1"]
    with pytest.raises(ValueError, match='pass unlabeled="-1"'):
        fit(X, numbers)


def test_strings_of_different_lengths_in_different_chunks(partly):
    X, y, on = partly
    names = np.where(y == 1, "yes", "no")
    names[100:][~on[100:]] = "?"
    halves = [names[:100].astype("<U3"), names[100:].astype("<U9")]
    lazy = da.concatenate([da.from_array(half, chunks=100) for half in halves])
    model = fit(X, lazy, unlabeled="?")
    keep = names != "?"
    assert_same(model, fit(X[keep], y[keep]))


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float64])
def test_minus_one_and_one_are_two_classes(partly, kind):
    X, y, _ = partly
    model = fit(X, (2 * y - 1).astype(kind))
    assert model.classes_.tolist() == [-1, 1]
    assert_same(model, fit(X, y))


def test_without_a_mark_minus_one_is_a_class(partly):
    X, y, on = partly
    model = fit(X, np.where(on, y, -1), unlabeled=None)
    assert model.classes_.tolist() == [-1, 0, 1]
    assert model.coef_.shape == (3, 8)


@pytest.mark.parametrize("kind", [np.uint8, bool, np.float32])
def test_labels_of_any_number_type(partly, kind):
    X, y, _ = partly
    model = fit(X, y.astype(kind))
    assert model.classes_.dtype == kind
    assert_same(model, fit(X, y))


def test_a_class_of_weight_zero_counts_for_nothing(partly):
    X, y, on = partly
    three = np.where(on, y, 2)
    weight = on.astype(float)
    model = fit(X, three)
    assert model.classes_.tolist() == [0, 1, 2]
    weighted = L2SVM(1e-2, tol=1e-13).fit(X, three, weight)
    plain = fit(X[on], y[on])
    np.testing.assert_allclose(weighted.coef_[1], plain.coef_[0], atol=1e-6)
