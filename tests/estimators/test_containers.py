"""Rows in any container give the same model; what cannot be read right is refused."""

import warnings
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dask_s3vm import (
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    STARSVM,
    TSVM,
    MaxMarginClustering,
    SubmodularS3VM,
    save_model,
)
from dask_s3vm.engine.containers import check_columns, plain_rows
from dask_s3vm.features import UnitScaler
from dask_s3vm.io.models import load_predictor

RATIO = {"positive_ratio": 0.5}
ESTIMATORS = {
    "l2svm": L2SVM(),
    "tsvm": TSVM(**RATIO),
    "da": DAS3VM(**RATIO),
    "qn": QNS3VM(**RATIO, random_state=0),
    "rlsc": RLSC(),
    "s2rlsc": S2RLSC(**RATIO, n_restarts=2, random_state=0),
    "star": STARSVM(**RATIO, kernel="linear"),
    "qp": QPS3VM(**RATIO),
    "sqp": SubmodularS3VM(**RATIO),
    "l2svm rbf": L2SVM(kernel="rbf", random_state=0),
    "tsvm rbf": TSVM(**RATIO, kernel="rbf", random_state=0),
    "rlsc poly": RLSC(kernel="poly", random_state=0),
    "star rbf": STARSVM(**RATIO, kernel="rbf"),
    "sqp rbf": SubmodularS3VM(**RATIO, kernel="rbf", random_state=0),
}


