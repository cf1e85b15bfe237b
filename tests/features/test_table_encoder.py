"""The encoder of tables, against scikit-learn's and on every kind of table."""

import doctest

import dask
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from dask_s3vm import TableEncoder
from dask_s3vm.features import UnknownCategoryWarning, table_encoder
from dask_s3vm.features.table_facts import moments_of, put_together

NAMES = ["size", "color", "rooms"]


@pytest.fixture
def records():
    rng = np.random.default_rng(3)
    return [
        {"size": float(rng.normal()), "color": str(rng.choice(["red", "blue", "green"])),
         "rooms": int(rng.integers(0, 9))}
        for _ in range(50)
    ]  # fmt: skip


def test_against_scikit_learn(records):
    table = np.array([[row[name] for name in NAMES] for row in records], dtype=object)
    wanted = ColumnTransformer(
        [("size", MinMaxScaler(), [0]), ("color", OneHotEncoder(), [1]),
         ("rooms", MinMaxScaler(), [2])]
    ).fit_transform(table)  # fmt: skip
    found = TableEncoder().fit_transform(records)
    np.testing.assert_allclose(found.toarray(), np.asarray(wanted, dtype=float), rtol=1e-12)
    assert not (found.data == 0).any()


def test_every_kind_of_table_gives_the_same_rows(records):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(records)
    lists = [[row[name] for name in NAMES] for row in records]
    structured = np.array(
        [tuple(row) for row in lists], dtype=[("size", float), ("color", "U5"), ("rooms", int)]
    )
    encoder = TableEncoder().fit(records)
    wanted = encoder.transform(records).toarray()
    tables = {
        "frame": frame,
        "other order": frame[["rooms", "size", "color"]],
        "category": frame.assign(color=frame["color"].astype("category")),
        "lists": lists,
        "array": np.array(lists, dtype=object),
        "strings": np.array(lists, dtype=str),
        "dict": {name: [row[name] for row in records] for name in NAMES},
        "structured": structured,
    }
    for kind, table in tables.items():
        np.testing.assert_array_equal(encoder.transform(table).toarray(), wanted, err_msg=kind)
        if kind not in ("other order", "lists", "array", "strings"):
            again = TableEncoder().fit(table)
            assert again.categories_ == encoder.categories_, kind
            np.testing.assert_allclose(again.factor_, encoder.factor_)


def test_arrow_and_dask_tables(records):
    pa = pytest.importorskip("pyarrow")
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    encoder = TableEncoder().fit(records)
    wanted = encoder.transform(records).toarray()
    arrow = pa.Table.from_pylist(records)
    np.testing.assert_array_equal(encoder.transform(arrow).toarray(), wanted)
    frame = dd.from_pandas(pd.DataFrame(records), npartitions=4)
    lazy = TableEncoder(block="scipy").fit(frame)
    assert lazy.categories_ == encoder.categories_
    np.testing.assert_allclose(lazy.transform(frame).compute().toarray(), wanted, rtol=1e-12)


def test_categories_are_the_same_words_in_frames_and_files(tmp_path):
    pd = pytest.importorskip("pandas")
    from dask_s3vm.io import read_table

    path = tmp_path / "t.csv"
    path.write_text("code,flag,x\n1,True,0.5\n2,False,2\n3,True,1e3\n")
    X, _, encoder = read_table(path, categorical=["code"], block="scipy")
    assert encoder.categories_ == [("1", "2", "3"), ("False", "True"), None]
    frame = pd.read_csv(path)
    np.testing.assert_array_equal(encoder.transform(frame).toarray(), X.compute().toarray())
    frame = frame.astype({"code": float})
    np.testing.assert_array_equal(encoder.transform(frame).toarray(), X.compute().toarray())


def test_unknown_categories_are_zeros_with_one_warning(records):
    encoder = TableEncoder().fit(records)
    new = [{"size": 0.0, "color": word, "rooms": 1} for word in ("pink", "red", "gray")]
    with pytest.warns(UnknownCategoryWarning, match="not fitted on: 2 in 'color'") as caught:
        rows = encoder.transform(new).toarray()
    assert len(caught) == 1
    assert rows[:, 1:4].sum(axis=1).tolist() == [0, 1, 0]


@pytest.mark.parametrize("nothing", [None, float("nan"), ""])
def test_missing_values(records, nothing):
    records[7]["color"] = nothing
    with pytest.raises(ValueError, match="column 'color', row 7: the value is missing"):
        TableEncoder().fit(records)
    rows = TableEncoder(missing="zero").fit_transform(records).toarray()
    assert rows[7, 1:4].tolist() == [0, 0, 0]
    records[7]["color"], records[9]["size"] = "red", nothing
    with pytest.raises(ValueError, match="column 'size', row 9: the value is missing"):
        TableEncoder().fit(records)
    rows = TableEncoder(missing="zero").fit_transform(records).toarray()
    assert rows[9, 0] == 0


