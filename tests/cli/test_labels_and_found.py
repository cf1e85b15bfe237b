"""`--labels` in, `--predict-unlabeled` out."""

import csv
import gzip

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from running import run
from sklearn.datasets import dump_svmlight_file

from dask_s3vm import L2SVM, QPS3VM, S2RLSC, TSVM, load_model
from dask_s3vm.cli.output import answers_of
from dask_s3vm.cli.predict import open_found
from dask_s3vm.cli.rows import EDGES, look_at_rows
from dask_s3vm.io.arrays import read_labels


def svmlin(few):
    return np.where(few < 0, 0, 2 * few - 1)


@pytest.fixture
def unlabeled_rows(g2c, tmp_path):
    np.savez(tmp_path / "rows.npz", X=g2c[0])
    return tmp_path / "rows.npz"


def train(rows, labels, tmp_path, *more):
    return run(
        "train", rows, "--labels", labels, "--method", "tsvm", "--positive-ratio", 0.5, "--lam",
        0.01, "--nworkers", 0, "--model", tmp_path / "m.npz", *more,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["svmlin", "marked", "npy", "words", "gz"])
def test_a_file_of_labels(kind, g2c, unlabeled_rows, tmp_path):
    X, _, few = g2c
    path, more = tmp_path / "labels.txt", []
    if kind == "svmlin":
        np.savetxt(path, svmlin(few), fmt="%+d")
    elif kind == "gz":
        path = tmp_path / "labels.txt.gz"
        path.write_bytes(gzip.compress("\n".join(map(str, svmlin(few))).encode()))
    elif kind == "marked":
        np.savetxt(path, few, fmt="%d")
        more = ["--unlabeled", -1]
    elif kind == "npy":
        path = tmp_path / "labels.npy"
        np.save(path, few)
    else:
        words = np.array(["ham", "spam", "?"])[few]
        path.write_text("\r\n".join(words) + "\r\n\n")
        more = ["--unlabeled", "?"]
    done = train(unlabeled_rows, path, tmp_path, *more)
    assert done.exit_code == 0, done.output
    expected = TSVM(lam=0.01, positive_ratio=0.5).fit(X, few)
    model = load_model(tmp_path / "m.npz")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
    if kind == "svmlin":
        assert model.classes_.tolist() == [-1, 1]
        assert "288 of 300 rows are 0" in done.output
    if kind == "words":
        assert model.classes_.tolist() == ["ham", "spam"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("1\n-1\n", 65, ["labels.txt has 2 labels, but there are 300 rows"]),
        ("1\n2\n" + 298 * "0\n", 65, ["beyond -1, 0 (unlabeled) and +1", "--unlabeled"]),
        ("a\nb\n" + 298 * "?\n", 65, ["words", "--unlabeled"]),
        ("1\nx\n", 65, ["labels.txt, line 2", "'x'", "a number"]),
        ("1\n\n-1\n", 65, ["labels.txt, line 2", "''"]),
        ("1\nnan\n", 65, ["labels.txt, line 2", "'nan'"]),
        ("1 2\n1 2\n", 65, ["--unlabeled"]),
        ("", 65, ["labels.txt has no labels"]),
        (300 * "0\n", 65, ["no labeled row"]),
    ],
)
def test_labels_that_do_not_fit_are_refused(text, code, words, unlabeled_rows, tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text(text)
    done = train(unlabeled_rows, path, tmp_path)
    assert done.exit_code == code, done.output
    for word in words:
        assert word in done.output
    assert not (tmp_path / "m.npz").exists()


def test_labels_that_are_missing(unlabeled_rows, tmp_path):
    done = train(unlabeled_rows, tmp_path / "absent.txt", tmp_path)
    assert done.exit_code == 65
    assert "absent.txt" in done.output
    done = run("train", unlabeled_rows, "--nworkers", 0)
    assert done.exit_code == 65
    assert "--labels" in done.output


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 2)), np.array([1, None], dtype=object), np.array([1.0, np.inf]), np.array(3)],
)
def test_npy_files_that_are_no_labels_are_refused(array, tmp_path):
    np.save(tmp_path / "y.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=r"y\.npy"):
        read_labels(tmp_path / "y.npy")


def test_numbers_keep_their_kind(tmp_path):
    (tmp_path / "a").write_text("1\n2.0\n-3e0\n")
    (tmp_path / "b").write_text("1\n2.5\n")
    assert read_labels(tmp_path / "a").tolist() == [1, 2, -3]
    assert read_labels(tmp_path / "a").dtype == np.int64
    assert read_labels(tmp_path / "b").tolist() == [1.0, 2.5]


def read_found(path):
    if path.suffix == ".npy":
        found = np.load(path, allow_pickle=False)
        return found["row"], found["label"], found["decision"]
    with path.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header[:2] == ["row", "label"]
    assert header[2].startswith("decision")
    numbers = np.array([row[0] for row in rows], dtype=int)
    outputs = np.array([row[2:] for row in rows], dtype=float)
    return numbers, np.array([row[1] for row in rows]), outputs.squeeze(axis=-1)


@pytest.mark.parametrize("ending", [".csv", ".npy"])
@pytest.mark.parametrize("lazy", [False, True])
def test_the_labels_found_are_written(ending, lazy, g2c, g2c_file, tmp_path):
    X, y, few = g2c
    rows = g2c_file
    if lazy:
        rows = tmp_path / "rows.svm"
        dump_svmlight_file(X, few, str(rows), zero_based=False)
    out = tmp_path / f"found{ending}"
    blocks = ["--blocksize", "2 kB"] if lazy else []
    done = run(
        "train", rows, "--method", "tsvm", "--positive-ratio", 0.5, "--lam", 0.01, "--nworkers", 0,
        "--model", tmp_path / "m.npz", "--predict-unlabeled", out, *blocks,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "288 rows" in done.output
    numbers, labels, outputs = read_found(out)
    assert np.array_equal(numbers, np.arange(12, 300))
    model = load_model(tmp_path / "m.npz")
    assert np.array_equal(labels.astype(int), model.predict(X)[12:])
    np.testing.assert_allclose(outputs, model.decision_function(X)[12:], rtol=1e-12)
    assert np.mean(labels.astype(int) == y[12:]) > 0.9


@pytest.mark.parametrize("kind", [L2SVM, TSVM, S2RLSC, QPS3VM])
@pytest.mark.parametrize("lazy", [False, True])
def test_blocks_come_in_order_with_the_labels_of_the_method(kind, lazy):
    rng = np.random.default_rng(2)
    y = np.arange(210) % 3
    X = sp.csr_array(rng.random((210, 3)) * np.where(np.eye(3)[y] > 0, 2.0, 0.5))
    few = np.where(rng.random(210) < 0.3, y, -1)
    rows, given = X, few
    if lazy:
        rows = da.concatenate(
            [da.from_array(part, asarray=False) for part in (X[:40], X[40:41], X[41:])]
        )
        given = da.from_array(few, chunks=33)
    model = kind().fit(rows, given)
    seen = []

    class Sink:
        n_rows = 0

        def write(self, numbers, labels, outputs):
            seen.append((numbers, labels, outputs))

    facts = look_at_rows(model, rows, given, Sink())
    numbers, labels, outputs = (np.concatenate(part) for part in zip(*seen, strict=True))
    apart = few == -1
    assert np.array_equal(numbers, np.flatnonzero(apart))
    found = model.transduction_ if kind is not L2SVM else model.predict(X)
    assert np.array_equal(labels, np.asarray(found)[apart])
    np.testing.assert_allclose(outputs, model.decision_function(X)[apart], rtol=1e-12)
    assert facts.rows == 210
    assert facts.n_unlabeled == apart.sum()
    assert facts.stored == X.nnz
    assert dict(facts.labels) == {k: int((few == k).sum()) for k in range(3)}
    for counted, part in ((facts.labeled, ~apart), (facts.unlabeled, apart)):
        values = model.decision_function(X[np.flatnonzero(part)])
        assert np.array_equal(counted, np.histogram(values, EDGES)[0])
    assert facts.labeled.sum() + facts.unlabeled.sum() + facts.beyond == 3 * 210


def test_lazy_blocks_are_read_once_and_few_at_a_time(g2c):
    X, _, few = g2c
    model = TSVM(positive_ratio=0.5).fit(X, few)
    read = []

    def load(block_info=None):
        low, high = block_info[None]["array-location"][0]
        read.append(low)
        return X[low:high]

    lazy = da.map_blocks(load, chunks=((10,) * 30, (5,)), dtype=X.dtype, meta=np.empty((0, 0)))
    model.transduction_ = model._complete(lazy, few, (10,) * 30)
    waiting = []

    class Sink:
        n_rows = 0

        def write(self, numbers, labels, outputs):
            waiting.append(len(read) - max(numbers, default=0) // 10)

    with dask.config.set({"s3vm.threads": 2}):
        look_at_rows(model, lazy, few, Sink())
    assert sorted(read) == list(range(0, 300, 10))
    assert max(waiting) <= 4  # two for each thread


def test_words_are_quoted_and_failure_leaves_no_file(tmp_path):
    classes = np.array(["a,b", 'say "c"'])
    for name in ("f.csv", "f.npy"):
        with open_found(str(tmp_path / name), classes) as sink:
            sink.write(np.arange(2), classes, np.array([0.1, -1e-300]))
            sink.write(np.array([7]), classes[:1], np.array([1 / 3]))
        numbers, labels, outputs = read_found(tmp_path / name)
        assert numbers.tolist() == [0, 1, 7]
        assert labels.tolist() == [*classes, "a,b"]
        assert outputs.tolist() == [0.1, -1e-300, 1 / 3]
        with pytest.raises(RuntimeError), open_found(str(tmp_path / "no.csv"), classes):
            raise RuntimeError("disk")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.csv", "f.npy"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--predict-unlabeled", "found.txt", ".csv or .npy"),
        ("--predict-unlabeled", "absent/found.csv", "there is no folder"),
        ("--model", "absent/model.npz", "there is no folder"),
        ("--model", ".", "is a folder"),
        ("--report", "{rows}", "not a folder"),
        ("--resume", None, "--checkpoint"),
    ],
)
def test_places_that_cannot_be_written_are_refused_first(option, value, words, g2c_file):
    value = [] if value is None else [value.format(rows=g2c_file)]
    done = run("train", g2c_file, option, *value, "--nworkers", 0)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "training" not in done.output


