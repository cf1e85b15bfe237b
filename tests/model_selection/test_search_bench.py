"""The measurement of a search: what it counts, on a small case."""

import numpy as np
import scipy.sparse as sp
from click.testing import CliRunner

from dask_s3vm.bench.many import measure_classes, read_counts, text_of_classes
from dask_s3vm.bench.search import digits_like, measure_search, read_pair, text_pair
from dask_s3vm.cli import main


def test_all_ways_are_measured_and_agree():
    X, y = digits_like(100, 16)
    rows = measure_search(X, y, ["s2rlsc", "l2svm"], 20, 2, 2, 0, True)
    assert [(row["method"], row["way"]) for row in rows] == [
        (name, way)
        for name in ("s2rlsc", "l2svm")
        for way in ("naive", "shared", "shared, no seeds")
    ]
    assert [row["fits"] for row in rows] == [12] * 3 + [4] * 3
    assert rows[0]["mean_score"] == rows[2]["mean_score"]
    assert rows[0]["error_%"] == rows[2]["error_%"]
    assert rows[3]["mean_score"] == rows[4]["mean_score"]
    assert rows[0]["times_less"] == 1.0


def test_a_pair_of_a_file(tmp_path):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 4
    np.savez(tmp_path / "data.npz", X=X, y=y)
    rows, labels = read_pair(tmp_path / "data.npz", (1, 3), 8)
    assert rows.shape == (8, 2)
    assert np.array_equal(labels, (rows[:, 0] / 2 % 4 == 3).astype(int))


def test_the_command(monkeypatch):
    done = CliRunner().invoke(
        main,
        [
            "bench",
            "search",
            "--rows",
            "80",
            "--labels",
            "12",
            "--lams",
            "2",
            "--folds",
            "2",
            "--method",
            "rlsc",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    assert "times_less" in done.output
    wrong = CliRunner().invoke(main, ["bench", "search", "--method", "oracle"])
    assert wrong.exit_code == 2
    assert "there are s2rlsc" in wrong.output


def test_a_search_is_compared_with_itself_fit_after_fit():
    X, y = text_pair(300)
    rows = measure_search(X, y, ["tsvm"], 40, 2, 2, 0, False, in_turn=True)
    assert [row["way"] for row in rows] == ["in turn", "shared"]
    assert rows[0]["mean_score"] == rows[1]["mean_score"]
    assert rows[1]["times_less"] == rows[0]["seconds"] / rows[1]["seconds"]


def test_many_classes_are_measured(tmp_path):
    X, y = text_of_classes(400, 3)
    assert np.array_equal(np.unique(y), np.arange(3))
    rows = measure_classes(X, y, 100, (1e-2,), 0)
    assert [row["other"] for row in rows] == ["liblinear", "one class"]
    for row in rows:
        assert row["times_faster"] == row["in_turn_s"] / row["seconds"]
        assert row["of_other"] == row["seconds"] / row["other_s"]
        assert row["rounds"] == row["rounds_in_turn"]  # threads share no rounds


def test_counts_of_words_are_weighed(tmp_path):
    counts = sp.csr_matrix(np.array([[2, 0, 1], [0, 3, 1]]))
    parts = {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr}
    np.savez(tmp_path / "counts.npz", shape=counts.shape, y=np.arange(2), **parts)
    X, y = read_counts(tmp_path / "counts.npz")
    assert np.array_equal(y, np.arange(2))
    assert np.allclose(np.square(X.toarray()).sum(axis=1), 1.0)
    assert X.toarray()[0, 0] > X.toarray()[0, 2] > 0.0  # rare words, and frequent in the row
