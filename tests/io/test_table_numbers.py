"""Headers, delimiters, numbers with commas or marks, and dates with a mistake among them."""

import csv
import re
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

from dask_s3vm import TableEncoder
from dask_s3vm.io import TableError, read_table


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def values(path, **options):
    X, _, encoder = read_table(path, label="y", scale="none", block="scipy", **options)
    return encoder.kinds_, X.compute().toarray()


@pytest.mark.parametrize("quote", ["", '"'])
def test_decimal_commas_are_numbers_where_the_delimiter_is_another(quote, tmp_path):
    cells = [f"{quote}{i},5{quote};{i};a" for i in range(30)]
    kinds, X = values(written(tmp_path, "size;n;y\n" + "\n".join(cells) + "\n"), delimiter=";")
    assert kinds == ["number", "number"]
    np.testing.assert_array_equal(X, [[i + 0.5, i] for i in range(30)])


def test_a_model_remembers_the_comma_of_its_table(tmp_path):
    path = written(tmp_path, "size;y\n1,5;a\n2,5;b\n")
    *_, encoder = read_table(path, label="y", delimiter=";")
    assert encoder.reading_["decimal"] == ","
    # whole numbers do not tell: the comma comes after what is looked at
    late = written(tmp_path, "size\n" + "1\n" * 40_000 + "1,5\n", "late.csv")
    X, *_ = read_table(late, delimiter=";", encoder=encoder, block="scipy")
    assert X.compute().toarray()[-1, 0] == 0.0


def test_points_in_the_first_rows_leave_commas_to_be_told(tmp_path):
    path = written(tmp_path, "size;other;y\n1,5;1.5;a\n2,5;2.5;b\n")
    with pytest.raises(TableError, match=r"line 2: column 'size': holds '1,5', a number with a"):
        read_table(path, label="y", delimiter=";")
    with pytest.raises(TableError, match=r"line 2: column 'other': holds '1\.5', wanted a number"):
        read_table(path, label="y", delimiter=";", decimal=",", numeric=["other"])
    assert values(path, delimiter=";", categorical=["size"])[0] == ["category", "number"]


def test_quoted_commas_between_commas_are_refused_unless_told(tmp_path):
    path = written(tmp_path, 'size,y\n"1,234",a\n"2,5",b\n')
    with pytest.raises(TableError, match=r"line 2: column 'size': holds '1,234', a number"):
        read_table(path, label="y")
    np.testing.assert_array_equal(values(path, decimal=",")[1], [[1.234], [2.5]])


def test_marks_of_thousands_are_refused(tmp_path):
    path = written(tmp_path, "size;y\n1.000,5;a\n2,5;b\n")
    with pytest.raises(TableError, match=r"without marks of thousands"):
        read_table(path, label="y", delimiter=";")


def test_a_first_row_of_decimal_commas_is_no_header(tmp_path):
    path = written(tmp_path, "1,5;2,5\n3,5;4,5\n")
    X, _, _ = read_table(path, delimiter=";", scale="none", block="scipy")
    np.testing.assert_array_equal(X.compute().toarray(), [[1.5, 2.5], [3.5, 4.5]])


@pytest.mark.parametrize("wrong", [":", 3])
def test_a_decimal_that_is_none_is_refused(wrong, tmp_path):
    with pytest.raises(ValueError, match="decimal is"):
        read_table(written(tmp_path, "a,y\n1,2\n"), label="y", decimal=wrong)


def test_words_with_decimal_commas_in_frames_are_refused():
    frame = pd.DataFrame({"size": ["1,5", "2", "3,25"]})
    with pytest.raises(ValueError, match=r"column 'size', row 0: holds '1,5', a number"):
        TableEncoder().fit(frame)


@pytest.mark.parametrize("wrong", ["2024-02-30", "soon"])
def test_a_word_among_dates_is_refused_with_its_row(wrong, tmp_path):
    days = [f"2024-03-{day:02d}" for day in range(1, 20)]
    days[7] = wrong
    text = "day,y\n" + "".join(f"{day},{i % 2}\n" for i, day in enumerate(days))
    path = written(tmp_path, text)
    reason = rf"line 9: column 'day': holds dates, but also '{wrong}'; wanted one kind"
    with pytest.raises(TableError, match=reason):
        read_table(path, label="y")
    assert values(path, categorical=["day"])[0] == ["category"]
    assert values(path, null_values=[wrong], missing="mean")[0] == ["date"]
    with pytest.raises(ValueError, match=r"column 'day', row 7: holds dates, but also"):
        TableEncoder().fit(pd.DataFrame({"day": days}))


def test_words_and_a_date_stay_categories(tmp_path):
    path = written(tmp_path, "day,y\n2024-03-01,0\nnever,1\nlater,1\n")
    assert values(path)[0] == ["category"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", ["size{0}n{0}y\n", ""])
def test_the_delimiter_is_found_from_the_first_rows(tmp_path, delimiter, header):
    rows = "\n".join(f'{i}.5{{0}}"a, b; c"{{0}}no' for i in range(30)) + "\n"
    path = written(tmp_path, (header + rows).format(delimiter))
    X, _, encoder = read_table(path, label=-1)
    assert encoder.reading_["delimiter"] == delimiter
    assert list(encoder.kinds_) == ["number", "category"]
    assert X.shape == (30, 2)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1,5;2,5\n3,25;4,75\n", ";"),  # a comma in every number
        ("a,b;c\n1,x;y\n2,z;w\n", ","),
        ("a;b\n1;2\n", ";"),
        ("note\nmore\nless\n", ","),  # one column
    ],
)
def test_delimiters_that_could_be_several(tmp_path, text, wanted):
    *_, encoder = read_table(written(tmp_path, text))
    assert encoder.reading_["delimiter"] == wanted


