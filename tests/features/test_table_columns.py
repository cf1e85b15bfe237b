"""Missing values, texts, dates and unknown categories, against scikit-learn and pandas."""

import uuid

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC

from dask_s3vm import TableEncoder
from dask_s3vm.features import UnknownCategoryWarning
from dask_s3vm.features.table_columns import CellError, as_table
from dask_s3vm.features.table_facts import agreed, facts_of, median_of


@pytest.fixture
def holes():
    """Two columns of numbers, one of them with holes, and one of categories with holes."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=101),
            "b": rng.integers(0, 50, 101),
            "c": rng.choice(list("xyz"), 101),
        }
    )
    frame.loc[::7, "a"] = np.nan
    frame.loc[::9, "c"] = None
    return frame


@pytest.mark.parametrize("missing", ["mean", "median"])
def test_imputation_is_that_of_scikit_learn(holes, missing):
    encoder = TableEncoder(missing=missing, missing_indicator=True)
    found = encoder.fit_transform(holes).toarray()
    assert encoder.get_feature_names_out().tolist() == [
        "a", "a:missing", "b", "c=x", "c=y", "c=z", "c:missing"
    ]  # fmt: skip
    numbers = holes[["a", "b"]].to_numpy()
    filled = SimpleImputer(strategy=missing).fit_transform(numbers)
    wanted = MinMaxScaler().fit(numbers).transform(filled)
    np.testing.assert_allclose(found[:, [0, 2]], wanted, rtol=1e-12)
    flags = MissingIndicator(features="all").fit_transform(holes)
    np.testing.assert_array_equal(found[:, [1, 6]], flags[:, [0, 2]])
    np.testing.assert_array_equal(found[:, 3:6].sum(axis=1), ~flags[:, 2])
    # a column without holes in fit gets no feature for them, and is filled all the same
    new = holes.assign(b=np.nan)
    np.testing.assert_allclose(
        encoder.transform(new).toarray()[:, 2],
        (getattr(holes["b"], missing)() - holes["b"].min()) / np.ptp(holes["b"]),
    )


def test_what_is_missing_is_what_is_said(holes):
    words = holes.assign(c=holes["c"].fillna("?"), a=holes["a"].astype(object).fillna("?"))
    encoder = TableEncoder(missing="zero", null_values=["?"], numeric=["a"])
    wanted = TableEncoder(missing="zero").fit_transform(holes).toarray()
    np.testing.assert_array_equal(encoder.fit_transform(words).toarray(), wanted)
    with pytest.raises(ValueError, match=r"column 'a', row 0: holds numbers, but also '\?'; wan"):
        TableEncoder(missing="zero").fit(words)
    assert TableEncoder(missing="zero", numeric=["a"], null_values=["?"]).fit(words).kinds_[0] == (
        "number"
    )
    kept = TableEncoder().fit(pd.DataFrame({"c": ["NA", "None", "nan", "x"]}))
    assert kept.categories_ == [("NA", "None", "nan", "x")]
    empty = TableEncoder(missing="zero").fit([{"x": 1.5}, {"x": ""}, {"x": None}])
    assert empty.kinds_ == ["number"]


@pytest.mark.parametrize("n_pieces", [1, 2, 7])
def test_the_median_of_pieces(n_pieces):
    rng = np.random.default_rng(n_pieces)
    for size, tolerance in ((30, 0), (900, 0), (30_000, 1 / 1024)):
        values = rng.lognormal(sigma=3, size=size) * rng.choice([-1, 1], size)
        pieces = np.array_split(values, np.sort(rng.integers(0, size, n_pieces - 1)))
        facts = [facts_of(pa.array(piece), "x", with_ranks=True) for piece in pieces]
        found = median_of(agreed(facts).ranks)
        if tolerance and n_pieces > 1:
            assert abs(np.mean(values < found) - 0.5) <= tolerance
        else:
            assert found == np.median(values)


def test_texts_are_hashed_words(holes):
    texts = ["The quick brown fox", "the LAZY dog, the dog", None, "", "été à Nîmes"] * 20
    frame = pd.DataFrame({"n": np.arange(100.0), "text": texts, "m": np.arange(100.0)})
    encoder = TableEncoder(text=["text"], n_text_features=64, missing="zero")
    found = encoder.fit_transform(frame)
    assert found.shape == (100, encoder.n_features_out_) == (100, 66)
    assert len(encoder.get_feature_names_out()) == 66
    wanted = HashingVectorizer(n_features=64).transform([text or "" for text in texts])
    np.testing.assert_array_equal(found.toarray()[:, 1:65], wanted.toarray())
    lengths = np.sqrt(np.square(found.toarray()[:, 1:65]).sum(axis=1))
    np.testing.assert_allclose(lengths, [1, 1, 0, 0, 1] * 20)
    with pytest.raises(ValueError, match="column 'text', row 2: the value is missing"):
        TableEncoder(text=["text"]).fit(frame)
    flagged = TableEncoder(
        text=["text"], n_text_features=64, missing="zero", missing_indicator=True
    )
    np.testing.assert_array_equal(
        flagged.fit_transform(frame).toarray()[:, 65], [0, 0, 1, 1, 0] * 20
    )


def test_dates_are_numbers():
    days = pd.Series(pd.date_range("2024-01-01", periods=11, freq="D"))
    for column in (days, days.dt.date, days.dt.tz_localize("UTC"), days.astype("datetime64[s]")):
        encoder = TableEncoder().fit(pd.DataFrame({"when": column}))
        assert encoder.kinds_ == ["date"]
        rows = encoder.transform(pd.DataFrame({"when": column})).toarray()
        np.testing.assert_allclose(rows[:, 0], np.arange(11) / 10, atol=1e-12)


def test_dates_and_numbers_are_not_taken_for_each_other():
    days = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=3)})
    words = [{"when": "2024-01-02"}, {"when": "2024-01-02 12:00:00"}]
    encoder = TableEncoder().fit(days)
    np.testing.assert_allclose(encoder.transform(words).toarray()[:, 0], [0.5, 0.75])
    for table, reason in [
        ([{"when": 3}], "column 'when', row 0: holds int64, wanted dates"),
        ([{"when": "soon"}], "column 'when', row 0: holds 'soon', wanted a date"),
    ]:
        with pytest.raises(ValueError, match=reason):
            encoder.transform(table)
    with pytest.raises(ValueError, match=r"holds timestamp\[.*\], wanted numbers"):
        TableEncoder().fit([{"when": 3}]).transform(days)
    with pytest.raises(ValueError, match="column 'on', row 0: holds bool, wanted numbers"):
        TableEncoder(numeric=["on"]).fit([{"on": True}])


@pytest.mark.parametrize("dtype", ["string", "string[pyarrow]", "object", "category"])
def test_words_of_pandas_with_na(holes, dtype):
    frame = holes.assign(c=holes["c"].astype(dtype))
    encoder = TableEncoder(missing="mean", block="scipy")
    wanted = encoder.fit_transform(holes).toarray()
    np.testing.assert_array_equal(encoder.fit_transform(frame).toarray(), wanted)
    lazy = dd.from_pandas(frame, npartitions=3)
    again = TableEncoder(missing="mean", block="scipy").fit(lazy)
    np.testing.assert_allclose(again.transform(lazy).compute().toarray(), wanted, rtol=1e-12)
    np.testing.assert_array_equal(encoder.transform(lazy).compute().toarray(), wanted)


class Capsule:
    """What a library has that exports Arrow streams and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_anything_that_exports_arrow(holes):
    encoder = TableEncoder(missing="mean")
    wanted = encoder.fit_transform(holes).toarray()
    table = pa.Table.from_pandas(holes, preserve_index=False)
    for given in (table, Capsule(table), table.to_batches()[0], holes.to_dict("list")):
        again = TableEncoder(missing="mean").fit(given)
        np.testing.assert_array_equal(again.transform(given).toarray(), wanted)
    split = pa.concat_tables([table.slice(0, 40), table.slice(40)])
    np.testing.assert_array_equal(encoder.transform(split).toarray(), wanted)
    large = table.cast(
        pa.schema([("a", pa.float32()), ("b", pa.uint8()), ("c", pa.large_string())])
    )
    np.testing.assert_allclose(encoder.transform(large).toarray(), wanted, atol=1e-6)


