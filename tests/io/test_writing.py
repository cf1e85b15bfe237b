"""Writing: all or nothing, whatever the format and wherever the target."""

import json

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.io import read_data, write_data

X = sp.random_array((60, 8), density=0.4, rng=np.random.default_rng(2), format="csr")
Y = np.arange(60) % 2
FORMS = ["rows.arrow", "rows.parquet", "rows.npz", "rows.svm", "rows.svm.gz", "parts.arrow/"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def lazy(broken=(), error=ValueError, name="rows"):
    """X as six blocks, some of which cannot be computed; which ones does not change the name."""

    def block(numbers):
        number = int(numbers[0])
        if number in broken:
            raise error("no such rows")
        return X[10 * number : 10 * number + 10]

    steps = da.arange(6, chunks=1).map_blocks(
        block, new_axis=1, chunks=((10,) * 6, (8,)), meta=X[:0], name=name, dtype=float
    )
    return steps


def whole(path):
    got, _ = read_data(path)
    blocks = dask.compute(*got.to_delayed().ravel()) if isinstance(got, da.Array) else [got]
    return sp.vstack([b if sp.issparse(b) else b.to_scipy_sparse() for b in blocks])


@pytest.mark.parametrize("name", FORMS)
def test_an_error_leaves_nothing_behind(tmp_path, name):
    with pytest.raises(ValueError, match="no such rows"):
        write_data(lazy(broken=[4]), Y, f"{tmp_path}/{name}")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", FORMS)
def test_an_old_file_is_kept_until_the_new_one_is_complete(tmp_path, name):
    path = f"{tmp_path}/{name}"
    write_data(X[:5], Y[:5], path)
    with pytest.raises(FileExistsError, match=r"exists already; overwrite=True replaces it"):
        write_data(lazy(), Y, path)
    with pytest.raises(ValueError, match="no such rows"):
        write_data(lazy(broken=[1]), Y, path, overwrite=True)
    assert whole(path.rstrip("/")).shape[0] == 5
    assert names(tmp_path) == [name.rstrip("/")]
    write_data(lazy(), Y, path, overwrite=True)
    assert (whole(path.rstrip("/")) != X).nnz == 0
    assert names(tmp_path) == [name.rstrip("/")]


@pytest.mark.parametrize("name", FORMS)
def test_an_interruption_leaves_nothing_behind(tmp_path, name):
    with dask.config.set(scheduler="synchronous"), pytest.raises(KeyboardInterrupt):
        write_data(lazy(broken=[4], error=KeyboardInterrupt), Y, f"{tmp_path}/{name}")
    assert names(tmp_path) == []


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / ".parts.arrow.partial"
    left.mkdir()
    (left / "part-00099.arrow").write_bytes(b"half")
    write_data(lazy(), Y, f"{tmp_path}/parts.arrow/")
    assert names(tmp_path) == ["parts.arrow"]
    assert names(tmp_path / "parts.arrow") == [f"part-{i:05d}.arrow" for i in range(6)]


@pytest.mark.parametrize("name", ["rows.arrow", "rows.npz"])
def test_progress_counts_blocks(tmp_path, name):
    said = []
    write_data(lazy(), Y, tmp_path / name, progress=lambda *told: said.append(told))
    assert said == [(f"block {i}", i, 6) for i in range(1, 7)]


def test_names_of_readers_are_the_same_in_every_process(tmp_path):
    # Fits are resumed by the names of their rows.
    import subprocess
    import sys

    write_data(X, Y, tmp_path / "rows.arrow")
    write_data(X, Y, tmp_path / "rows.svm")
    code = (
        "from dask_s3vm.io import read_data; import json, sys\n"
        "print(json.dumps([[a.name for a in read_data(p)] for p in sys.argv[1:]]))"
    )
    paths = [str(tmp_path / "rows.arrow"), str(tmp_path / "rows.svm")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [[a.name for a in read_data(p)] for p in paths]


@pytest.mark.parametrize(
    ("X", "y", "name", "error", "message"),
    [
        (X, Y[:3], "r.arrow", ValueError, "y does not fit X: X has 60 rows, y has 3 entries"),
        (X, Y.astype(str), "r.svm", TypeError, "svmlight text knows numbers only"),
        (X, None, "r.svm", ValueError, "svmlight text has a label in every row"),
        (X, Y * 1j, "r.arrow", TypeError, "y is of shape .* and type complex128"),
        (X, np.full(60, np.nan), "r.npz", ValueError, "y contains NaN or infinity"),
        (X.astype("c8"), Y, "r.arrow", TypeError, "X has dtype complex64; wanted real numbers"),
        (X * np.inf, Y, "r.svm", ValueError, "X contains NaN or infinity"),
        (X.toarray()[0], Y, "r.npz", ValueError, "X must be 2-dimensional"),
        (X, Y, "r.npy/", ValueError, "for a folder take npz"),
        (X, Y, "none/r.npz", ValueError, "there is no folder .*none"),
        (X, Y, "r.xyz", ValueError, "the ending of .* is not known"),
    ],
)
def test_what_cannot_be_written(tmp_path, X, y, name, error, message):
    with pytest.raises(error, match=message):
        write_data(X, y, f"{tmp_path}/{name}")
    assert names(tmp_path) == []


def test_options_are_those_of_the_format(tmp_path):
    with pytest.raises(ValueError, match=r"options \['compression'\] are not for arrow files"):
        write_data(X, Y, tmp_path / "rows.arrow", compression="zstd")
    with pytest.raises(ValueError, match="compression is 'xyz'"):
        write_data(X, Y, tmp_path / "rows.parquet", compression="xyz")


def test_a_folder_on_another_file_system():
    fsspec.filesystem("memory").mkdir("/written")
    write_data(lazy(), Y, "memory://written/parts.npz/")
    assert (whole("memory://written/parts.npz/*.npz") != X).nnz == 0
    assert fsspec.filesystem("memory").ls("/written", detail=False) == ["/written/parts.npz"]


@pytest.mark.cluster
def test_on_workers(tmp_path):
    from distributed import Client, LocalCluster

    write_data(X, Y, tmp_path / "rows.svm")
    with (
        LocalCluster(2, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        rows, labels = read_data(tmp_path / "rows.svm", blocksize=600, n_features=8)
        assert rows.numblocks[0] > 3
        write_data(rows, labels, tmp_path / "rows.arrow")
        with pytest.raises(ValueError, match="no such rows"):
            write_data(lazy(broken=[4]), Y, tmp_path / "bad.arrow")
    assert names(tmp_path) == ["rows.arrow", "rows.svm"]
    assert (whole(tmp_path / "rows.arrow") != X).nnz == 0
