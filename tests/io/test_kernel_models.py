"""Models with a kernel in files: the map comes back, functions and nonsense are refused."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import DAS3VM, L2SVM, load_model, save_model
from dask_s3vm.io import ModelFileError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) * (rng.random((80, 5)) < 0.7)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("convert", [np.asarray, np.float32, sp.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine"])
def test_the_map_comes_back(rows, tmp_path, convert, kernel):
    X, y = convert(rows[0]), rows[1]
    model = L2SVM(0.01, kernel=kernel, n_components=30, random_state=1).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert again.get_params() == model.get_params()
    assert again.kernel_map_.params == model.kernel_map_.params
    assert again.kernel_map_.landmarks.dtype == model.kernel_map_.landmarks.dtype
    assert sp.issparse(again.kernel_map_.landmarks) == sp.issparse(X)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert any(array.shape == model.kernel_map_.basis.shape for array in arrays.values())


def test_linear_models_have_no_map(rows, tmp_path):
    y = np.where(np.arange(80) % 4, -1, rows[1])
    model = DAS3VM(0.1).fit(rows[0], y)
    save_model(model, tmp_path / "model.npz")
    assert load_model(tmp_path / "model.npz").kernel_map_ is None


def inner(x, z):
    return x @ z


def test_functions_are_refused(rows, tmp_path):
    model = L2SVM(kernel=inner).fit(*rows)
    with pytest.raises(TypeError, match=r"kernel is the function .*inner.* cannot hold"):
        save_model(model, tmp_path / "model.npz")


def changed(path, change):
    """Write a model file again, changed."""
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(arrays.pop("header").tobytes())
    change(header["fitted"], arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


def set_kernel(name):
    def change(fitted, arrays):
        fitted["kernel_map_"]["kernel"] = name

    return change


def set_params(fitted, arrays):
    fitted["kernel_map_"]["params"] = {"gamma": "x"}


def drop_basis(fitted, arrays):
    del fitted["kernel_map_"]["basis"]


def shorten(field, inside=None):
    def change(fitted, arrays):
        place = fitted["kernel_map_"][field]
        place = place[inside] if inside else place
        arrays[place["$array"]] = arrays[place["$array"]][:-1]

    return change


def wild_column(fitted, arrays):
    name = fitted["kernel_map_"]["landmarks"]["indices"]["$array"]
    arrays[name] = arrays[name] + 1000


def set_nan(field, inside=None):
    def change(fitted, arrays):
        place = fitted["kernel_map_"][field]
        place = place[inside] if inside else place
        arrays[place["$array"]] = arrays[place["$array"]] * np.nan

    return change


def other_width(fitted, arrays):
    fitted["n_features_in_"] = 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_kernel("os.system"), "unknown kernel 'os.system'"),
        (set_kernel(["rbf"]), "unknown kernel"),
        (set_params, "not numbers"),
        (drop_basis, "not a kernel map"),
        (shorten("basis"), "basis that does not fit"),
        (shorten("landmarks", "indptr"), "cannot be loaded as a model"),
        (shorten("landmarks", "data"), "cannot be loaded as a model"),
        (wild_column, "cannot be loaded as a model"),
        (set_nan("basis"), "basis that does not fit"),
        (set_nan("landmarks", "data"), "landmarks that are not finite"),
        (other_width, "does not fit kernel_map_"),
    ],
)
def test_maps_that_are_not_one_are_refused(rows, tmp_path, change, words):
    path = tmp_path / "model.npz"
    save_model(L2SVM(kernel="rbf", random_state=0).fit(sp.csr_array(rows[0]), rows[1]), path)
    load_model(path)
    changed(path, change)
    with pytest.raises(ModelFileError, match=words):
        load_model(path)