def test_mistakes_are_reported(records):
    encoder = TableEncoder().fit(records)
    with pytest.raises(ValueError, match=r"no column \['size'\]"):
        encoder.transform([{"color": "red", "rooms": 1}])
    with pytest.raises(ValueError, match="column 'size', row 0: holds 'x', wanted a number"):
        encoder.transform([{"size": "x", "color": "red", "rooms": 1}])
    with pytest.raises(ValueError, match=r"more columns than were fitted: \['more'\]"):
        encoder.transform([{"size": 1, "color": "red", "rooms": 1, "more": 2}])
    with pytest.raises(ValueError, match="infinite"):
        encoder.transform([{"size": np.inf, "color": "red", "rooms": 1}])
    with pytest.raises(ValueError, match="X has 2 columns, wanted 3"):
        encoder.transform([[1, 2]])
    with pytest.raises(ValueError, match="record 1 has the fields"):
        TableEncoder().fit([{"a": 1}, {"b": 1}])
    with pytest.raises(ValueError, match=r"column 'color', row 0: holds '[a-z]*', wanted a number"):
        TableEncoder(numeric=["color"]).fit(records)
    with pytest.raises(ValueError, match="more than 2 categories"):
        TableEncoder(max_categories=2).fit(records)
    several = {"id": ["a", "b", "c"], "name": ["x", "y", "z"], "kind": ["a", "a", "b"]}
    with pytest.raises(ValueError, match="columns 'id', 'name' have more than 2 categories"):
        TableEncoder(max_categories=2).fit(several)


def test_it_is_an_estimator(records):
    encoder = TableEncoder(scale="std", categorical=["rooms"])
    copy = clone(encoder)
    assert copy.get_params() == encoder.get_params()
    rows = encoder.fit_transform(records)
    assert rows.shape[1] == len(encoder.get_feature_names_out()) == encoder.n_features_out_
    sizes = [row["size"] for row in records]
    np.testing.assert_allclose(rows.toarray()[:, 0], sizes / np.std(sizes), rtol=1e-12)


def test_moments_of_pieces_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    values = rng.normal(1e6, 1.0, size=1000)
    values[::17] = np.nan
    whole = moments_of(values)
    parts = [moments_of(part) for part in np.split(values, [3, 17, 17, 500])]
    found = put_together(parts)
    held = values[~np.isnan(values)]
    assert (found.count, found.low, found.high) == (len(held), held.min(), held.max())
    np.testing.assert_allclose([found.mean, found.squares], [whole.mean, whole.squares], rtol=1e-9)
    np.testing.assert_allclose(found.squares, held.var() * len(held), rtol=1e-9)


def test_the_example_of_the_docstring():
    failed, tried = doctest.testmod(table_encoder)
    assert tried > 2
    assert failed == 0


@pytest.mark.parametrize("lazy", [False, True])
def test_errors_of_frames_name_the_row(lazy):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")

    def as_given(frame):
        return dd.from_pandas(frame, npartitions=3) if lazy else frame

    numbers = pd.DataFrame({"a": [float(i) for i in range(60)]})
    place = "partition 2, row 10" if lazy else "row 50"
    mixed = numbers.astype(object)
    mixed.loc[50, "a"] = "hello"
    with pytest.raises(ValueError, match=rf"column 'a', {place}: holds numbers, but also 'hello'"):
        TableEncoder().fit(as_given(mixed))
    gap = numbers.copy()
    gap.loc[50, "a"] = None
    with pytest.raises(ValueError, match=rf"column 'a', {place}: the value is missing"):
        TableEncoder().fit(as_given(gap))
    encoder = TableEncoder().fit(as_given(numbers))
    with pytest.raises(ValueError, match=rf"column 'a', {place}: the value is missing"):
        dask.compute(encoder.transform(as_given(gap)), scheduler="sync")


@pytest.mark.parametrize("lazy", [True, False])
def test_columns_whose_words_do_not_repeat_are_warned_of(lazy):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"id": [f"u{i}" for i in range(300)], "c": ["a", "b", "c"] * 100})
    given = dd.from_pandas(frame, npartitions=4) if lazy else frame
    with pytest.warns(UserWarning, match="column 'id' has 300 categories in 300 rows"):
        TableEncoder().fit(given)
    for named in ({"categorical": ["id"]}, {"text": ["id"]}):
        TableEncoder(**named).fit(given)
    TableEncoder().fit(frame[:100])
