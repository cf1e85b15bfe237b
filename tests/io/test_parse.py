"""The compiled parser reads every number as Python does, and every row as the serial parser."""

from io import BytesIO
from math import isfinite

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from dask_s3vm.io.svmlight import BadLineError, parse, parse_line, summarize

FLOAT64 = np.dtype(np.float64)
FLOAT32 = np.dtype(np.float32)
FORMATS = ["{!r}", "{:.17g}", "{:.16g}", "{:.6g}", "{:.6f}", "{:.18e}", "{:.25e}", "{:+.3E}"]
WORDS = ["1", "-1", "0", "9", "12", ":", ":", ":1", "2:3", "4:.5", " ", " ", "\t", "\n", "\r\n"]
WORDS += [".", "e", "E5", "e-3", "e308", "+", "#", "qid:1", "qid:", "_", "4294967294", "00", "-0"]


def read(text, dtype=FLOAT64, first_column=0, n_features=None):
    found = summarize(text, first_column, dtype)
    if n_features is None:
        n_features = 1 + (found.high or 0)
    return parse(text, found, first_column, n_features, dtype)


def check_numbers(words):
    """Read all words as labels and as values, next to one that the strict reader gets."""
    lines = [f"{word} 3:{word}  70:{word}" for word in words]
    text = "\n".join([*lines, "1 1:0e9999999"]).encode()
    expected = np.array([float(word) for word in words])
    rows, labels = read(text)
    assert labels[:-1].tobytes() == expected.tobytes()
    assert rows.data[:-1].tobytes() == np.repeat(expected, 2).tobytes()
    small = abs(expected) <= np.finfo(np.float32).max
    text = "".join(f"1 3:{word}\n" for word, fits in zip(words, small, strict=True) if fits)
    rows, _ = read(text.encode(), FLOAT32)
    assert rows.data.tobytes() == expected[small].astype(np.float32).tobytes()


@st.composite
def notation(draw):
    """A finite number in one of many notations."""
    if draw(st.booleans()):
        number = draw(st.floats(allow_nan=False, allow_infinity=False))
        return draw(st.sampled_from(FORMATS)).format(number)
    sign = draw(st.sampled_from(["", "+", "-"]))
    digits = draw(st.text("0123456789", min_size=1, max_size=draw(st.sampled_from([3, 17, 30]))))
    dot = draw(st.integers(-1, len(digits)))
    digits = digits if dot < 0 else f"{digits[:dot]}.{digits[dot:]}"
    exponent = draw(st.integers(-30, 30) | st.integers(-345, 275))
    power = draw(st.sampled_from(["", f"e{exponent}", f"E{exponent:+04d}"]))
    return sign + digits + power


@settings(max_examples=300, deadline=None)
@given(st.lists(notation().filter(lambda word: isfinite(float(word))), min_size=1, max_size=20))
@example(["1e-300", "5e-324", "2.4703282292062327e-324", "2e-324", "4.9e-324", "1e22", "1e23"])
@example(["123456789012345678", "9007199254740993", "9007199254740992", "00012", "+5", ".5", "5."])
@example(["2.2250738585072011e-308", "2.2250738585072014e-308", "1.7976931348623157e308"])
@example(["8.5e22", "-0", "-0.0", "0e99", "0.1", "18446744073709551615", "18446744073709551616"])
@example(["9999999999999999999", "9999999999999999999e-19", "99999999999999999999", "1e-22"])
def test_numbers_are_those_of_python(words):
    check_numbers(words)


def test_many_numbers():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    check_numbers([repr(float(number)) for number in bits[np.isfinite(bits)]])
    uniform = rng.random(40_000)
    check_numbers([repr(float(number)) for number in uniform])
    # More in one line than fit the list of numbers left open.
    text = " ".join(f"{i}:{number:.25f}" for i, number in enumerate(uniform))
    rows, _ = read(b"1 " + text.encode())
    assert rows.data.tolist() == [float(f"{number:.25f}") for number in uniform]


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(-400, 400) | st.integers(-30, 30))
def test_products_are_rounded_once(mantissa, scale):
    word = f"{mantissa}e{scale}"
    if isfinite(float(word)):
        check_numbers([word])


