"""`read_svmlight` refuses what it cannot use, and says where."""

import bz2
import gzip
import pickle

import dask
import numpy as np
import pytest

from dask_s3vm.io import SvmlightError, read_svmlight, sources
from dask_s3vm.io.svmlight import parse_line, summarize

GOOD = b"1 1:0.5 3:-2e-3\n\n# note\n-1 2:1\n"

BAD_LINES = {
    b"one 1:1": "label is 'one', not a number",
    b"1,2 1:1": "label is '1,2', not a number",
    b"3:1 4:1": "label is '3:1', not a number",
    b"nan 1:1": "label is 'nan', not a finite number",
    b"1e999 1:1": "label is '1e999', too large for float64",
    b"1 5": "'5' is not an index:value pair",
    b"1 1:1 x:2": "'x' is not a column number",
    b"1 1:1 :2": "'' is not a column number",
    b"1 1.0:2": "'1.0' is not a column number",
    b"1 1_0:2": "'1_0' is not a column number",
    b"1 1:": "value of column 1 is '', not a number",
    b"1 1:2:3": "value of column 1 is '2:3', not a number",
    b"1 1: 2": "value of column 1 is '', not a number",
    b"1 1:1_0": "value of column 1 is '1_0', not a number",
    b"1 1:0x10": "value of column 1 is '0x10', not a number",
    b"1 1:1e": "value of column 1 is '1e', not a number",
    b"1 1:.": "value of column 1 is '.', not a number",
    b"1 1:--1": "value of column 1 is '--1', not a number",
    b"1 1:nan": "value of column 1 is 'nan', not a finite number",
    b"1 1:-Infinity": "value of column 1 is '-Infinity', not a finite number",
    b"1 1:1e309": "value of column 1 is '1e309', too large for float64",
    b"1 1:1" + b"0" * 309: "too large for float64",
    b"1 1:1e1000000": "too large for float64",
    b"1 -1:1": "column number '-1' is negative",
    b"1 3:1 2:1": "column number 2 after 3, but columns must increase",
    b"1 3:1 3:1": "column number 3 occurs twice",
    b"1 4294967295:1": "column number '4294967295' is above 4294967294",
    b"1 1" + b"0" * 5000 + b":1": "is above 4294967294",
    b"1 1:1 qid:3 2:1": "qid: is allowed right after the label only",
    b"1 qid:x 1:1": "qid: is allowed right after the label only",
    b"\xff\x00 1:1": "not a number",
    b"\xef\xbb\xbf1 1:1": "not a number",
}


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def write(tmp_path, text, name="rows.svm"):
    path = tmp_path / name
    path.write_bytes(text)
    return path


#: A long line makes thousands of empty ranges of one byte each.
CUTS = [
    (bad, size) for bad in BAD_LINES for size in (1, 7, 50, 1000) if size > 1 or len(bad) <= 1000
]


@pytest.mark.parametrize(("bad", "blocksize"), CUTS)
def test_bad_lines_are_named(tmp_path, bad, blocksize):
    path = write(tmp_path, GOOD + GOOD + bad + b"\r\n" + GOOD)
    with pytest.raises(SvmlightError) as caught:
        read_svmlight(path, blocksize=blocksize)
    error = caught.value
    assert error.line == 9
    assert error.path == str(path)
    assert BAD_LINES[bad] in str(error)
    assert f"{path}, line 9: " in str(error)
    assert "wanted 'label index:value ...'" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < len(str(path)) + 320


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_line_numbers_in_compressed_files(tmp_path, pack):
    name = "rows.svm.gz" if pack is gzip.compress else "rows.svm.bz2"
    path = write(tmp_path, pack(GOOD * 10 + b"1 oops\n"), name)
    with pytest.raises(SvmlightError, match=r"line 41: 'oops' is not .* got '1 oops'"):
        read_svmlight(path, blocksize=30)


def test_the_first_mistake_is_reported(tmp_path):
    path = write(tmp_path, b"1 1:1\n" * 20 + b"1 first\n" + b"1 second\n" * 50)
    later = write(tmp_path, b"1 third\n", "later.svm")
    with dask.config.set(scheduler="threads", num_workers=2):
        for _ in range(5):
            with pytest.raises(SvmlightError, match=r"rows.svm, line 21: 'first'"):
                read_svmlight([path, later], blocksize=10)


def test_no_newline_at_the_end(tmp_path):
    with pytest.raises(SvmlightError, match="line 5: 'x' is not"):
        read_svmlight(write(tmp_path, GOOD + b"1 x"), blocksize=3)


