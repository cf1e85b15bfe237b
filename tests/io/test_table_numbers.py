"""Numbers with decimal commas, and dates with a mistake among them."""

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