@settings(max_examples=300, deadline=None)
@given(st.integers(2**52, 2**53 - 1), st.integers(0, 10), st.integers(-1, 1))
def test_middles_of_two_numbers(number, shift, change):
    check_numbers(
        [str(((2 * number + 1) << shift) + change), f"{(2 * number + 1) * 5 + change}e-1"]
    )


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_any_text_is_read_as_by_the_strict_reader(text):
    raw = text.encode()
    try:
        found = summarize(raw, 0, FLOAT64)
    except BadLineError:
        return
    rows, labels = read(raw)
    lines = [row for line in raw.split(b"\n") if (row := parse_line(line, 0, FLOAT64))]
    assert labels.tobytes() == np.array([label for label, _, _ in lines], dtype=float).tobytes()
    assert rows.indices.tolist() == [c for _, columns, _ in lines for c in columns]
    assert rows.data.tolist() == [v for _, _, values in lines for v in values]
    assert np.diff(rows.indptr).tolist() == [len(columns) for _, columns, _ in lines]
    assert rows.nnz == found.entries


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("seed", range(5))
def test_random_files_are_read_as_by_the_serial_parser(dtype, seed):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(300):
        columns = np.flatnonzero(rng.random(60) < rng.random() ** 2)
        values = rng.normal(size=len(columns)) * 10.0 ** rng.integers(-6, 6, len(columns))
        form = FORMATS[rng.integers(len(FORMATS))]
        words = [str(rng.integers(-2, 3)), *["qid:7"][: rng.integers(2)]]
        words += [f"{c}:{form.format(float(v))}" for c, v in zip(columns, values, strict=True)]
        lines.append(" ".join(words) + ["\n", "\r\n", " # note\n", "\n\n"][rng.integers(4)])
    text = "".join(lines).encode()
    rows, labels = read(text, dtype, n_features=60)
    expected, expected_labels = load_svmlight_file(
        BytesIO(text), n_features=60, dtype=dtype, zero_based=True
    )
    np.testing.assert_array_equal(labels, expected_labels)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(rows, part), getattr(expected, part))
    assert rows.dtype == dtype
    assert rows.indices.dtype == rows.indptr.dtype == np.int32


def test_columns_start_where_they_should():
    rows, _ = read(b"1 1:5 4:6\n", first_column=1, n_features=4)
    assert rows.indices.tolist() == [0, 3]
    rows, _ = read(b"1 1:5 4:6\n", n_features=2**31)
    assert rows.indices.dtype == rows.indptr.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 1:1\n", "1 rows, expected 2"),
        (b"1 1:1\n1 2:2\n1\n", "3 rows, expected 2"),
        (b"1 1:1 2:2\n1\n1\n", "3 rows, expected 2"),
        (b"1 1:1 2:2\n1 1:1\n", "3 entries, expected 2"),
        (b"1 1:1\n1 \n", "1 entries, expected 2"),
        (b"1 1:1\n1 2:2\n1 2:x\n", "value of column 2 is 'x', not a number"),
        (b"1 1:1\n1\n1\n1 2:x\n", "value of column 2 is 'x', not a number"),
        (b"1 1:1\n1 3:2\n", "column number 3, but n_features is 3"),
        (b"1 1:1\n1 0000000000003:2\n", "column number 3, but n_features is 3"),
        (b"1 2:1 1:1\n1\n", "column number 1 after 2"),
        (b"1 1:1\n1 2:1e309\n", "too large for float64"),
    ],
)
def test_text_that_is_not_what_was_expected(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text, summarize(b"1 1:1\n1 2:2\n", 0, FLOAT64), 0, 3, FLOAT64)
