"""`read_npz` and the choice of a reader."""

import gzip
import os
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse

from dask_s3vm.io import read_data, read_npz

DATA = Path(os.environ.get("DASK_S3VM_DATA", Path(__file__).parents[2] / "../shared/data"))
DENSE = np.array([[0, 1.5, 0], [2, 0, 3]])


def csr_parts(matrix=DENSE):
    csr = sp.csr_array(matrix)
    return {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "?"])
def test_dense(tmp_path, dtype):
    np.savez(tmp_path / "d.npz", X=DENSE.astype(dtype), y=np.array([1, -1], dtype="i2"))
    X, y = read_npz(tmp_path / "d.npz")
    assert isinstance(X, sp.csr_array)
    assert X.dtype == (np.float32 if dtype == "f4" else np.float64)
    np.testing.assert_array_equal(X.toarray(), DENSE.astype(dtype))
    np.testing.assert_array_equal(y, [1, -1])
    assert y.dtype == np.int16


def test_csr_with_and_without_values_and_labels(tmp_path):
    np.savez_compressed(tmp_path / "s.npz", **csr_parts(), y=["a", "b"])
    X, y = read_npz(str(tmp_path / "s.npz"))
    np.testing.assert_array_equal(X.toarray(), DENSE)
    assert y.tolist() == ["a", "b"]
    parts = csr_parts()
    del parts["data"]
    np.savez(tmp_path / "ones.npz", **parts)
    X, y = read_npz(tmp_path / "ones.npz")
    np.testing.assert_array_equal(X.toarray(), DENSE != 0)
    assert y is None


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_scipy_layout(tmp_path, form):
    for kind in (sp.csr_array, sp.csr_matrix):
        sp.save_npz(tmp_path / "m.npz", kind(DENSE).asformat(form))
        X, y = read_npz(tmp_path / "m.npz")
        assert isinstance(X, sp.csr_array)
        np.testing.assert_array_equal(X.toarray(), DENSE)
        assert y is None


def test_columns_are_sorted_and_summed(tmp_path):
    parts = {"data": [1, 2, 3], "indices": [2, 0, 2], "indptr": [0, 3], "shape": [1, 3]}
    np.savez(tmp_path / "d.npz", **parts)
    X, _ = read_npz(tmp_path / "d.npz")
    assert X.has_canonical_format
    np.testing.assert_array_equal(X.toarray(), [[2, 0, 4]])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"T": DENSE, "lab": [1]},
            r"has the keys \['T', 'lab'\], wanted 'X' \(dense\) or 'indices'",
        ),
        ({"X": DENSE[0]}, r"holds a matrix of shape \(3,\)"),
        ({"X": np.array([["a"]])}, "type <U1, wanted rows and columns of real numbers"),
        ({"X": DENSE * 1j}, "type complex128"),
        ({"X": np.array([[None]])}, "holds Python objects"),
        ({"X": DENSE, "y": [1, 2, 3]}, r"'y' is of shape \(3,\), wanted \(2,\)"),
        ({"X": DENSE, "y": [[1], [2]]}, r"'y' is of shape \(2, 1\)"),
        (csr_parts() | {"indices": [1, 0, 9]}, "ind"),
        (csr_parts() | {"indptr": [0, 2, 1]}, "ind"),
        (csr_parts() | {"shape": [2]}, ""),
        (csr_parts() | {"data": [1.0]}, ""),
        (csr_parts() | {"data": ["a", "b", "c"]}, ""),
        (csr_parts() | {"format": "nonsense"}, ""),
    ],
)
def test_wrong_content(tmp_path, keys, message):
    np.savez(tmp_path / "bad.npz", **keys)
    with pytest.raises(ValueError, match=rf"bad\.npz: .*{message}"):
        read_npz(tmp_path / "bad.npz")


