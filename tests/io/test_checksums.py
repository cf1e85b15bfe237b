"""A flipped bit anywhere in a file that we wrote is noticed."""

import dask
import dask.array as da
import fsspec
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import ipc

import dask_s3vm as s3
from dask_s3vm.checkpoints.state_file import read_state, write_state
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io import DataFileError, read_arrow, read_npz, write_data
from dask_s3vm.io.archive import check_archive
from dask_s3vm.io.batches import read_sums
from dask_s3vm.io.models import ModelFileError, load_predictor
from dask_s3vm.methods.run import Saved, Snapshot

IDENTITY = {"estimator": "TSVM"}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


def sparse_rows():
    X = sp.random_array((8, 5), density=0.5, rng=np.random.default_rng(0), format="csr")
    y = np.array([0, 1, -1, -1, 1, 0, -1, 1])
    lazy = da.from_array(X.toarray(), chunks=(4, 5)).map_blocks(sp.csr_array)
    return lazy, da.from_array(y, chunks=4), X.toarray(), y


def dense(X):
    return np.concatenate([np.asarray(getattr(b, "todense", lambda b=b: b)()) for b in blocks(X)])


def blocks(X):
    return [block.compute() for block in X.blocks.ravel()] if hasattr(X, "blocks") else [X]


def written_model(path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    s3.save_model(s3.L2SVM(lam=1.0).fit(X, X[:, 0] > 0), path)


def written_state(path):
    value = {"w": np.arange(3.0), "bits": np.uint8([1, 2]), "n": 4}
    write_state(path.parent, IDENTITY, Snapshot({"a": Saved(value, False, 3, 1)}, [], 7))


def written_rows(path):
    X, y, _, _ = sparse_rows()
    write_data(X, y, path)


def read_both(read):
    def from_path(path):
        X, y = read(path)
        return [dense(X), None if y is None else np.asarray(y)]

    return from_path


FILES = {
    "model": ("m.npz", written_model, s3.load_model, ModelFileError),
    "model to predict with": ("m.npz", written_model, load_predictor, ModelFileError),
    "state": (
        "fit.npz",
        written_state,
        lambda path: read_state(path.parent, IDENTITY),
        CheckpointError,
    ),
    "npz": ("r.npz", written_rows, read_both(read_npz), DataFileError),
    "npz block": (
        "r.npz",
        written_rows,
        read_both(lambda path: read_npz(path, block="scipy")),
        DataFileError,
    ),
    "arrow": ("r.arrow", written_rows, read_both(read_arrow), DataFileError),
}


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_in_any_byte_is_noticed(name, tmp_path):
    file, write, read, error = FILES[name]
    path = tmp_path / file
    write(path)
    whole = path.read_bytes()
    read(path)
    unnoticed = []
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            read(path)
        except error:
            continue
        unnoticed.append(place)
    assert unnoticed == [], f"of {len(whole)} bytes"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_is_noticed(name, tmp_path):
    file, write, read, error = FILES[name]
    path = tmp_path / file
    write(path)
    whole = path.read_bytes()
    for length in [0, 1, 10, len(whole) // 2, *range(len(whole) - 60, len(whole))]:
        path.write_bytes(whole[:length])
        with pytest.raises(error):
            read(path)


def test_the_wrong_bytes_of_arrow_in_a_store_are_noticed(tmp_path):
    path = tmp_path / "r.arrow"
    written_rows(path)
    whole = path.read_bytes()
    url, fs = "memory://checksums/r.arrow", fsspec.filesystem("memory")
    fs.pipe_file("/checksums/r.arrow", whole)
    _, _, X, y = sparse_rows()
    found = read_both(read_arrow)(url)
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], y)
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        fs.pipe_file("/checksums/r.arrow", bytes(damaged))
        with pytest.raises(DataFileError):
            read_both(read_arrow)(url)


def test_others_read_our_files(tmp_path):
    """The checksums stand where the formats leave room."""
    written_rows(tmp_path / "r.arrow")
    written_rows(tmp_path / "r.npz")
    _, _, X, y = sparse_rows()
    table = ipc.open_file(tmp_path / "r.arrow").read_all()
    assert table["label"].to_pylist() == y.tolist()
    with pa.OSFile(str(tmp_path / "r.arrow")) as stream:
        stream.seek(8)  # the file as a stream, up to its mark of the end
        assert ipc.open_stream(stream).read_all().equals(table)
    with np.load(tmp_path / "r.npz") as arrays:
        np.testing.assert_array_equal(arrays["y"], y)
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        np.testing.assert_array_equal(sp.csr_array(parts, shape=X.shape).toarray(), X)


def test_files_of_others_need_no_checksum(tmp_path):
    _, _, X, y = sparse_rows()
    np.savez(tmp_path / "r.npz", X=X, y=y)
    with (tmp_path / "r.npz").open("rb") as stream:
        check_archive(stream)
    np.testing.assert_array_equal(read_npz(tmp_path / "r.npz")[0].toarray(), X)
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 5)
    table = pa.table({"row": column})
    with ipc.new_file(tmp_path / "r.arrow", table.schema) as writer:
        writer.write_table(table)
    content = (tmp_path / "r.arrow").read_bytes()
    assert read_sums(lambda low, high: content[low:high], len(content)) is None
    np.testing.assert_array_equal(np.asarray(read_arrow(tmp_path / "r.arrow")[0]), X)


def test_a_file_without_batches_has_a_checksum(tmp_path):
    write_data(np.zeros((0, 3)), np.zeros(0), tmp_path / "r.arrow")
    content = (tmp_path / "r.arrow").read_bytes()
    assert read_sums(lambda low, high: content[low:high], len(content)) is not None


def test_pages_of_parquet_have_checksums(tmp_path):
    path = tmp_path / "r.parquet"
    X = np.random.default_rng(0).normal(size=(50, 4))
    write_data(X, None, path, compression="none")
    whole = bytearray(path.read_bytes())
    place = whole.index(X[20].astype(np.float64).tobytes())
    whole[place] ^= 1  # the smallest bit of a number
    path.write_bytes(whole)
    with pytest.raises(DataFileError):
        np.asarray(s3.io.read_parquet(path)[0])
