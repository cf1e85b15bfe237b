"""Fields of csv text against Python's own reader, and numbers against float()."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.io.fields import (
    BadRowError,
    cut,
    find_distinct,
    look_up,
    make_words,
    missing_words,
    numbers_of,
)

FIELD = st.text(st.sampled_from('ab1,;"\n\r\t é'), max_size=6).map(lambda text: text.strip())


def table_of(fields):
    rows, columns = fields.starts.shape
    return [[fields.word(i, j) for j in range(columns)] for i in range(rows)]


def text_of(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue().encode()


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(FIELD, min_size=n, max_size=n), min_size=1, max_size=6)
    ),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_what_the_csv_module_writes_is_read(rows, delimiter, end, quote_all):
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    text = text_of(rows, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if not quote_all:  # a row of one empty field is written as "", others of blanks are not
        rows = [row for row in rows if len(row) > 1 or row[0] or True]
    assert table_of(cut(text, len(rows[0]), delimiter)) == rows


def test_blanks_around_fields_and_empty_lines_do_not_count():
    found = cut(b'\n a , "b ""c"" " ,\t3 \r\n  \n,,\n', 3)
    assert table_of(found) == [["a", 'b "c" ', "3"], ["", "", ""]]


@pytest.mark.parametrize(
    ("text", "start", "reason"),
    [
        (b"1,2\n3\n", 4, "1 fields, wanted 2"),
        (b"1,2\n\n3,4,5\n", 5, "more than 2 fields"),
        (b'1,2\n"3,4\n', 4, "does not end"),
        (b'1,2\n"3"4,5\n', 4, "behind the closing quote of field 1"),
        (b'1,2\n3,4"5\n', 4, "quote inside field 2"),
    ],
)
def test_rows_that_break_a_rule(text, start, reason):
    with pytest.raises(BadRowError, match=reason) as caught:
        cut(text, 2)
    assert caught.value.start == start


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_numbers_are_those_of_python(words):
    fields = cut("".join(f"x,{word}\n" for word in words).encode(), 2)
    values, wrong, gap = numbers_of(fields, 1, missing_words())
    assert (wrong, gap) == (-1, -1)
    assert values.tolist() == [float(word) for word in words]


@pytest.mark.parametrize("word", ["abc", "1.2.3", "0x10", "1e", "--1", "inf", "1e999", "1 2"])
def test_what_is_no_number_is_told(word):
    fields = cut(f"1\n?\n{word}\n2\n".encode(), 1)
    values, wrong, gap = numbers_of(fields, 0, missing_words())
    assert (wrong, gap) == (2, 1)
    assert values[0] == 1
    assert values[3] == 2
    assert np.isnan(values[1])


WORDS = st.lists(st.text(st.sampled_from("abcé"), min_size=1, max_size=3), min_size=1, max_size=60)


@settings(deadline=None, max_examples=100)
@given(WORDS, WORDS)
def test_distinct_words_and_their_codes(words, others):
    fields = cut("\n".join(words).encode(), 1)
    first = find_distinct(fields.text, fields.starts[:, 0], fields.stops[:, 0], 1000)
    assert [fields.word(row, 0) for row in first.tolist()] == list(dict.fromkeys(words))
    table = sorted(set(others))
    codes = look_up(fields.text, fields.starts[:, 0], fields.stops[:, 0], make_words(table))
    wanted = [table.index(word) if word in table else -1 for word in words]
    assert codes.tolist() == wanted


def test_no_more_distinct_words_are_looked_for_than_wanted():
    words = [str(i) for i in range(5000)] * 2
    fields = cut("\n".join(words).encode(), 1)
    starts, stops = fields.starts[:, 0], fields.stops[:, 0]
    assert len(find_distinct(fields.text, starts, stops, 10_000)) == 5000
    assert len(find_distinct(fields.text, starts, stops, 99)) == 100