def test_a_row_with_too_many_fields_changes_no_delimiter(tmp_path):
    with pytest.raises(TableError, match="line 3"):
        read_table(written(tmp_path, "a,b\n1,2\n1,2;3,4\n"))


def test_a_model_of_one_delimiter_reads_another(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("size,n,y\n1,2,a\n3,5,b\n")
    X, _, encoder = read_table(path, label="y", block="scipy")
    other = tmp_path / "t.tsv"
    other.write_text("n\tsize\n2\t1\n5\t3\n")
    again, *_ = read_table(other, encoder=encoder, block="scipy")
    assert np.array_equal(again.compute().toarray(), X.compute().toarray())


@pytest.mark.parametrize("word", ["1,{:03d}.50", "{}%", "{} %", "${}", "€ {}.5", "-{} $"])
def test_numbers_with_marks_are_refused(word, tmp_path):
    path = tmp_path / "t.csv"
    rows = [[word.format(i), "no" if i % 2 else "yes"] for i in range(100, 140)]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["size", "kind"], *rows])
    first = re.escape(repr(word.format(100)))
    with pytest.raises(TableError, match=f"line 2: column 'size': holds {first}, a number with"):
        read_table(path, label="kind")
    _, _, encoder = read_table(path, label="kind", categorical=["size"])
    assert encoder.n_features_out_ == 40


@pytest.mark.parametrize("form", ["%m/%d/%Y", "%d.%m.%y", "%d-%m-%Y %H:%M", "%Y/%m/%d"])
def test_dates_that_a_reader_would_have_to_guess_are_refused(form, tmp_path):
    path = tmp_path / "t.csv"
    days = [date(2024, 3, 31) - timedelta(days=number) for number in range(30)]
    rows = [f"{day.strftime(form)},{'ab'[number % 2]}" for number, day in enumerate(days)]
    path.write_text("\n".join(["day,kind", *rows]) + "\n")
    first = re.escape(repr(days[0].strftime(form)))
    with pytest.raises(TableError, match=f"line 2: column 'day': holds {first}, a date in a form"):
        read_table(path, label="kind")
    assert read_table(path, label="kind", categorical=["day"])[2].n_features_out_ == 30


def test_dates_of_a_frame_that_are_words_are_warned_of():
    days = [f"2024-03-{1 + number % 28:02d}" for number in range(60)]
    with pytest.warns(
        UserWarning, match=r"column 'day' holds dates as words, such as '2024-03-01'"
    ):
        TableEncoder().fit({"day": days})
    assert TableEncoder(categorical=["day"]).fit({"day": days}).n_features_out_ == 28
    assert TableEncoder().fit({"day": pd.to_datetime(pd.Series(days))}).kinds_ == ["date"]


@pytest.mark.parametrize("form", ["{}", "{}.5", "-{}"])
def test_numbers_of_a_frame_that_are_words_are_warned_of(form):
    sizes = [form.format(1 + number % 20) for number in range(60)]
    with pytest.warns(UserWarning, match=r"column 'size' holds numbers as words, such as "):
        TableEncoder().fit({"size": sizes})
    assert TableEncoder(categorical=["size"]).fit({"size": sizes}).n_features_out_ == 20
    assert TableEncoder().fit({"size": pd.to_numeric(pd.Series(sizes))}).kinds_ == ["number"]


def test_numbers_of_rows_are_warned_of(tmp_path):
    numbers = np.random.default_rng(0).permutation(300) + 1000
    frame = {"id": numbers, "size": numbers % 40, "twice": numbers // 2}
    with pytest.warns(UserWarning, match="column 'id' numbers the rows, from 1000 to 1299") as told:
        TableEncoder().fit(frame)
    assert len(told) == 1
    TableEncoder(numeric=["id"]).fit(frame)
    days = {"day": pd.date_range("2024-01-01", periods=300)}
    assert TableEncoder().fit(days).kinds_ == ["date"]
    path = tmp_path / "t.csv"
    path.write_text(",kind\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(300)))
    with pytest.warns(UserWarning, match="column '' numbers the rows, from 0 to 299"):
        read_table(path, label="kind")


def test_codes_of_a_frame_are_categories():
    for codes in ([f"{100 * number:05d}" for number in range(60)], ["1", "2", "3"] * 20):
        assert TableEncoder().fit({"zip": codes}).kinds_ == ["category"]


def test_a_few_words_with_marks_are_categories(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("discount,kind\n" + "5%,a\n10%,b\nnone,a\n" * 30)
    assert read_table(path, label="kind")[2].categories_ == [("10%", "5%", "none")]


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_dates_are_encoded_again_as_they_were(zone, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("day,kind\n" + "".join(
        f"2020-01-{1 + i % 28:02d}T10:00:00{zone},{'ab'[i % 2]}\n" for i in range(60)))  # fmt: skip
    X, _, encoder = read_table(path, label="kind", block="scipy")
    assert encoder.kinds_ == ["date"]
    again, _, _ = read_table(path, encoder=encoder, block="scipy", blocksize=100)
    np.testing.assert_array_equal(again.compute().toarray(), X.compute().toarray())


def test_a_header_with_an_empty_name(tmp_path):
    """As pandas writes it, for the index."""
    path = tmp_path / "t.csv"
    path.write_text(",size,kind\n" + "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(20)))
    X, y, encoder = read_table(path, label="kind", drop=[""])
    assert encoder.feature_names_in_.tolist() == ["size"]
    assert X.shape == (20, 1)
    assert y.compute()[:2].tolist() == ["a", "b"]
