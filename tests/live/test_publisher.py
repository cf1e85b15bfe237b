"""Messages about a fit: few, small, and complete all the same."""

from types import SimpleNamespace

import pytest

from dask_s3vm import TSVM
from dask_s3vm.engine.protocol import RoundTimes
from dask_s3vm.live.publisher import MOST_POINTS, Publisher


@pytest.fixture
def engine():
    layout = SimpleNamespace(n_rows=100, n_features_in=5, n_shards=2)
    return SimpleNamespace(
        layout=layout, times=RoundTimes(), rounds=0, losses=0, shard_counts={"here": 2}
    )


@pytest.fixture
def sent():
    return []


@pytest.fixture
def publisher(engine, sent):
    return Publisher(TSVM(), engine, (sent.append,), lambda: engine.rounds)


def test_a_message_has_few_points_the_last_among_them_and_sums_of_all_rows(publisher, sent):
    for number in range(1, 1001):
        publisher.add_row({"class": 1, "objective": 1.0 / number, "switches": 1})
    publisher.refresh()
    (message,) = sent
    points = message["points"]
    assert MOST_POINTS / 2 <= len(points) <= MOST_POINTS
    assert points[-1]["objective"] == message["objective"] == 1.0 / 1000
    assert [point["switches"] for point in points] == list(range(25, 1001, 25))
    publisher.refresh()
    assert sent[1]["points"] == []


def test_workers_are_asked_for_their_times_now_and_then(publisher, engine, monkeypatch):
    now = publisher._mark.clock
    monkeypatch.setattr("time.perf_counter", lambda: now)
    asked = []
    for _ in range(60):  # seconds
        now += 1.0
        engine.rounds += 100
        if engine.times.wanted:
            asked.append(now)
            engine.times.set_mark(engine.rounds, {})
        publisher.refresh()
    assert 10 <= len(asked) <= 20
