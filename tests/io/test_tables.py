"""csv tables against a naive reading of them, for any cut of the files."""

import bz2
import csv
import gzip
import io
import subprocess
import sys
import warnings

import dask
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.features import TableEncoder, UnknownCategoryWarning
from dask_s3vm.io import read_data, read_table

COLORS = ["red", "blue", 'dark "green"', "light,\nblue", "grün"]


def make_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [f"{rng.normal():.6g}", str(rng.choice(COLORS)), str(rng.integers(0, 4)),
         f"{rng.integers(0, 3) * 1e3:g}", str(rng.choice(["yes", "no"]))]
        for _ in range(n)
    ]  # fmt: skip


NAMES = ["size", "color", "rooms", "price", "sold"]


def write(path, rows, header=True, names=NAMES, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows([names, *rows] if header else rows)
    text = out.getvalue().encode()
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(text))
    return path


def naive(rows, categorical=(1,), numeric=(0, 2, 3), scale="unit"):
    """Dense features of columns 0 to 3, by plain loops."""
    blocks = []
    for column in range(4):
        held = [row[column] for row in rows]
        if column in categorical:
            words = sorted(set(held))
            blocks.append(np.array([[float(word == w) for w in words] for word in held]))
            continue
        values = np.array([float(word) for word in held])
        if scale == "unit":
            values = (values - values.min()) / (values.max() - values.min())
        elif scale == "maxabs":
            values = values / np.abs(values).max()
        elif scale == "std":
            values = values / values.std()
        blocks.append(values[:, np.newaxis])
    return np.hstack(blocks)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.bz2"])
@pytest.mark.parametrize("scale", ["unit", "maxabs", "std", "none"])
def test_a_table_is_what_it_says(tmp_path, ending, scale):
    rows = make_rows(200)
    path = write(tmp_path / f"t{ending}", rows)
    X, y, encoder = read_table(path, label="sold", scale=scale, blocksize=997)
    assert X.numblocks[0] > 5
    assert isinstance(X.blocks[0].compute(), sparse.GCXS)
    assert encoder.get_feature_names_out().tolist() == [
        "size", *[f"color={word}" for word in sorted(COLORS)], "rooms", "price",
    ]  # fmt: skip
    np.testing.assert_allclose(X.compute().todense(), naive(rows, scale=scale), rtol=1e-12)
    assert y.compute().tolist() == [row[4] for row in rows]
    assert y.dtype == y.compute().dtype


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 3000), st.sampled_from([".csv", ".csv.gz"]), st.integers(1, 3))
def test_cuts_and_files_do_not_matter(tmp_path_factory, blocksize, ending, n_files):
    rows = make_rows(60, seed=blocksize)
    folder = tmp_path_factory.mktemp("cuts")
    edges = np.linspace(0, 60, n_files + 1).astype(int)
    for i in range(n_files):
        write(folder / f"{i}{ending}", rows[edges[i] : edges[i + 1]])
    X, y, _ = read_table(
        f"{folder}/*{ending}", label=-1, positive="yes", blocksize=blocksize, block="scipy"
    )
    X, y = dask.compute(X, y)
    np.testing.assert_allclose(X.toarray(), naive(rows), rtol=1e-12)
    assert y.tolist() == [int(row[4] == "yes") for row in rows]


def test_numbers_may_be_categories_and_columns_left_out(tmp_path):
    rows = make_rows(50)
    path = write(tmp_path / "t.csv", rows)
    X, y, encoder = read_table(path, categorical=["rooms"], drop=["sold"], dtype="float32")
    assert y is None
    assert X.dtype == np.float32
    assert encoder.categories_[2] == ("0", "1", "2", "3")
    np.testing.assert_allclose(X.compute().todense(), naive(rows, categorical=(1, 2)), rtol=1e-6)


