"""Columns of different units: scaled where rows are placed, in models of the columns as given."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from clients import KillOneWorker, two_workers
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from dask_s3vm import (
    CCCPS3VM,
    DAS3VM,
    L2SVM,
    QNS3VM,
    S3VM,
    TSVM,
    LapSVM,
    UnitScaler,
    load_model,
    save_model,
)
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.engine.column_scale import ColumnScale, Ranges
from dask_s3vm.engine.estimate import DataSize
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV

#: Columns of very different sizes need many steps, which are of no interest here.
unscaled = pytest.mark.filterwarnings("ignore:.*converge:UserWarning")


@pytest.fixture(scope="module")
def data():
    """Six columns of one size that tell the classes apart, and one of another size that does not.

    Rows, the truth, and labels of 40 rows.
    """
    X, truth = dask.compute(*make_g2c(n_rows=500, n_features=6))
    wide = 50_000 + 20_000 * np.random.default_rng(1).normal(size=len(X))
    return np.column_stack([X, wide]), truth, hide_labels(truth, 40, random_state=1)


def scaled(X):
    return UnitScaler().fit_transform(X)


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("lazy", [False, True])
def test_dense_columns_are_scaled_and_the_model_is_of_those_given(data, lazy, kernel):
    X, truth, y = data
    settings = {"lam": 1e-2, "kernel": kernel, "n_components": 60, "random_state": 0}
    model = S3VM(**settings).fit(da.from_array(X, chunks=(70, -1)) if lazy else X, y)
    by_hand = S3VM(**settings, scale="none").fit(scaled(X), y)
    assert model.decision_ == by_hand.decision_
    outputs = by_hand.decision_function(scaled(X))
    np.testing.assert_allclose(model.decision_function(X), outputs, atol=1e-8)
    assert np.array_equal(np.asarray(model.transduction_), by_hand.transduction_)
    assert accuracy_score(truth, model.predict(X)) > 0.9


@unscaled
def test_unscaled_columns_are_worse(data):
    X, truth, y = data
    with pytest.warns(UserWarning, match="column 6 has values over a range of"):
        plain = S3VM(lam=1e-2, scale="none", max_iter=5).fit(X, y)
    model = S3VM(lam=1e-2).fit(X, y)
    assert accuracy_score(truth, model.predict(X)) > accuracy_score(truth, plain.predict(X)) + 0.03


@pytest.mark.parametrize("kind", [L2SVM, TSVM, DAS3VM, QNS3VM, CCCPS3VM, LapSVM])
def test_other_methods_scale_where_asked(data, kind):
    X, _, y = data
    settings = {"lam": 1e-2} | ({} if kind is L2SVM else {"positive_ratio": 0.5})
    model = kind(**settings, scale="auto").fit(X, y)
    outputs = kind(**settings).fit(scaled(X), y).decision_function(scaled(X))
    np.testing.assert_allclose(model.decision_function(X), outputs, atol=1e-7)


def test_a_warm_start_is_from_the_weights_of_scaled_columns(data):
    X, _, y = data
    model = L2SVM(lam=1e-2, scale="auto", warm_start=True).fit(X, y)
    first = model.coef_.copy()
    model.fit(X, y)
    assert len(model.history_) <= 1
    np.testing.assert_allclose(model.coef_, first, rtol=1e-5)


def test_columns_of_one_scale_stay_as_they_are(data):
    X, _, y = data
    assert bits(S3VM().fit(X[:, :6], y)) == bits(S3VM(scale="none").fit(X[:, :6], y))


@unscaled
def test_sparse_rows_are_warned_of(data):
    X, _, y = data
    with pytest.warns(UserWarning, match=r"column 6 .*UnitScaler"):
        model = S3VM(lam=1e-2, max_iter=5).fit(sp.csr_array(X), y)
    with pytest.warns(UserWarning, match="column 6"):
        assert bits(model) == bits(S3VM(lam=1e-2, max_iter=5, scale="none").fit(sp.csr_array(X), y))


@unscaled
def test_rows_that_stay_in_files_are_warned_of(data, tmp_path):
    X, _, y = data
    np.save(tmp_path / "X.npy", X)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    with dask.config.set({"s3vm.mapped": "always"}), pytest.warns(UserWarning, match="column 6"):
        S3VM(lam=1e-2, max_iter=5).fit(rows, y)
    with dask.config.set({"s3vm.mapped": "auto"}):  # they fit, and are read
        assert bits(S3VM(lam=1e-2).fit(rows, y)) == bits(S3VM(lam=1e-2).fit(X, y))


def test_without_a_bias_columns_are_not_shifted(data):
    X, _, y = data
    model = S3VM(lam=1e-2, fit_intercept=False).fit(X, y)
    by_hand = S3VM(lam=1e-2, fit_intercept=False, scale="none").fit(X / np.abs(X).max(axis=0), y)
    assert not model.intercept_.any()
    np.testing.assert_allclose(model.coef_ * np.abs(X).max(axis=0), by_hand.coef_, rtol=1e-9)


def test_a_constant_column_gets_no_weight(data):
    X, _, y = data
    model = S3VM(lam=1e-2).fit(np.column_stack([X, np.full(len(X), 1e9)]), y)
    alone = S3VM(lam=1e-2).fit(X, y)
    assert not model.coef_[0, 7]
    np.testing.assert_allclose(model.coef_[:, :7], alone.coef_, rtol=1e-9)


def test_frames_of_numbers_are_scaled(data):
    X, _, y = data
    frame = pd.DataFrame(X, columns=[f"c{number}" for number in range(7)])
    model = S3VM(lam=1e-2).fit(frame, y)
    assert bits(model) == bits(S3VM(lam=1e-2).fit(X, y))
    assert np.array_equal(model.predict(frame[frame.columns[::-1]]), model.predict(frame))


@unscaled
def test_a_search_scores_models_as_they_are_fitted_later(data):
    X, truth, y = data
    grid, splits = {"lam": [1e-1, 1e-2]}, list(LabeledKFold(5, random_state=0).split(X, y))
    search = S3VMGridSearchCV(S3VM(), grid, cv=splits).fit(X, y)
    by_hand = S3VMGridSearchCV(S3VM(scale="none"), grid, cv=splits).fit(scaled(X), y)
    found, wanted = (one.cv_results_["mean_test_score"] for one in (search, by_hand))
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert bits(search.best_estimator_) == bits(S3VM(lam=search.best_params_["lam"]).fit(X, y))
    assert accuracy_score(truth, search.predict(X)) > 0.9
    both, plain = (
        S3VMGridSearchCV(S3VM(lam=1e-2, max_iter=5), {"scale": ways}, cv=splits, refit=False)
        .fit(X, y)
        .cv_results_["mean_test_score"]
        for ways in (["none", "auto"], ["none"])
    )
    assert both.tolist() == [plain[0], found[1]]


def test_kernels_are_scaled_in_files_and_elsewhere(data, tmp_path):
    X, _, y = data
    model = S3VM(lam=1e-2, kernel="rbf", n_components=60, random_state=0).fit(X, y)
    assert model.kernel_map_.scale is not None
    save_model(model, tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    sparse = model.decision_function(sp.csr_array(X))
    np.testing.assert_allclose(sparse, model.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(
        model.to_sklearn().decision_function(X), model.decision_function(X), atol=1e-9
    )
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    (labels,) = session.run(["label"], {"X": X})
    assert np.array_equal(labels, model.predict(X))


@pytest.mark.usefixtures("tiny_shards")
def test_the_same_bits_on_workers_and_after_a_loss(data):
    X, _, y = data
    here = bits(S3VM(lam=1e-2).fit(X, y))
    lazy = da.from_array(X, chunks=(70, -1))
    with dask.config.set({"s3vm.local-bytes": 0}):
        with two_workers() as client:
            assert bits(S3VM(lam=1e-2).fit(lazy, y)) == here
            assert bits(S3VM(lam=1e-2).fit(X, y)) == here
            assert not client.futures
        with two_workers(processes=True) as client:
            killer = KillOneWorker(client)
            assert bits(S3VM(lam=1e-2, callbacks=killer).fit(lazy, y)) == here
            assert killer.killed


# The engine ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [True, False])
def test_placed_rows_and_their_weights(data, shift):
    X, _, y = data
    X = X.astype(np.float32).astype(np.float64)  # as float32 they would take half
    source = ingest(X.astype(np.float32), y, with_ranges=True)
    ranges = source.summary.ranges
    assert np.array_equal(ranges.low, X.min(axis=0))
    assert np.array_equal(ranges.high, X.max(axis=0))
    engine = source.place(np.array([0, 1]), ColumnScale.to_unit(ranges, shift))
    assert DataSize.of(source._facts).nbytes == X.nbytes
    (rows,) = engine.each(lambda shard: shard.rows)
    edge = X.min(axis=0) if shift else 0.0
    reach = np.ptp(X, axis=0) if shift else np.abs(X).max(axis=0)
    np.testing.assert_allclose(rows, (X - edge) / reach, rtol=1e-12)
    w = np.random.default_rng(0).normal(size=(2, 8))
    given = engine.layout.to_external(w)
    np.testing.assert_allclose(X @ given[:, :-1].T + given[:, -1], rows @ w[:, :-1].T + w[:, -1])
    np.testing.assert_allclose(engine.layout.to_internal(given), w, rtol=1e-9)
    engine.close()


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 99), max_size=5, unique=True),
    short=st.booleans(),
    size=st.floats(-8, 8),
)
def test_ranges_do_not_depend_on_blocks(cuts, short, size):
    X = np.random.default_rng(0).normal(size=(100, 3)) * 10.0**size
    X = X.astype(np.float32) if short else X
    chunks = tuple(np.diff([0, *sorted(cuts), 100]).tolist())
    lazy = da.from_array(X, chunks=(chunks, -1))
    found = ingest(lazy, np.arange(100) % 2, with_ranges=True).summary.ranges
    assert np.array_equal(found, Ranges(X.min(axis=0), X.max(axis=0)))


def test_rows_of_which_some_are_sparse_have_no_ranges(data):
    X, _, y = data
    parts = [sp.csr_array(X[:200]), X[200:]]
    lazy = [da.from_delayed(dask.delayed(part), part.shape, float) for part in parts]
    rows = da.concatenate(lazy)
    assert ingest(rows, y, with_ranges=True).summary.ranges is None
    assert ingest(X, y).summary.ranges is None
