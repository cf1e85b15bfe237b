"""Encoders in model files: saved without pickle, checked when they are loaded."""

import json

import numpy as np
import pytest

from dask_s3vm import L2SVM, TableEncoder, load_model, save_model
from dask_s3vm.features.plain import encoder_from_plain, plain_from_encoder
from dask_s3vm.io import ModelFileError, read_table

ROWS = [(i, "a,é" if i % 3 else 'b"', (-1) ** i * i, "yes" if i % 3 else "no") for i in range(60)]


@pytest.fixture
def trained(tmp_path):
    path = tmp_path / "t.csv"
    lines = [
        f'{x},"{word.replace(chr(34), chr(34) * 2)}",{z},{label}' for x, word, z, label in ROWS
    ]
    path.write_text("x,word,z,label\n" + "\n".join(lines))
    X, y, encoder = read_table(path, label="label", positive="yes", scale="std")
    model = L2SVM().fit(X, y)
    model.encoder_ = encoder
    return path, X, model


def test_a_model_keeps_its_encoder(trained, tmp_path):
    path, X, model = trained
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    encoder = loaded.encoder_
    assert isinstance(encoder, TableEncoder)
    assert encoder.categories_ == model.encoder_.categories_
    assert encoder.label_ == model.encoder_.label_
    assert encoder.reading_ == model.encoder_.reading_
    assert encoder.feature_names_in_.tolist() == ["x", "word", "z"]
    again, y, _ = read_table(path, encoder=encoder)
    np.testing.assert_array_equal(again.compute().todense(), X.compute().todense())
    records = [{"z": z, "word": word, "x": x} for x, word, z, _ in ROWS]
    np.testing.assert_array_equal(encoder.transform(records).toarray(), X.compute().todense())
    assert loaded.predict(encoder.transform(records)).tolist() == y.compute().tolist()


def test_texts_dates_and_holes_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{'' if i % 5 == 0 else i},2024-01-{i % 28 + 1:02},word{i % 9} and,{i % 2}"
            for i in range(60)]  # fmt: skip
    path.write_text("x,when,text,label\n" + "\n".join(rows) + "\n")
    options = {"missing": "median", "missing_indicator": True, "null_values": ["?"]}
    X, y, encoder = read_table(
        path, label="label", text=["text"], n_text_features=32, handle_unknown="error", **options
    )
    assert encoder.kinds_ == ["number", "date", "text"]
    model = L2SVM().fit(X, y)
    model.encoder_ = encoder
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz").encoder_
    again = read_table(path, encoder=loaded, label=False)[0]
    np.testing.assert_array_equal(again.compute().todense(), X.compute().todense())
    new = [{"x": "?", "when": "2024-02-01", "text": "and"}]
    assert loaded.transform(new).toarray()[0, 1] == 1
    assert loaded.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    named = {"categorical", "numeric", "text"}
    for name, value in encoder.get_params().items():
        assert name in named or getattr(loaded, name) == value


def test_an_encoder_that_does_not_fit_is_refused(trained, tmp_path):
    _, _, model = trained
    model.encoder_ = TableEncoder().fit([{"x": 1}, {"x": 2}])
    with pytest.raises(ValueError, match="encoder_ makes 1 features, the model was trained on 4"):
        save_model(model, tmp_path / "m.npz")
    assert list(tmp_path.glob("*m.npz*")) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plain: plain.pop("columns"), "not an encoder"),
        (lambda plain: plain.update(columns=["x", "x", "z"]), "not distinct names"),
        (lambda plain: plain.update(columns="xyz"), "not distinct names"),
        (lambda plain: plain["categories"].pop(), "categories for its columns"),
        (lambda plain: plain["categories"].__setitem__(1, ["a", "a"]), "distinct words"),
        (lambda plain: plain["categories"].__setitem__(1, [1, 2]), "distinct words"),
        (lambda plain: plain.update(factor=np.ones(2)), "does not fit its columns"),
        (lambda plain: plain.update(offset=np.full(3, np.nan)), "does not fit its columns"),
        (lambda plain: plain.update(fill=np.full(3, np.inf)), "does not fit its columns"),
        (lambda plain: plain.update(kinds=["number", "category"]), "a kind for each"),
        (lambda plain: plain.update(kinds=["number", "category", "code"]), "a kind for each"),
        (lambda plain: plain.update(kinds=["number", "text", "number"]), "categories for its"),
        (lambda plain: plain.update(indicator=[0, 1, 0]), "indicators that do not fit"),
        (lambda plain: plain.update(indicator=[True]), "indicators that do not fit"),
        (lambda plain: plain["params"].update(n_text_features=2**40), "n_text_features is"),
        (lambda plain: plain["params"].update(null_values=[3]), "null_values is"),
        (lambda plain: plain["label"].update(words=[]), "labels that are not words"),
        (lambda plain: plain["label"].update(positive=["maybe"]), "not among its labels"),
        (lambda plain: plain["reading"].update(format=3), "has the format 3"),
        (lambda plain: plain["reading"].update(code="x"), "how its file was read"),
        (lambda plain: plain["params"].update(scale="x"), "scale is 'x'"),
        (lambda plain: plain["params"].update(more=1), "its parameters"),
    ],
)
def test_plain_data_is_not_trusted(trained, change, reason):
    plain = plain_from_encoder(trained[2].encoder_)
    encoder_from_plain(plain)
    change(plain)
    with pytest.raises(ValueError, match=reason):
        encoder_from_plain(plain)


def test_a_file_that_was_tampered_with(trained, tmp_path):
    _, _, model = trained
    path = tmp_path / "m.npz"
    save_model(model, path)
    with np.load(path) as held:
        arrays = dict(held)
    header = json.loads(arrays["header"].tobytes())
    header["fitted"]["encoder_"]["categories"][1] = ["a"]
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(ModelFileError, match="encoder_ makes 3 features"):
        load_model(path)
