"""`read_svmlight` gives what one serial parser gives, however the text is cut."""

import bz2
import gzip
import itertools
import lzma
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

import dask
import fsspec
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dask_s3vm.io import SvmlightError, read_data, read_svmlight
from dask_s3vm.io.arrays import read_labels
from dask_s3vm.io.sources import DataFile, find_files
from dask_s3vm.io.svmlight import parse

DATA = Path(os.environ.get("DASK_S3VM_DATA", Path(__file__).parents[2] / "../shared/data"))
TEXT = b"1 1:0.5 3:-2e-3\n-1 2:1 # note\n\n# only a note\n+1 1:.5 7:3.\n0\n"


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def gather(X, y):
    """Compute both arrays and check that blocks are as promised."""
    parts = X.to_delayed().ravel()
    blocks, labels = dask.compute(list(parts), y)
    assert tuple(block.shape[0] for block in blocks) == X.chunks[0] == y.chunks[0]
    assert all(block.shape[1] == X.shape[1] and block.dtype == X.dtype for block in blocks)
    assert labels.dtype == y.dtype
    blocks = [b.to_scipy_sparse() if isinstance(b, sparse.GCXS) else b for b in blocks]
    return sp.vstack(blocks).toarray(), labels


def same(X, y, text, **options):
    expected, labels = load_svmlight_file(BytesIO(text), **options)
    found, found_labels = gather(X, y)
    np.testing.assert_array_equal(found, expected.toarray())
    np.testing.assert_array_equal(found_labels, labels)


def write(tmp_path, text, name="rows.svm"):
    path = tmp_path / name
    path.write_bytes(text)
    return path


# Any cut of any text


def number(draw):
    mantissa = draw(
        st.sampled_from(["0", "1", "-1", "+2", "0.25", ".5", "3.", "0.1234567890123456789"])
    )
    return mantissa + draw(st.sampled_from(["", "", "", "e3", "E-12", "e+00", "e-400"]))


@st.composite
def svmlight_text(draw):
    lines = []
    base = draw(st.integers(0, 1))
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["row"] * 6 + ["empty", "blank", "comment"]))
        if kind == "row":
            columns = sorted(draw(st.sets(st.integers(base, 40), max_size=8)))
            words = [draw(st.sampled_from(["1", "-1", "+1", "2.0", "1e0"]))]
            if draw(st.integers(0, 15)) == 0:
                words.append("qid:3")
            words += [f"{column}:{number(draw)}" for column in columns]
            gap = draw(st.sampled_from([" ", "  ", "\t"]))
            line = draw(st.sampled_from(["", " "])) + gap.join(words)
            line += draw(st.sampled_from(["", "", " ", "# note 3:4", " #"]))
        else:
            line = {
                "empty": "",
                "blank": " \t ",
                "comment": "# 1 2:3 " + "x" * draw(st.integers(0, 40)),
            }[kind]
        lines.append(line + draw(st.sampled_from(["\n", "\r\n"])))
    lines.append(f"1 {base}:1 40:1\n")
    text = "".join(draw(st.permutations(lines)))
    return (text.rstrip("\n") if draw(st.booleans()) else text).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=svmlight_text(), blocksize=st.integers(1, 120), packed=st.booleans())
def test_any_cut_loses_and_doubles_no_line(text, blocksize, packed):
    fs = fsspec.filesystem("memory")
    name = "/cut.svm.gz" if packed else "/cut.svm"
    fs.pipe_file(name, gzip.compress(text) if packed else text)
    X, y = read_svmlight(f"memory:/{name}", blocksize=blocksize)
    same(X, y, text)
    assert y.dtype == np.int64


def test_every_blocksize(tmp_path):
    path = write(tmp_path, TEXT)
    for blocksize in range(1, len(TEXT) + 2):
        X, y = read_svmlight(path, blocksize=blocksize)
        same(X, y, TEXT)
    assert X.numblocks == (1, 1)


