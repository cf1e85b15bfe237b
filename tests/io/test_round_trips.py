"""What is written is read back bit by bit, from every format, however it was cut."""

import itertools
from decimal import Decimal

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dask_s3vm.io import read_data, write_data
from dask_s3vm.io.writers import svmlight_text
from dask_s3vm.io.writing import Kind, plain_rows

SPARSE = ["svmlight", "arrow", "parquet", "npz"]
LABELS = {
    "int": np.array([-1, 1, 7, 2**40]),
    "float": np.array([-1.0, 0.1, 1e-7, 3.5]),
    "str": np.array(["no", "yes", "ä b", ""]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


def gathered(X):
    """All rows of X as one csr matrix."""
    blocks = dask.compute(*X.to_delayed().ravel()) if isinstance(X, da.Array) else [X]
    whole = [b.to_scipy_sparse() if isinstance(b, sparse.SparseArray) else b for b in blocks]
    return sp.csr_array(sp.vstack([sp.csr_array(b) for b in whole]))


def check_same(got, wanted):
    """The same stored numbers, bit by bit."""
    got.eliminate_zeros()
    wanted = wanted.copy()
    wanted.eliminate_zeros()
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got.indptr, wanted.indptr)
    np.testing.assert_array_equal(got.indices, wanted.indices)
    assert got.data.astype("f8").tobytes() == wanted.data.astype("f8").tobytes()


def as_dask(X, chunks, convert=sp.csr_array):
    edges = np.cumsum([0, *chunks])
    blocks = [convert(X[a:b]) for a, b in itertools.pairwise(edges)]
    arrays = [da.from_delayed(dask.delayed(b), b.shape, meta=convert(X[:0])) for b in blocks]
    return da.concatenate(arrays)


@st.composite
def data_sets(draw):
    chunks = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(sum))
    n, d = sum(chunks), draw(st.integers(1, 6))
    narrow = draw(st.booleans())
    number = st.floats(allow_nan=False, allow_infinity=False, width=32 if narrow else 64)
    cells = draw(st.lists(st.just(0.0) | number, min_size=n * d, max_size=n * d))
    X = sp.csr_array(np.array(cells).reshape(n, d))
    kind = draw(st.sampled_from(["int", "float", "str", "none"]))
    picks = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    y = None if kind == "none" else LABELS[kind][picks]
    return X, y, chunks


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data_sets(), st.sampled_from(SPARSE), st.booleans(), st.booleans())
def test_sparse_rows(folder, data, form, several, lazy):
    X, y, chunks = data
    if form == "svmlight" and (y is None or y.dtype.kind == "U"):
        return
    path = str(folder / f"rows.{form if form != 'svmlight' else 'svm'}")
    path += "s/" if several else ""
    given_y = da.from_array(y, chunks=(tuple(chunks),)) if lazy and y is not None else y
    write_data(as_dask(X, chunks) if lazy else X, given_y, path, format=form, overwrite=True)
    # The text does not tell of empty columns at the end, nor an archive of its type of block.
    more = {"n_features": X.shape[1], "zero_based": False} if form == "svmlight" else {}
    got, labels = read_data(path, format=form, **more)
    check_same(gathered(got), X)
    if y is None:
        assert labels is None
    else:
        labels = np.asarray(labels)
        assert labels.tolist() == y.tolist()


@pytest.mark.parametrize("form", ["arrow", "parquet", "npz", "npy"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "?"])
@pytest.mark.parametrize("y", [None, LABELS["int"], LABELS["str"]], ids=["none", "int", "str"])
def test_dense_rows(tmp_path, form, dtype, y):
    X = np.arange(12).reshape(4, 3).astype(dtype)
    lazy = da.from_array(X, chunks=(3, 3))
    write_data(lazy, y, tmp_path / f"rows.{form}")
    got, labels = read_data(tmp_path / f"rows.{form}")
    if form != "npz":
        assert isinstance(got._meta, np.ndarray)
    check_same(gathered(got), sp.csr_array(X.astype("f8")))
    assert (labels is None) if y is None else (np.asarray(labels).tolist() == y.tolist())


@pytest.mark.parametrize(
    "convert",
    [sparse.COO.from_scipy_sparse, sparse.GCXS.from_scipy_sparse, sp.csc_matrix, sp.coo_array],
)
def test_any_block_type_can_be_written(convert):
    X = sp.random_array((9, 5), density=0.4, rng=np.random.default_rng(0), format="csr")
    check_same(plain_rows(convert(X), Kind(5, dense=False)), X)


def test_duplicates_are_added_before_they_are_written(tmp_path):
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), [1, 0, 1], [0, 3]), shape=(1, 3))
    write_data(X, None, tmp_path / "rows.arrow")
    assert gathered(read_data(tmp_path / "rows.arrow")[0]).toarray().tolist() == [[2.0, 5.0, 0.0]]
    assert X.nnz == 3  # the user's matrix is as it was


