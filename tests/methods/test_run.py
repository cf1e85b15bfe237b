"""The loop that drives all methods, with a method that is made up: a chaotic walk.

Its numbers depend on every bit of those before: what is lost between two steps would show.
"""

import json
import types
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from dask_s3vm.checkpoints import FileCheckpoint, holds_state
from dask_s3vm.io.archive import decode, encode
from dask_s3vm.methods import run
from dask_s3vm.methods.run import Checkpoint, Method, Record, Saved
from dask_s3vm.methods.state_fields import from_fields, to_fields

IDENTITY = {"estimator": "Walk"}
N_STEPS = 6


class Stop(KeyboardInterrupt):
    """Someone pressed a key."""


class Range(NamedTuple):
    low: float
    high: np.ndarray


@dataclass(frozen=True)
class Place:
    w: np.ndarray
    value: float


@dataclass(frozen=True)
class WalkState:
    place: Place
    ends: Range
    last: Place | None
    trail: list[np.ndarray]
    by_number: dict[int, Range]
    counts: tuple[int, int]
    least: float
    scale: float | None
    n_taken: int
    anything: Any
    done: bool


@dataclass(frozen=True)
class Walked:
    w: np.ndarray
    trail: list[np.ndarray]
    by_number: dict[int, Range]
    least: float
    n_iter: int = field(default=0, kw_only=True)


class Walk(Method[WalkState, Walked]):
    """Steps of the logistic map; `stop_at` is the step in the middle of which it is stopped."""

    State = WalkState
    Result = Walked
    starting = "first step"

    def __init__(self, n_steps=N_STEPS, stop_at=None, error=Stop):
        self._n_steps = n_steps
        self._stop_at = stop_at
        self._error = error
        self.called = []

    def start(self):
        self.called.append("start")
        self._fail("start")
        w = np.array([0.3, 0.7, 1 / 3])
        self.report(event="start", value=1.0)
        ends = Range(float(w[0]), w[:1])
        return WalkState(
            Place(w, np.inf), ends, None, [], {}, (0, 0), np.inf, None, 0, None, self._n_steps == 0
        )

    def advance(self, state):
        self.called.append("advance")
        w, number = state.place.w, state.n_taken
        self.report(event="half", step=number)
        self._fail(number)
        w = 3.9 * w * (1.0 - w)
        self.report(event="step", step=number)
        return WalkState(
            Place(w, np.float64(w.sum())),
            Range(np.float32(w.min()), w[w > 0.5]),
            state.place,
            [*state.trail, w.astype(np.float32)],
            {**state.by_number, number: Range(float(w[1]), np.packbits(w > 0.5))},
            (number, np.int64(2 * number)),
            min(state.least, float(w.min())),
            None if number % 2 else float(w[2]),
            number + 1,
            {"state": [number, w]},
            number + 1 == self._n_steps,
        )

    def finish(self, state):
        self.called.append("finish")
        self._fail("finish")
        return Walked(state.place.w, state.trail, state.by_number, state.least)

    def restore(self, state):
        self.called.append("restore")
        return state

    def progress(self, state):
        return f"step {state.n_taken + 1}", state.n_taken / self._n_steps

    def close(self):
        self.called.append("close")

    def _fail(self, where):
        if where == self._stop_at:
            raise self._error


class CostlyWalk(Walk):
    """A walk whose state is not all there until it is collected."""

    costly = True

    def collect(self, state):
        self.called.append("collect")
        return replace(state, anything="collected")

    def restore(self, state):
        assert state.anything == "collected"
        return super().restore(state)


class Clock:
    """Seconds that a test sets; they go on by `tick` whenever someone looks."""

    def __init__(self, tick=0.0):
        self.now = 0.0
        self.tick = tick

    def perf_counter(self):
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(run, "time", clock)
    return clock


