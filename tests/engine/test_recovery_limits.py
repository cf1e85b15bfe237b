"""How many losses a fit survives, what it waits for, and workers that join; without a cluster."""

import types

import dask
import pytest
from two_workers import (
    done,
    note,
    plain,
    put_sums,
    read_sum,
)

from dask_s3vm.exceptions import MemoryShortError, WorkerLostError


def test_further_losses_while_recovering_are_survived(engine_with):
    engine, world = engine_with([])
    put_sums(engine)
    world.losses = [True, True, False, True, True]
    assert engine.sum(read_sum, 0) == (32,)
    assert engine.losses == 4


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_the_engine_gives_up_after_the_configured_number_of_attempts(engine_with, attempts):
    engine, world = engine_with([True] * 10)
    with (
        dask.config.set({"s3vm.recovery-attempts": attempts}),
        pytest.raises(WorkerLostError, match=rf"gave up after {attempts} .*worker z is gone.*logs"),
    ):
        engine.sum(plain)
    assert engine.losses == attempts + 1
    assert world.pauses == [0.0, 0.5, 1.0][:attempts]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets."""
    now = [0.0]
    monkeypatch.setattr("dask_s3vm.engine.computing.time.monotonic", lambda: now[0])
    return now


def lose(engine, world, times):
    world.losses = [True] * times
    engine.sum(plain)


def test_losses_spread_over_a_long_fit_do_not_add_up(engine_with, clock):
    engine, world = engine_with([])
    with dask.config.set({"s3vm.recovery-attempts": 2, "s3vm.recovery-window": "60 s"}):
        for _ in range(20):
            lose(engine, world, 1)
            clock[0] += 31


def test_losses_close_to_each_other_add_up_over_rounds(engine_with, clock):
    engine, world = engine_with([])
    with dask.config.set({"s3vm.recovery-attempts": 2, "s3vm.recovery-window": "60 s"}):
        lose(engine, world, 2)
        clock[0] += 59
        with pytest.raises(WorkerLostError, match="gave up after 2"):
            lose(engine, world, 1)


def test_losses_of_a_round_that_is_never_completed_are_not_forgotten(engine_with, clock):
    engine, world = engine_with([])

    class Always:
        def pop(self, place):
            clock[0] += 3600
            return True

    world.losses = Always()
    with pytest.raises(WorkerLostError, match="gave up after 5"):
        engine.sum(plain)


def fail(shard):
    note("fail", shard)
    raise ValueError("wrong")


def test_other_errors_are_not_tried_again(engine_with):
    engine, _ = engine_with([])
    with pytest.raises(ValueError, match="wrong"):
        engine.sum(fail)
    assert len(done) == 1


def test_closing_lets_go_of_all_groups(engine_with):
    engine, world = engine_with([])
    engine.close()
    engine.close()
    assert world.groups == 0


@pytest.fixture
def joined(engine_with):
    """An engine of one group, and a worker that has joined since."""
    engine, world = engine_with([], {"a": 1})
    put_sums(engine)
    done.clear()
    world.workers = {"a": 1, "b": 1}
    engine._worker_list = types.SimpleNamespace(
        updated=lambda: True, workers=lambda: world.workers, forget=lambda: None
    )
    return engine, world


def test_a_share_moves_to_a_worker_that_joined(joined):
    engine, world = joined
    assert engine.sum(read_sum, 0) == (32,)
    assert world.built == [{"a": [0, 1]}, {"b": [1]}]
    assert world.asked == ["shed", "take_seconds"]  # and how fast they are
    assert (world.groups, engine.losses) == (2, 0)
    assert engine.sum(read_sum, 1) == (24,)  # it is fair now: nothing moves
    assert len(world.built) == 2


def test_a_worker_lost_while_shards_move_is_survived(joined, monkeypatch):
    engine, world = joined
    call_all = world.call_all

    def lose_it(client, calls, method, patience=None):
        if method == "shed":
            return [WorkerLostError("gone")]
        return call_all(client, calls, method, patience)

    monkeypatch.setattr("dask_s3vm.engine.cluster.call_all", lose_it)
    assert engine.sum(read_sum, 0) == (32,)
    assert world.built == [{"a": [0, 1]}, {"b": [1]}, {"a": [0]}]


def test_a_worker_that_cannot_be_used_is_left_alone(joined, monkeypatch):
    engine, world = joined

    def build(shards, threads):
        raise WorkerLostError("gone before it began")

    monkeypatch.setattr(world, "build", build)
    assert engine.sum(read_sum, 0) == (32,)
    assert engine.losses == 0


def test_what_does_not_fit_after_a_loss_waits_for_a_replacement(engine_with, monkeypatch, clock):
    engine, world = engine_with([True])
    build, pauses = world.build, []

    def too_much(shards, threads):
        if len(threads) < 2:
            raise MemoryShortError("does not fit")
        return build(shards, threads)

    def pause(seconds):
        pauses.append(seconds)
        clock[0] += seconds
        if seconds == 1.0 and pauses.count(1.0) == 3:
            world.workers = {"a": 1, "new": 1}

    del world.workers["b"]
    monkeypatch.setattr(world, "build", too_much)
    monkeypatch.setattr("dask_s3vm.engine.cluster.interrupts.sleep", pause)
    assert engine.sum(plain) == (2,)
    assert world.built[1:] == [{"new": [1]}]
    world.losses, world.workers = [True], {"a": 1}
    with (
        dask.config.set({"s3vm.replacement-timeout": "5 s"}),
        pytest.raises(MemoryShortError, match="does not fit"),
    ):
        engine.sum(plain)