def test_files_that_are_no_archives(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.npz"):
        read_npz(tmp_path / "none.npz")
    np.savez_compressed(tmp_path / "good.npz", X=np.random.default_rng(0).normal(size=(50, 9)))
    whole = (tmp_path / "good.npz").read_bytes()
    hurt = whole[:200] + bytes(50) + whole[250:]
    for text in (b"", b"PK", b"1 1:1\n", whole[:-30], hurt):
        (tmp_path / "bad.npz").write_bytes(text)
        with pytest.raises(ValueError, match=r"bad\.npz: "):
            read_npz(tmp_path / "bad.npz")


def test_read_data_chooses_by_ending(tmp_path):
    text = b"1 1:1\n-1 3:2\n"
    for ending in ("svm", "svmlight", "libsvm", "txt", "dat", "svm.gz", "SVM"):
        path = tmp_path / f"rows.{ending}"
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
        X, y = read_data(path, n_features=5)
        assert isinstance(X, da.Array)
        assert X.shape == (2, 5)
        assert y.compute().tolist() == [1, -1]
    assert read_data([tmp_path / "rows.svm", tmp_path / "rows.txt"])[0].shape == (4, 3)
    assert read_data(str(tmp_path / "row*.svm.gz"))[0].shape == (2, 3)
    np.savez(tmp_path / "rows.npz", X=DENSE)
    assert isinstance(read_data(tmp_path / "rows.npz")[0], sp.csr_array)


def test_read_data_refuses(tmp_path):
    np.savez(tmp_path / "rows.npz", X=DENSE)
    with pytest.raises(FileNotFoundError, match=r"there is no file 'rows\.xyz\.gz'"):
        read_data("rows.xyz.gz")
    (tmp_path / "rows.xyz.gz").write_bytes(b"1 1:1\n")
    with pytest.raises(ValueError, match=r"rows\.xyz\.gz' is not known, wanted .*\.svm.*\.bz2"):
        read_data(tmp_path / "rows.xyz.gz")
    with pytest.raises(ValueError, match=r"wanted files of one format.*npz.*svmlight"):
        read_data([tmp_path / "rows.npz", "rows.svm"])
    with pytest.raises(ValueError, match=r"options \['zero_based'\] are not for npz files"):
        read_data(tmp_path / "rows.npz", zero_based=True)
    with pytest.raises(ValueError, match=r"format is 'xyz', wanted one of \[.*'npz'"):
        read_data(tmp_path / "rows.npz", format="xyz")


def test_one_file_can_be_widened(tmp_path):
    np.savez(tmp_path / "rows.npz", X=DENSE)
    X, _ = read_data(tmp_path / "rows.npz", n_features=5)
    assert X.shape == (2, 5)
    with pytest.raises(ValueError, match=r"rows\.npz: has 3 columns, but n_features is 2"):
        read_data(tmp_path / "rows.npz", n_features=2)


@pytest.mark.parametrize("block", [None, "gcxs", "scipy"])
def test_several_files_are_blocks(tmp_path, block):
    np.savez(tmp_path / "a.npz", X=DENSE.astype("f4"), y=np.array([1, 2], dtype="i1"))
    np.savez(tmp_path / "b.npz", **csr_parts(np.eye(4)), y=np.array([3, 4, 5, 6], dtype="i4"))
    sp.save_npz(tmp_path / "c.npz", sp.csr_array(DENSE))
    X, y = read_data([tmp_path / "a.npz", tmp_path / "b.npz"], block=block)
    assert X.chunks == ((2, 4), (4,))
    assert y.chunks == ((2, 4),)
    blocks = [X.blocks[i].compute() for i in range(2)]
    rows = np.vstack([b.toarray() if block == "scipy" else b.todense() for b in blocks])
    expected = np.vstack([np.pad(DENSE, ((0, 0), (0, 1))), np.eye(4)])
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(y.compute(), [1, 2, 3, 4, 5, 6])
    assert isinstance(X.blocks[0].compute(), sp.csr_array if block == "scipy" else sparse.GCXS)
    assert (y.dtype, X.dtype) == (np.int32, np.float64)
    assert read_data(str(tmp_path / "c.npz"), block="scipy")[1] is None
    with pytest.raises(ValueError, match=r"c\.npz: has no labels, but other files have"):
        read_data(tmp_path)  # a folder


def test_several_files_that_do_not_fit(tmp_path):
    np.savez(tmp_path / "a.npz", X=DENSE, y=[1, 2])
    np.savez(tmp_path / "b.npz", X=DENSE, y=["u", "v"])
    with pytest.raises(ValueError, match=r"b\.npz: has labels of type <U1, but .*a\.npz of int64"):
        read_data([tmp_path / "a.npz", tmp_path / "b.npz"])
    whole = (tmp_path / "b.npz").read_bytes()
    (tmp_path / "b.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"b\.npz: "):
        read_data([tmp_path / "a.npz", tmp_path / "b.npz"])
    np.savez(tmp_path / "b.npz", **csr_parts() | {"shape": [2, 10**12]})
    with pytest.raises(ValueError, match=r"b\.npz: holds a matrix of shape \(2, 1000000000000\)"):
        read_data([tmp_path / "a.npz", tmp_path / "b.npz"])


def test_real_data():
    path = DATA / "rcv1_2316_topics.npz"
    if not path.exists():
        pytest.skip("rcv1_2316_topics.npz is not here")
    X, y = read_npz(path)
    assert X.shape == (2316, 13311)
    assert X.nnz == 200397
    assert len(y) == 2316