def same(one, other):
    """Compare values of all kinds, arrays bit by bit, types included."""
    one, other = to_fields(one), to_fields(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    else:
        assert one == other


def without_times(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def whole():
    """A walk that nothing stopped: its result and its rows."""
    record = Record()
    return record.run("walk", Walk()), without_times(record.history)


# History and callbacks


def test_rows_begin_with_what_they_are_about_and_end_with_seconds(clock):
    clock.tick = 2.0
    seen, also = [], []
    record = Record([seen.append, also.append])
    record.run("walk", Walk(2), {"class": 4, "lam": 0.5})
    assert seen == also == record.history
    assert [list(row) for row in record.history] == [
        ["class", "lam", "event", "value", "seconds"],
        *[["class", "lam", "event", "step", "seconds"]] * 4,
    ]
    assert all((row["class"], row["lam"]) == (4, 0.5) for row in record.history)
    assert [row["event"] for row in record.history] == ["start", *["half", "step"] * 2]
    assert [row["seconds"] for row in record.history] == [2.0] * 5  # since the row before


def test_seconds_of_the_method_itself_stay():
    class Timed(Walk):
        def advance(self, state):
            self.report(step=state.n_taken, seconds=123.0)
            return super().advance(state)

    record = Record()
    record.run("walk", Timed(1))
    assert [row["seconds"] == 123.0 for row in record.history] == [False, True, False, False]


def test_callbacks_hear_of_a_row_when_it_comes():
    seen = []

    class Listening(Walk):
        def advance(self, state):
            assert len(seen) == 1 + 2 * state.n_taken
            return super().advance(state)

    Record([seen.append]).run("walk", Listening())
    assert len(seen) == 1 + 2 * N_STEPS


def test_a_method_without_a_record_reports_to_nobody():
    walk = Walk(1)
    assert walk.advance(walk.start()).done


def test_rows_are_put_in_order_those_of_the_method_alone():
    class Backwards(Walk):
        def arrange(self, rows):
            return [row for row in rows[::-1] if row["event"] == "step"]

    record = Record()
    record.run("first", Walk(1), {"class": 0})
    record.run("second", Backwards(3), {"class": 1})
    record.run("third", Walk(1), {"class": 2})
    assert [row["class"] for row in record.history] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [row["step"] for row in record.history[3:6]] == [2, 1, 0]


def test_rows_before_an_interruption_are_put_in_order_too():
    class Backwards(Walk):
        def arrange(self, rows):
            return rows[::-1]

    once = Record()
    once.run("first", Walk(1))
    once.run("second", Backwards(4))
    checkpoint = Checkpoint()
    record = Record(checkpoint=checkpoint)
    record.run("first", Walk(1))
    with pytest.raises(Stop):
        record.run("second", Backwards(4, stop_at=2))
    again = Record(checkpoint=checkpoint)
    again.run("first", Walk(1))
    again.run("second", Backwards(4))
    assert without_times(again.history) == without_times(once.history)


def test_progress_is_told_before_each_step():
    told = []
    record = Record(progress=lambda *where: told.append(where))
    about = {"class": 1}
    record.run("walk", Walk(2), about)
    assert told == [(about, "first step", None), (about, "step 1", 0.0), (about, "step 2", 0.5)]


def test_what_has_no_words_is_not_told():
    class Silent(Walk):
        starting = ""

        def progress(self, state):
            return "", None

    Record(progress=lambda *where: pytest.fail(str(where))).run("walk", Silent())


# Outer iterations


@pytest.mark.parametrize("n_steps", [0, 1, 5])
def test_outer_iterations_are_counted(n_steps):
    walk = Walk(n_steps)
    assert Record().run("walk", walk).n_iter == n_steps
    assert walk.called == ["start", *["advance"] * n_steps, "finish", "close"]


def test_a_method_may_count_them_itself():
    class Counting(Walk):
        def finish(self, state):
            return replace(super().finish(state), n_iter=77)

    assert Record().run("walk", Counting()).n_iter == 77


def test_a_result_need_not_tell_of_them():
    class Bare(Walk):
        Result = Place

        def finish(self, state):
            return state.place

    assert isinstance(Record().run("walk", Bare()), Place)


# Stop and resume


def checkpoints(kind, directory):
    """Make what gives a checkpoint, with all that the one before it saved."""
    if kind == "memory":
        checkpoint = Checkpoint()
        return lambda: checkpoint
    last = []

    def reopened():
        while last:
            last.pop().close()  # as the end of a process does
        last.append(FileCheckpoint(directory, IDENTITY, interval=3600.0))
        return last[0]

    return reopened


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("stop_at", range(N_STEPS))
def test_a_walk_that_was_stopped_at_any_step_ends_where_it_would_have(
    kind, stop_at, whole, tmp_path
):
    checkpoint_of = checkpoints(kind, tmp_path)
    checkpoint = checkpoint_of()
    with pytest.raises(Stop):
        Record(checkpoint=checkpoint).run("walk", Walk(stop_at=stop_at))
    checkpoint.flush()
    walk, seen = Walk(), []
    record = Record([seen.append], checkpoint_of())
    result = record.run("walk", walk)
    assert walk.called == ["restore", *["advance"] * (N_STEPS - stop_at), "finish", "close"]
    same(result, whole[0])
    assert isinstance(result.by_number[0], Range)
    assert result.n_iter == N_STEPS
    assert without_times(record.history) == whole[1]
    assert len(seen) == 2 * (N_STEPS - stop_at)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_walk_may_be_stopped_again_and_again(kind, whole, tmp_path):
    checkpoint_of = checkpoints(kind, tmp_path)
    for stop_at in (1, 1, 4, "finish"):
        checkpoint = checkpoint_of()
        with pytest.raises(Stop):
            Record(checkpoint=checkpoint).run("walk", Walk(stop_at=stop_at))
        checkpoint.flush()
    walk, record = Walk(), Record(checkpoint=checkpoint_of())
    same(record.run("walk", walk), whole[0])
    assert walk.called.count("advance") == 1  # what is done is saved when it is finished
    assert without_times(record.history) == whole[1]


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_what_is_done_is_not_done_again(kind, whole, tmp_path):
    checkpoint_of = checkpoints(kind, tmp_path)
    checkpoint = checkpoint_of()
    record = Record(checkpoint=checkpoint)
    record.run("first", Walk(), {"class": 0})
    with pytest.raises(Stop):
        record.run("second", Walk(stop_at=3), {"class": 1})
    checkpoint.flush()
    first, second, seen = Walk(), Walk(), []
    record = Record([seen.append], checkpoint_of())
    same(record.run("first", first, {"class": 0}), whole[0])
    same(record.run("second", second, {"class": 1}), whole[0])
    assert first.called == []
    assert second.called.count("advance") == N_STEPS - 3
    assert {row["class"] for row in seen} == {1}
    assert [row["class"] for row in record.history] == [0] * len(whole[1]) + [1] * len(whole[1])


def test_a_walk_that_was_stopped_before_its_first_state_starts_again(whole):
    checkpoint = Checkpoint()
    with pytest.raises(Stop):
        Record(checkpoint=checkpoint).run("walk", Walk(stop_at="start"))
    assert checkpoint.last.states == {}
    walk = Walk()
    same(Record(checkpoint=checkpoint).run("walk", walk), whole[0])
    assert walk.called[0] == "start"


def test_an_interrupt_is_heard_between_two_steps(monkeypatch, whole):
    """The step that was under way counts: the state after it is saved first."""
    left = [3]

    def check():
        left[0] -= 1
        if left[0] < 0:
            raise Stop

    checkpoint, walk = Checkpoint(), Walk()
    with monkeypatch.context() as patch:
        patch.setattr(run.interrupts, "check", check)
        with pytest.raises(Stop):
            Record(checkpoint=checkpoint).run("walk", walk)
    assert walk.called == ["start", *["advance"] * 3, "close"]
    assert checkpoint.last.states["walk"].n_iter == 3
    walk, record = Walk(), Record(checkpoint=checkpoint)
    same(record.run("walk", walk), whole[0])
    assert walk.called.count("advance") == N_STEPS - 3
    assert without_times(record.history) == whole[1]


def test_half_a_step_leaves_no_rows_behind(whole):
    checkpoint = Checkpoint()
    record = Record(checkpoint=checkpoint)
    with pytest.raises(Stop):
        record.run("walk", Walk(stop_at=2))
    assert record.history[-1]["event"] == "half"
    assert without_times(checkpoint.last.history) == whole[1][: 1 + 2 * 2]


def test_rounds_before_the_interruption_are_counted():
    engine, checkpoint = types.SimpleNamespace(rounds=10), Checkpoint()

    class Rounds(Walk):
        def advance(self, state):
            state = super().advance(state)
            engine.rounds += 5
            return state

    record = Record((), checkpoint, engine, rounds_before=8)
    assert record.rounds == 2
    with pytest.raises(Stop):
        record.run("walk", Rounds(stop_at=3))
    assert record.rounds == 17
    engine.rounds = 1  # another engine, after its rows were placed
    record = Record((), checkpoint, engine, rounds_before=1)
    assert record.rounds == 17
    record.run("walk", Rounds())
    assert record.rounds == 2 + 5 * N_STEPS
    assert checkpoint.last.rounds == record.rounds
    assert Record().rounds == 0


# What is computed once


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_something_is_computed_once(kind, tmp_path):
    checkpoint_of = checkpoints(kind, tmp_path)
    checkpoint, place = checkpoint_of(), Place(np.arange(3.0), -np.inf)
    assert Record(checkpoint=checkpoint).once("place", Place, lambda: place) is place
    checkpoint.flush()
    found = Record(checkpoint=checkpoint_of()).once("place", Place, lambda: pytest.fail("again"))
    assert isinstance(found, Place)
    same(found, place)


def solved(record, stop_at=None):
    """Two methods, one after the other, that are one thing together."""

    def compute():
        record.run("class 1/first", Walk(2))
        return record.run("class 1/second", Walk(stop_at=stop_at))

    record.run("class 10/first", Walk(1))
    return record.once("class 1", Walked, compute)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_what_is_inside_is_dropped_when_it_is_done(kind, whole, tmp_path):
    checkpoint_of = checkpoints(kind, tmp_path)
    checkpoint = checkpoint_of()
    with pytest.raises(Stop):
        solved(Record(checkpoint=checkpoint), stop_at=1)
    assert set(checkpoint.last.states) == {"class 10/first", "class 1/first", "class 1/second"}
    checkpoint.flush()
    checkpoint = checkpoint_of()
    same(solved(Record(checkpoint=checkpoint)), whole[0])
    # neither the names that are not its own, nor those that only begin alike
    assert set(checkpoint.last.states) == {"class 10/first", "class 1"}


def test_what_is_under_way_keeps_what_is_inside():
    checkpoint = Checkpoint()
    record = Record(checkpoint=checkpoint)
    record.run("walk/before", Walk(1))
    with pytest.raises(Stop):
        record.run("walk", Walk(stop_at=2))
    assert set(checkpoint.last.states) == {"walk/before", "walk"}
    Record(checkpoint=checkpoint).run("walk", Walk())
    assert set(checkpoint.last.states) == {"walk"}


def test_something_that_failed_is_computed_again():
    checkpoint = Checkpoint()

    def fail():
        raise Stop

    with pytest.raises(Stop):
        Record(checkpoint=checkpoint).once("place", Place, fail)
    place = Place(np.zeros(1), 0.0)
    assert Record(checkpoint=checkpoint).once("place", Place, lambda: place) is place


# States that take work


def test_costly_states_are_saved_only_when_it_is_time(clock):
    clock.tick = 1.0
    walk = CostlyWalk()
    Record(checkpoint=Checkpoint(interval=1e9)).run("walk", walk)
    assert "collect" not in walk.called
    walk = CostlyWalk()
    Record(checkpoint=Checkpoint(interval=0.0)).run("walk", walk)
    # to collect the first one took a second: the next one comes a hundred seconds later
    assert walk.called.count("collect") == 1


def test_costly_states_come_as_often_as_their_cost_allows(clock, monkeypatch):
    class Slow(CostlyWalk):
        def advance(self, state):
            clock.now += 30.0
            return super().advance(state)

        def collect(self, state):
            clock.now += 0.5
            return super().collect(state)

    walk = Slow(12)
    Record(checkpoint=Checkpoint(interval=0.0)).run("walk", walk)
    # at once, and whenever fifty seconds have gone by
    assert walk.called.count("collect") == 6
    monkeypatch.setattr(run, "SAVING_SHARE", 1e9)
    walk = Slow(12)
    Record(checkpoint=Checkpoint(interval=0.0)).run("walk", walk)
    assert walk.called.count("collect") == 12
    walk = Slow(12)
    Record(checkpoint=Checkpoint(interval=100.0)).run("walk", walk)
    assert walk.called.count("collect") == 2


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_costly_walk_resumes_from_the_last_state_that_was_collected(
    kind, whole, tmp_path, monkeypatch
):
    class Now(CostlyWalk):
        """It is time after the second step, and never again."""

        def progress(self, state):
            due.append(state.n_taken == 2)
            return super().progress(state)

    due = []
    checkpoint_of = checkpoints(kind, tmp_path)
    checkpoint = checkpoint_of()
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "due", property(lambda self: bool(due) and due[-1]))
        with pytest.raises(Stop):
            Record(checkpoint=checkpoint).run("walk", Now(stop_at=5))
    checkpoint.flush()
    assert without_times(checkpoint.last.history) == whole[1][: 1 + 2 * 2]
    walk, record = CostlyWalk(), Record(checkpoint=checkpoint_of())
    same(record.run("walk", walk), whole[0])
    assert walk.called.count("advance") == N_STEPS - 2
    assert without_times(record.history) == whole[1]


def test_the_result_of_a_costly_walk_is_always_saved():
    checkpoint = Checkpoint(interval=1e9)
    Record(checkpoint=checkpoint).run("walk", CostlyWalk())
    assert checkpoint.last.states["walk"].done
    walk = CostlyWalk()
    Record(checkpoint=checkpoint).run("walk", walk)
    assert walk.called == []


def test_a_file_is_written_when_it_is_time_and_at_the_end(tmp_path, clock, monkeypatch):
    written = []
    module = "dask_s3vm.checkpoints.state_file"
    monkeypatch.setattr(f"{module}.write_state", lambda *what: written.append(what[2]))
    monkeypatch.setattr(f"{module}.time", clock)

    class Slow(Walk):
        def advance(self, state):
            clock.now += 4.0
            return super().advance(state)

    checkpoint = FileCheckpoint(tmp_path, IDENTITY, interval=10.0)
    checkpoint.flush()
    assert written == []  # nothing there is to be saved
    with pytest.raises(Stop):
        Record(checkpoint=checkpoint).run("walk", Slow(9, stop_at=8))
    assert [one.states["walk"].n_iter for one in written] == [3, 6]
    checkpoint.flush()
    checkpoint.flush()
    assert [one.states["walk"].n_iter for one in written] == [3, 6, 8]


def test_a_file_is_gone_when_all_is_done(tmp_path):
    checkpoint = FileCheckpoint(tmp_path / "state", IDENTITY)
    Record(checkpoint=checkpoint).run("walk", Walk())
    checkpoint.flush()
    assert holds_state(tmp_path / "state")
    checkpoint.clear()
    assert not holds_state(tmp_path / "state")
    assert checkpoint.last == run.Snapshot()


# Errors


@pytest.mark.parametrize("where", ["start", 0, 3, "finish"])
@pytest.mark.parametrize("error", [Stop, ZeroDivisionError])
def test_a_method_is_closed_whatever_happens(where, error):
    walk = Walk(stop_at=where, error=error)
    with pytest.raises(error):
        Record().run("walk", walk)
    assert walk.called.count("close") == 1
    assert walk.called[-1] == "close"


def test_a_method_is_closed_when_it_cannot_be_restored():
    checkpoint = Checkpoint()
    with pytest.raises(Stop):
        Record(checkpoint=checkpoint).run("walk", Walk(stop_at=3))

    class Unable(Walk):
        def restore(self, state):
            raise ZeroDivisionError

    walk = Unable()
    with pytest.raises(ZeroDivisionError):
        Record(checkpoint=checkpoint).run("walk", walk)
    assert walk.called == ["close"]


def test_a_callback_that_fails_ends_the_walk():
    def fail(row):
        if row["event"] == "step":
            raise ZeroDivisionError

    walk = Walk()
    with pytest.raises(ZeroDivisionError):
        Record([fail]).run("walk", walk)
    assert walk.called == ["start", "advance", "close"]


# States field by field


def through_json(kind, value):
    """Write a value and read it back."""
    arrays = {}
    text = json.dumps(encode(to_fields(value), "value", arrays), allow_nan=False)
    return from_fields(kind, decode(json.loads(text), arrays))


def state_after(n_steps):
    walk = Walk()
    state = walk.start()
    for _ in range(n_steps):
        state = walk.advance(state)
    return state


@pytest.mark.parametrize("n_steps", [0, 1, 2, 5])
def test_a_state_comes_back_bit_by_bit(n_steps):
    state = state_after(n_steps)
    back = through_json(WalkState, state)
    same(back, state)
    assert isinstance(back, WalkState)
    assert isinstance(back.place, Place)
    assert isinstance(back.ends, Range)
    assert (back.last is None) == (n_steps == 0)
    assert n_steps == 0 or isinstance(back.last, Place)
    assert type(back.counts) is tuple
    assert type(back.counts[1]) is int  # it was a number of numpy's
    assert type(back.done) is bool
    assert sorted(back.by_number) == list(range(n_steps))
    assert all(isinstance(one, Range) for one in back.by_number.values())
    assert back.place.value == (np.inf if n_steps == 0 else state.place.value)


def test_a_value_of_its_type_stays_what_it_is():
    state = state_after(2)
    assert from_fields(WalkState, state) is state
    assert from_fields(list[np.ndarray], state.trail)[0] is state.trail[0]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (float, float("inf")),
        (float, -float("inf")),
        (float, 3),
        (float, np.float32(0.25)),
        (float, np.int64(4)),
        (int, np.int32(-5)),
        (bool, np.bool_(True)),
        (str, "é"),
        (str | None, None),
        (str | None, "x"),
        (list[int], []),
        (list[float], [1.0, np.float64(2.0)]),
        (tuple[int, ...], (1, 2, 3)),
        (tuple[int, str], (1, "x")),
        (dict[int, str], {1: "x", -2: "y"}),
        (dict[str, dict[int, float]], {"x": {1: 2.0}, "$y": {}}),
        (Any, [1, {"x": None}]),
    ],
)
def test_values_come_back_with_their_type(kind, value):
    back = through_json(kind, value)
    assert back == value
    if kind in (float, int, bool, str):
        assert isinstance(back, kind)
    elif value is not None:
        assert type(back) is type(value)


