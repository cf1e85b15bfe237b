"""What is wrong with a table is said before work starts, with file and line."""

import gzip
import pickle

import dask
import numpy as np
import pytest

from dask_s3vm.io import TableError, read_table, sources, table_survey

GOOD = "size,color,label\n" + "".join(f"{i % 190},red,{i % 2}\n" for i in range(200))


@pytest.fixture(params=[".csv", ".csv.gz"])
def make(request, tmp_path):
    """Maker of a file of this text, plain or compressed."""

    def write(text, name="t"):
        path = tmp_path / f"{name}{request.param}"
        raw = text.encode()
        path.write_bytes(gzip.compress(raw) if request.param == ".csv.gz" else raw)
        return path

    return write


def put(line, text):
    """GOOD with another text in place of a line, counted from 1."""
    lines = GOOD.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("line", "text", "options", "reason"),
    [
        (77, "5,red", {}, "has 2 fields, wanted 3"),
        (78, "5,red,0,1", {}, "has 4 fields, wanted 3"),
        (79, '5,re"d,0', {}, "quote inside a field that does not start with one"),
        (80, '5,"red"x,0', {}, "something behind the closing quote of a field"),
        (81, "five,red,0", {"numeric": ["size"]}, "column 'size': holds 'five', wanted a number"),
        (82, "inf,red,0", {}, "column 'size': an infinite number, wanted a finite one"),
        (83, ",red,0", {}, "column 'size': the value is missing; TableEncoder.missing="),
        (84, "5,,0", {}, "column 'color': the value is missing"),
        (85, "5,red,2", {"classes": ["0", "1"]}, "the label is '2', which is not one of 0, 1"),
        (86, "five,red,0", {}, "column 'size': holds numbers, but also 'five'; wanted one kind"),
        (87, "2024-01-01,red,0", {}, "column 'size': holds numbers, but also '2024-01-01'"),
    ],
)
@pytest.mark.parametrize("blocksize", ["200 B", "1 MiB"])
def test_mistakes_are_told_with_file_and_line(make, line, text, options, reason, blocksize):
    path = make(put(line, text))
    with pytest.raises(TableError, match=reason) as caught:
        read_table(path, label="label", blocksize=blocksize, **options)
    assert caught.value.line == line
    assert f"{path}, line {line}: " in str(caught.value)
    assert text in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_lines_in_quotes_count(make):
    path = make(put(50, '5,"re\n\nd",0').replace("\n99,red,1\n", "\n99,red\n"))
    with pytest.raises(TableError) as caught:
        read_table(path, label="label", blocksize=100)
    assert caught.value.line == 101 + 2


def test_the_first_of_several_mistakes_is_told(make):
    path = make(put(120, "1,red").replace("\n30,red,0\n", "\n30,red,0,7\n"))
    with pytest.raises(TableError) as caught:
        read_table(path, label="label", blocksize=100)
    assert caught.value.line == 32


def test_a_quote_that_is_never_closed(make):
    path = make(put(60, '5,"red,0'))
    with pytest.raises(TableError, match="quoted field that does not end") as caught:
        read_table(path, label="label", blocksize=300)
    assert caught.value.line == 60


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_compressed_file_that_is_cut_short(tmp_path, share):
    rng = np.random.default_rng(0)
    text = "a,b\n" + "".join(f"{x},{y}\n" for x, y in rng.random((5000, 2)))
    raw = gzip.compress(text.encode())
    path = tmp_path / "t.csv.gz"
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(TableError, match=r"damaged or cut short.*end-of-stream") as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    path.write_bytes(raw[:-6] + b"123456")
    with pytest.raises(TableError, match=r"damaged or cut short.*CRC"):
        read_table(path)
    path.write_bytes(text.encode())
    with pytest.raises(TableError, match=r"damaged or cut short"):
        read_table(path)


def test_where_a_compressed_file_is_cut_is_told(tmp_path):
    lines = [f"{i},{i * i}\n" for i in range(50_000)]
    raw = gzip.compress("".join(lines).encode())
    path = tmp_path / "t.csv.gz"
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(TableError, match=r"after line \d+") as caught:
        read_table(path, header=False, blocksize="64 kB")
    told = int(str(caught.value).split("after line ")[1].split(":")[0])
    assert 1000 < told < 50_000


@pytest.mark.parametrize("text", ["", "\n\n", "a,b\n", "a,b\n\n\r\n"])
def test_a_file_without_rows(make, text):
    path = make(text)
    with pytest.raises(TableError, match="has no data rows") as caught:
        read_table(path, header=True)
    assert str(path) in str(caught.value)