@pytest.mark.parametrize("text", [b"1 1:1", b"1 1:1\n", b"\n\n1 1:1\n\n", b"\r\n1 1:1\r\n"])
def test_one_row(tmp_path, text):
    for blocksize in (1, 2, 3, 100):
        same(*read_svmlight(write(tmp_path, text), blocksize=blocksize), text)


def test_line_much_longer_than_blocks_and_than_read_steps(tmp_path):
    long = b"1 " + b" ".join(b"%d:1.5" % c for c in range(1, 20001)) + b"\n"
    text = b"-1 1:1\n" + long + b"-1 2:1\n"
    X, y = read_svmlight(write(tmp_path, text), blocksize=1000)
    same(X, y, text)
    assert y.chunks[0] == (2, 1)


# Kinds of files and options


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_compressed_files_are_cut_into_blocks(tmp_path, ending, pack):
    text = TEXT * 20
    X, y = read_svmlight(write(tmp_path, pack(text), f"rows.svm.{ending}"), blocksize=200)
    same(X, y, text)
    assert X.numblocks[0] > 3


def test_several_files_agree_on_columns_and_labels(tmp_path):
    texts = [b"1 3:1\n", b"2 0:5\n", b"0.5 9:1\n1 1:1\n"]
    paths = [write(tmp_path, text, f"part{i}.svm") for i, text in enumerate(texts)]
    for urlpath in (paths, [str(path) for path in paths], tmp_path / "part*.svm"):
        X, y = read_svmlight(urlpath, blocksize=8)
        found, labels = gather(X, y)
        assert X.shape == (4, 10)
        np.testing.assert_array_equal(labels, [1, 2, 0.5, 1])
        assert found[0, 3] == found[2, 9] == found[3, 1] == 1
        assert found[1, 0] == 5


def test_zero_based(tmp_path):
    one, zero = write(tmp_path, b"1 1:1 3:1\n"), write(tmp_path, b"1 0:1 3:1\n", "zero.svm")
    assert read_svmlight(one)[0].shape == (1, 3)
    assert read_svmlight(one, zero_based=True)[0].shape == (1, 4)
    assert read_svmlight(zero)[0].shape == (1, 4)
    assert read_svmlight([one, zero])[0].shape == (2, 4)
    assert read_svmlight(one, n_features=11)[0].shape == (1, 11)
    with pytest.raises(
        SvmlightError, match=r"zero.svm, line 1: column number 0 .*zero_based=False"
    ):
        read_svmlight(zero, zero_based=False)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ("1 -1 +1", np.int64),
        ("1.0 -1.000 2.", np.int64),
        ("1e0 2.5e1 -0", np.int64),
        ("1.0000000000000000000e+00 3", np.int64),
        ("1 1.5", np.float64),
        ("0.99999999999999995 1", np.int64),
        ("0.9999999999999999 1", np.float64),
        ("5e-324 1", np.float64),
        ("9007199254740993 1", np.int64),
        ("1e16 1", np.float64),
        ("1.25e1 0.1234567890123456 0.1234567890123456", np.float64),
    ],
)
def test_labels_are_integers_if_all_are_whole(tmp_path, labels, dtype):
    text = "".join(f"{label} 1:1\n" for label in labels.split()).encode()
    X, y = read_svmlight(write(tmp_path, text), blocksize=4)
    assert y.dtype == dtype
    same(X, y, text)


def test_blocks(tmp_path):
    path = write(tmp_path, TEXT)
    X, _ = read_svmlight(path, block="gcxs", dtype="float32")
    block = X.compute()
    assert isinstance(block, sparse.GCXS)
    assert isinstance(X._meta, sparse.GCXS)
    assert tuple(block.compressed_axes) == (0,)
    assert block.dtype == X.dtype == np.float32
    assert block.indices.dtype == np.int32
    X, _ = read_svmlight(path, block="scipy")
    assert isinstance(X.compute(), sp.csr_array)
    assert isinstance(X._meta, sp.csr_array)