def data(n=60, d=5, seed=0):
    """Rows with zeros, and labels of a third of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = (rng.normal(size=(n, d)) + (2 * y - 1)[:, None]) * (rng.random((n, d)) < 0.8)
    X = X.astype(np.float32).astype(np.float64) + 0.0  # no -0.0, which some containers store
    return X, y, np.where(np.arange(n) < 20, y, -1)


def repeated(X):
    """The same matrix with each entry stored in two halves, the columns not in order."""
    csr = sp.csr_array(X)
    indices = np.concatenate(
        [np.tile(row[::-1], 2) for row in np.split(csr.indices, csr.indptr[1:-1])]
    )
    values = np.concatenate(
        [np.tile(row[::-1] / 2, 2) for row in np.split(csr.data, csr.indptr[1:-1])]
    )
    return sp.csr_array((values, indices, 2 * csr.indptr), csr.shape)


def sorted_coo(X):
    return sparse.COO.from_numpy(X)


CONTAINERS = {
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "repeated": repeated,
    "coo": sorted_coo,
    "dok": lambda X: sparse.DOK.from_numpy(X),
    "gcxs": lambda X: sparse.GCXS.from_numpy(X, compressed_axes=(1,)),
    "lil": sp.lil_array,
}


def weights_of(model):
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_entries_stored_twice_add_up(name, tiny_shards):
    X, _, y = data()
    estimator = ESTIMATORS[name]
    wanted = weights_of(estimator.fit(sp.csr_array(X), y))
    twice = repeated(X)
    before = [part.copy() for part in (twice.data, twice.indices, twice.indptr)]
    assert np.array_equal(weights_of(estimator.fit(twice, y)), wanted)
    outputs = estimator.decision_function(sp.csr_array(X))
    assert np.array_equal(estimator.decision_function(twice), outputs)
    lazy = da.from_array(np.arange(60), chunks=20)[:, None].map_blocks(
        lambda rows: repeated(X[rows[:, 0]]), chunks=((20,) * 3, (5,)), dtype=float,
        meta=sp.csr_array((0, 0)),
    )  # fmt: skip
    assert np.allclose(estimator.decision_function(lazy).compute(), outputs, atol=1e-12)
    assert np.allclose(weights_of(estimator.fit(lazy, y)), wanted, atol=1e-12)
    # the user's matrix is as it was
    for part, old in zip((twice.data, twice.indices, twice.indptr), before, strict=True):
        assert np.array_equal(part, old)


@pytest.mark.parametrize("container", CONTAINERS)
def test_clusters_and_scalers_take_any_container(container):
    X, _, _ = data()
    made = CONTAINERS[container](X)
    wanted = UnitScaler().fit(sp.csr_array(X))
    found = UnitScaler().fit(made)
    assert np.array_equal(found.scale_, wanted.scale_)
    scaled = wanted.transform(sp.csr_array(X)).toarray()
    assert np.array_equal(found.transform(made).toarray(), scaled)
    clusters = MaxMarginClustering(n_restarts=2, random_state=0)
    assert np.array_equal(clusters.fit_predict(made), clusters.fit_predict(sp.csr_array(X)))


@given(
    name=st.sampled_from(["l2svm", "tsvm", "rlsc", "sqp", "l2svm rbf"]),
    container=st.sampled_from(sorted(CONTAINERS)),
    seed=st.integers(0, 5),
)
@settings(deadline=None, max_examples=25)
def test_any_container_gives_the_same_bits(name, container, seed):
    X, _, y = data(40, 4, seed)
    y[:2] = 0, 1
    estimator = ESTIMATORS[name]
    wanted = weights_of(estimator.fit(sp.csr_array(X), y))
    made = CONTAINERS[container](X)
    assert np.array_equal(weights_of(estimator.fit(made, y)), wanted)
    assert np.array_equal(estimator.predict(made), estimator.predict(sp.csr_array(X)))


def test_canonical_rows_are_not_copied():
    rows = sp.csr_array(data()[0])
    assert plain_rows(rows) is rows
    assert check_columns(rows.indptr, rows.indices, rows.shape[1])


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), min_size=1, max_size=8))
def test_the_order_of_columns_is_recognized(columns):
    indptr = np.cumsum([0] + [len(row) for row in columns])
    indices = np.array([j for row in columns for j in row], dtype=np.int32)
    wanted = all(low < high for row in columns for low, high in pairwise(row))
    assert check_columns(indptr, indices, 5) == wanted
    if len(indices):
        with pytest.raises(ValueError, match="column numbers outside 0"):
            check_columns(indptr, indices, int(indices.max()))


def test_repeated_booleans_are_counted():
    rows = sp.csr_array((np.array([True, True]), [1, 1], [0, 2]), (1, 3))
    assert plain_rows(rows).toarray().tolist() == [[0, 2, 0]]


# Values that are missing, infinite or too large ---------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", ["dense", "sparse", "unknown"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("predictor", [True, False])
def test_lazy_predictions_name_the_rows_that_are_not_finite(bad, form, kernel, predictor, tmp_path):
    X, y, _ = data()
    model = L2SVM(kernel=kernel, random_state=0).fit(X, y)
    if predictor:
        save_model(model, tmp_path / "model.npz")
        model = load_predictor(tmp_path / "model.npz")
    X[[23, 47], 2] = bad
    rows = da.from_array(X, chunks=(20, 3))
    if form == "sparse":
        rows = da.from_array(X, chunks=(20, 5)).map_blocks(sp.csr_array)
    if form == "unknown":
        rows = rows[rows[:, 0] < np.inf]
    for method in (model.predict, model.decision_function):
        message = "NaN or infinity" + ("" if form == "unknown" else ".*row (23|47)")
        with pytest.raises(ValueError, match=message):
            method(rows).compute(scheduler="sync")
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(X)


@pytest.mark.parametrize("name", ["l2svm", "tsvm", "l2svm rbf"])
@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[s]", "objects"])
def test_what_is_no_number_is_refused(name, kind):
    """Scikit-learn would have made a number of NaT."""
    X, _, few = data()
    if kind == "objects":
        wrong = sp.csr_array(X)
        wrong.data = wrong.data.astype(object)
    else:
        wrong = np.full(X.shape, "NaT", dtype=kind)
    model = clone(ESTIMATORS[name]).fit(X, few)
    forms = [wrong]
    if kind != "objects":
        forms.append(da.from_array(wrong, chunks=(20, 5)))
    for form in forms:
        for use in (
            lambda form=form: clone(ESTIMATORS[name]).fit(form, few),
            lambda form=form: np.asarray(model.predict(form)),
        ):
            with pytest.raises(TypeError, match="X has dtype"):
                use()
    with pytest.raises(TypeError, match="X has dtype"):
        UnitScaler().fit(wrong)


def test_missing_labels_are_not_to_be_filled_with_a_class():
    X, _, y = data()
    with pytest.raises(ValueError, match=r"mark them, for example by y\.filled\(-1\)"):
        TSVM().fit(X, np.ma.masked_array(y, y < 0))
    with pytest.raises(TypeError, match=r"y is a COO, which is sparse; wanted y\.todense\(\)"):
        TSVM().fit(X, sparse.COO.from_numpy(y))


def test_masks_are_not_ignored():
    X, y, _ = data()
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    model = L2SVM().fit(masked, y)
    assert np.array_equal(model.coef_, L2SVM().fit(X, y).coef_)
    masked[3, 1] = np.ma.masked
    lazy = da.from_array(masked, chunks=(20, 5), asarray=False)
    for call in (
        lambda: L2SVM().fit(masked, y),
        lambda: L2SVM().fit(lazy, y),
        lambda: model.predict(masked),
        lambda: model.predict(lazy).compute(),
        lambda: UnitScaler().fit(masked),
        lambda: UnitScaler().fit(lazy),
        lambda: L2SVM().fit(X, np.ma.masked_array(y, mask=y == 1)),
        lambda: L2SVM().fit(X, y, np.ma.masked_array(np.ones(60), mask=y == 1)),
    ):
        with pytest.raises(ValueError, match="masked"):
            call()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sizes_that_products_overflow_with_are_refused(name):
    X, _, y = data()
    estimator = ESTIMATORS[name]
    for size in (1e60, 1e100, 1e200):
        with pytest.raises(ValueError, match=r"X has values up to .*wanted at most 1e\+50"):
            estimator.fit(X * size, y)
    with pytest.raises(ValueError, match="sample_weight is up to 1e"):
        estimator.fit(X, y, np.full(60, 1e200))


@pytest.mark.parametrize("name", ["da", "tsvm", "l2svm", "rlsc", "s2rlsc", "qp", "sqp"])
def test_large_rows_are_trained_on(name):
    X, true, y = data(200, seed=1)
    model = ESTIMATORS[name].fit(X * 1e30, y)
    assert (model.predict(X * 1e30) == true).mean() > 0.85


def test_star_says_that_rows_are_too_long():
    X, _, y = data()
    with pytest.raises(ValueError, match="STARSVM: X has rows so long"):
        STARSVM(kernel="linear", supervised_part=0.0, **RATIO).fit(X * 1e18, y)
    assert STARSVM(kernel="linear", **RATIO).fit(X * 1e6, y).coef_.any()


@pytest.mark.parametrize("few", [False, True])
def test_weights_whose_squares_underflow_are_refused(few):
    X, _, y = data()
    weights = np.where(y < 0, 1e-200, 1.0) if few else np.full(len(y), 1e-300)
    with pytest.raises(ValueError, match=r"sample_weight .* adds up to .*e-(199|300)"):
        TSVM(unlabeled=-1).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("model", [SubmodularS3VM(**RATIO), S2RLSC(**RATIO, random_state=0)])
def test_rows_that_are_all_zero_are_told(model):
    _, _, y = data()
    with pytest.warns(UserWarning, match="the weights of all columns are 0") as caught:
        assert not model.fit(np.zeros((60, 3)), y).coef_.any()
    assert len(caught) == 1  # and no RuntimeWarning


def ten_of_each(y):
    """Labels of ten rows of each class: else the bias alone is the best model of tiny rows."""
    few = np.full(len(y), -1)
    for label in (0, 1):
        few[np.flatnonzero(y == label)[:10]] = label
    return few


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "poly" not in name])
@pytest.mark.parametrize("size", [1e-5, 1e-9])
def test_tiny_rows_are_told_apart(name, size):
    X, y, _ = data()
    model = clone(ESTIMATORS[name]).fit(size * X, ten_of_each(y))
    assert model.score(size * X, y) > 0.9


@pytest.mark.parametrize("name", ["l2svm", "tsvm", "da", "qn", "rlsc", "s2rlsc"])
def test_rows_whose_squares_are_zero_are_told(name):
    X, y, _ = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises((ValueError, UserWarning), match=r"weights (of all columns )?are 0"):
            clone(ESTIMATORS[name]).fit(1e-200 * X, ten_of_each(y))


@pytest.mark.parametrize("name", ["n_components", "lam", "max_iter"])
def test_true_is_not_a_number(name):
    X, y, _ = data()
    with pytest.raises(ValueError, match=f"'{name}' parameter .* Got True instead"):
        L2SVM(**{"kernel": "rbf", name: True}).fit(X, y)
