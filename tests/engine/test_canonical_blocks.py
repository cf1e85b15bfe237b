"""Blocks of every type come out as one and the same matrix, or are refused."""

import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.blocks import (
    as_weights,
    canonical_rows,
    make_block,
    renumber_columns,
    slice_block,
    slice_rows,
    stack_rows,
)
from dask_s3vm.engine.containers import MAX_VALUE
from dask_s3vm.kernels.rows import CSR
from dask_s3vm.labels import as_labels

RNG = np.random.default_rng(3)
WHOLE = RNG.integers(-3, 4, size=(12, 7)) * (RNG.random((12, 7)) < 0.4)
WHOLE[4] = 0
REAL = WHOLE * np.pi


def matrix_of(rows, n_features):
    """The matrix that canonical rows stand for."""
    if not isinstance(rows, CSR):
        return np.asarray(rows, dtype=np.float64)
    n = len(rows.indptr) - 1
    triple = rows.values, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return sp.csr_array(triple, shape=(n, n_features)).toarray().astype(np.float64)


def with_index_type(X, index):
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


FORMATS = ["csr", "csc", "coo", "bsr", "lil", "dia"]
INPUTS = {
    "float64": lambda m: m.astype(np.float64),
    "float32": lambda m: m.astype(np.float32),
    "fortran": lambda m: np.asfortranarray(m, dtype=np.float64),
    "strided": lambda m: np.repeat(m, 2, axis=1)[:, ::2].astype(np.float64),
    "csr_int32": lambda m: with_index_type(sp.csr_array(m), np.int32),
    "csr_int64": lambda m: with_index_type(sp.csr_array(m), np.int64),
    "csr_float32": lambda m: sp.csr_array(m.astype(np.float32)),
    "coo": lambda m: sparse.COO.from_numpy(m),
    "gcxs_rows": lambda m: sparse.GCXS.from_numpy(m, compressed_axes=(0,)),
    "gcxs_columns": lambda m: sparse.GCXS.from_numpy(m, compressed_axes=(1,)),
    **{f"{f}_array": lambda m, f=f: getattr(sp, f"{f}_array")(m) for f in FORMATS},
    **{f"{f}_matrix": lambda m, f=f: getattr(sp, f"{f}_matrix")(m) for f in FORMATS},
}


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("name", INPUTS)
def test_every_type_gives_the_same_matrix(name, narrow):
    source = INPUTS[name](REAL)
    rows, d = canonical_rows(source, narrow)
    assert d == 7
    wanted = REAL.astype(np.float32) if "float32" in name else REAL
    assert np.array_equal(matrix_of(rows, d), wanted)
    arrays = rows if isinstance(rows, CSR) else (rows,)
    assert all(a.flags.c_contiguous and a.flags.aligned and not a.flags.writeable for a in arrays)
    if isinstance(rows, CSR):
        assert rows.indptr.dtype == np.uint32
        # beside the user's own arrays 32-bit numbers stay where they are
        assert rows.indices.dtype in ([np.uint16] if narrow else [np.uint16, np.uint32])


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.int64, bool])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sparse.GCXS.from_numpy])
def test_integers_and_booleans_become_floats(kind, container):
    matrix = np.abs(WHOLE).astype(kind)
    rows, d = canonical_rows(container(matrix))
    assert np.array_equal(matrix_of(rows, d), matrix.astype(np.float64))
    values = rows.values if isinstance(rows, CSR) else rows
    assert values.dtype == np.float32


def test_half_precision_becomes_float32():
    rows, _ = canonical_rows(REAL.astype(np.float16))
    assert rows.dtype == np.float32
    assert np.array_equal(rows, REAL.astype(np.float16))


def test_wide_rows_have_32_bit_columns():
    for d, wanted in ((2**16, np.uint16), (2**16 + 1, np.uint32)):
        X = sp.csr_array(([1.0], ([0], [d - 1])), shape=(1, d))
        rows, _ = canonical_rows(X)
        assert rows.indices.dtype == wanted
        assert rows.indices.tolist() == [d - 1]


