"""Tables in every kind of file: the same rows from csv, Parquet and Arrow, and from folders."""

import bz2
import gzip
import lzma
import pickle

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from dask_s3vm import TableEncoder
from dask_s3vm.io import TableError, read_data, read_table


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    n = 300
    return pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "rooms": rng.integers(0, 9, n),
            "color": rng.choice(["red", "blue", "green"], n),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "h"),
            "label": np.where(np.arange(n) % 3 == 0, None, rng.choice(["yes", "no"], n)),
        }
    )


@pytest.fixture(scope="module")
def wanted(frame):
    """Dense features of the frame, by pandas alone."""
    seconds = (frame["seen"] - pd.Timestamp(0)).dt.total_seconds()
    columns = [frame["size"], frame["rooms"]]
    columns = [(c - c.min()) / (c.max() - c.min()) for c in columns]
    columns += [(frame["color"] == word) * 1.0 for word in ("blue", "green", "red")]
    columns.append((seconds - seconds.min()) / (seconds.max() - seconds.min()))
    return np.column_stack(columns)


def write(frame, path):
    if path.name.endswith((".parquet", ".pq")):
        frame.to_parquet(path, row_group_size=64, index=False)
    elif path.name.endswith((".feather", ".arrow")):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pyarrow.feather.write_feather(table, str(path), chunksize=50)
    else:
        text = frame.to_csv(index=False).encode()
        pack = {
            ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
            ".zst": lambda raw: pa.Codec("zstd").compress(raw, asbytes=True),
        }.get(path.suffix, bytes)  # fmt: skip
        path.write_bytes(pack(text))
    return path


ENDINGS = [
    ".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".parquet", ".pq", ".feather", ".arrow"
]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_files_of_a_table_give_the_same_rows(frame, wanted, tmp_path, ending):
    path = write(frame, tmp_path / f"t{ending}")
    X, y, encoder = read_table(path, label="label", blocksize=2000, block="scipy")
    assert encoder.kinds_ == ["number", "number", "category", "date"]
    X, y = dask.compute(X, y)
    np.testing.assert_allclose(X.toarray(), wanted, atol=1e-12)
    assert y.tolist() == frame["label"].fillna("").tolist()
    again, labels, _ = read_table(path, encoder=encoder, block="scipy")
    np.testing.assert_array_equal(again.compute().toarray(), X.toarray())
    np.testing.assert_array_equal(labels.compute(), y)
    np.testing.assert_array_equal(encoder.transform(frame).toarray(), X.toarray())


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_pieces_that_are_not_kept_are_read_again(frame, tmp_path, ending):
    path = write(frame, tmp_path / f"t{ending}")
    X, y, _ = read_table(path, label="label", blocksize=2000)
    X, y, again, labels = dask.compute(X, y, *pickle.loads(pickle.dumps((X, y))))
    np.testing.assert_array_equal(again.todense(), X.todense())
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".arrow"])
def test_a_folder_and_the_columns_in_its_names(frame, tmp_path, ending):
    """Hive partitions are columns; what is no table is not read."""
    root = tmp_path / "table"
    for (rooms, color), part in frame.groupby(["rooms", "color"]):
        folder = root / f"rooms={rooms}" / f"color={color}"
        folder.mkdir(parents=True)
        write(part.drop(columns=["rooms", "color"]), folder / f"part-0{ending}")
    (root / "README.md").write_text("# what this is\n")
    (root / "_metadata").write_text("not a table")
    (root / ".hidden.csv").write_text("x,y\n1,2\n")
    order = frame.assign(rooms=frame["rooms"].astype(int)).sort_values(
        ["rooms", "color"], kind="stable"
    )
    for urlpath in (root, f"{root}/*/*/*{ending}"):
        X, y, encoder = read_table(urlpath, label="label")
        assert encoder.feature_names_in_.tolist() == ["size", "seen", "rooms", "color"]
        assert encoder.kinds_ == ["number", "date", "number", "category"]
        X, y = dask.compute(X, y)
        np.testing.assert_array_equal(X.todense(), encoder.transform(order).toarray())
        assert y.tolist() == order["label"].fillna("").tolist()
    X, y = read_data(str(root), label="label")
    assert X.shape == (300, 6)
    with pytest.raises(FileNotFoundError, match=r"holds no file of the format.*part-0"):
        read_table(root, format="arrow" if ending != ".arrow" else "csv")


def test_the_registry_tells_tables_from_rows(frame, tmp_path):
    from dask_s3vm.io import write_data

    path = write(frame, tmp_path / "t.parquet")
    X, _ = read_data(path, label="label", positive="yes")
    assert X.shape == (300, 6)
    for ending in ("parquet", "arrow"):
        rows = tmp_path / f"rows.{ending}"
        write_data(np.eye(4), np.arange(4), rows)
        assert read_data(rows)[0].shape == (4, 4)


def test_booleans_are_the_same_in_frames_and_files(tmp_path):
    frame = pd.DataFrame({"on": [True, False, True], "x": [1, 2, 3]})
    path = tmp_path / "t.csv"
    path.write_text("on,x\ntrue,1\nfalse,2\ntrue,3\n")
    X, _, encoder = read_table(path)
    assert encoder.categories_[0] == ("false", "true")
    np.testing.assert_array_equal(encoder.transform(frame).toarray(), X.compute().todense())
    X, _, encoder = read_table(write(frame, tmp_path / "t.parquet"))
    assert encoder.categories_[0] == ("False", "True")


