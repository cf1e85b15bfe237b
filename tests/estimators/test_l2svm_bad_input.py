"""Bad input is refused, with the name of the argument."""

import re

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse

from dask_s3vm import L2SVM, l2svm_path

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2


def lazy(values, chunks=10):
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *values.shape[1:]))


def spoiled(values, bad):
    values = np.array(values, dtype=float)
    values[(33,) + (1,) * (values.ndim - 1)] = bad
    return values


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, sparse.COO.from_numpy, lazy])
def test_x_must_be_finite(bad, wrap):
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        L2SVM().fit(wrap(spoiled(X, bad)), Y)


@pytest.mark.parametrize("wrap", [np.asarray, lazy])
@pytest.mark.parametrize("rows", [np.asarray, lazy])
def test_y_must_be_finite(wrap, rows):
    with pytest.raises(ValueError, match="y contains infinity"):
        L2SVM().fit(rows(X), wrap(spoiled(Y, np.inf)))
    with pytest.raises(ValueError, match="y has missing labels, and unlabeled=-1"):
        L2SVM(unlabeled=-1).fit(rows(X), wrap(spoiled(Y, np.nan)))


@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_some_row_must_be_labeled(wrap):
    with pytest.raises(ValueError, match="y has no labeled row: every entry is -1"):
        L2SVM().fit(wrap(X), wrap(np.full(40, -1)))


@pytest.mark.parametrize("y", [np.zeros(40), np.where(Y == 1, -1, 5)])
@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_one_class_is_not_enough(y, wrap):
    with pytest.raises(ValueError, match="y has only one class"):
        L2SVM().fit(wrap(X), wrap(y))


@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_continuous_targets_are_no_labels(wrap):
    with pytest.raises(ValueError, match="Unknown label type: y"):
        L2SVM().fit(wrap(X), wrap(X[:, 0]))


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, lazy])
def test_prediction_wants_the_columns_of_training(wrap):
    model = L2SVM().fit(X, Y)
    with pytest.raises(ValueError, match=r"X has .*2.*L2SVM .*3 features"):
        model.predict(wrap(X[:, :2]))


@pytest.mark.parametrize("rows", [np.asarray, lazy])
@pytest.mark.parametrize("column", [np.asarray, lazy])
def test_x_and_y_must_be_of_one_length(rows, column):
    with pytest.raises(ValueError, match=r"y does not fit X: .*40 rows.*39"):
        L2SVM().fit(rows(X), column(Y[:39]))


def unknown(values, chunks):
    values = lazy(values, chunks)
    return values[da.from_array(np.ones(len(values), dtype=bool), chunks=chunks)]


def test_unknown_chunks_in_other_numbers_cannot_be_aligned():
    message = "y cannot be aligned with X: .* X has 4 row chunks and y has 2"
    with pytest.raises(ValueError, match=message):
        L2SVM().fit(unknown(X, 10), unknown(Y, 20))


def test_unknown_chunks_of_other_sizes_are_noticed():
    a, b = X[:15], Y[:20]
    rows = da.concatenate([unknown(a, 15), unknown(X[15:], 25)], allow_unknown_chunksizes=True)
    column = da.concatenate([unknown(b, 20), unknown(Y[20:], 20)], allow_unknown_chunksizes=True)
    with pytest.raises(ValueError, match=r"y does not fit X: a block of X has \d+ rows"):
        L2SVM().fit(rows, column)


