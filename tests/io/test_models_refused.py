"""Files that are no models, or not those that were saved, are not loaded."""

import io
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
from toy_models import Toy
from unsummed import archive_without_checksum

from dask_s3vm.io import ModelFileError, load_model, models, save_model
from dask_s3vm.io.models import load_predictor


@pytest.fixture(autouse=True)
def _register(monkeypatch):
    monkeypatch.setattr(models, "_find_class", {"Toy": Toy}.get)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def header_of(path):
    with np.load(path) as arrays:
        return json.loads(arrays["header"].tobytes())


def rewrite(path, header=None, **arrays):
    """Write a file with a changed header or changed arrays."""
    with np.load(path) as old:
        members = {name: old[name] for name in old.files} | arrays
    if header is not None:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        members["header"] = np.frombuffer(text, dtype=np.uint8)
    np.savez(path, **members)


@pytest.fixture
def saved(path):
    save_model(Toy().fit([0, 1]), path)
    return path


def refused(path, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}: cannot be loaded as a model: ")
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "does not say 'dask-s3vm-model'"),
        ({"version": 2}, "version 2 of the format .*wanted 1"),
        ({"version": None}, "version None"),
        ({"class": "Other"}, "class 'Other' is not an estimator"),
        ({"class": "os.system"}, "class 'os.system' is not"),
        ({"class": ["Toy"]}, "is not an estimator"),
        ({"params": {"C": 1, "evil": 2}}, r"Toy has no parameters \['evil'\]"),
        ({"params": 3}, "has no 'params'"),
        ({"params": {"C": {"$pickle": "x"}}}, "unknown kind of value"),
        ({"params": {"C": {"$scalar": ["O", 1]}}}, "unknown type 'O'"),
        ({"params": {"C": {"$scalar": ["f8", [1]]}}}, "wrong scalar"),
        ({"params": {"C": {"$scalar": ["i1", 300]}}}, "300"),
        ({"params": {"C": {"$items": [[[1], 2]]}}}, "unhashable"),
        ({"params": {"C": {"$array": "none"}}}, "none"),
        ({"fitted": None}, "has no 'fitted'"),
        ({"fitted": {"predict": 1}}, "'predict' is not a fitted attribute"),
        ({"fitted": {"__class__": 1}}, "'__class__' is not a fitted attribute"),
        ({"fitted": {"trap_": 1}}, "'trap_' is not a fitted attribute"),
        ({"fitted": {"coef_": 1.0}}, "coef_ is not a matrix"),
        ({"fitted": {"coef_": {"$array": "coef_"}, "n_features_in_": 5}}, "coef_ has 4 columns"),
        (
            {"fitted": {"coef_": {"$array": "coef_"}, "intercept_": {"$array": "classes_"}}},
            "intercept_",
        ),
    ],
)
def test_wrong_headers(saved, change, message):
    rewrite(saved, header_of(saved) | change)
    refused(saved, message)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\xff\xfe", b'"text"', b"[" * 20_000, b'{"a":' * 20_000]
)
def test_headers_that_are_not_json_objects(saved, text):
    rewrite(saved, text)
    refused(saved, "cannot be loaded")


def test_header_of_another_type(saved):
    np.savez(saved, header=np.zeros(3))
    refused(saved, "'header' is not text")


def test_missing_parts(saved, tmp_path):
    refused(tmp_path / "none.npz", "there is no such file")
    np.savez(saved, coef_=np.zeros(3))
    refused(saved, "it has no 'header'")


def test_damaged_files(saved):
    whole = saved.read_bytes()
    for text in (b"", b"text", whole[:-40], whole[:100], whole[:300] + bytes(300) + whole[600:]):
        saved.write_bytes(text)
        refused(saved, "cannot be loaded")


class Bomb:
    """Fails the test if it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_pickles_are_not_loaded(saved):
    rewrite(saved, None, coef_=np.array([[Bomb()]], dtype=object))
    refused(saved, "holds Python objects")
    saved.write_bytes(pickle.dumps(Bomb()))
    refused(saved, "not a zip file")


def member(shape, text=b"", descr="<f8"):
    """Return an .npy file that claims a shape."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue() + text


def forge(path):
    """Remove the checksum, which would be the first to tell."""
    raw = path.read_bytes()
    if not raw.endswith(b"\0\0"):
        path.write_bytes(archive_without_checksum(raw))


def add_member(path, name, text, **options):
    forge(path)
    with zipfile.ZipFile(path, "a", **options) as archive:
        archive.writestr(name, text)


@pytest.mark.parametrize("shape", [(2**40,), (2**40, 2**40), (-1,), (3,)])
def test_arrays_that_claim_too_much(saved, shape):
    add_member(saved, "evil_.npy", member(shape, bytes(8)))
    refused(saved, "array 'evil_'")


def test_members_that_do_not_belong(saved):
    whole = saved.read_bytes()
    add_member(saved, "evil.txt", b"")
    refused(saved, "member 'evil.txt' is not an array")
    saved.write_bytes(whole)
    with pytest.warns(UserWarning, match="Duplicate"):
        add_member(saved, "coef_.npy", member((1,), bytes(8)))
    refused(saved, "occurs twice")
    saved.write_bytes(whole)
    add_member(saved, "evil_.npy", member((1000,), bytes(8000)), compression=zipfile.ZIP_DEFLATED)
    refused(saved, "is compressed")


def claim_size(path, name, size):
    """Change the size that the archive's directory gives for a member."""
    forge(path)
    whole = bytearray(path.read_bytes())
    entry = whole.rindex(b"PK\x01\x02", 0, whole.rindex(name.encode()))
    struct.pack_into("<I", whole, entry + 24, size)
    path.write_bytes(bytes(whole))


def test_sizes_in_the_directory_are_checked_first(saved, monkeypatch):
    claim_size(saved, "header.npy", 17 << 20)
    refused(saved, r"member 'header' has 17825792 bytes, limit 16777216")
    save_model(Toy().fit([0, 1]), saved)
    claim_size(saved, "coef_.npy", 1 << 30)
    refused(saved, "longer than the file")
    save_model(Toy().fit([0, 1]), saved)
    monkeypatch.setattr("dask_s3vm.io.archive._LARGEST_MEMBER", 100)
    refused(saved, r"bytes, limit 100")


@pytest.mark.parametrize("load", [load_model, load_predictor])
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"coef_": np.full((1, 4), np.nan)}, "coef_ is not a matrix of finite real numbers"),
        ({"coef_": np.array([[1, np.inf, 0, 0]])}, "coef_ is not a matrix of finite real numbers"),
        ({"coef_": np.zeros((0, 4))}, "coef_ is not a matrix of finite real numbers"),
        ({"coef_": np.ones((3, 4)), "intercept_": np.zeros(3)}, "coef_ has 3 rows for 2 classes"),
        ({"coef_": np.ones((2, 4)), "intercept_": np.zeros(2)}, "coef_ has 2 rows for 2 classes"),
        ({"intercept_": np.array([np.nan])}, "intercept_ is not 1 finite real numbers"),
        ({"intercept_": np.zeros(2)}, "intercept_ is not 1 finite real numbers"),
        ({"classes_": np.array([0, 1, 2])}, "coef_ has 1 rows for 3 classes, wanted 3"),
        ({"classes_": np.array([1, 1])}, "classes_ has a class twice"),
        ({"classes_": np.array([1])}, "classes_ is not a list of two or more"),
    ],
)
def test_tampered_weights_are_refused(saved, load, arrays, message):
    load(saved)
    rewrite(saved, **arrays)
    with pytest.raises(ModelFileError, match=message):
        load(saved)