def test_long_lines_are_shortened(tmp_path):
    with pytest.raises(SvmlightError) as caught:
        read_svmlight(write(tmp_path, b"1 1:1 " + b"2:x " * 1000))
    shown = str(caught.value).split("got '")[1]
    assert shown.endswith("...'")
    assert len(shown) == 81


def test_errors_survive_pickling():
    for error in (SvmlightError("a.svm", "why", 3, b"1 x"), SvmlightError("a.svm", "why")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is SvmlightError
        assert str(copy) == str(error)
        assert (copy.path, copy.reason, copy.line) == (error.path, error.reason, error.line)
    assert issubclass(SvmlightError, ValueError)


def test_n_features_too_small(tmp_path):
    paths = [write(tmp_path, b"1 2:1\n"), write(tmp_path, b"1 1:1 17:1\n", "wide.svm")]
    with pytest.raises(
        SvmlightError, match=r"wide.svm: n_features is 16, .* number is 17 .*least 17"
    ):
        read_svmlight(paths, n_features=16)
    with pytest.raises(SvmlightError, match=r"start at 0\): wanted at least 18"):
        read_svmlight(paths, n_features=17, zero_based=True)


def test_n_features_is_needed_without_columns(tmp_path):
    path = write(tmp_path, b"1\n-1\n")
    with pytest.raises(SvmlightError, match="n_features must be given"):
        read_svmlight(path)
    X, y = read_svmlight(path, n_features=3)
    assert X.compute().nnz == 0
    np.testing.assert_array_equal(y.compute(), [1, -1])


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# note\n", b"  \r\n#"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files_without_rows(tmp_path, text, ending):
    good = write(tmp_path, GOOD)
    empty = write(tmp_path, gzip.compress(text) if ending else text, f"empty.svm{ending}")
    for urlpath in (empty, [good, empty]):
        with pytest.raises(SvmlightError, match=r"empty.svm.*: has no data rows"):
            read_svmlight(urlpath)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*missing.svm"):
        read_svmlight(tmp_path / "missing.svm")
    with pytest.raises(FileNotFoundError, match=r"no file matches .*part\*"):
        read_svmlight(str(tmp_path / "part*"))
    with pytest.raises(FileNotFoundError, match=r"folder .* holds no file"):
        read_svmlight(tmp_path)
    with pytest.raises(ValueError, match="urlpath is an empty list"):
        read_svmlight([])


def test_text_that_would_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_LONG_TEXT", 1 << 17)
    path = write(tmp_path, gzip.compress(b"\n" * (1 << 24)), "rows.svm.gz")
    with pytest.raises(SvmlightError, match=r"rows.svm.gz: .* unpacks to more than 500 times"):
        read_svmlight(path)


def test_broken_archives(tmp_path):
    whole = gzip.compress(GOOD * 100)
    for text in (GOOD, whole[:-20], whole[:40] + b"junk" + whole[44:]):
        with pytest.raises(SvmlightError, match=r"rows.svm.gz: cannot be read"):
            read_svmlight(write(tmp_path, text, "rows.svm.gz"))


def test_file_changed_between_the_passes(tmp_path):
    path = write(tmp_path, GOOD)
    X, _ = read_svmlight(path)
    for text in (GOOD[:20], GOOD.replace(b"1:", b"x:"), GOOD.replace(b"3:-2e-3", b"9:-2e-3")):
        path.write_bytes(text)
        with pytest.raises(SvmlightError, match=r"rows.svm: has changed"):
            X.compute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 0}, "n_features is 0"),
        ({"n_features": 2.5}, "n_features is 2.5"),
        ({"zero_based": "yes"}, "zero_based is 'yes'"),
        ({"block": "coo"}, "block is 'coo', wanted 'gcxs' or 'scipy'"),
        ({"dtype": np.int32}, "dtype is int32, wanted float32 or float64"),
        ({"blocksize": 0}, "blocksize is 0"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        read_svmlight(write(tmp_path, GOOD), **options)


def test_values_must_fit_float32(tmp_path):
    path = write(tmp_path, b"1 1:3e38\n1 1:1e39\n")
    read_svmlight(path)
    with pytest.raises(SvmlightError, match=r"line 2: .*'1e39', too large for float32"):
        read_svmlight(path, dtype=np.float32)


@pytest.mark.parametrize(
    "line", [b"1 1:1e308", b"1 1:1.7e308 2:5", b"1 1:0e999999", b"1 1:0000001e-9999999"]
)
def test_extreme_but_good_values(line):
    assert summarize(line, 0, np.dtype(np.float64)).rows == 1
    assert parse_line(line, 0, np.dtype(np.float64)) is not None
