"""The state of the live page: bounded, and safe from whatever is sent to it."""

import itertools
import json

import pytest

from dask_s3vm.live import board as board_module
from dask_s3vm.live.board import MOST_FITS, MOST_POINTS, MOST_REMARKS, SILENT, Board, Curve
from dask_s3vm.live.page import state_json


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def message(name="a", **fields):
    about = {"method": "TSVM", "title": "t", "parameters": [["lam", "0.1", ""]], "facts": []}
    return {
        "id": name,
        "about": {**about, "charts": []},
        "state": "running",
        "seconds": 2.0,
    } | fields


def test_a_fit_is_told_in_short_and_in_full():
    clock = Clock()
    board = Board(clock)
    board.take(message(points=[{"t": 1.0, "objective": 0.5}], shards=[["w", 3, 0.25]], rounds=7))
    state = board.state()
    (short,) = state["fits"]
    assert (short["method"], short["state"], short["rounds"], short["workers"]) == (
        "TSVM", "running", 7, 1,
    )  # fmt: skip
    assert short["began"] == 998.0
    assert state["fit"]["points"] == [{"t": 1.0, "objective": 0.5}]
    assert state["fit"]["shards"] == [["w", 3, 0.25]]
    assert state["fit"]["parameters"] == [["lam", "0.1", ""]]


def test_the_newest_fit_that_runs_is_shown_unless_another_is_chosen():
    board = Board()
    for name, state in [("a", "running"), ("b", "running"), ("c", "done")]:
        board.take(message(name, state=state))
    assert [fit["id"] for fit in board.state()["fits"]] == ["c", "b", "a"]
    assert board.state()["fit"]["id"] == "b"
    assert board.state("a")["fit"]["id"] == "a"
    assert board.state("no such fit")["fit"]["id"] == "b"


def test_a_fit_that_is_not_heard_of_any_more_is_silent():
    clock = Clock()
    board = Board(clock)
    board.take(message("a"))
    board.take(message("b", state="done"))
    clock.now += SILENT + 1.0
    assert [fit["state"] for fit in board.state()["fits"]] == ["done", "silent"]


def test_old_fits_are_dropped_those_that_are_over_first():
    board = Board()
    board.take(message("running"))
    for number in range(3 * MOST_FITS):
        board.take(message(f"fit {number}", state="done"))
    names = [fit["id"] for fit in board.state()["fits"]]
    assert len(names) == MOST_FITS
    assert names[-1] == "running"
    assert names[0] == f"fit {3 * MOST_FITS - 1}"
    for number in range(2 * MOST_FITS):
        board.take(message(f"more {number}"))
    assert len(board.state()["fits"]) == MOST_FITS


def test_a_curve_is_thinned_out_evenly_and_ends_with_the_last_point():
    curve = Curve()
    for number in range(100_003):
        curve.add(number)
        assert curve.points[-1] == number
    found = curve.points
    assert MOST_POINTS / 2 <= len(found) <= MOST_POINTS + 2
    assert found[0] == 0
    steps = {b - a for a, b in itertools.pairwise(found[:-1])}
    assert len(steps) == 1


def test_a_long_fit_takes_no_more_room_than_a_short_one():
    board = Board()
    for number in range(4000):
        points = [{"t": number + k / 40, "p": 0, "objective": 0.1} for k in range(40)]
        board.take(
            message(points=points, pace=[number, 1.0, 0.5, 0.25, 0.25], remarks=[[number, "gone"]])
        )
    fit = board.state()["fit"]
    assert len(fit["points"]) <= MOST_POINTS + 2
    assert len(fit["pace"]) <= MOST_POINTS + 2
    assert len(fit["remarks"]) == MOST_REMARKS
    assert len(state_json(board, None)) < 60_000


HUGE = "x" * 100_000


@pytest.mark.parametrize(
    "bad",
    [
        None, 3, "text", [], {}, {"id": 3}, {"id": None}, {"id": "a"}, {"id": HUGE, "about": HUGE},
        message(state="<b>"), message(seconds="soon"), message(seconds=float("nan")),
        message(seconds=10**400), message(points=HUGE), message(points=[3, None, {"t": [1]}]),
        message(points=[{HUGE: 1.0}] * 10_000), message(pace=[1, 2]), message(pace=["a"] * 5),
        message(shards={"w": 3}), message(shards=[["w"], 3]), message(remarks=[[1], "x", [1, 2]]),
        message(about=[]), message(about={"charts": [3, {"columns": [3, [HUGE] * 9]}]}),
        message(about={"parameters": [[HUGE, HUGE, HUGE]] * 10_000}), message(totals=3),
        message(about={"facts": {"a": 1}, "method": {"a": [1]}}), message(what=b"bytes"),
    ],
)  # fmt: skip
def test_nothing_that_is_sent_can_break_the_page(bad):
    board = Board()
    board.take(bad)
    board.take(message("good"))
    text = state_json(board, None)
    assert json.loads(text)["fit"]["method"] == "TSVM"
    assert len(text) < 200_000
    for fit in json.loads(text)["fits"]:
        assert len(json.loads(state_json(board, fit["id"]))["fit"]["parameters"]) <= 60
        assert fit["state"] in board_module.STATES


def test_texts_of_users_stay_texts():
    board = Board()
    evil = "</script><script>alert(1)</script>"
    board.take(message(what=evil, about={"method": evil, "parameters": [[evil, evil, evil]]}))
    fit = json.loads(state_json(board, None))["fit"]
    assert fit["what"] == fit["method"] == fit["parameters"][0][0] == evil
