"""svmlight text whose rows start without a label, as in SVMlin."""

import gzip

import numpy as np
import pytest
from fsspec import filesystem

from dask_s3vm.io import SvmlightError, read_svmlight
from dask_s3vm.io.sources import find_files
from dask_s3vm.io.svmlight import _starts_with_label

TEXT = b"1:0.5 3:2\n\n2:-1\n1:1 2:1 3:1\n"
ROWS = [[0.5, 0, 2], [0, 0, 0], [0, -1, 0], [1, 1, 1]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("blocksize", [1, 8, 1000])
@pytest.mark.parametrize("has_labels", [False, "auto"])
def test_every_line_is_a_row(packed, ended, blocksize, has_labels, tmp_path):
    path = tmp_path / ("rows.svm.gz" if packed else "rows.svm")
    text = TEXT if ended else TEXT[:-1]
    path.write_bytes(gzip.compress(text) if packed else text)
    X, y = read_svmlight(path, has_labels=has_labels, blocksize=blocksize)
    assert y is None
    assert X.shape == (4, 3)
    assert np.array_equal(X.compute().todense(), ROWS)


def test_auto_leaves_labels_where_they_are(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(b"# a remark: with a colon\n-1 1:2\n+1 2:3\n")
    X, y = read_svmlight(path, has_labels="auto")
    assert y.compute().tolist() == [-1, 1]
    assert X.shape == (2, 2)


def test_mistakes_are_told_by_their_line(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(b"1:1\n\n2:1 1:1\n")
    with pytest.raises(SvmlightError, match="line 3"):
        read_svmlight(path, has_labels=False)
    path.write_bytes(b"1:1\n")
    with pytest.raises(SvmlightError, match="label"):
        read_svmlight(path)
    with pytest.raises(ValueError, match="has_labels"):
        read_svmlight(path, has_labels="no")


@pytest.mark.parametrize(
    ("text", "labeled"),
    [
        (b"1:2 3:4\n", False),
        (b"1:2", False),
        (b"1 1:2\n", True),
        (b"1\n", True),
        (b"# 1:2\n" * 20_000 + b"1:2\n", False),
        (b"# " + b"x" * 70_000 + b" 5\n\n1:2\n", False),
        (b"#" + b"x" * ((1 << 16) - 3) + b"\n1" + b":2\n", False),
        (b"", True),
    ],
)
def test_the_first_row_tells_on_any_store(text, labeled):
    """Streams of some stores have no ``readline`` with a limit: ranges are read."""
    fs = filesystem("memory")
    fs.pipe_file("/labels/rows.svm", text)
    (file,) = find_files("memory://labels/rows.svm")
    assert _starts_with_label(file) is labeled
