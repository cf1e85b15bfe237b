"""The kernel map against exact kernels, scikit-learn's Nystroem, and itself on other chunks."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import pairwise_kernels

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.engine.blocks import frozen
from dask_s3vm.features import KernelMap, fit_kernel_map, map_rows
from dask_s3vm.features.kernel_map import MAX_PIECE_ROWS

POSITIVE = ["rbf", "laplacian", "cosine", "chi2", "poly", "linear"]


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).random((60, 7))


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


@pytest.mark.parametrize("kernel", POSITIVE)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, sparse.COO])
def test_with_all_rows_as_landmarks_the_kernel_is_exact(rows, kernel, convert):
    kernel_map = fit_kernel_map(convert(rows), kernel, n_components=None, gamma=0.7)
    Z = kernel_map.transform(convert(rows))
    exact = pairwise_kernels(rows, metric=kernel, **kernel_map.params)
    np.testing.assert_allclose(Z @ Z.T, exact, atol=1e-10 * np.abs(exact).max())
    assert Z.shape == (60, kernel_map.n_components)
    assert kernel_map.n_components <= 60


def test_a_linear_kernel_of_seven_columns_has_seven_features(rows):
    assert fit_kernel_map(rows, "linear", n_components=None).n_components == 7


def test_features_of_new_rows_are_the_kernel_with_landmarks(rows):
    kernel_map = fit_kernel_map(rows, "rbf", n_components=20, sigma=0.8, random_state=1)
    new = np.random.default_rng(1).random((33, 7))
    inner = kernel_map.transform(new) @ kernel_map.transform(kernel_map.landmarks).T
    exact = pairwise_kernels(new, kernel_map.landmarks, metric="rbf", gamma=1 / (2 * 0.8**2))
    np.testing.assert_allclose(inner, exact, atol=1e-10)


def test_basis_is_a_root_of_the_inverse_and_w_keeps_the_norm(rows):
    kernel_map = fit_kernel_map(rows, "laplacian", n_components=25, random_state=0)
    gram = pairwise_kernels(kernel_map.landmarks, metric="laplacian", **kernel_map.params)
    np.testing.assert_allclose(kernel_map.basis @ kernel_map.basis.T @ gram, np.eye(25), atol=1e-9)
    w = np.random.default_rng(2).normal(size=25)
    c = kernel_map.basis @ w
    assert c @ gram @ c == pytest.approx(w @ w)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "chi2", "cosine"])
def test_inner_products_are_those_of_scikit_learns_nystroem(rows, kernel):
    params = {} if kernel == "cosine" else {"gamma": 0.5}
    if kernel == "poly":
        params |= {"degree": 2, "coef0": 0.5}
    theirs = Nystroem(kernel=kernel, n_components=15, random_state=3, **params).fit(rows)
    ours = fit_kernel_map(theirs.components_, kernel, n_components=None, **params)
    Z, theirs_z = ours.transform(rows), theirs.transform(rows)
    np.testing.assert_allclose(Z @ Z.T, theirs_z @ theirs_z.T, atol=1e-8)


def test_landmarks_are_distinct_rows_of_x_in_order(rows):
    numbered = np.column_stack([np.arange(60.0), rows])
    kernel_map = fit_kernel_map(numbered, "rbf", n_components=20, random_state=5)
    chosen = kernel_map.landmarks[:, 0].astype(int)
    assert np.all(np.diff(chosen) > 0)
    assert np.array_equal(kernel_map.landmarks, numbered[chosen])
    again = fit_kernel_map(numbered, "rbf", n_components=20, random_state=5)
    assert np.array_equal(again.basis, kernel_map.basis)
    other = fit_kernel_map(numbered, "rbf", n_components=20, random_state=6)
    assert not np.array_equal(other.landmarks, kernel_map.landmarks)
    for state in (np.random.RandomState(1), np.random.default_rng(1), None):
        assert (
            fit_kernel_map(numbered, n_components=20, random_state=state).landmarks.shape[0] == 20
        )


def test_every_row_is_drawn_equally_often():
    X = np.arange(10.0)[:, None]
    drawn = [fit_kernel_map(X, n_components=3, random_state=i).landmarks[:, 0] for i in range(500)]
    counts = np.bincount(np.concatenate(drawn).astype(int), minlength=10)
    assert np.all(np.abs(counts - 150) < 5 * np.sqrt(500 * 0.3 * 0.7))


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 25), min_size=1, max_size=6).filter(lambda s: sum(s) > 0),
    known=st.booleans(),
    kind=st.sampled_from(["numpy", "csr", "coo", "mixed"]),
    sigma=st.sampled_from(["scale", 0.5]),
)
def test_chunks_and_block_types_do_not_matter(as_dask, sizes, known, kind, sigma):
    rng = np.random.default_rng(sum(sizes))
    X = rng.random((sum(sizes), 4)) * (rng.random((sum(sizes), 4)) < 0.6)
    convert = {
        "numpy": lambda piece: piece.toarray(),
        "csr": sp.csr_matrix,
        "coo": sparse.COO.from_scipy_sparse,
        "mixed": lambda piece: piece.toarray() if piece.shape[0] % 2 else piece,
    }[kind]
    lazy = as_dask(sp.csr_array(X), sizes, known=known, convert=convert)
    with dask.config.set(scheduler="synchronous"):
        ours = fit_kernel_map(lazy, "rbf", n_components=8, sigma=sigma, random_state=1)
        whole = fit_kernel_map(X, "rbf", n_components=8, sigma=sigma, random_state=1)
        assert np.array_equal(dense(ours.landmarks), whole.landmarks)
        assert ours.params == pytest.approx(whole.params)
        mapped = map_rows(whole, lazy)
        assert isinstance(mapped, da.Array)
        assert mapped.numblocks == (len(sizes), 1)
        np.testing.assert_allclose(mapped.compute(), whole.transform(X), atol=1e-9)


def test_the_bits_of_dense_rows_do_not_depend_on_chunks():
    X = np.random.default_rng(0).normal(size=(1000, 37))
    kernel_map = fit_kernel_map(X, n_components=301, random_state=0)
    whole = kernel_map.transform(X)
    assert np.array_equal(map_rows(kernel_map, X), whole)
    for chunks in ((500, 500), (123, 877), (301, 699)):
        lazy = map_rows(kernel_map, da.from_array(X, chunks=(chunks, 20)))
        assert np.array_equal(lazy.compute(scheduler="threads"), whole)


def test_one_task_holds_the_map():
    X = da.from_array(np.random.default_rng(0).random((100, 3)), chunks=(10, 3))
    kernel_map = fit_kernel_map(X, n_components=20, random_state=0)
    graph = dict(map_rows(kernel_map, X).__dask_graph__())
    assert len([key for key in graph if "KernelMap" in str(key)]) == 1
    largest = sorted(len(pickle.dumps(task)) for task in graph.values())
    assert largest[-1] > kernel_map.basis.nbytes
    # X itself is in the graph once more
    assert sum(size > kernel_map.basis.nbytes for size in largest) <= 2


def test_product_is_transform_times_weights(rows):
    kernel_map = fit_kernel_map(rows, n_components=30, random_state=0)
    for weights in (np.arange(30.0), np.random.default_rng(0).normal(size=(30, 3))):
        weights = weights[: kernel_map.n_components]
        expected = kernel_map.transform(rows) @ weights
        np.testing.assert_allclose(kernel_map.product(rows, weights), expected, atol=1e-8)


def test_pieces_do_not_change_the_features(rows, monkeypatch):
    kernel_map = fit_kernel_map(rows, n_components=30, random_state=0)
    whole = kernel_map.transform(rows)
    monkeypatch.setattr("dask_s3vm.features.kernel_map.PIECE_BYTES", 1)
    assert kernel_map.piece_rows == 48
    np.testing.assert_allclose(kernel_map.transform(rows), whole, atol=1e-12)


@pytest.mark.parametrize("kernel", POSITIVE)
def test_rows_may_be_read_only(kernel):
    """Blocks of the engine are, and scikit-learn's loops for some kernels want to write."""
    X = np.abs(np.random.default_rng(0).normal(size=(MAX_PIECE_ROWS, 4)))
    wanted = fit_kernel_map(X, kernel, n_components=20, random_state=0)
    kept = frozen(X.copy())
    found = fit_kernel_map(kept, kernel, n_components=20, random_state=0)
    assert np.array_equal(found.transform(kept), wanted.transform(X))
    exact = L2SVM(kernel=kernel, n_components=None).fit(kept, np.arange(len(X)) % 2)
    assert np.isfinite(exact.decision_function(kept)).all()