def test_float32_values_are_those_of_the_serial_parser(tmp_path):
    X, y = read_svmlight(write(tmp_path, TEXT), dtype=np.float32)
    same(X, y, TEXT, dtype=np.float32)


def test_zeros_are_not_stored(tmp_path):
    X, _ = read_svmlight(write(tmp_path, b"1 1:0 2:1 3:-0.0\n"))
    assert X.compute().nnz == 1
    assert X.shape == (1, 3)


def test_columns_beyond_the_serial_parser(tmp_path):
    text = b"1 1:0.1 4294967294:2e-3\n# note\n0 2147483648:1\n"
    X, y = read_svmlight(write(tmp_path, text), block="scipy", zero_based=True)
    block = X.compute()
    assert block.shape == (2, 2**32 - 1)
    np.testing.assert_array_equal(block.indices, [1, 2**32 - 2, 2**31])
    np.testing.assert_array_equal(block.data, [0.1, 2e-3, 1])
    np.testing.assert_array_equal(y.compute(), [1, 0])


def test_names_follow_the_content(tmp_path):
    path = write(tmp_path, TEXT)
    first = read_svmlight(path)[0].name
    assert read_svmlight(path)[0].name == first
    assert read_svmlight(path, n_features=20)[0].name != first
    path.write_bytes(TEXT + b"1 2:2\n")
    assert read_svmlight(path)[0].name != first


def test_a_block_is_parsed_once_for_both_arrays(tmp_path, monkeypatch):
    X, y = read_svmlight(write(tmp_path, TEXT), blocksize=20)
    calls = []
    monkeypatch.setattr(
        "dask_s3vm.io.svmlight.parse",
        lambda *args, **kwargs: calls.append(1) or parse(*args, **kwargs),
    )
    dask.persist(X, y)
    assert len(calls) == X.numblocks[0] > 1


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_other_schedulers(tmp_path, kind):
    path = write(tmp_path, TEXT * 3)
    options = {"mp_context": get_context("spawn")} if kind is ProcessPoolExecutor else {}
    scheduler = "processes" if options else "threads"
    with kind(2, **options) as pool, dask.config.set(scheduler=scheduler, pool=pool):
        X, y = read_svmlight(path, blocksize=60)
        same(X, y, TEXT * 3)
        path.write_bytes(TEXT + b"1 oops\n")
        with pytest.raises(SvmlightError, match="line 7: 'oops' is not"):
            read_svmlight(path, blocksize=60)


def test_random_matrix_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    rows = sp.random(200, 50, density=0.1, random_state=0, format="csr")
    labels = rng.normal(size=200)
    dump_svmlight_file(rows, labels, str(tmp_path / "dump.svm"))
    X, y = read_svmlight(tmp_path / "dump.svm", blocksize="1kB", n_features=50)
    found, found_labels = gather(X, y)
    np.testing.assert_allclose(found, rows.toarray(), rtol=1e-15)
    np.testing.assert_allclose(found_labels, labels, rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "shape", "nnz"),
    [("a9a.svm.gz", (32561, 123), 451592), ("w8a.svm.gz", (49749, 300), 579586)],
)
def test_real_data(name, shape, nnz):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    X, y = read_svmlight(path, blocksize="1MiB", block="scipy")
    assert X.shape == shape
    blocks, labels = dask.compute(list(X.to_delayed().ravel()), y)
    rows = sp.vstack(blocks, format="csr")
    expected, expected_labels = load_svmlight_file(str(path), n_features=shape[1])
    assert rows.nnz == expected.nnz == nnz
    assert (rows != expected).nnz == 0
    np.testing.assert_array_equal(labels, expected_labels)


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("seed", range(4))
def test_pieces_of_a_compressed_file_in_any_order(tmp_path, ending, pack, seed):
    text = bytes(np.random.default_rng(seed).integers(0, 256, 50_000, dtype=np.uint8))
    (file,) = find_files(write(tmp_path, pack(text), f"a.svm.{ending}"))
    cuts = np.unique([0, *np.random.default_rng(seed).integers(0, 50_000, 12), 50_000]).tolist()
    spans = list(itertools.pairwise(cuts))
    order = np.random.default_rng(seed).permutation(len(spans)) if seed else range(len(spans))
    for i in order:
        start, stop = spans[i]
        assert file.read(start, stop) == text[start:stop]
    assert file.read(49_990, 50_020) == text[-10:]


