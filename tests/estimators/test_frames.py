"""Frames of any package given straight to estimators: names are kept and checked."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dask_s3vm import (
    L2SVM,
    TSVM,
    MaxMarginClustering,
    load_model,
    rlsc_path,
    save_model,
)
from dask_s3vm.features import UnitScaler
from dask_s3vm.io.models import load_predictor
from dask_s3vm.model_selection import S3VMGridSearchCV

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAMES = ["age", "height", "weight", "name length"]


def data(n=90, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) * [1.0, 2.0, 0.5, 1.0] + (2 * true - 1)[:, None]
    return X, true, np.where(np.arange(n) < 30, true, -1)


X, TRUE, Y = data()
PANDAS = pd.DataFrame(X, columns=NAMES, index=np.arange(90) * 3 + 5)

FRAMES = {
    "pandas": PANDAS,
    "pandas, Float64": PANDAS.astype("Float64"),
    "dask": dd.from_pandas(PANDAS, npartitions=4),
    "polars": pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "arrow": pa.table(dict(zip(NAMES, X.T, strict=True))),
}


def chosen(frame, names):
    return frame.select(names) if hasattr(frame, "select") else frame[names]


def renamed(frame):
    new = ["age", "height", "weight", "shoe size"]
    if hasattr(frame, "rename_columns"):
        return frame.rename_columns(new)
    return (
        frame.rename({NAMES[3]: new[3]})
        if isinstance(frame, pl.DataFrame)
        else frame.rename(columns={NAMES[3]: new[3]})
    )


def in_memory(values):
    return np.asarray(values.compute() if hasattr(values, "compute") else values)


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", ["estimator", "model", "predictor"])
def test_names_are_kept_and_checked(name, kind, tmp_path):
    frame = FRAMES[name]
    model = L2SVM(kernel="rbf" if kind == "model" else "linear", random_state=0).fit(frame, Y)
    wanted = L2SVM(**model.get_params()).fit(X, Y)
    assert model.feature_names_in_.tolist() == NAMES
    assert np.allclose(model.coef_, wanted.coef_, rtol=0, atol=1e-12)
    outputs = wanted.decision_function(X)
    if kind != "estimator":
        save_model(model, tmp_path / "model.npz")
        load = load_model if kind == "model" else load_predictor
        model = load(tmp_path / "model.npz")
    for other in FRAMES.values():  # any package, whatever the model was fitted on
        for order in (NAMES, NAMES[::-1]):
            found = model.decision_function(chosen(other, order))
            assert np.allclose(in_memory(found), outputs, atol=1e-12)
    for call in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="lacks 'name length'"):
            call(chosen(frame, NAMES[:3]))
        with pytest.raises(ValueError, match=r"lacks 'name length' and it has 'shoe size'"):
            call(renamed(frame))


@pytest.mark.parametrize("name", FRAMES)
def test_predictions_have_the_index_of_the_frame(name):
    frame = FRAMES[name]
    for model in (L2SVM().fit(X, Y), L2SVM().fit(PANDAS, np.array(["no", "yes"])[TRUE])):
        if not hasattr(model, "feature_names_in_"):
            model = L2SVM().fit(frame, Y)
        found, wanted = model.predict(frame), model.predict(PANDAS).to_numpy()
        if name.startswith("pandas"):
            assert isinstance(found, pd.Series)
            assert found.index.equals(PANDAS.index)
        elif name == "dask":
            assert isinstance(found, dd.Series)
            assert found.npartitions == 4
            found = found.compute()
            assert found.index.equals(PANDAS.index)
        else:
            assert isinstance(found, np.ndarray)
        assert np.asarray(found).tolist() == wanted.tolist()
        assert model.score(frame, model.predict(PANDAS)) == 1.0


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("form", ["numbers", "words"])
def test_labels_may_be_a_column(name, form):
    labels = Y.astype(float) if form == "numbers" else np.array(["no", "yes", ""])[Y]
    labels = np.where(Y < 0, np.nan, labels) if form == "numbers" else labels
    frame = {
        "pandas": lambda: PANDAS.assign(y=labels),
        "pandas, Float64": lambda: PANDAS.astype("Float64").assign(y=labels),
        "dask": lambda: dd.from_pandas(PANDAS.assign(y=labels), npartitions=4),
        "polars": lambda: FRAMES["polars"].with_columns(pl.Series("y", labels)),
        "arrow": lambda: FRAMES["arrow"].append_column("y", pa.array(labels)),
    }[name]()
    model = TSVM(positive_ratio=0.5).fit(frame, "y")
    wanted = TSVM(positive_ratio=0.5).fit(X, Y)
    assert np.allclose(model.coef_, wanted.coef_, atol=1e-10)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.score(frame, "y") == wanted.score(X, Y)
    found = np.searchsorted(model.classes_, in_memory(model.transduction_))
    assert np.array_equal(found, wanted.transduction_)
    with pytest.raises(ValueError, match="X has no such column; it has 'age'"):
        model.fit(frame, "label")


def test_labels_of_categories_in_polars():
    words = pl.Series("y", np.array(["no", "yes", None], object)[Y].tolist(), dtype=pl.Categorical)
    model = TSVM(positive_ratio=0.5).fit(FRAMES["polars"].with_columns(words), "y")
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.allclose(model.coef_, TSVM(positive_ratio=0.5).fit(X, Y).coef_, atol=1e-10)


def test_a_name_needs_a_frame():
    with pytest.raises(ValueError, match="y is 'y', the name of a column, but X is a ndarray"):
        L2SVM().fit(X, "y")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_labels_alone_are_no_rows(make):
    with pytest.raises(ValueError, match="X has no column beside 'y', the labels"):
        L2SVM().fit(make({"y": ["no", "yes", ""]}), "y")


def test_arrays_have_no_names():
    model = L2SVM().fit(FRAMES["dask"], Y)
    assert model.fit(da.from_array(X, chunks=(20, 4)), Y) is model
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(in_memory(model.predict(FRAMES["dask"])), model.predict(X))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        assert np.array_equal(model.predict(PANDAS), model.predict(X))  # in the order as it is


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame(X, columns=["a", "b", "a", "c"])
    with pytest.raises(ValueError, match="several columns named 'a'"):
        L2SVM().fit(frame, Y)


def test_missing_numbers_are_refused(tmp_path):
    model = L2SVM().fit(PANDAS, Y)
    save_model(model, tmp_path / "model.npz")
    predictor = load_predictor(tmp_path / "model.npz")
    frame = PANDAS.copy()
    frame.iloc[7, 2] = np.nan
    for form in (
        frame,
        dd.from_pandas(frame, npartitions=2),
        frame.astype("Float64"),
        pl.from_pandas(frame),
    ):
        with pytest.raises(ValueError, match="NaN"):
            L2SVM().fit(form, Y)
        with pytest.raises(ValueError, match="NaN"):
            in_memory(model.predict(form))
        with pytest.raises(ValueError, match="NaN"):
            in_memory(predictor.predict(form))


# Columns that are not numbers --------------------------------------------------------------------

COLORS = np.array(["red", "blue", "green"])[np.arange(90) % 3]


@pytest.mark.parametrize("form", ["pandas", "dask"])
def test_other_columns_are_encoded(form, tmp_path):
    mixed = PANDAS.assign(color=COLORS, label=np.array(["no", "yes", None], object)[Y])
    frame = mixed if form == "pandas" else dd.from_pandas(mixed, npartitions=3)
    model = TSVM(positive_ratio=0.5).fit(frame, "label")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.encoder_.feature_names_in_.tolist() == [*NAMES, "color"]
    assert model.n_features_in_ == 7
    rows = frame[[*NAMES, "color"]]
    found = model.predict(rows)
    assert isinstance(found, pd.Series if form == "pandas" else dd.Series)
    assert (in_memory(found) == np.array(["no", "yes"])[TRUE]).mean() > 0.9
    save_model(model, tmp_path / "model.npz")
    for load in (load_model, load_predictor):
        other = load(tmp_path / "model.npz")
        assert np.array_equal(in_memory(other.predict(rows)), in_memory(found))
    model.fit(PANDAS, Y)  # numbers alone
    assert not hasattr(model, "encoder_")
    with pytest.raises(ValueError, match="other feature names"):
        model.predict(rows)
    with pytest.raises(ValueError, match="not numbers"):
        model.predict(PANDAS.astype({"age": str}))


# Others that take rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMES)
def test_scalers_keep_names_too(name):
    frame = FRAMES[name]
    scaler, wanted = UnitScaler().fit(frame), UnitScaler().fit(X)
    assert scaler.feature_names_in_.tolist() == NAMES
    assert np.allclose(scaler.scale_, wanted.scale_)
    for order in (NAMES, NAMES[::-1]):
        found = in_memory(scaler.transform(chosen(frame, order)))
        assert np.allclose(found, wanted.transform(X))
    with pytest.raises(ValueError, match="lacks 'name length'"):
        scaler.transform(renamed(frame))


@pytest.mark.parametrize("name", FRAMES)
def test_clusters_of_frames(name):
    frame = FRAMES[name]
    clusters = MaxMarginClustering(n_restarts=2, random_state=0)
    wanted = clusters.fit_predict(X)
    assert np.array_equal(in_memory(clusters.fit(frame).labels_), wanted)
    assert clusters.feature_names_in_.tolist() == NAMES
    assert np.array_equal(
        in_memory(clusters.predict(chosen(frame, NAMES[::-1]))), in_memory(clusters.predict(frame))
    )


@pytest.mark.parametrize("name", FRAMES)
def test_searches_and_paths_take_frames(name):
    frame = FRAMES[name]
    search = S3VMGridSearchCV(L2SVM(), {"lam": [1e-3, 1e-1]}, cv=3).fit(frame, Y)
    plain = S3VMGridSearchCV(L2SVM(), {"lam": [1e-3, 1e-1]}, cv=3).fit(X, Y)
    assert np.allclose(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert search.best_estimator_.feature_names_in_.tolist() == NAMES
    found = in_memory(search.predict(chosen(frame, NAMES[::-1])))
    assert np.array_equal(found, plain.predict(X))
    for model in rlsc_path(frame, Y, [0.1, 1.0]):
        assert model.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("mixed", [False, True])
def test_dask_may_read_labels_and_rows_of_parquet_in_other_pieces(tmp_path, mixed):
    """dask joins partitions of a file of which few columns are wanted, as the labels are."""
    wide = PANDAS.assign(**{f"x{j}": X[:, j % 4] + j for j in range(30)}, y=Y)
    if mixed:
        wide = wide.assign(kind=pd.Categorical(np.where(X[:, 0] > 0, "a", "b")))
    for i in range(6):
        wide.iloc[15 * i : 15 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    lazy = dd.read_parquet(tmp_path)
    assert len(lazy["y"].to_delayed()) < lazy.npartitions
    expected = L2SVM().fit(wide, "y")
    for rows, y in ((lazy, "y"), (lazy.drop(columns="y"), lazy["y"])):
        model = L2SVM().fit(rows, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
        found = model.predict(lazy.drop(columns="y")).compute()
        pd.testing.assert_series_equal(found, expected.predict(wide.drop(columns="y")))


@pytest.mark.parametrize("words", [True, False], ids=["words", "numbers"])
@pytest.mark.parametrize("kind", ["pandas", "dask", "polars"])
def test_the_column_of_labels_may_stay_in_frames_to_be_predicted(kind, words, tmp_path):
    frame = PANDAS.assign(bought=np.where(Y < 0, None, np.where(TRUE, "yes", "no")))
    if words:
        frame["country"] = np.where(TRUE, "de", "pl")
    make = {"pandas": lambda f: f, "polars": pl.from_pandas}
    make["dask"] = lambda f: dd.from_pandas(f, npartitions=3)
    model = L2SVM().fit(make[kind](frame), "bought")
    wanted = np.asarray(model.predict(make[kind](frame.drop(columns="bought"))))
    assert (np.asarray(model.predict(make[kind](frame))) == wanted).all()
    save_model(model, tmp_path / "model.npz")
    assert (np.asarray(load_model(tmp_path / "model.npz").predict(frame)) == wanted).all()
    model.fit(PANDAS, Y)
    with pytest.raises(ValueError, match="it has 'bought'"):
        model.predict(PANDAS.assign(bought=0))


def test_labels_in_another_order_than_the_rows_are_refused():
    labels = pd.Series(Y, index=PANDAS.index)
    with pytest.raises(ValueError, match=r"wanted y.loc\[X.index\]"):
        L2SVM().fit(PANDAS, labels.iloc[::-1])
    wanted = L2SVM().fit(PANDAS, Y).coef_
    assert (L2SVM().fit(PANDAS, labels).coef_ == wanted).all()
    assert (L2SVM().fit(PANDAS, labels.reset_index(drop=True)).coef_ == wanted).all()


def test_an_error_of_the_encoder_says_how_to_choose_its_options():
    frame = PANDAS.assign(country="de")
    frame.iloc[7, 0] = None
    with pytest.raises(ValueError, match="missing") as found:
        L2SVM().fit(frame, Y)
    assert "TableEncoder(missing='median')" in found.value.__notes__[0]


def test_numbers_in_columns_of_objects_are_numbers():
    X, y = np.random.default_rng(0).integers(-20, 20, (40, 2)) / 8, np.arange(40) % 2
    wanted = L2SVM().fit(X, y).coef_
    objects = pd.DataFrame(X.astype(object), columns=["a", "b"])
    model = L2SVM().fit(objects, y)
    assert np.array_equal(model.coef_, wanted)
    assert model.predict(objects).tolist() == model.predict(objects.astype(float)).tolist()
    decimals = [pa.array(column).cast(pa.decimal128(9, 3)) for column in X.T]
    assert np.array_equal(L2SVM().fit(pa.table(decimals, ["a", "b"]), y).coef_, wanted)


@pytest.mark.filterwarnings("ignore:Determining the column names")
def test_a_query_that_was_not_run_is_refused():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    query = pl.DataFrame(X, schema=["a", "b"]).lazy()
    with pytest.raises(TypeError, match=r"X is a LazyFrame, .* wanted its rows: X\.collect\(\)"):
        L2SVM().fit(query, y)
    with pytest.raises(TypeError, match="X is a LazyFrame"):
        L2SVM().fit(X, y).predict(query)
