"""The compiled scanner and the strict reader follow the same rules."""

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from dask_s3vm.io.svmlight import BadLineError, Summary, parse_line, summarize

FLOAT64 = np.dtype(np.float64)
WORDS = ["1", "-1", "0", "9", "12", ":", ":", ":1", "2:3", "4:.5", " ", " ", "\t", "\n", "\r\n"]
WORDS += [".", "e", "E5", "e-3", "e308", "+", "#", "qid:1", "nan", "_", "\0", "4294967295", "00"]


def by_strict_reader(text):
    """Do what `summarize` does, line by line; None if a line is bad."""
    try:
        rows = [parse_line(line, 0, FLOAT64) for line in text.split(b"\n")]
    except ValueError:
        return None
    rows = [row for row in rows if row is not None]
    columns = [column for _, columns, _ in rows for column in columns]
    return Summary(
        rows=len(rows),
        entries=len(columns),
        low=min(columns, default=None),
        high=max(columns, default=None),
        integral=all(label.is_integer() and abs(label) <= 2**53 for label, _, _ in rows),
    )


def by_scanner(text):
    try:
        return summarize(text, 0, FLOAT64)
    except BadLineError:
        return None


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_any_text(text):
    raw = text.encode()
    found = by_scanner(raw)
    assert found == by_strict_reader(raw)
    # What the first pass lets through, the second must be able to parse.
    if found is not None and found.rows and (found.high or 0) < 2**31 - 1:
        rows, labels = load_svmlight_file(BytesIO(raw), zero_based=True)
        assert len(labels) == found.rows
        assert np.isfinite(rows.data).all()
        assert np.isfinite(labels).all()


@pytest.mark.parametrize(
    ("text", "start"), [(b"1 1:1\n1 x\n", 6), (b"x", 0), (b"1 qid:1 1:1\n\n1 2:2 1:1", 13)]
)
def test_mistakes_are_placed(text, start):
    with pytest.raises(BadLineError) as caught:
        summarize(text, 0, FLOAT64)
    assert caught.value.start == start
