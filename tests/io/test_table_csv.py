"""Ranges of csv text cover its rows, each once, also where a field holds line ends."""

import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.io import TableError
from dask_s3vm.io.sources import find_files
from dask_s3vm.io.table_files import CsvFile, Wanted

FIELDS = ("a", "b")
WANTED = Wanted(FIELDS, dict.fromkeys(FIELDS, pa.string()), 0)
ROWS = st.lists(
    st.lists(st.text(st.sampled_from('a"\n, é'), max_size=5), min_size=2, max_size=2),
    min_size=1,
    max_size=12,
)


def open_csv(path, text):
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    (file,) = find_files(path)
    return CsvFile(file, FIELDS, (), 0)


def rows_of(table):
    return [[row["a"] or "", row["b"] or ""] for row in table.to_pylist()]


@settings(deadline=None, max_examples=150)
@given(
    ROWS,
    st.integers(1, 30),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["rows.csv", "rows.csv.gz"]),
)
def test_ranges_share_no_row_and_lose_none(tmp_path_factory, rows, size, last_end, end, name):
    out = io.StringIO()
    csv.writer(out, lineterminator=end).writerows(rows)
    text = out.getvalue().encode()
    text = text if last_end else text.removesuffix(end.encode())
    table = open_csv(tmp_path_factory.mktemp("text") / name, text)
    parts = [table.look(span, WANTED) for span in table.spans(len(text), size)]
    assert [row for _, part in parts for row in rows_of(part)] == rows
    spans = [span for span, part in parts if part.num_rows]
    assert "".join(text[a:b].decode() for a, b in spans) == text.decode()
    again = [table.read(span, WANTED) for span in spans[1:]]
    assert [rows_of(part) for part in again] == [rows_of(p) for _, p in parts if p.num_rows][1:]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"1,2\n3\n", 2, "has 1 field, wanted 2"),
        (b"1,2\n\n3,4,5\n", 3, "has 3 fields, wanted 2"),
        (b'1,"\n\n2"\n\n3\n', 5, "has 1 field, wanted 2"),
        (b'1,2\n"3,4\n', 2, "quoted field that does not end"),
        (b'1,2\n"3"4,5\n', 2, "something behind the closing quote"),
        (b'1,2\n3,4"5\n', 2, "quote inside a field"),
        (b'1,2\n3, "5"\n', 2, "quote inside a field"),
        (b'1,2\n3,4""5\n', 2, "quote inside a field"),
        (b"1,2\n\xff\n", 2, "has 1 field, wanted 2"),
        (b"1,2\r3,4\r5\n", 1, "has 1 field, wanted 2"),
    ],
)
def test_rows_that_break_a_rule(tmp_path, name, text, line, reason):
    table = open_csv(tmp_path / name, text)
    (span,) = table.spans(len(text), 100)
    with pytest.raises(TableError, match=reason) as caught:
        table.look(span, WANTED)
    assert caught.value.line == line
