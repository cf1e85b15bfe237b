"""Steps as transactions: what is done again after a loss, without a cluster."""

import types

import dask
import pytest

from dask_s3vm.engine.cluster import ActorGroup, ClusterEngine
from dask_s3vm.engine.plan import Layout
from dask_s3vm.exceptions import MemoryShortError, WorkerLostError

LAYOUT = Layout(2, 1, (0, 1, 2), None, False)


class World:
    """Workers that hold both shards, one each, and what has been asked of them."""

    def __init__(self):
        self.losses, self.calls, self.built = [], [], []
        self.groups = 0
        self.held = {}
        self.lost = None
        self.workers = {"a": 1, "b": 1}
        self.pauses = []

    def assign(self, threads):
        return {"a": [0], "b": [1]} if len(threads) > 1 else {"a": [0, 1]}

    def build(self, shards, threads, epoch):
        self.built.append(shards)
        self.groups += len(shards)
        for home, numbers in shards.items():
            self.held[home] = sorted(self.held.get(home, []) + numbers)
        return [
            ActorGroup(types.SimpleNamespace(address=home, key=home, future=home), numbers, 2)
            for home, numbers in shards.items()
        ]

    def cancel(self, futures):
        self.groups -= len(futures)

    def call_all(self, client, actors, method, args, patience=None):
        if method == "run":
            _, method, op = args
            self.calls.append(op)
            if self.losses and self.losses.pop(0):
                self.lost = actors[-1].address
                self.held.pop(self.lost)
                raise WorkerLostError("worker z is gone")
        else:
            self.calls.append(method)
        if method == "shed":
            self.held[actors[0].address] = [0]
        if method == "sum":
            return [(1,)] * len(actors)
        return [[1] * len(self.held[actor.address]) for actor in actors]

    def call_each(self, client, actors, method, args):
        lost, self.lost = self.lost, None
        return [
            WorkerLostError("gone") if actor.address == lost else self.held[actor.address]
            for actor in actors
        ]


@pytest.fixture
def engine_with(monkeypatch):
    """Make an engine of two groups; `losses` says in which of its next calls one is lost."""
    world = World()
    monkeypatch.setattr("dask_s3vm._config.elastic_interval", lambda: 0.0)

    def make(losses, workers=None):
        world.workers = workers or world.workers
        monkeypatch.setattr("dask_s3vm.engine.cluster.call_all", world.call_all)
        monkeypatch.setattr("dask_s3vm.engine.cluster.call_each", world.call_each)
        monkeypatch.setattr("dask_s3vm.engine.cluster.worker_threads", lambda *_: world.workers)
        monkeypatch.setattr("dask_s3vm.engine.cluster.check_versions", lambda *_: None)
        monkeypatch.setattr("dask_s3vm.engine.budget.interrupts.sleep", world.pauses.append)
        client = types.SimpleNamespace(cancel=world.cancel, status="running")
        engine = ClusterEngine(client, world, LAYOUT)
        engine.prepare("state", "prepare")
        world.losses = list(losses)
        world.calls.clear()
        return engine, world

    return make


def test_a_step_without_a_loss_is_done_once(engine_with):
    engine, world = engine_with([])
    assert engine.step(lambda: engine.sum("op")) == (2,)
    assert world.calls == ["op"]
    assert engine.generation == 0


def test_after_a_loss_rows_are_placed_prepared_and_the_step_done_again(engine_with):
    engine, world = engine_with([True])
    assert engine.step(lambda: engine.sum("op")) == (2,)
    assert world.calls == ["op", "prepare", "op"]
    assert world.built == [{"a": [0], "b": [1]}, {"b": [1]}]  # what was lost, and no more
    assert (world.groups, engine.generation) == (2, 1)


def test_shards_of_a_lost_worker_become_part_of_the_groups_that_are_left(engine_with):
    engine, world = engine_with([True])
    del world.workers["b"]
    assert engine.step(lambda: engine.each("op")) == [1, 1]
    assert world.built[1:] == [{"a": [1]}]
    assert world.calls == ["op", "absorb", "prepare", "op"]
    assert world.groups == 1


