"""Measurements: their figures fit together."""

import json

import numpy as np
import pytest
from running import run

from dask_s3vm.bench.soak import Soak


def measured(*args):
    """Rows that `dask-s3vm bench ARGS` measured."""
    done = run("bench", *args, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    return told.get("results", [told])


def test_an_evaluation_of_qn_is_measured_against_a_fused_pass():
    (told,) = measured("qn", "--rows", 1500, "--labels", 100)
    # beside evaluations: shares of predictions, and the supervised SVM that is part of the model
    assert told["evaluations"] < told["rounds"] <= told["evaluations"] + 40
    assert told["fused_passes"] > 0


@pytest.mark.cluster
def test_a_round_is_predicted_from_its_parts():
    (told,) = measured("formula", "--rows", 500, "--workers", 1, "--repeat", 2)
    parts = told["latency_ms"] + told["payload_ms"] + told["pass_ms"]
    assert told["predicted_ms"] == pytest.approx(parts)
    assert told["ratio"] == pytest.approx(told["measured_ms"] / parts)
    assert min(told["latency_ms"], told["pass_ms"], told["measured_ms"]) > 0
    assert told["exchange_ms"] >= 0


@pytest.mark.cluster
def test_the_live_page_is_measured_by_its_parts():
    table = {row["part"]: row for row in measured("live", "--rows", 500, "--messages", 3)}
    assert list(table) == ["round", "message", "ask"]
    assert table["round"]["%_of_time"] == pytest.approx(100.0)
    assert table["round"]["wall_ms"] > 0
    assert table["message"]["wall_ms"] > 0


@pytest.mark.cluster
def test_memory_over_fits_is_compared_with_dask_alone(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "memory.svg"
    table = measured("soak", "--fits", 4, "--rows", 300, "--plot", picture)
    assert [row["process"] for row in table] == ["client and scheduler", "worker 0", "worker 1"]
    for row in table:
        assert row["ours"] == pytest.approx(row["MiB_per_100_fits"] - row["without_us"])
        assert (row["fits"], row["tasks"], row["futures"]) == (4, 0, 0)
    assert b"plain dask: worker 1" in picture.read_bytes()


def test_growth_begins_after_the_warm_up():
    fits = np.r_[np.linspace(100.0, 300.0, 50), 300.0 + 0.02 * np.arange(150)]
    row = Soak({"worker": fits}, {"worker": np.full(200, 50.0)}, {"tasks": 0}).rows()[0]
    assert row["MiB_per_100_fits"] == row["ours"] == pytest.approx(2.0)
    assert (row["without_us"], row["flat"]) == (0.0, "no")