def test_a_compressed_file_is_decompressed_once(tmp_path, monkeypatch):
    opened = []
    own = DataFile.opened
    monkeypatch.setattr(DataFile, "opened", lambda file: opened.append(1) or own(file))
    path = write(tmp_path, gzip.compress(TEXT * 200), "a.svm.gz")
    X, y = read_svmlight(path, blocksize=500)
    assert X.numblocks[0] > 10
    assert len(opened) == 1
    dask.compute(*(array.to_delayed(optimize_graph=False).tolist() for array in (X, y)))
    assert len(opened) == 1


def test_mistakes_in_compressed_files_have_line_numbers(tmp_path):
    path = write(tmp_path, gzip.compress(TEXT * 50 + b"1 2:x\n" + TEXT), "a.svm.gz")
    line = 50 * TEXT.count(b"\n") + 1
    with pytest.raises(ValueError, match=rf"a\.svm\.gz, line {line}: value of column 2 is 'x'"):
        read_svmlight(path, blocksize=200)


def test_a_fit_parses_every_block_once(tmp_path, monkeypatch):
    from dask_s3vm.engine.ingest import ingest
    from dask_s3vm.io import svmlight

    parsed = []
    own = svmlight.parse
    monkeypatch.setattr(svmlight, "parse", lambda *a, **k: parsed.append(1) or own(*a, **k))
    X, y = read_svmlight(write(tmp_path, TEXT * 20), blocksize=200)
    ingest(X, y)
    assert len(parsed) == X.numblocks[0] > 3


def test_a_folder_is_read_without_what_is_about_the_data(tmp_path):
    for name in ("a.svm", "b.txt"):
        write(tmp_path, b"1 1:1\n", name)
    for name in ("README.md", "readme.txt", "LICENSE.txt", ".c.svm", "_d.svm", "e.json"):
        write(tmp_path, b"no rows\n", name)
    assert read_svmlight(tmp_path)[0].shape == (2, 1)
    assert read_data(str(tmp_path))[0].shape == (2, 1)


def test_pipes_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "rows.svm")
    with pytest.raises(ValueError, match=r"rows\.svm is a pipe or a device, wanted a regular file"):
        read_svmlight(tmp_path / "rows.svm")
    with pytest.raises(ValueError, match="wanted a regular file"):
        read_labels(tmp_path / "rows.svm")


def test_xz_and_links_are_read(tmp_path):
    path = write(tmp_path, lzma.compress(TEXT), "a.svm.xz")
    (tmp_path / "link.svm.xz").symlink_to(path)
    expected = read_svmlight(write(tmp_path, TEXT, "a.svm"))[0].compute()
    for name in ("a.svm.xz", "link.svm.xz"):
        got = read_svmlight(tmp_path / name)[0].compute()
        np.testing.assert_array_equal(got.todense(), expected.todense())
    write(tmp_path, lzma.compress(TEXT * 50)[:-20], "cut.svm.xz")
    with pytest.raises(SvmlightError, match=r"cut\.svm\.xz: cannot be read"):
        read_svmlight(tmp_path / "cut.svm.xz")
    write(tmp_path, b"no xz at all", "none.svm.xz")
    with pytest.raises(SvmlightError, match=r"none\.svm\.xz: cannot be read"):
        read_svmlight(tmp_path / "none.svm.xz")
