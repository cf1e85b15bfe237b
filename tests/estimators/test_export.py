"""Models as scikit-learn's and ONNX's own: the same labels on 10,000 rows of each kind."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, clone

import dask_s3vm
from dask_s3vm import L2SVM, RLSC, STARSVM, TSVM

MODELS = {
    "linear": L2SVM(lam=1e-2),
    "linear, semi-supervised": TSVM(lam=1e-2),
    "least squares": RLSC(),
    "rbf": TSVM(lam=1e-2, kernel="rbf", n_components=50, random_state=0),
    "poly": L2SVM(lam=1e-2, kernel="poly", degree=2, n_components=50, random_state=0),
    "laplacian": L2SVM(lam=1e-2, kernel="laplacian", n_components=50, random_state=0),
    "support vectors": STARSVM(kernel="rbf", sigma=2.0),
}


def rows(rng, n, n_classes):
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, 6)) + 2.0 * np.eye(n_classes, 6)[y], y


@pytest.fixture(params=[2, 3], ids=["two classes", "three"])
def data(request, rng):
    """Training rows, of which a third is labeled, and 10,000 new ones."""
    X, y = rows(rng, 240, request.param)
    y = np.where(np.arange(240) < 80, y, -1)
    return X, y, rows(rng, 10_000, request.param)[0]


def words(y):
    return np.where(y < 0, "", np.array(["red", "green", "blue"])[y])


@pytest.mark.parametrize("name", MODELS)
def test_the_same_labels(name, data):
    X, y, new = data
    model = MODELS[name].fit(X, words(y))
    other = model.to_sklearn()
    assert np.array_equal(other.predict(new), model.predict(new))
    np.testing.assert_allclose(
        other.decision_function(new), model.decision_function(new), rtol=1e-9, atol=1e-9
    )
    sparse = sp.csr_array(new)
    assert np.array_equal(other.predict(sparse), model.predict(sparse))


@pytest.mark.parametrize("name", ["linear", "linear, semi-supervised", "rbf"])
def test_the_same_probabilities(name, data):
    X, y, new = data
    model = MODELS[name].set_params(probability=True).fit(X, words(y))
    other = model.to_sklearn(probabilities=True)
    model.set_params(probability=False)
    wanted = model._probabilities(new)
    np.testing.assert_allclose(other.predict_proba(new), wanted, rtol=1e-9, atol=1e-12)
    assert np.array_equal(other.predict(new), model.classes_[wanted.argmax(axis=1)])
    assert np.array_equal(model.to_sklearn().predict(new), model.predict(new))


def test_models_trained_on_sparse_rows(data):
    X, y, new = data
    X, new = sp.csr_array(np.where(X > 0.5, X, 0.0)), sp.csr_array(np.where(new > 0.5, new, 0.0))
    for model in (L2SVM(lam=1e-2), L2SVM(lam=1e-2, kernel="rbf", sigma=2.0, random_state=0)):
        other = model.fit(X, y).to_sklearn()
        assert np.array_equal(other.predict(new), model.predict(new))


def test_names_of_columns_are_checked(data):
    pd = pytest.importorskip("pandas")
    X, y, new = data
    frame = pd.DataFrame(X, columns=list("abcdef"))
    other = L2SVM(lam=1e-2).fit(frame, y).to_sklearn()
    other.predict(pd.DataFrame(new, columns=list("abcdef")))
    with pytest.raises(ValueError, match="feature names"):
        other.predict(pd.DataFrame(new, columns=list("bacdef")))


def stored(model, how, path):
    """A model that went through a file, and bytes of the file."""
    if how == "joblib":
        joblib.dump(model, path)
        return joblib.load(path)
    if how == "pickle":
        path.write_bytes(pickle.dumps(model))
        return pickle.loads(path.read_bytes())
    skops = pytest.importorskip("skops.io")
    skops.dump(model, path)
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


@pytest.mark.parametrize("how", ["joblib", "pickle", "skops"])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_files_of_other_packages(name, how, data, tmp_path):
    X, y, new = data
    model = MODELS[name].fit(X, y)
    for one in (model, model.to_sklearn()):
        again = stored(one, how, tmp_path / "model")
        assert np.array_equal(again.predict(new), model.predict(new))


def test_the_files_need_nothing_of_this_package(data, tmp_path):
    X, y, new = data
    for number, name in enumerate(("linear", "rbf")):
        model = MODELS[name].fit(X, y)
        joblib.dump(model.to_sklearn(), tmp_path / f"{number}.joblib")
        np.savez(tmp_path / f"{number}.npz", new=new, wanted=model.predict(new))
    code = f"""
import sys, joblib, numpy as np
sys.modules["dask_s3vm"] = sys.modules["dask"] = None
for number in (0, 1):
    data = np.load(r"{tmp_path}/" + str(number) + ".npz")
    model = joblib.load(r"{tmp_path}/" + str(number) + ".joblib")
    assert np.array_equal(model.predict(data["new"]), data["wanted"])
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_table_has_no_equal():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0] * 5, "color": ["red", "blue"] * 10})
    model = L2SVM().fit(frame, np.array([0, 0, 1, 1] * 5))
    with pytest.raises(ValueError, match=r"encoder_.*ColumnTransformer"):
        model.to_sklearn()