def test_a_column_is_one_of_categories_if_any_chunk_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,1\n" * 500 + "2,x\n")
    X, _, encoder = read_table(path, blocksize=64)
    assert encoder.categories_ == [None, ("1", "x")]
    assert X.shape == (501, 3)
    assert X.compute().todense()[-1].tolist() == [1.0, 0.0, 1.0]


def test_a_file_without_header(tmp_path):
    rows = make_rows(50)
    path = write(tmp_path / "t.csv", rows, header=False)
    X, _, encoder = read_table(path, label=4)
    np.testing.assert_allclose(X.compute().todense(), naive(rows), rtol=1e-12)
    assert encoder.feature_names_in_.tolist() == ["0", "1", "2", "3"]
    X, _, encoder = read_table(path, names=NAMES, label="sold", header=False)
    np.testing.assert_allclose(X.compute().todense(), naive(rows), rtol=1e-12)
    assert encoder.label_.words == ("no", "yes")


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["1", "2", "", "2"], [1, 2, -1, 2]),
        (["0.5", "2", "", "2"], [0.5, 2.0, np.nan, 2.0]),
        (["ham", "spam", "", "ham"], ["ham", "spam", "", "ham"]),
        (["1", "0", "-1", "0"], [1, 0, -1, 0]),
        (["1", "-1", "", "1"], [1.0, -1.0, np.nan, 1.0]),
    ],
)
def test_labels_keep_their_kind_and_missing_ones_are_marked(tmp_path, labels, wanted):
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "".join(f"{i},{word}\n" for i, word in enumerate(labels)))
    _, y, _ = read_table(path, label="label", blocksize=8)
    np.testing.assert_array_equal(y.compute(), wanted)
    assert y.dtype == y.compute().dtype == np.array(wanted).dtype


def test_rows_of_files_without_the_label_column_have_no_label(tmp_path):
    rows = make_rows(20)
    first = write(tmp_path / "a.csv", rows[:5])
    second = write(tmp_path / "b.csv", [row[:4] for row in rows[5:]], names=NAMES[:4])
    for files in ([first, second], [second, first]):
        X, y, _ = read_table(files, label="sold", positive=["yes"])
        assert X.shape[0] == 20
        assert np.sum(y.compute() == -1) == 15
    bare = [write(tmp_path / f"{n}.csv", part, header=False)
            for n, part in (("c", rows[:5]), ("d", [row[:4] for row in rows[5:]]))]  # fmt: skip
    X, y, _ = read_table(bare, label=-1, positive=["yes"])
    np.testing.assert_allclose(X.compute().todense(), naive(rows), rtol=1e-12)
    assert np.sum(y.compute() == -1) == 15


def test_an_encoder_reads_other_files_alike(tmp_path):
    rows = make_rows(80)
    X, y, encoder = read_table(write(tmp_path / "a.csv", rows), label="sold", positive="yes")
    order = [4, 2, 0, 3, 1]
    shuffled = [[row[i] for i in order] for row in rows[:30]]
    path = write(tmp_path / "b.csv.gz", shuffled, names=[NAMES[i] for i in order])
    again, labels, same = read_table(path, encoder=encoder, blocksize=200)
    assert same is encoder
    np.testing.assert_array_equal(again.compute().todense(), X.compute().todense()[:30])
    np.testing.assert_array_equal(labels.compute(), y.compute()[:30])
    # without the label column, and without labels although there are some
    bare = write(tmp_path / "c.csv", [row[:4] for row in rows], names=NAMES[:4])
    assert read_table(bare, encoder=encoder)[1] is None
    assert read_table(path, encoder=encoder, label=False)[1] is None


def test_an_encoder_reads_files_without_header_alike(tmp_path):
    rows = [[row[4], *row[:4]] for row in make_rows(40)]
    X, _, encoder = read_table(write(tmp_path / "a.csv", rows, header=False), label=0)
    bare = write(tmp_path / "b.csv", [row[1:] for row in rows], header=False)
    again, y, _ = read_table(bare, encoder=encoder)
    assert y is None
    np.testing.assert_array_equal(again.compute().todense(), X.compute().todense())