def test_numbers_are_those_of_python(tmp_path):
    rng = np.random.default_rng(0)
    words = [
        repr(x) for x in (rng.normal(size=200) * 10.0 ** rng.integers(-300, 300, 200)).tolist()
    ]
    words += ["+1", "007", "1e5", "-0.0", "12345678901234567890", " 3 ", "1."]
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "\n".join(words))
    X, _, _ = read_table(path, scale="none", blocksize=500)
    assert X.compute().todense()[:, 0].tolist() == [float(word) for word in words]


def test_words_that_look_like_other_things_stay_words(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,code\n12:30,01\n12:31,1\n7:00,x\n")
    _, _, encoder = read_table(path, blocksize=14)
    assert encoder.categories_ == [("12:30", "12:31", "7:00"), ("01", "1", "x")]


# What is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_a_file_that_is_cut_off(frame, tmp_path, ending):
    path = write(frame, tmp_path / f"t{ending}")
    raw = path.read_bytes()
    for text in (raw[: len(raw) // 2], raw[:3], b""):
        path.write_bytes(text)
        with pytest.raises(TableError, match="damaged or cut short") as caught:
            read_table(path)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_files_that_do_not_go_together(frame, tmp_path, ending):
    first = write(frame, tmp_path / f"a{ending}")
    for change, reason in [
        (frame.drop(columns="size"), r"has no column \['size'\]"),
        (frame.assign(more=1), r"has columns \['more'\], which .*a\."),
    ]:
        second = write(change, tmp_path / f"b{ending}")
        with pytest.raises(TableError, match=reason) as caught:
            read_table([first, second], label="label")
        assert caught.value.path == str(second)
    second = write(frame.assign(size="big"), tmp_path / f"b{ending}")
    reason = "column 'size'.* (is of type .*, wanted double|holds numbers, but also 'big')"
    with pytest.raises(TableError, match=reason) as caught:
        read_table(tmp_path, label="label")
    assert caught.value.path == str(second)
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"a\n1\n"))
    if ending != ".csv":
        with pytest.raises(ValueError, match="files of the formats"):
            read_table(tmp_path)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_cells_of_typed_files_are_told_by_row(frame, tmp_path, ending):
    holes = frame.assign(size=frame["size"].where(frame.index != 123))
    path = write(holes, tmp_path / f"t{ending}")
    with pytest.raises(TableError, match="row 123, column 'size': the value is missing"):
        read_table(path, label="label")
    infinite = frame.assign(size=frame["size"].where(frame.index != 77, np.inf))
    with pytest.raises(TableError, match="row 77, column 'size': an infinite number"):
        read_table(write(infinite, path), label="label")
    strange = frame["label"].tolist().index("no")
    with pytest.raises(TableError, match=f"row {strange}, column 'label': the label is 'no'"):
        read_table(write(frame, path), label="label", classes=["yes"])
    with pytest.raises(TableError, match=r"has no label column 'y'; it has \['size'"):
        read_table(path, label="y")
    with pytest.raises(ValueError, match=r"options \['delimiter'\] have no effect on"):
        read_table(path, delimiter=";")
    lists = frame.assign(size=[[1.0]] * len(frame))
    with pytest.raises(TableError, match=r"column 'size': is of type list.*, wanted numbers"):
        read_table(write(lists, path), label="label")


@pytest.mark.parametrize("options", [{}, {"categorical": ["b"]}, {"text": ["b"]}])
@pytest.mark.parametrize("blocksize", [30, "1MiB"])
def test_text_that_is_not_utf8(tmp_path, options, blocksize):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 20 + b"2,caf\xe9\n" + b"1,x\n" * 20)
    with pytest.raises(TableError, match=r"column 'b': holds 'caf.xe9', wanted text in UTF-8") as e:
        read_table(path, blocksize=blocksize, **options)
    assert e.value.line == 22
    path.write_bytes(b"a,caf\xe9\n1,x\n")
    with pytest.raises(TableError, match="not text in UTF-8"):
        read_table(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "label"), [("b", None), ("b", "y"), ("y", "y")])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_that_are_not_utf8(tmp_path, ending, name, label, packed):
    edges, raw = pa.py_buffer(np.array([0, 1, 4, 5], np.int32)), pa.py_buffer(b"xf\xe9ex")
    wrong = pa.Array.from_buffers(pa.string(), 3, [None, edges, raw])
    wrong = wrong.dictionary_encode() if packed else wrong
    table = pa.table({"b": ["x", "z", "x"], "y": ["p", "q", "p"], name: wrong})
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    reason = rf"row 1, column '{name}': holds 'f.xe9e', wanted text in UTF-8"
    with pytest.raises(TableError, match=reason):
        read_table(path, label=label)
    with pytest.raises(ValueError, match=r"holds 'f.xe9e', wanted text in UTF-8"):
        TableEncoder().fit(table.select([name]))


@pytest.mark.parametrize("text", [b'"a"b,c\n1,2\n', b'a"b,c\n1,2\n', b'"a,b\n1,2\n'])
def test_a_header_that_breaks_a_rule(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    with pytest.raises(TableError):
        read_table(path, header=True)


def test_a_date_that_is_none_when_read_again(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,x\n2024-01-01,1\n2024-02-01 10:00:00,2\n")
    _, _, encoder = read_table(path)
    assert encoder.kinds_ == ["date", "number"]
    path.write_text("when,x\n2024-01-01,1\nsoon,2\n")
    with pytest.raises(TableError, match="column 'when': holds 'soon', wanted a date") as caught:
        read_table(path, encoder=encoder)
    assert caught.value.line == 3


def test_unknown_categories_may_be_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,x\nred,1\nblue,2\n")
    _, _, encoder = read_table(path, handle_unknown="error")
    path.write_text("a,x\nred,1\npink,2\n")
    with pytest.raises(TableError, match="column 'a': holds 'pink', wanted a category") as caught:
        read_table(path, encoder=encoder)
    assert caught.value.line == 3
