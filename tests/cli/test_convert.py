"""`dask-s3vm convert`."""

import gzip
import json

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from unsummed import arrow_without_checksums

from dask_s3vm.cli import data, main
from dask_s3vm.io import read_data, write_data
from dask_s3vm.io.formats import FORMATS

X = sp.random_array((200, 30), density=0.3, rng=np.random.default_rng(4), format="csr")
Y = np.arange(200) % 2 * 2 - 1


def convert(*args):
    return CliRunner().invoke(main, ["convert", *map(str, args), "--nworkers", "0"])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def text(tmp_path):
    write_data(X, Y, tmp_path / "rows.svm")
    return tmp_path / "rows.svm"


def test_round_all_formats(text, tmp_path):
    path = text
    for name in ("a.arrow", "b.parquet", "c.npz", "d.svm.gz", "e.feather", "f.svm"):
        size = ["--blocksize", "2 kB"] if "svm" in path.name else []
        done = convert(path, tmp_path / name, "--json", *size)
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["rows"], told["features"]) == (200, 30)
        path = tmp_path / name
    assert path.read_bytes() == text.read_bytes()


def test_folders_and_several_files(text, tmp_path):
    out = f"{tmp_path}/parts/"
    assert convert(text, out, "--to", "arrow", "--blocksize", "2 kB").exit_code == 0
    parts = names(tmp_path / "parts")
    assert len(parts) > 3
    assert set(parts) == {f"part-{i:05d}.arrow" for i in range(len(parts))}
    paths = [tmp_path / "parts" / name for name in parts]
    for source in ([out], paths, [f"{out}*.arrow"]):
        done = convert(*source, tmp_path / "again.svm", "--overwrite")
        assert done.exit_code == 0, done.output
        assert (tmp_path / "again.svm").read_bytes() == text.read_bytes()


def test_progress_goes_to_standard_error(text, tmp_path):
    done = convert(text, tmp_path / "a.arrow", "--blocksize", "2 kB")
    lines = done.stderr.splitlines()
    total = read_data(text, blocksize="2 kB")[0].numblocks[0]
    assert lines[-1].startswith(f"converting: {total} of {total} parts, ")
    assert "converting" not in done.stdout
    assert convert(text, tmp_path / "b.arrow", "--quiet").stderr == ""


def test_an_interrupted_conversion_leaves_nothing(text, tmp_path, monkeypatch):
    from dask_s3vm.io.writers import ArrowFormat

    own, count = ArrowFormat.encode, []

    def encode(self, *args):
        count.append(1)
        if len(count) == 4:
            raise KeyboardInterrupt
        return own(self, *args)

    monkeypatch.setattr(ArrowFormat, "encode", encode)
    with dask.config.set(scheduler="synchronous"):
        done = convert(text, tmp_path / "a.arrow", "--blocksize", "2 kB")
    assert done.exit_code == 1  # 130 after a signal
    assert names(tmp_path) == ["rows.svm"]


GOOD = b"1 1:1 3:2\n-1 2:0.5\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("r.svm", GOOD + b"1 0:1\n", ["--zero-based", "no"], "r.svm, line 3: column number 0 alth"),
        ("r.svm", GOOD + b"1 2:1 2:1\n", [], "r.svm, line 3: column number 2 occurs twice"),
        ("r.svm", GOOD + b"1 2:1 1:1\n", [], "r.svm, line 3: column number 1 after 2"),
        ("r.svm", GOOD + b"1 1000000000000:1\n", [], "r.svm, line 3: column number '10000000000"),
        ("r.svm", GOOD + b"\n# -\n7 1:x\n", [],
         "r.svm, line 5: value of column 1 is 'x', not a number; wanted 'label index:value ...'"),
        ("r.svm.gz", gzip.compress(GOOD * 99, mtime=0)[:-9], [], "r.svm.gz: cannot be read"),
        ("r.svm.gz", gzip.compress(GOOD + b"7 1:x\n", mtime=0), [],
         "r.svm.gz, line 3: value of column 1 is 'x', not a number"),
        ("r.npz", b"PK\3\4", [], "r.npz: is not an .npz archive"),
        ("r.npy", b"\x93NUMPY", [], "r.npy: is not an .npy file that can be read"),
        ("r.arrow", b"ARROW1\0\0", [], "r.arrow: cannot be read as arrow"),
        ("r.parquet", b"PAR1", [], "r.parquet: cannot be read as parquet"),
    ],
)  # fmt: skip
def test_bad_input_is_told_with_its_place(tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content)
    done = convert(tmp_path / name, tmp_path / "out.arrow", *options)
    assert done.exit_code == 65, done.output
    assert message in done.stderr
    assert names(tmp_path) == [name]


def test_a_bad_block_in_the_middle_leaves_nothing(tmp_path):
    X = sp.random_array((90, 5), density=0.9, rng=np.random.default_rng(0), format="csr")
    lazy = dask.array.from_array(X.toarray(), chunks=(30, 5)).map_blocks(sp.csr_array)
    write_data(lazy, None, tmp_path / "r.arrow")
    whole = arrow_without_checksums((tmp_path / "r.arrow").read_bytes())
    last = X[60:].indices.astype("u4")
    wrong = last.copy()
    wrong[-1] = 5
    assert whole.count(last.tobytes()) == 1
    (tmp_path / "r.arrow").write_bytes(whole.replace(last.tobytes(), wrong.tobytes()))
    done = convert(tmp_path / "r.arrow", tmp_path / "out.npz")
    assert done.exit_code == 65
    assert "r.arrow, record batch 2, row 29: column number 5, wanted 0 to 4" in done.stderr
    assert names(tmp_path) == ["r.arrow"]


def test_help_names_the_formats_that_there_are():
    assert tuple(sorted(FORMATS)) == data.FORMATS
    assert tuple(sorted(name for name, form in FORMATS.items() if form.writer)) == data.WRITABLE


def test_usage(text, tmp_path):
    for args, code, message in [
        ((text, tmp_path / "out.xyz"), 65, "the ending of"),
        ((text, tmp_path / "out", "--to", "csv"), 2, "'csv' is not one of 'arrow', 'npy', 'npz'"),
        ((tmp_path / "none.svm", tmp_path / "out.csv"), 65, "csv files cannot be written; wanted"),
        ((text,), 2, "Missing argument"),
        ((text, text), 65, "exists already"),
        ((tmp_path / "none.svm", tmp_path / "out.npz"), 65, "there is no file"),
    ]:
        done = convert(*args)
        assert done.exit_code == code, done.output
        assert message in done.stderr
    assert names(tmp_path) == ["rows.svm"]


def test_words_of_a_table_are_its_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,kind\n1,x\n2,\n3,y\n")
    done = convert(path, "--label", "kind", tmp_path / "t.parquet")
    assert done.exit_code == 0, done.output
    assert read_data(tmp_path / "t.parquet")[1].compute().tolist() == ["x", "", "y"]
    done = convert(path, "--label", "kind", tmp_path / "t.svm")
    assert done.exit_code == 65
    assert "labels such as 'x'; svmlight text knows numbers only: for tables, --positive 'x'" in (
        done.stderr
    )
    done = convert(path, "--label", "kind", "--positive", "x", tmp_path / "t.svm")
    assert done.exit_code == 0, done.output
    assert read_data(tmp_path / "t.svm")[1].compute().tolist() == [1, -1, 0]
    done = convert(path, "--label", "kind", tmp_path / "t.parquet", tmp_path / "u.parquet")
    assert done.exit_code == 65
    assert f"t.csv' (csv), '{tmp_path}/t.parquet' (parquet)" in done.stderr
