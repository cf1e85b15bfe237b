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
@pytest.mark.parametrize(
    ("n_workers", "processes"),
    [(1, ["client", "scheduler", "worker 0"]), (0, ["client"])],
)
def test_memory_over_fits_is_compared_with_dask_alone(n_workers, processes, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "memory.svg"
    size = ("--fits", 8, "--rows", 300, "--workers", n_workers)
    table = measured("soak", *size, "--plot", picture)
    assert [row["process"] for row in table] == processes
    for row in table:
        assert row["ours"] == pytest.approx(row["MiB_per_100_fits"] - row["without_us"])
        assert (row["fits"], row["tasks"], row["futures"]) == (8, 0, 0)
    assert f"plain dask: {processes[-1]}".encode() in picture.read_bytes()


def grown(mib, objects, noise):
    """Growth in each of twenty blocks; the first five warm up, and a table doubles in one."""
    growth = np.tile(np.array([mib, objects], dtype=float), (20, 1))
    growth[5:, 0] += noise * np.linspace(-1.0, 1.0, 15)
    growth[:5] += 100.0
    growth[-1] += 4.0
    return {"client": growth}


@pytest.mark.parametrize(
    ("mib", "noise", "flat"),
    [(0.3, 0.0, "no"), (0.2, 0.01, "yes"), (0.2, 1.0, "not shown"), (0.3, 1.0, "not shown")],
)
def test_growth_after_the_warm_up_is_beside_its_noise(mib, noise, flat):
    (row,) = Soak(grown(mib, 60, noise), grown(0.0, 10, 0.0), 50, {"tasks": 0}).rows()
    assert row["fits"] == 1000
    assert row["MiB_per_100_fits"] == row["ours"] == pytest.approx(2.0 * mib)
    assert row["without_us"] == 0.0
    away = 2.0 * noise * 4 / 7  # half of the fifteen blocks are as near to the median
    assert row["standard_error"] == pytest.approx(1.858 * away / np.sqrt(15), rel=0.01)
    assert row["objects_per_fit"] == pytest.approx(1.2)
    assert row["our_objects"] == pytest.approx(1.0)
    assert row["flat"] == flat