def test_columns_by_name(holes):
    encoder = TableEncoder(missing="zero")
    wanted = encoder.fit_transform(holes).toarray()
    np.testing.assert_array_equal(encoder.transform(holes[["c", "a", "b"]]).toarray(), wanted)
    lazy = dd.from_pandas(holes[["c", "a", "b"]], npartitions=2)
    np.testing.assert_array_equal(encoder.transform(lazy).compute().todense(), wanted)
    for change, reason in [
        (holes.drop(columns="b"), r"X has no column \['b'\]; it has \['a', 'c'\]"),
        (holes.assign(d=1), r"X has more columns than were fitted: \['d'\]"),
    ]:
        for table in (change, dd.from_pandas(change, npartitions=2)):
            with pytest.raises(ValueError, match=reason):
                encoder.transform(table)
    with pytest.raises(ValueError, match=r"more than one column \['a'\]"):
        TableEncoder().fit(pd.DataFrame(np.eye(2), columns=["a", "a"]))


def test_unknown_categories():
    frame, new = pd.DataFrame({"c": ["x", "y"]}), pd.DataFrame({"c": ["y", "z"]})
    with pytest.warns(UnknownCategoryWarning, match="not fitted on: 1 in 'c'"):
        rows = TableEncoder().fit(frame).transform(new)
    assert rows.toarray().tolist() == [[0, 1], [0, 0]]
    with pytest.raises(ValueError, match="column 'c', row 1: holds 'z', wanted a category"):
        TableEncoder(handle_unknown="error").fit(frame).transform(new)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"missing": "mode"}, "missing is 'mode', wanted one of"),
        ({"missing_indicator": True}, "missing_indicator has no effect with missing='error'"),
        ({"handle_unknown": "guess"}, "handle_unknown is 'guess'"),
        ({"null_values": "NA"}, "null_values is 'NA', wanted a list of words"),
        ({"text": "a"}, "text is 'a', wanted a list of columns"),
        ({"n_text_features": 0}, "n_text_features is 0"),
        ({"max_categories": 2.5}, "max_categories is 2.5"),
        (
            {"text": ["c"], "categorical": ["c"]},
            r"columns \['c'\] are in both categorical and text",
        ),
        ({"text": ["d"]}, r"text names \['d'\], but the columns are"),
    ],
)
def test_parameters_that_make_no_sense(holes, options, reason):
    with pytest.raises(ValueError, match=reason):
        TableEncoder(**options).fit(holes.dropna())


def test_in_a_pipeline(holes):
    y = (holes["b"] > 25).astype(int)
    encoder = TableEncoder(missing="median", missing_indicator=True, text=())
    model = make_pipeline(encoder, LinearSVC(random_state=0))
    assert clone(model).get_params()["tableencoder__missing"] == "median"
    assert cross_val_score(model, holes, y, cv=3).mean() > 0.9
    assert model.fit(holes, y)[:-1].get_feature_names_out().tolist()[:2] == ["a", "a:missing"]


@pytest.mark.parametrize("value", [1j, np.complex64(2), object()])
def test_what_has_no_word_is_refused(value):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series(["x", value], dtype=object)})
    with pytest.raises(CellError, match=r"column 'b', row 1: is of type \w+, wanted numbers"):
        as_table(frame)
    frame["b"] = ["x", uuid.UUID(int=3)]
    assert as_table(frame)["b"].to_pylist() == ["x", str(uuid.UUID(int=3))]


def test_text_that_is_not_unicode_is_refused_by_its_row():
    with pytest.raises(CellError, match=r"column 'a', row 1: holds .*, wanted text in Unicode"):
        as_table({"a": ["b", "\ud800", None]})