def test_float32_rows_have_float32_features_made_in_float64(rows):
    narrow = rows.astype(np.float32)
    kernel_map = fit_kernel_map(narrow, n_components=None)
    Z = kernel_map.transform(narrow)
    assert Z.dtype == np.float32
    assert map_rows(kernel_map, da.from_array(narrow, chunks=(20, 7))).dtype == np.float32
    wide = fit_kernel_map(narrow.astype(float), n_components=None)
    exact = wide.transform(narrow.astype(float))
    assert exact.dtype == np.float64
    np.testing.assert_allclose(np.abs(Z), np.abs(exact), atol=1e-6)
    assert kernel_map.transform(np.zeros((2, 7), dtype=int)).dtype == np.float64


def test_rbf_survives_rows_far_from_the_origin(rows):
    near = fit_kernel_map(rows, n_components=None).transform(rows)
    far = fit_kernel_map(rows + 2.0**30, n_components=None).transform(rows + 2.0**30)
    np.testing.assert_allclose(far @ far.T, near @ near.T, atol=1e-6)


def test_scale_is_a_fifth_of_the_range_diagonal():
    X = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, 5.0]])
    for data in (X, sp.csr_array(X), da.from_array(X, chunks=(2, 2))):
        gamma = fit_kernel_map(data, "rbf", n_components=2, random_state=0).params["gamma"]
        assert gamma == pytest.approx(1 / (2 * (5.0 / 5) ** 2))


