"""Model files bring back the model, and nothing else."""

import os

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from toy_models import Other, Toy

from dask_s3vm.io import load_model, models, save_model


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


def test_long_headers_are_not_written(path, monkeypatch):
    monkeypatch.setattr(models, "_LARGEST_HEADER", 1100)
    with pytest.raises(ValueError, match="too long"):
        save_model(Toy().fit([0, 1]), path)
