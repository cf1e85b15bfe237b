"""Model files bring back the model, and nothing else."""

import io
import json
import os
import pickle
import struct
import zipfile

import dask.array as da
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from unsummed import archive_without_checksum

from dask_s3vm.io import ModelFileError, load_model, models, save_model, save_weights_text
from dask_s3vm.io.models import load_predictor


class Toy(ClassifierMixin, BaseEstimator):
    """A stand-in for an estimator of the package."""

    def __init__(self, C=1.0, class_weight=None, tol=1e-3, start=None, callbacks=None, verbose=0):
        self.C = C
        self.class_weight = class_weight
        self.tol = tol
        self.start = start
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(self, classes, rows=1, d=4):
        self.classes_ = np.array(classes)
        self.coef_ = np.random.default_rng(0).normal(size=(rows, d))
        self.intercept_ = np.arange(rows) * 0.1
        self.n_features_in_ = d
        self.n_iter_ = 17
        self.objective_ = np.float32(0.1)
        self.termination_ = "converged"
        self.nothing_ = None
        self.history_ = [{"round": 1, "objective": 2.5, "step": "newton"}, {"gap": float("inf")}]
        self._private_ = object()
        self.plain = object()
        return self

    @property
    def trap_(self):
        return 1


class Other(Toy):
    """Not public."""


@pytest.fixture(autouse=True)
def _register(monkeypatch):
    monkeypatch.setattr(models, "_find_class", {"Toy": Toy}.get)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def round_trip(model, path):
    save_model(model, path)
    assert os.listdir(path.parent) == [path.name]
    return load_model(path)


# Round trips


@pytest.mark.parametrize(
    ("classes", "rows"), [([-1, 1], 1), (["ham", "spam"], 1), ([0.5, 1.5], 1), ([3, 1, 2], 3)]
)
def test_fitted_model_comes_back(path, classes, rows):
    model = Toy(C=3, tol=np.float64(1e-5)).fit(classes, rows)
    copy = round_trip(model, path)
    assert type(copy) is Toy
    assert copy.get_params() == model.get_params()
    for name in ("classes_", "coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(model, name))
        assert getattr(copy, name).dtype == getattr(model, name).dtype
    for name in ("n_iter_", "objective_", "termination_", "nothing_", "history_"):
        assert getattr(copy, name) == getattr(model, name)
        assert type(getattr(copy, name)) is type(getattr(model, name))
    assert not hasattr(copy, "_private_")
    assert not hasattr(copy, "plain")
    assert round_trip(copy, path).get_params() == model.get_params()


@pytest.mark.parametrize(
    "value",
    [
        {-1: 1.0, 1: 2.5},
        {np.int64(0): np.float32(0.1), "a": None, True: (1, [2, "x"])},
        {"ham": 1, "$spam": 2},
        {},
        "balanced",
        float("-inf"),
        np.float64("nan"),
        np.bool_(True),
        np.str_("text"),
        (),
        [1.0, {"deep": {2: 3}}],
    ],
)
def test_parameters_come_back(path, value):
    found = round_trip(Toy(class_weight=value).fit([0, 1]), path).class_weight
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_array_parameters_come_back(path):
    start = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = round_trip(Toy(start=start, class_weight={0: np.array([1, 2])}).fit([0, 1]), path)
    np.testing.assert_array_equal(found.start, start)
    assert found.start.dtype == np.float32
    np.testing.assert_array_equal(found.class_weight[0], [1, 2])


def test_text_arrays_come_back_as_objects(path):
    model = Toy().fit(np.array(["no", "yes"], dtype=object))
    model.feature_names_in_ = np.array(["a", "bé", "", "long name"], dtype=object)
    copy = round_trip(model, path)
    for name in ("classes_", "feature_names_in_"):
        assert getattr(copy, name).dtype == object
        assert getattr(copy, name).tolist() == getattr(model, name).tolist()
        assert all(type(item) is str for item in getattr(copy, name))


def test_callbacks_verbose_and_lazy_arrays_are_left_out(path):
    model = Toy(callbacks=[print], verbose=3).fit([0, 1])
    model.transduction_ = da.zeros(10, chunks=5)
    copy = round_trip(model, path)
    assert copy.callbacks is None
    assert copy.verbose == 0
    assert not hasattr(copy, "transduction_")


def test_lookup_knows_public_estimators_only(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(models.dask_s3vm, "__all__", ["Toy", "save_model", "Plain", "io"])
    monkeypatch.setattr(models.dask_s3vm, "Toy", Toy, raising=False)
    monkeypatch.setattr(models.dask_s3vm, "Plain", dict, raising=False)
    monkeypatch.setattr(models.dask_s3vm, "Other", Other, raising=False)
    assert models._find_class("Toy") is Toy
    for name in ("save_model", "Plain", "io", "Other", "os", "", "__class__"):
        assert models._find_class(name) is None


# What cannot be saved


@pytest.mark.parametrize("value", [print, object(), np.random.RandomState(0), {1, 2}, Toy(), 1j])
def test_parameters_that_do_not_fit_are_named(path, value):
    for wrapped in (value, [value], {"a": value}):
        with pytest.raises(TypeError, match=r"parameter class_weight.* a model file cannot hold"):
            save_model(Toy(class_weight=wrapped).fit([0, 1]), path)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    "value", [{1: 2}, (1,), [1], np.array([None]), np.array(["a\0"], dtype=object)]
)
def test_attributes_that_do_not_fit_are_named(path, value):
    model = Toy().fit([0, 1])
    model.extra_ = value
    with pytest.raises(TypeError, match=r"attribute extra_ is .*a model file cannot hold"):
        save_model(model, path)


def test_only_fitted_estimators_of_the_package(path):
    with pytest.raises(NotFittedError):
        save_model(Toy(), path)
    with pytest.raises(TypeError, match="Other, wanted an estimator class of dask_s3vm"):
        save_model(Other().fit([0, 1]), path)


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    save_model(Toy().fit([0, 1]), path)
    before = path.read_bytes()

    def fail(stream, arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(models, "write_arrays", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(Toy(C=2).fit([0, 1]), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


# What is not loaded


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
    refused(tmp_path / "none.npz", "No such file")
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


def test_long_headers_are_not_written(path, monkeypatch):
    monkeypatch.setattr(models, "_LARGEST_HEADER", 1100)
    with pytest.raises(ValueError, match="too long"):
        save_model(Toy().fit([0, 1]), path)


# Weights as text


def test_weights_text(path):
    model = Toy().fit([0, 1])
    save_weights_text(model, path)
    lines = path.read_text().splitlines()
    np.testing.assert_array_equal([float(x) for x in lines], [*model.coef_[0], *model.intercept_])
    assert os.listdir(path.parent) == [path.name]
    model.intercept_ = 0.25
    save_weights_text(model, path)
    assert path.read_text().splitlines()[-1] == "0.25"


def test_weights_text_is_for_binary_models(path):
    with pytest.raises(ValueError, match=r"coef_ has the shape \(3, 4\)"):
        save_weights_text(Toy().fit([1, 2, 3], 3), path)
    with pytest.raises(NotFittedError):
        save_weights_text(Toy(), path)


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