@given(
    values=st.lists(
        st.one_of(st.floats(-MAX_VALUE, MAX_VALUE), st.floats(width=32)).filter(np.isfinite),
        min_size=1,
        max_size=30,
    )
)
@settings(deadline=None)
def test_narrowing_is_lossless(values):
    matrix = np.array(values)[:, None]
    rows, _ = canonical_rows(matrix, narrow=True)
    assert rows.astype(np.float64).tobytes() == matrix.tobytes()
    short = all(float(np.float32(v)) == v for v in values if abs(v) <= 3e38)
    if short and max(map(abs, values)) <= 3e38:
        assert rows.dtype == np.float32


def test_narrowing_looks_at_every_value_not_only_at_the_head():
    values = np.ones(5000)
    values[-1] = np.pi
    X = sp.csr_array(values[:, None])
    assert canonical_rows(X)[0].values[-1] == np.pi
    assert canonical_rows(values[:, None])[0][-1, 0] == np.pi


def test_float64_is_not_narrowed_without_being_asked():
    assert canonical_rows(np.ones((3, 2)), narrow=False)[0].dtype == np.float64
    assert canonical_rows(np.ones((3, 2)), narrow=True)[0].dtype == np.float32


# refusals


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sparse.COO.from_numpy])
def test_values_that_are_not_finite_are_refused(bad, kind, container):
    matrix = REAL.astype(kind)
    matrix[7, 2] = bad
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        canonical_rows(container(matrix))


def test_opposite_infinities_are_refused():
    matrix = np.array([[np.inf, -np.inf], [1.0, 2.0]])
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        canonical_rows(matrix)


@pytest.mark.parametrize("narrow", [True, False])
def test_large_finite_values_are_not_mistaken_for_infinity(narrow):
    matrix = np.full((3, 2), MAX_VALUE)
    assert np.array_equal(canonical_rows(matrix, narrow)[0], matrix)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.array([["a", "b"]], dtype=object), TypeError, "X has dtype object"),
        (np.ones((2, 2), dtype=complex), TypeError, "X has dtype complex128"),
        (sp.csr_array(np.ones((2, 2), dtype=complex)), TypeError, "X has dtype complex128"),
        (np.ones((2, 2, 2)), ValueError, "X must be 2-dimensional, got 3"),
        (np.ones(3), ValueError, "X must be 2-dimensional, got 1"),
        (sp.coo_array(np.ones(3)), ValueError, "X must be 2-dimensional, got 1"),
        (sparse.COO.from_numpy(np.ones((2, 2, 2))), ValueError, "X must be 2-dimensional, got 3"),
        (sparse.COO.from_numpy(np.ones((2, 2)), fill_value=1.0), ValueError, "fill_value 1"),
        ([[1.0, 2.0]], TypeError, "X has blocks of type list"),
        (None, TypeError, "X has blocks of type NoneType"),
    ],
)
def test_what_cannot_be_rows_is_refused(X, error, message):
    with pytest.raises(error, match=message):
        canonical_rows(X)


def corrupt(**changes):
    """A csr array whose parts were changed behind its back."""
    X = sp.csr_array(REAL)
    for name, value in changes.items():
        setattr(X, name, value)
    return X


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


GOOD = sp.csr_array(REAL)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (corrupt(indices=changed(GOOD.indices, 3, 7)), "column numbers outside 0..6"),
        (corrupt(indices=changed(GOOD.indices, 3, -1)), "column numbers outside 0..6"),
        (corrupt(indptr=changed(GOOD.indptr, 2, 10**6)), "invalid indptr"),
        (corrupt(indptr=changed(GOOD.indptr, 0, 1)), "invalid indptr"),
        (corrupt(indptr=GOOD.indptr[:-1]), "invalid indptr"),
        (corrupt(indptr=changed(GOOD.indptr, -1, GOOD.nnz + 1)), "invalid|entries"),
        (corrupt(data=GOOD.data[:-1]), "invalid|entries"),
        (corrupt(indices=GOOD.indices[:-1]), "invalid|entries"),
    ],
    ids=["high", "negative", "falling", "offset", "short", "beyond", "fewer data", "fewer indices"],
)
def test_corrupt_sparse_blocks_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        canonical_rows(X)


# memory


def misaligned(array):
    """The same numbers at an odd address."""
    raw = b"\0" + array.tobytes()
    return np.frombuffer(raw, dtype=array.dtype, offset=1).reshape(array.shape)