def test_scale_is_near_that_of_scikit_learn_for_uniform_columns():
    X = np.random.default_rng(0).random((2000, 10))
    gamma = fit_kernel_map(X, "rbf", n_components=5).params["gamma"]
    assert gamma == pytest.approx(1 / (10 * X.var()), rel=0.1)


def test_rows_that_are_all_alike_have_one_feature():
    kernel_map = fit_kernel_map(np.ones((5, 2)), "rbf")
    np.testing.assert_allclose(kernel_map.transform(np.ones((3, 2))) ** 2, np.ones((3, 1)))


def test_parameters_that_are_left_out_are_scikit_learns(rows):
    for kernel in ("poly", "laplacian", "chi2"):
        kernel_map = fit_kernel_map(rows, kernel, n_components=None)
        Z = kernel_map.transform(rows)
        np.testing.assert_allclose(Z @ Z.T, pairwise_kernels(rows, metric=kernel), rtol=1e-7)


def intersection(x, z, power=1.0):
    return float(np.sum(np.minimum(x, z) ** power))


def test_callable_kernels(rows):
    kernel_map = fit_kernel_map(rows, intersection, n_components=None, kernel_params={"power": 0.5})
    Z = kernel_map.transform(rows)
    exact = np.array([[intersection(x, z, 0.5) for z in rows] for x in rows])
    np.testing.assert_allclose(Z @ Z.T, exact, atol=1e-9)
    again = pickle.loads(pickle.dumps(kernel_map))
    assert isinstance(again, KernelMap)
    assert np.array_equal(again.transform(rows), Z)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "sigmoid", "gamma": 2.0, "coef0": -1.0}, "'sigmoid' is not positive"),
        ({"kernel": "additive_chi2"}, "'additive_chi2' is not positive"),
        ({"kernel": "gauss"}, "kernel must be a callable or one of .*rbf.*got 'gauss'"),
        ({"kernel": "precomputed"}, "kernel must be"),
        ({"sigma": 1.0, "gamma": 1.0}, "sigma=1.0 and gamma=1.0"),
        ({"gamma": -1.0}, "gamma must be finite and > 0, got -1.0"),
        ({"kernel_params": {"a": 1}}, "kernel_params=.* is for a callable kernel"),
        ({"kernel": intersection, "gamma": 1.0}, "gamma=1.0 is not for a callable"),
    ],
)
def test_what_does_not_fit_is_refused(rows, options, words):
    with pytest.raises(ValueError, match=words):
        fit_kernel_map(rows, **options)


def test_bad_rows_are_refused(rows):
    with pytest.raises(ValueError, match="X is empty"):
        fit_kernel_map(rows[:0])
    with pytest.raises(ValueError, match="2-dimensional"):
        fit_kernel_map(rows[0])
    with pytest.raises(ValueError, match="zero between all"):
        fit_kernel_map(np.zeros((4, 2)), "linear")
    with pytest.raises(ValueError, match="NaN"):
        fit_kernel_map(np.where(rows > 0.9, np.nan, rows))
    with pytest.raises(ValueError, match="X has 3 columns, but the kernel's landmarks have 7"):
        fit_kernel_map(rows).transform(rows[:, :3])


def test_features_that_products_overflow_with_are_refused():
    """Rows that are small enough may have features that are not."""
    X, y = np.full((30, 1), 1e30), np.arange(30) % 3 - 1
    X[::2] = 0.0
    with pytest.raises(
        ValueError, match=r"'poly' is up to 1e\+180 between rows of X; wanted at most"
    ):
        TSVM(kernel="poly").fit(X, y)
    X[:29] = 1.0  # no landmark is as large
    for seed in range(4):
        model = TSVM(kernel="poly", n_components=1, random_state=seed)
        with pytest.raises(ValueError, match=r"up to"):
            model.fit(X, y)
