"""The measurement of a search: what it counts, on a small case."""

import numpy as np
from click.testing import CliRunner

from dask_s3vm.bench.search import digits_like, measure_search, read_pair
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
