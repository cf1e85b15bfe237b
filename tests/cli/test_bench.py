"""Measurements: their figures fit together."""

import json

import pytest
from running import run


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
