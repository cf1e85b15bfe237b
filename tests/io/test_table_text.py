"""Ranges of a file cover its rows, each once, also where a field holds line ends."""

import csv
import gzip
import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.io.sources import find_files, split_evenly
from dask_s3vm.io.table_text import (
    blocks_of_stream,
    count_quotes,
    line_at,
    read_spans,
    rows_in_range,
)

ROWS = st.lists(
    st.lists(st.text(st.sampled_from('a"\n, '), max_size=5), min_size=2, max_size=2),
    min_size=1,
    max_size=12,
)


def text_of(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def rows_of(text):
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


@settings(deadline=None, max_examples=100)
@given(ROWS, st.integers(1, 30), st.booleans())
def test_ranges_share_no_row_and_lose_none(tmp_path_factory, rows, blocksize, last_end):
    text = text_of(rows)
    text = text if last_end else text.rstrip(b"\n") or text
    path = tmp_path_factory.mktemp("text") / "rows.csv"
    path.write_bytes(text)
    (file,) = find_files(path)
    spans = split_evenly(file.size, blocksize)
    quotes = [count_quotes(file, *span) for span in spans]
    inside = np.cumsum([0, *quotes])[:-1] % 2 == 1
    parts = [rows_in_range(file, *span, bool(q)) for span, q in zip(spans, inside, strict=True)]
    assert b"".join(part for _, part in parts) == text
    for start, part in parts:
        assert text[start : start + len(part)] == part
    assert [row for _, part in parts for row in rows_of(part)] == rows_of(text)


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(1, 30))
def test_a_stream_gives_whole_rows_and_its_ranges(tmp_path_factory, rows, blocksize):
    text = text_of(rows)
    path = tmp_path_factory.mktemp("text") / "rows.csv.gz"
    path.write_bytes(gzip.compress(text))
    (file,) = find_files(path)
    parts = list(blocks_of_stream(file, blocksize))
    assert b"".join(part for _, part in parts) == text
    assert [row for _, part in parts for row in rows_of(part)] == rows_of(text)
    spans = [(start, start + len(part)) for start, part in parts]
    assert list(read_spans(file, spans[1:])) == [part for _, part in parts[1:]]


def test_lines_are_numbered_from_one(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b'a,b\n"c\nd",e\nf,g'))
    (file,) = find_files(path)
    assert line_at(file, 0) == (1, b"a,b")
    assert line_at(file, 6) == (2, b'"c')
    assert line_at(file, 13) == (4, b"f,g")