def test_buffers_at_odd_addresses_are_copied():
    dense = misaligned(REAL)
    assert not dense.flags.aligned
    rows, _ = canonical_rows(dense, narrow=False)
    assert rows.flags.aligned
    assert np.array_equal(rows, REAL)
    X = sp.csr_array(REAL)
    X.data, X.indices, X.indptr = map(misaligned, (X.data, X.indices, X.indptr))
    rows, d = canonical_rows(X, narrow=False)
    assert all(part.flags.aligned for part in rows)
    assert np.array_equal(matrix_of(rows, d), REAL)


def test_rows_that_are_fit_for_the_kernels_are_not_copied():
    dense = REAL.copy()
    assert np.shares_memory(canonical_rows(dense, narrow=False)[0], dense)
    X = sp.csr_array(REAL)
    assert np.shares_memory(canonical_rows(X, narrow=False)[0].values, X.data)
    gcxs = sparse.GCXS.from_numpy(REAL, compressed_axes=(0,))
    assert np.shares_memory(canonical_rows(gcxs, narrow=False)[0].values, gcxs.data)
    assert dense.flags.writeable


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@given(a=st.integers(0, 12), b=st.integers(0, 12))
@settings(deadline=None)
def test_slices_are_those_rows_and_stacking_brings_them_back(container, a, b):
    low, high = min(a, b), max(a, b)
    rows, d = canonical_rows(container(REAL), narrow=False)
    parts = [slice_rows(rows, *edge) for edge in ((0, low), (low, high), (high, 12))]
    assert np.array_equal(matrix_of(parts[1], d), REAL[low:high])
    assert np.array_equal(matrix_of(stack_rows(parts), d), REAL)
    if not isinstance(rows, CSR) and high > low:
        assert np.shares_memory(parts[1], rows)


def test_sparse_and_dense_rows_stack():
    top, d = canonical_rows(sp.csr_array(REAL[:5]))
    below, _ = canonical_rows(REAL[5:])
    assert np.array_equal(matrix_of(stack_rows([top, below]), d), REAL)


def test_renumbered_columns_permute_the_matrix():
    rows, d = canonical_rows(sp.csr_array(REAL))
    order = np.random.default_rng(1).permutation(d)
    position = np.empty(d, dtype=np.uint16)
    position[order] = np.arange(d)
    assert np.array_equal(matrix_of(renumber_columns(rows, position), d), REAL[:, order])


# what comes with the rows


def test_a_block_keeps_its_labels_and_weights():
    block = slice_block(make_block(REAL, np.arange(12), np.arange(12)), 3, 5)
    assert block.labels.tolist() == [3, 4]
    assert block.weights.tolist() == [3.0, 4.0]
    assert block.weights.dtype == np.float64


@pytest.mark.parametrize("name", ["y", "sample_weight"])
def test_columns_of_another_length_are_refused_by_name(name):
    columns = {"labels": np.zeros(11)} if name == "y" else {"weights": np.ones(11)}
    with pytest.raises(ValueError, match=rf"{name} does not fit X: .* 12 rows, .*\(11,\)"):
        make_block(REAL, **columns)


@pytest.mark.parametrize("bad", [[0.0, 0.5], [0.0, np.inf], [0, 1j], [[0], [1]]])
def test_labels_that_are_no_labels_are_refused(bad):
    with pytest.raises((ValueError, TypeError), match="y"):
        as_labels(bad)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_among_objects_are_empty_words(missing):
    assert as_labels(np.array(["a", "b", missing], dtype=object)).tolist() == ["a", "b", ""]
    with pytest.raises(ValueError, match=r"y has 1\.5 of type float"):
        as_labels(np.array(["a", "b", 1.5], dtype=object))


@pytest.mark.parametrize(
    ("bad", "message"),
    [([1, -0.5], "negative, got -0.5"), ([np.nan], "NaN"), ([np.inf], "NaN"), ([[1]], "dimension")],
)
def test_weights_that_are_no_weights_are_refused(bad, message):
    with pytest.raises(ValueError, match=f"sample_weight.*{message}"):
        as_weights(bad)