def test_probabilities_must_be_there(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="probability=True and fit"):
        L2SVM().fit(X, y).to_sklearn(probabilities=True)


# ONNX ---------------------------------------------------------------------------------------------


def run_onnx(proto, new):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(proto.SerializeToString())
    return session.run(None, {"X": new})


CLASSIFIERS = {
    name: kind
    for name in dask_s3vm.__all__
    if isinstance(kind := getattr(dask_s3vm, name), type)
    and issubclass(kind, ClassifierMixin)
    and hasattr(kind, "to_onnx")
}
IN_ONNX = [name for name in MODELS if name != "laplacian"]
LABELS = {
    "integers": lambda y: y,
    "small integers": lambda y: y.astype(np.int8),
    "words": words,
    "objects": lambda y: words(y).astype(object),
    "floats": lambda y: np.where(y < 0, np.nan, y),
}


def check_onnx(model, new):
    """Compare labels, and outputs, of which ONNX has one for each class."""
    labels, outputs = run_onnx(model.to_onnx(), new)
    assert np.array_equal(labels, model.predict(new))
    of_model = model.decision_function(new)
    own = outputs if of_model.ndim == 2 else outputs[:, 1]
    np.testing.assert_allclose(own, of_model, rtol=1e-9, atol=1e-9)
    if of_model.ndim == 1:
        assert np.array_equal(outputs[:, 0], -outputs[:, 1])


@pytest.mark.parametrize("name", IN_ONNX)
def test_onnx_gives_the_same_labels(name, data):
    X, y, new = data
    check_onnx(MODELS[name].fit(X, y), new)


@pytest.mark.parametrize("kind", sorted(CLASSIFIERS))
def test_onnx_has_the_labels_of_every_estimator(kind, data):
    X, y, new = data
    check_onnx(CLASSIFIERS[kind]().fit(X, y), new)


@pytest.mark.parametrize("kind", LABELS)
def test_onnx_has_labels_of_every_kind(kind, data):
    X, y, new = data
    model = L2SVM(lam=1e-2).fit(X, LABELS[kind](y))
    labels, _ = run_onnx(model.to_onnx(), new)
    assert np.array_equal(labels, model.predict(new))


def test_onnx_keeps_rows_near_the_boundary_on_their_sides(data):
    X, y, new = data
    model = L2SVM(lam=1e-2).fit(X, y)
    outputs = model.decision_function(new).reshape(len(new), -1)
    if outputs.shape[1] == 1:
        normals, gaps = np.repeat(model.coef_, len(new), axis=0), outputs[:, 0]
    else:  # between the two classes that compete for the row
        second, first = np.argsort(outputs, axis=1)[:, -2:].T
        normals = model.coef_[first] - model.coef_[second]
        gaps = np.ptp(np.sort(outputs, axis=1)[:, -2:], axis=1)
    wanted = np.where(np.arange(len(new)) % 2, 1e-9, -1e-9)
    near = new + ((wanted - gaps) / (normals**2).sum(axis=1))[:, None] * normals
    rounded = L2SVM(lam=1e-2).fit(X, y)
    rounded.coef_ = model.coef_.astype(np.float32).astype(np.float64)
    rounded.intercept_ = model.intercept_.astype(np.float32).astype(np.float64)
    changed = np.count_nonzero(rounded.predict(near) != model.predict(near))
    assert changed > 1000, "weights of 32 bits would pass this test"
    check_onnx(model, near)


def test_onnx_gives_the_class_of_a_row_on_the_boundary(data):
    X, y, _ = data
    model = L2SVM(lam=1e-2, fit_intercept=False).fit(X, y)
    labels, _ = run_onnx(model.to_onnx(), np.zeros((1, 6)))
    assert np.array_equal(labels, model.predict(np.zeros((1, 6))))


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_onnx_gives_the_same_probabilities(name, data):
    X, y, new = data
    model = clone(MODELS[name]).set_params(probability=True).fit(X, y)
    new[:10] *= 1e3  # far from every class
    labels, found = run_onnx(model.to_onnx(probabilities=True), new)
    wanted = model.predict_proba(new)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    likeliest = model.classes_[wanted.argmax(axis=1)]
    assert np.array_equal(labels[10:], likeliest[10:])  # far away, probabilities can be equal


def test_onnx_of_sparse_landmarks(data):
    X, y, new = data
    X = np.where(X > 0.5, X, 0.0)
    model = L2SVM(lam=1e-2, kernel="rbf", sigma=2.0, random_state=0).fit(sp.csr_array(X), y)
    check_onnx(model, new)


def test_kernels_that_onnx_does_not_have(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"poly.*rbf.*got 'laplacian': use to_sklearn"):
        MODELS["laplacian"].fit(X, y).to_onnx()


def test_without_onnx_the_extra_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    X, y, _ = data
    with pytest.raises(ImportError, match=r"dask-s3vm\[onnx\]"):
        L2SVM().fit(X, y).to_onnx()
