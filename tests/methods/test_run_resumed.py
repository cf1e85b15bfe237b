"""A method that was stopped resumes where it was, and ends where it would have."""

import types

import numpy as np
import pytest
from walks import (
    IDENTITY,
    N_STEPS,
    CostlyWalk,
    Place,
    Range,
    Stop,
    Walk,
    Walked,
    same,
    without_times,
)

from dask_s3vm.checkpoints import FileCheckpoint, holds_state
from dask_s3vm.methods import run
from dask_s3vm.methods.run import Checkpoint, Record

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
