"""The loop that drives all methods: history, progress, outer iterations, errors."""

from dataclasses import replace

import pytest
from walks import N_STEPS, Place, Stop, Walk, without_times

from dask_s3vm.methods.run import Checkpoint, Record

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
    tags = {"class": 1}
    record.run("walk", Walk(2), tags)
    assert told == [(tags, "first step", None), (tags, "step 1", 0.0), (tags, "step 2", 0.5)]


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