def test_a_second_loss_while_recovering_is_survived(engine_with):
    engine, world = engine_with([True, True])
    assert engine.step(lambda: engine.sum("op")) == (2,)
    assert world.calls == ["op", "prepare", "prepare", "op"]
    assert (len(world.built), world.groups) == (3, 2)


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_the_engine_gives_up_after_the_configured_number_of_attempts(engine_with, attempts):
    engine, world = engine_with([True, False] * 10)
    with (
        dask.config.set({"s3vm.recovery-attempts": attempts}),
        pytest.raises(WorkerLostError, match=rf"gave up after {attempts} .*worker z is gone.*logs"),
    ):
        engine.step(lambda: engine.sum("op"))
    assert world.calls.count("op") == attempts + 1
    assert world.pauses == [0.0, 0.5, 1.0][:attempts]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets."""
    now = [0.0]
    monkeypatch.setattr("dask_s3vm.engine.budget.time.monotonic", lambda: now[0])
    return now


def lose(engine, world, times):
    world.losses = [True, False] * times
    engine.step(lambda: engine.sum("op"))


def test_losses_spread_over_a_long_fit_do_not_add_up(engine_with, clock):
    engine, world = engine_with([])
    with dask.config.set({"s3vm.recovery-attempts": 2, "s3vm.recovery-window": "60 s"}):
        for _ in range(20):
            lose(engine, world, 1)
            clock[0] += 31


def test_losses_close_to_each_other_add_up_over_steps(engine_with, clock):
    engine, world = engine_with([])
    with dask.config.set({"s3vm.recovery-attempts": 2, "s3vm.recovery-window": "60 s"}):
        lose(engine, world, 2)
        clock[0] += 59
        with pytest.raises(WorkerLostError, match="gave up after 2"):
            lose(engine, world, 1)


def test_losses_of_a_step_that_is_never_completed_are_not_forgotten(engine_with, clock):
    engine, world = engine_with([True] * 9)

    def advance():
        clock[0] += 3600
        engine.sum("op")

    world.losses = [True, False] * 9
    with pytest.raises(WorkerLostError, match="gave up after 5"):
        engine.step(advance)


def test_other_errors_are_not_tried_again(engine_with):
    engine, world = engine_with([])

    def advance():
        world.calls.append("advance")
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        engine.step(advance)
    assert world.calls == ["advance"]


def test_a_preparation_of_the_same_name_replaces_the_old_one(engine_with):
    engine, world = engine_with([])
    engine.prepare("state", "other")
    world.losses = [True]
    engine.step(lambda: engine.sum("op"))
    assert world.calls == ["other", "op", "other", "op"]


def test_closing_lets_go_of_all_groups(engine_with):
    engine, world = engine_with([])
    engine.close()
    engine.close()
    assert world.groups == 0


def test_a_step_within_a_step_starts_the_outer_one_again(engine_with):
    engine, world = engine_with([False, True])

    def advance():
        engine.sum("outer")
        return engine.step(lambda: engine.sum("inner"))

    assert engine.step(advance) == (2,)
    assert world.calls == ["outer", "inner", "prepare", "outer", "inner"]


def test_state_is_put_back_in_the_order_in_which_names_first_came(engine_with):
    engine, world = engine_with([])
    engine.prepare("labels", "labels")
    engine.remember("state", "later")
    world.calls.clear()
    world.losses = [True]
    engine.step(lambda: engine.sum("op"))
    assert world.calls == ["op", "later", "labels", "op"]


@pytest.fixture
def joined(engine_with):
    """An engine of one group, and a worker that has joined since."""
    engine, world = engine_with([], {"a": 1})
    world.workers = {"a": 1, "b": 1}
    engine._census = types.SimpleNamespace(
        due=lambda: True, workers=lambda: world.workers, forget=lambda: None
    )
    return engine, world


def test_a_share_moves_to_a_worker_that_joined(joined):
    engine, world = joined
    assert engine.step(lambda: engine.each("op")) == [1, 1]
    assert world.built == [{"a": [0, 1]}, {"b": [1]}]
    assert world.calls == ["shed", "prepare", "op"]
    assert (world.groups, engine.generation) == (2, 1)
    assert engine.step(lambda: engine.each("op")) == [1, 1]  # it is fair now: nothing moves
    assert len(world.built) == 2


def test_a_worker_lost_while_shards_move_is_survived(joined):
    engine, world = joined
    world.lost = "a"
    world.held.pop("a")
    world.workers = {"a": 1, "b": 1}
    assert engine.step(lambda: engine.each("op")) == [1, 1]
    assert world.built == [{"a": [0, 1]}, {"b": [1]}, {"a": [0]}]
    assert world.calls == ["prepare", "op"]


def test_a_worker_that_cannot_be_used_is_left_alone(joined, monkeypatch):
    engine, world = joined

    def build(shards, threads, epoch):
        raise WorkerLostError("gone before it began")

    monkeypatch.setattr(world, "build", build)
    assert engine.step(lambda: engine.each("op")) == [1, 1]
    assert world.calls == ["op"]
    assert engine.generation == 0


def test_what_does_not_fit_after_a_loss_waits_for_a_replacement(engine_with, monkeypatch, clock):
    engine, world = engine_with([True])
    build, pauses = world.build, []

    def too_much(shards, threads, epoch):
        if len(threads) < 2:
            raise MemoryShortError("does not fit")
        return build(shards, threads, epoch)

    def pause(seconds):
        pauses.append(seconds)
        clock[0] += seconds
        if len(pauses) == 3:
            world.workers = {"a": 1, "new": 1}

    del world.workers["b"]
    monkeypatch.setattr(world, "build", too_much)
    monkeypatch.setattr("dask_s3vm.engine.cluster.interrupts.sleep", pause)
    assert engine.step(lambda: engine.sum("op")) == (2,)
    assert world.built[1:] == [{"new": [1]}]
    world.losses, world.workers = [True], {"a": 1}
    with (
        dask.config.set({"s3vm.replacement-timeout": "5 s"}),
        pytest.raises(MemoryShortError, match="does not fit"),
    ):
        engine.step(lambda: engine.sum("op"))
