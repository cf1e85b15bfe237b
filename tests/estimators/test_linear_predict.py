"""Prediction: any type of rows, lazy for dask, and without a cluster."""

import pickle
import threading

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from dask.core import flatten

from dask_s3vm import L2SVM, prediction


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def fitted(request, make_rows):
    X, _ = make_rows(120, 7, seed=8, density=0.7)
    y = np.array(["a", "b", "c"])[np.random.default_rng(1).integers(0, request.param, 120)]
    return L2SVM(1e-2).fit(X, y), X


def by_hand(model, X):
    outputs = X.toarray() @ model.coef_.T + model.intercept_
    if len(model.classes_) == 2:
        return outputs[:, 0], model.classes_[(outputs[:, 0] > 0).astype(int)]
    return outputs, model.classes_[outputs.argmax(axis=1)]


KINDS = {
    "numpy": lambda X: X.toarray(),
    "csr": lambda X: X,
    "csc_matrix": lambda X: sp.csc_matrix(X),
    "coo": sparse.COO.from_scipy_sparse,
    "gcxs": sparse.GCXS.from_scipy_sparse,
}


@pytest.mark.parametrize("kind", ["numpy", "csr"])
@pytest.mark.parametrize("n_threads", [2, 3, 50])
def test_threads_that_share_a_product_give_the_same_bits(fitted, kind, n_threads, monkeypatch):
    model, X = fitted
    rows = KINDS[kind](sp.vstack([X] * 10, format="csr"))
    with dask.config.set({"s3vm.threads": 1}):
        wanted = model.decision_function(rows)
    monkeypatch.setattr(prediction, "SHARED", 1)
    with dask.config.set({"s3vm.threads": n_threads}):
        np.testing.assert_array_equal(model.decision_function(rows), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_classes_are_those_of_the_formula(fitted, kind):
    model, X = fitted
    outputs, classes = by_hand(model, X)
    rows = KINDS[kind](X)
    found = model.decision_function(rows)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, outputs, rtol=1e-12, atol=1e-14)
    assert np.array_equal(model.predict(rows), classes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("known", [True, False])
def test_dask_in_dask_out(fitted, as_dask, kind, known):
    model, X = fitted
    outputs, classes = by_hand(model, X)
    rows = as_dask(X, (50, 0, 70), known=known, convert=KINDS[kind])
    found, labels = model.decision_function(rows), model.predict(rows)
    assert isinstance(found, da.Array)
    assert isinstance(labels, da.Array)
    assert found.ndim == outputs.ndim
    assert labels.dtype == model.classes_.dtype
    if known:
        assert found.shape == outputs.shape
        assert labels.shape == (120,)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_allclose(found.compute(), outputs, rtol=1e-12, atol=1e-14)
        assert np.array_equal(labels.compute(), classes)


def test_blocks_of_rows_are_not_joined_to_be_predicted(fitted, as_dask, monkeypatch):
    """`sparse` takes seconds for it, even where there is nothing to join."""
    model, X = fitted
    lazy = as_dask(X, (50, 70), known=False, convert=KINDS["gcxs"])
    found = model.predict(lazy)
    join, joined = da.core.concatenate3, []

    def noting(arrays):
        joined.append(arrays)
        return join(arrays)

    monkeypatch.setattr(da.core, "concatenate3", noting)
    with dask.config.set(scheduler="synchronous"):
        assert np.array_equal(found.compute(), by_hand(model, X)[1])
    assert not any(isinstance(part, sparse.SparseArray) for part in flatten(joined))


def test_prediction_of_dask_rows_is_lazy(fitted):
    model, X = fitted
    calls = []

    def block(part):
        calls.append(1)
        return part

    rows = da.from_array(X.toarray(), chunks=(40, 7)).map_blocks(block, meta=np.zeros((0, 0)))
    labels = model.predict(rows)
    assert calls == []
    with dask.config.set(scheduler="synchronous"):
        labels.compute()
    assert len(calls) == 3


def test_several_column_chunks_are_joined(fitted):
    model, X = fitted
    rows = da.from_array(X.toarray(), chunks=(40, 3))
    assert np.array_equal(model.predict(rows).compute(), by_hand(model, X)[1])


def test_fitted_attributes_are_plain_numpy(fitted, as_dask):
    _, X = fitted
    y = da.from_array(np.arange(120) % 2, chunks=60)
    model = L2SVM().fit(as_dask(X, (60, 60)), y)
    for name in ("coef_", "intercept_", "classes_"):
        assert type(getattr(model, name)) is np.ndarray
    assert model.n_features_in_ == 7
    assert type(model.n_features_in_) is int
    assert type(model.objective_) is float


def test_a_model_lives_in_a_pickle(fitted):
    model, X = fitted
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy.history_ == model.history_


def test_score_is_the_share_of_right_answers(fitted):
    model, X = fitted
    _, classes = by_hand(model, X)
    assert model.score(X, classes) == 1.0


def test_blocks_are_sent_no_callbacks_to_predict(fitted, as_dask):
    _, X = fitted
    lock = threading.Lock()  # cannot be pickled

    def callback(row):
        with lock:
            pass

    model = L2SVM(callbacks=callback).fit(X, np.arange(120) % 2)
    labels = model.predict(as_dask(X, (60, 60)))
    with dask.config.set(scheduler="processes", num_workers=1):
        assert np.array_equal(labels.compute(), model.predict(X))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(119), "has 120 rows, sample_weight has 119"),
        (np.ones((120, 1)), "must be 1-dimensional"),
        (np.zeros(120), "zero on every labeled row"),
        (np.full(120, np.nan), "NaN or infinity"),
        (np.full(120, -1.0), "must not be negative"),
        (np.ma.masked_less(np.arange(120.0), 5), "masked"),
        ("balanced", "no numbers"),
    ],
)
def test_scores_take_no_other_weights_than_fits(fitted, weights, words):
    model, X = fitted
    with pytest.raises(ValueError, match=words):
        model.score(X, model.predict(X), sample_weight=weights)


def test_scores_may_be_weighted(fitted):
    model, X = fitted
    y = model.predict(X)
    y[:60] = np.where(y[:60] == "a", "b", "a")
    weights = np.where(np.arange(120) < 60, 1.0, 3.0)
    for given in (weights, da.from_array(weights, chunks=50), weights.tolist()):
        assert model.score(X, y, sample_weight=given) == 0.75


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_rows_whose_outputs_overflow_have_no_class(fitted, kind, kernel, as_dask):
    _, X = fitted
    model = L2SVM(1e-9, kernel=kernel, n_components=20, random_state=0)
    model.fit(X, np.arange(120) % 2)
    model.coef_ = 1e5 * model.coef_
    large = X.copy()
    large.data *= 1e305
    for rows in (KINDS[kind](large), as_dask(large, (60, 60))):
        with pytest.raises(ValueError, match="outputs of X are infinite or NaN"):
            dask.compute(model.predict(rows))