@pytest.mark.parametrize(
    "params",
    [
        {"lam": 0}, {"lam": -1.0}, {"lam": "1"}, {"lam": np.nan}, {"tol": -1e-3}, {"max_iter": 0},
        {"max_iter": 2.5}, {"fit_intercept": 2}, {"warm_start": "no"}, {"unlabeled": 0.5},
        {"callbacks": 3}, {"class_weight": 1.0},
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_named(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"The '{name}' parameter"):
        L2SVM(**params).fit(X, Y)
    if name == "lam":
        with pytest.raises((ValueError, TypeError), match="lam"):
            l2svm_path(X, Y, [1e-3, params["lam"]])


@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_rows_must_be_numbers(wrap):
    words = np.full((40, 3), "word", dtype=object)
    with pytest.raises((ValueError, TypeError), match=r"X has dtype|could not convert string"):
        L2SVM().fit(wrap(words), Y)
    with pytest.raises((ValueError, TypeError), match=r"[Cc]omplex"):
        L2SVM().fit(wrap(X.astype(complex)), Y)


@pytest.mark.parametrize("shape", [(40,), (40, 3, 2)])
@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_rows_must_have_two_dimensions(shape, wrap):
    with pytest.raises(ValueError, match=r"2-dimensional|2D array|dim 3|expected <= 2"):
        L2SVM().fit(wrap(np.ones(shape)), Y)


@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_y_must_have_one_dimension(wrap):
    with pytest.raises(
        ValueError, match=r"y (must be|should be a) 1-?d|y does not fit X: .*\(40, 2\)"
    ):
        L2SVM().fit(X, wrap(np.ones((40, 2))))


@pytest.mark.parametrize("rows", [np.asarray, lazy])
@pytest.mark.parametrize("column", [np.asarray, lazy])
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(40) == 35, -0.5, 1.0), "sample_weight must not be negative, got -0.5"),
        (np.zeros(40), "sample_weight is zero on every labeled row"),
        (np.ones(39), "sample_weight does not fit X"),
        (Y.astype(float), "sample_weight leaves fewer than two classes"),
        (spoiled(np.ones(40), np.nan), "sample_weight contains NaN"),
        (np.full(40, "a"), "sample_weight has entries that are no numbers"),
    ],
    ids=["negative", "zero", "short", "one class", "nan", "words"],
)
def test_bad_weights_are_named(rows, column, weight, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        L2SVM().fit(rows(X), Y, column(weight))


@pytest.mark.parametrize("kind", ["complex", "M8[s]"])
def test_weights_that_are_not_real_are_refused(kind):
    with pytest.raises(TypeError, match="sample_weight has dtype"):
        L2SVM().fit(X, Y, np.ones(40).astype(kind))


@pytest.mark.parametrize("weight", ["balanced", {}])
def test_weights_that_are_no_numbers_are_named(weight):
    with pytest.raises(TypeError, match=r"sample_weight is .*; wanted one number per row"):
        L2SVM().fit(X, Y, sample_weight=weight)


def test_a_single_weight_is_refused_for_dask_rows():
    with pytest.raises(ValueError, match="sample_weight must be an array"):
        L2SVM().fit(lazy(X), Y, 2.0)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({3: 1.0}, r"class_weight names 3, .* \[0, 1\]"),
        ({0: -1.0}, r"class_weight\[0\] must be finite and >= 0"),
        ({0: np.nan}, r"class_weight\[0\] must be finite"),
        ("even", "class_weight must be None, 'balanced' or a dict"),
    ],
)
def test_bad_class_weights_are_named(class_weight, message):
    with pytest.raises(ValueError, match=message):
        L2SVM(class_weight=class_weight).fit(X, Y)


def test_class_weights_that_leave_no_loss_are_refused():
    with pytest.raises(ValueError, match="class_weight"):
        L2SVM(class_weight={0: 0.0, 1: 0.0}).fit(X, Y)


@pytest.mark.parametrize("change", ["features", "classes"])
@pytest.mark.parametrize("wrap", [np.asarray, lazy])
def test_warm_start_wants_data_of_the_same_form(change, wrap):
    model = L2SVM(warm_start=True).fit(X, Y)
    rows, y = (X[:, :2], Y) if change == "features" else (X, Y + 1)
    with pytest.raises(ValueError, match="warm_start: the last fit had classes"):
        model.fit(wrap(rows), y)
    assert model.predict(X).shape == (40,)  # the old model is still whole


def test_y_is_required():
    with pytest.raises(ValueError, match="L2SVM requires y to be passed"):
        L2SVM().fit(X, None)


@pytest.mark.parametrize("shape", [(0, 3), (40, 0)])
def test_empty_dask_rows_are_refused(shape):
    with pytest.raises(ValueError, match="X is empty"):
        L2SVM().fit(da.zeros(shape), np.zeros(shape[0]))


def test_rows_that_turn_out_empty_are_refused():
    rows = lazy(X)
    none = rows[rows[:, 0] > 100]
    with pytest.raises(ValueError, match="X is empty"):
        L2SVM().fit(none, np.zeros(0))


def test_blocks_of_different_widths_are_refused():
    parts = [
        da.from_delayed(dask.delayed(part), shape=(20, 3), dtype=float)
        for part in (X[:20], np.ones((20, 4)))
    ]
    with pytest.raises(ValueError, match=r"different numbers of columns: \[3, 4\]"):
        L2SVM().fit(da.concatenate(parts), Y)


def test_an_unfitted_model_says_so():
    with pytest.raises(ValueError, match="not fitted"):
        L2SVM().predict(X)