def test_columns_that_are_not_there(make):
    path = make(GOOD)
    with pytest.raises(TableError, match=r"no label column 'class'; it has \['size', 'color'"):
        read_table(path, label="class")
    with pytest.raises(TableError, match="label is 3, but there are 3 columns"):
        read_table(path, label=3)
    with pytest.raises(TableError, match=r"has no column \['weight'\]"):
        read_table(path, drop=["weight"])
    with pytest.raises(ValueError, match=r"categorical names \['weight'\]"):
        read_table(path, categorical=["weight"])
    other = make("size,hue,label\n1,red,0\n", name="other")
    with pytest.raises(TableError, match=r"has no column \['color'\]") as caught:
        read_table([path, other], label="label")
    assert caught.value.path == str(other)
    twice = make("a,a\n1,2\n", name="twice")
    with pytest.raises(TableError, match=r"more than one column \['a'\]"):
        read_table(twice)
    with pytest.raises(TableError, match="has 3 columns, wanted 2"):
        read_table(path, names=["a", "b"])


def test_labels_beyond_those_of_an_encoder(make):
    _, _, encoder = read_table(make(GOOD), label="label")
    path = make(put(9, "5,red,maybe"), name="other")
    with pytest.raises(TableError, match="is not one of 0, 1") as caught:
        read_table(path, encoder=encoder)
    assert caught.value.line == 9
    X, y, _ = read_table(path, encoder=encoder, label=False)
    assert (X.shape[0], y) == (200, None)


def test_numbers_and_gaps_are_checked_with_an_encoder(make):
    _, _, encoder = read_table(make(GOOD), label="label")
    for line, text, reason in [
        (9, "x,red,0", "holds 'x', wanted a number"),
        (10, "1,,0", "is missing"),
    ]:
        with pytest.raises(TableError, match=reason) as caught:
            read_table(make(put(line, text), name=f"o{line}"), encoder=encoder)
        assert caught.value.line == line


def test_too_many_categories_are_taken_for_a_mistake(make):
    path = make("name,x\n" + "".join(f"n{i},1\n" for i in range(50)))
    with pytest.raises(ValueError, match="column 'name' has more than 20 categories"):
        read_table(path, max_categories=20)
    assert read_table(path, max_categories=50)[0].shape == (50, 51)


def test_a_missing_label_whose_mark_is_a_class(make):
    path = make("a,label\n1,1\n2,-1\n3,\n")
    with pytest.raises(TableError, match="is a class") as caught:
        read_table(path, label="label", unlabeled=-1)
    assert caught.value.line == 4
    assert read_table(path, label="label", unlabeled=0)[1].compute().tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"positive": ["yes"]}, "positive names"),
        ({"positive": ["0", "1"]}, "positive names all labels"),
        ({"scale": "half"}, "scale is 'half'"),
        ({"missing": "guess"}, "missing is 'guess'"),
        ({"delimiter": ",,"}, "delimiter is ',,'"),
        ({"blocksize": 0}, "blocksize is 0"),
        ({"block": "dense"}, "block is 'dense'"),
        ({"numeric": "size"}, "numeric is 'size'"),
        ({"numeric": ["size"], "categorical": ["size"]}, "both categorical and numeric"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
    ],
)
def test_options_that_make_no_sense(make, options, reason):
    with pytest.raises(ValueError, match=reason):
        read_table(make(GOOD), label="label", **options)


def test_options_without_effect_are_refused(make):
    path = make(GOOD)
    _, _, encoder = read_table(path, label="label")
    with pytest.raises(ValueError, match=r"\['scale'\] have no effect if an encoder"):
        read_table(path, encoder=encoder, scale="std")
    with pytest.raises(ValueError, match="there is no label column"):
        read_table(path, positive="1")


def test_a_file_that_changes_after_the_first_look(make, monkeypatch):
    path = make(GOOD)
    kept, _, _ = read_table(path, label="label")
    monkeypatch.setattr(table_survey, "KEPT", 0)
    X, y, _ = read_table(path, label="label")
    make("size,color,label\n" + "x,red,1\n" * 200)
    sources._unpacked.cache_clear()  # as in a process that has not read the file yet
    with pytest.raises(TableError, match="has changed since"):
        dask.compute(X, y)
    # what was kept is as it was at the first look
    np.testing.assert_allclose(kept.compute().todense()[:, 0], np.arange(200) % 190 / 189)
    with pytest.raises(FileNotFoundError):
        read_table(path.with_name("none.csv"))


def test_lines_that_end_in_returns_alone(make):
    path = make(GOOD.replace("\n", "\r"))
    with pytest.raises(TableError, match="has lines that end in a return alone"):
        read_table(path, label="label")