def test_a_header_that_lacks_columns_is_still_a_header(tmp_path):
    rows = make_rows(40)
    _, _, encoder = read_table(write(tmp_path / "a.csv", rows), label="sold")
    path = write(tmp_path / "b.csv", [row[1:3] for row in rows], names=[NAMES[1], "other"])
    missing = [NAMES[0], *NAMES[2:4]]
    with pytest.raises(ValueError, match="has no column") as caught:
        read_table(path, encoder=encoder)
    assert all(repr(name) in str(caught.value) for name in missing)


def test_unknown_categories_are_zeros_and_counted_once(tmp_path):
    rows = make_rows(40)
    X, _, encoder = read_table(write(tmp_path / "a.csv", rows), label="sold")
    other = [[*row[:1], "pink" if i % 4 == 0 else row[1], *row[2:]] for i, row in enumerate(rows)]
    path = write(tmp_path / "b.csv", other)
    with pytest.warns(UnknownCategoryWarning, match="not fitted on: 10 in 'color'") as caught:
        again, _, _ = read_table(path, encoder=encoder, blocksize=300)
    assert len(caught) == 1
    wanted = X.compute().todense()
    wanted[::4, 1:6] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.compute().todense(), wanted)


def test_missing_values_as_zeros(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n,y\n3,NA\n")
    assert read_table(path, missing="zero")[2].categories_ == [None, ("NA", "x", "y")]
    X, _, encoder = read_table(path, missing="zero", null_values=["NA"])
    assert encoder.categories_ == [None, ("x", "y")]
    assert X.compute().todense().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_a_byte_order_mark_and_other_delimiters(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfa;"b;c"\r\n1; x\r\n 3;"x;y"\r\n')
    X, _, encoder = read_table(path, delimiter=";")
    assert encoder.feature_names_in_.tolist() == ["a", "b;c"]
    assert encoder.categories_[1] == (" x", "x;y")
    assert X.compute().todense().tolist() == [[0, 1, 0], [1, 0, 1]]


def test_the_registry_knows_csv(tmp_path):
    rows = make_rows(10)
    path = write(tmp_path / "t.csv", rows)
    X, y = read_data(str(path), label="sold", block="scipy")
    assert sp.issparse(X.compute())
    assert y.compute().tolist() == [row[4] for row in rows]
    with pytest.raises(ValueError, match="n_features"):
        read_data(str(path), n_features=3)


def test_a_cluster_reads_the_same(tmp_path):
    from distributed import Client, LocalCluster

    rows = make_rows(300)
    path = write(tmp_path / "t.csv.gz", rows)
    wanted = dask.compute(*read_table(path, label="sold", blocksize=2000)[:2])
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster),
    ):
        X, y, _ = read_table(path, label="sold", blocksize=2000)
        found = dask.compute(X, y)
    np.testing.assert_array_equal(found[0].todense(), wanted[0].todense())
    np.testing.assert_array_equal(found[1], wanted[1])


def test_a_small_table_is_read_and_encoded_once(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", make_rows(30))
    encoded = []
    whole = TableEncoder.encode
    monkeypatch.setattr(TableEncoder, "encode", lambda *a: encoded.append(a) or whole(*a))
    X, y, _ = read_table(path, label="sold")
    path.unlink()
    labels, rows = y.compute(), X.compute()
    assert len(encoded) == 1
    both = dask.compute(X, y)
    assert len(encoded) == 1
    np.testing.assert_array_equal(both[0].todense(), rows.todense())
    np.testing.assert_array_equal(both[1], labels)


def test_a_small_table_does_not_wait_for_distributed(tmp_path):
    path = write(tmp_path / "t.csv", make_rows(20))
    code = (
        "import sys; from dask_s3vm.io import read_table; "
        f"read_table({str(path)!r}, label='sold', block='scipy'); "
        "sys.exit('distributed' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