def test_not_a_number_comes_back():
    assert np.isnan(through_json(float, float("nan")))


FIELDS = to_fields(state_after(3))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("place", None),
        ("place", {"w": np.zeros(3)}),
        ("place", {"w": np.zeros(3), "value": 1.0, "more": 2}),
        ("place", {"w": [1.0], "value": 1.0}),
        ("place", {"w": np.zeros(3), "value": "1.0"}),
        ("place", {"w": np.zeros(3), "value": {}}),
        ("place", {"w": np.zeros(3), "value": 10**400}),
        ("place", {"w": {}, "value": 1.0}),
        ("place", {}),
        ("ends", [1.0]),
        ("ends", [1.0, np.zeros(1), 2]),
        ("ends", {}),
        ("ends", {"low": 1.0, "high": np.zeros(1)}),
        ("last", 3),
        ("trail", np.zeros(3)),
        ("trail", {}),
        ("trail", [np.zeros(3), None]),
        ("by_number", [1, 2]),
        ("by_number", {1: 2}),
        ("by_number", {"one": [1.0, np.zeros(1)]}),
        ("counts", [1]),
        ("counts", [1, 2, 3]),
        ("counts", [1, 2.5]),
        ("least", None),
        ("least", "inf"),
        ("scale", "x"),
        ("n_taken", 2.5),
        ("n_taken", float("inf")),
        ("n_taken", "3"),
        ("n_taken", {}),
        ("done", "no"),
        ("done", None),
    ],
)
def test_fields_of_something_else_are_refused(name, value):
    with pytest.raises(ValueError, match=r"wanted|zip\(\)"):
        from_fields(WalkState, {**FIELDS, name: value})


@pytest.mark.parametrize("value", [None, 3, [], {}, {"done": True}, {**FIELDS, "more": 1}])
def test_what_is_no_state_is_refused(value):
    with pytest.raises(ValueError, match=r"wanted the fields of .*WalkState"):
        from_fields(WalkState, value)


def test_a_record_refuses_a_state_of_another_method():
    checkpoint, walk = Checkpoint(), Walk()
    state = {key: value for key, value in FIELDS.items() if key != "trail"}
    checkpoint.save(run.Snapshot({"walk": Saved(state, False, 3, 0)}))
    with pytest.raises(ValueError, match="wanted the fields of"):
        Record(checkpoint=checkpoint).run("walk", walk)
    assert walk.called == ["close"]
    checkpoint.save(run.Snapshot({"walk": Saved(FIELDS, True, 3, 0)}))
    with pytest.raises(ValueError, match="wanted the fields of"):
        Record(checkpoint=checkpoint).run("walk", walk)