def test_values_are_narrow_only_where_no_bit_is_lost(tmp_path):
    X = sp.csr_array(np.array([[1.0, 0.5], [0.1, 2.0]]))
    write_data(as_dask(X, (1, 1)), None, tmp_path / "rows.arrow")
    assert read_data(tmp_path / "rows.arrow")[0].dtype == np.float64
    write_data(as_dask(X, (1, 1))[:1], None, tmp_path / "one.arrow")
    assert read_data(tmp_path / "one.arrow")[0].dtype == np.float32
    write_data(as_dask(X, (1, 1)), None, str(tmp_path / "several.arrow/"))
    assert read_data(str(tmp_path / "several.arrow"))[0].dtype == np.float64


def test_blocks_of_labels_agree_on_a_type(tmp_path):
    X = sp.csr_array(np.eye(4))
    y = np.array([1, 2, 3.5, 4], dtype=object)
    lazy = da.concatenate(
        [da.from_delayed(dask.delayed(y[i : i + 2]), (2,), object) for i in (0, 2)]
    )
    for name in ("rows.arrow", "rows.npz"):
        write_data(as_dask(X, (2, 2)), lazy, tmp_path / name)
        assert np.asarray(read_data(tmp_path / name)[1]).tolist() == [1, 2, 3.5, 4]


@pytest.mark.parametrize("ending", ["svm.gz", "svm.bz2", "svm.xz"])
def test_compressed_text_is_joined(tmp_path, ending):
    X = sp.random_array((50, 7), density=0.5, rng=np.random.default_rng(1), format="csr")
    y = np.arange(50) - 1
    write_data(as_dask(X, (20, 0, 30)), y, tmp_path / f"rows.{ending}")
    got, labels = read_data(tmp_path / f"rows.{ending}", n_features=7, zero_based=False)
    check_same(gathered(got), X)
    assert labels.compute().tolist() == y.tolist()
    write_data(X, y, tmp_path / "zero.svm", zero_based=True)
    check_same(gathered(read_data(tmp_path / "zero.svm", n_features=7, zero_based=True)[0]), X)


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=30))
@example([5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0, 1e23, -0.0])
@example([2.0**-44, float(np.nextafter(2.0**-44, 0)), float(np.nextafter(1.0, 2)), 1e-7, 1e17])
def test_text_has_the_shortest_numbers(values):
    # Python's repr is the independent oracle for the digits.
    row = sp.csr_array((np.array(values), np.arange(len(values)), [0, len(values)]))
    words = b"".join(svmlight_text(row, np.array([1]), 1)).split()
    assert words[0] == b"1"
    for number, (word, value) in enumerate(zip(words[1:], values, strict=True), 1):
        column, _, text = word.partition(b":")
        assert int(column) == number
        assert np.float64(text).view(np.uint64) == np.float64(value).view(np.uint64)
        assert digits(text.decode()) == digits(repr(value))


def digits(word):
    return Decimal(word).normalize().as_tuple().digits


@pytest.mark.parametrize("labels", [[3, -1, 0], [0.5, -2.0, 1e300]])
def test_text_of_empty_rows(labels):
    rows = sp.csr_array(np.array([[0, 0], [0, 2.5], [0, 0]]))
    lines = b"".join(svmlight_text(rows, np.array(labels), 0)).split(b"\n")
    assert [float(line.split()[0]) for line in lines[:3]] == labels
    assert [line.split()[1:] for line in lines[:3]] == [[], [b"1:2.5"], []]
    assert lines[3:] == [b""]
    assert not any(line.endswith(b" ") for line in lines)


def test_the_kind_of_a_later_block_is_kept_in_every_format(tmp_path):
    X = sp.csr_array(np.array([[1.0], [0.5], [0.1], [2.0]]))
    y = np.array(["a", "b", "long", "c"])
    for name in ("r.arrow", "r.parquet", "r.npz", "p.arrow/", "p.parquet/", "p.npz/"):
        path = f"{tmp_path}/{name}"
        labels = da.concatenate(
            [da.from_delayed(dask.delayed(y[i : i + 1]), (1,), object) for i in range(4)]
        )
        write_data(as_dask(X, (1, 1, 1, 1)), labels, path)
        got, found = read_data(path)
        check_same(gathered(got), X)
        assert np.asarray(found).tolist() == y.tolist()


@pytest.mark.parametrize("column", [0, 8, 9, 99, 2**31 - 2, 2**40])
def test_column_numbers_of_any_length(column):
    rows = sp.csr_array((np.ones(1), np.array([column]), np.array([0, 1])), shape=(1, column + 1))
    words = b"".join(svmlight_text(rows, np.array([1]), 1)).split()
    assert words == [b"1", f"{column + 1}:1".encode()]