def test_files_of_svmlin_rows_and_labels_apart(g2c, tmp_path):
    X, _, few = g2c
    labeled, bare = tmp_path / "labeled.svm", tmp_path / "rows.svm"
    dump_svmlight_file(X, svmlin(few), str(labeled), zero_based=False)
    bare.write_text("".join(line.split(" ", 1)[1] for line in labeled.read_text().splitlines(True)))
    labels = tmp_path / "labels.txt"
    np.savetxt(labels, svmlin(few), fmt="%d")
    assert train(bare, labels, tmp_path).exit_code == 0
    model = load_model(tmp_path / "m.npz")
    done = run("train", labeled, "--unlabeled", 0, "--method", "tsvm", "--positive-ratio", 0.5,
               "--lam", 0.01, "--nworkers", 0, "--model", tmp_path / "n.npz")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert np.array_equal(model.coef_, load_model(tmp_path / "n.npz").coef_)
    found = run("predict", tmp_path / "m.npz", bare, "--nworkers", 0)
    assert found.exit_code == 0, found.output
    assert np.array_equal(np.array(found.output.split(), dtype=int), model.predict(X))


def test_labels_of_a_column(g2c, tmp_path):
    X, _, few = g2c
    table = tmp_path / "rows.csv"
    words = np.array(["ham", "spam", "?"])[few]
    lines = [",".join([f"{a:.17g}" for a in row[:2]] + [w, f"{row[2]:.17g}"])
             for row, w in zip(X, words, strict=True)]  # fmt: skip
    table.write_text("\n".join(["a,b,kind,c", *lines]) + "\n")
    common = ["train", table, "--unlabeled", "?", "--method", "tsvm", "--positive-ratio", 0.5,
              "--nworkers", 0, "--model"]  # fmt: skip
    out = tmp_path / "found.csv"
    done = run(*common, tmp_path / "a.npz", "--label", "kind", "--predict-unlabeled", out)
    assert done.exit_code == 0, done.output
    assert run(*common, tmp_path / "b.npz", "--label", 2).exit_code == 0
    a, b = load_model(tmp_path / "a.npz"), load_model(tmp_path / "b.npz")
    assert a.classes_.tolist() == ["ham", "spam"]
    assert np.array_equal(a.coef_, b.coef_)
    numbers, labels, _ = read_found(out)
    assert np.array_equal(numbers, np.flatnonzero(few == -1))
    assert set(labels) == {"ham", "spam"}
    done = run(*common, tmp_path / "c.npz", "--labels", out, "--label", "kind")
    assert done.exit_code == 2
    done = run(*common, tmp_path / "c.npz", "--label", "sort")
    assert done.exit_code == 65
    assert "sort" in done.output


def test_a_fit_says_which_class_its_ratio_is_of():
    rng = np.random.default_rng(0)
    y = np.repeat(["churn", "stay"], 40)
    X = rng.normal(size=(80, 3)) + (y == "stay")[:, None]
    few = np.where(np.arange(80) % 2 == 0, y, "")
    told = answers_of(TSVM(positive_ratio=0.5).fit(X, few))
    assert told["classes"].tolist() == ["churn", "stay"]
    assert (told["positive_class"], told["positive_ratio"]) == ("stay", 0.5)
    assert 0.0 <= told["supervised_part"] <= 1.0
    assert list(told).index("positive_class") == list(told).index("positive_ratio") - 1
    y[::3] = "gone"
    assert "positive_class" not in answers_of(TSVM().fit(X, np.where(few == "", "", y)))


def test_labels_are_in_one_file(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("1\n-1\n")
    with pytest.raises(ValueError, match="is not one file, wanted a file of labels"):
        read_labels(tmp_path)
    (tmp_path / "b.txt").unlink()
    with pytest.raises(ValueError, match="is not one file"):
        read_labels(tmp_path)
