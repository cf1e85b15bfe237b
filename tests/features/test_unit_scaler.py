"""Columns to [0, 1]: against scikit-learn's scalers, for blocks and chunks of any kind."""

import doctest

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dask_s3vm.features import UnitScaler, unit_scaler


@pytest.mark.usefixtures("array_api")
@parametrize_with_checks([UnitScaler()])
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.fixture
def dense(rng):
    X = rng.normal(size=(57, 4)) * [1.0, 100.0, 1e-3, 0.0] + [0.0, 7.0, 5.0, 3.0]
    return np.ascontiguousarray(X)


@pytest.fixture
def rows(rng):
    X = rng.random((57, 5)) * [1.0, 9.0, 0.1, 0.0, -2.0]
    return sp.csr_array(np.where(rng.random((57, 5)) < 0.5, X, 0.0))


def test_dense_rows_are_scaled_as_by_min_and_max(dense):
    wanted = MinMaxScaler().fit_transform(dense)
    np.testing.assert_allclose(UnitScaler().fit_transform(dense), wanted, atol=1e-12)
    lazy = UnitScaler().fit_transform(da.from_array(dense, chunks=(20, 3)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), wanted, atol=1e-12)


@pytest.mark.parametrize(
    "convert", [None, sp.csc_array, sp.coo_array, sparse.COO.from_scipy_sparse]
)
def test_sparse_rows_stay_sparse(rows, as_dask, convert):
    wanted = MaxAbsScaler().fit_transform(sp.csr_matrix(rows)).toarray()
    found = UnitScaler().fit_transform(rows)
    assert sp.issparse(found)
    assert found.nnz == rows.nnz
    np.testing.assert_allclose(found.toarray(), wanted)
    for known in (True, False):
        lazy = UnitScaler().fit_transform(as_dask(rows, (20, 0, 30, 7), known, convert))
        blocks = [block.compute() for block in lazy.to_delayed().ravel()]
        assert all(sp.issparse(block) for block in blocks)
        np.testing.assert_allclose(sp.vstack(blocks).toarray(), wanted)
    assert found.toarray()[:, :3].min() == 0.0
    np.testing.assert_allclose(found.toarray()[:, :3].max(axis=0), 1.0)


def test_float32_stays(rows):
    assert UnitScaler().fit_transform(rows.astype(np.float32)).dtype == np.float32


def test_what_does_not_fit_is_refused(dense, rows):
    scaler = UnitScaler().fit(dense)
    with pytest.raises(ValueError, match="fitted on dense rows"):
        scaler.transform(sp.csr_array(dense))
    with pytest.raises(ValueError, match="fitted on 4"):
        scaler.transform(da.zeros((3, 5)))
    bad = dense.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        UnitScaler().fit(da.from_array(bad, chunks=10))


def test_docstring_example():
    failed, tried = doctest.testmod(unit_scaler)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("lazy", [False, True])
def test_ranges_that_no_number_holds(lazy):
    wide = np.array([[0.0, 1e308], [1.0, -1e308]])
    with pytest.raises(ValueError, match="X has a column, 1, whose range is beyond the largest"):
        UnitScaler().fit(da.from_array(wide) if lazy else wide)
    narrow = np.array([[0.0, 5e-324], [1.0, 0.0]])
    narrow = da.from_array(narrow) if lazy else narrow
    found = np.asarray(UnitScaler().fit(narrow).transform(narrow))
    np.testing.assert_array_equal(found, [[0, 5e-324], [1, 0]])
