"""Every round takes effect once on every shard, whichever workers are lost; without a cluster."""

import types

import dask
import numpy as np
import pytest

from dask_s3vm.engine import operations
from dask_s3vm.engine.calls import RemoteGroup, WorkerGroup
from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.operations import Uses, operation, uses_of
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.shard import Shard
from dask_s3vm.exceptions import MemoryShortError, WorkerLostError

LAYOUT = Layout(2, 1, 1, (0, 1, 2), None, False)

#: (operation, shard) in the order in which they were carried out.
done = []


def note(name, shard):
    done.append((name, shard.number))


@operation(sets="base")
def set_base(shard, value):
    note("set_base", shard)
    shard.state["base"] = value


@operation(sets="sum{slot}", reads=["base"])
def set_sum(shard, value, slot):
    note("set_sum", shard)
    shard.state[f"sum{slot}"] = shard.state["base"] + value


@operation(changes="sum{slot}")
def raise_sum(shard, value, slot):
    note("raise_sum", shard)
    shard.state[f"sum{slot}"] += value


@operation(reads=["sum{slot}"])
def read_sum(shard, slot):
    note("read_sum", shard)
    return (shard.state[f"sum{slot}"],)


@operation(reads=["base", "sum1"])
def switch_base(shard):
    """Changes what it reads, as a switch of labels does; the caller remembers the result."""
    shard.state["base"] += 1000
    shard.state["sum1"] += 1000
    return shard.state["base"]


@operation(sets="base")
def put_bases(shard, values):
    shard.state["base"] = values[shard.number]


@operation(reads=["base"])
def read_base(shard):
    return (shard.state["base"],)


def plain(shard):
    note("plain", shard)
    return (1,)


def join(shard):
    return ([shard.number],)


class World:
    """Workers that hold both shards, one each; calls can be made to meet a lost one."""

    def __init__(self):
        self.losses, self.built, self.asked = [], [], []
        self.groups = 0
        self.workers = {"a": 1, "b": 1}
        self.pauses = []
        self.actors = {}
        self.deadly = []  # operations; each entry loses a worker in the next call that runs it

    def assign(self, threads):
        return {"a": [0], "b": [1]} if len(threads) > 1 else {"a": [0, 1]}

    def build(self, shards, threads):
        self.built.append(shards)
        self.groups += len(shards)
        groups = []
        for home, numbers in shards.items():
            key = f"{home}{len(self.actors)}"
            rows = [Shard(number, number, 1, np.ones((1, 1))) for number in numbers]
            self.actors[key] = WorkerGroup(rows, 2, 1)
            actor = types.SimpleNamespace(address=home, key=key, future=key)
            groups.append(RemoteGroup(actor, numbers, 2))
        return groups

    def cancel(self, futures):
        self.groups -= len(futures)

    def worker(self):
        return types.SimpleNamespace(state=types.SimpleNamespace(actors=self.actors))

    def call_all(self, client, calls, method, patience=None):
        if method != "run":
            self.asked.append(method)
        elif self.deadly and calls[0][1][2] is self.deadly[0]:
            self.losses = [self.deadly.pop(0)]
        lost = len(calls) - 1 if method == "run" and self.losses and self.losses.pop(0) else None
        return [
            WorkerLostError("worker z is gone")
            if place == lost
            else getattr(self.actors[actor.key], method)(*args)
            for place, (actor, args) in enumerate(calls)
        ]


@pytest.fixture
def engine_with(monkeypatch):
    """Make an engine of two groups; `losses` says in which of its next calls one is lost."""
    world = World()
    monkeypatch.setattr("dask_s3vm._config.elastic_interval", lambda: 0.0)
    monkeypatch.setattr("dask_s3vm.engine.cluster.call_all", world.call_all)
    monkeypatch.setattr("dask_s3vm.engine.cluster.worker_threads", lambda *_: world.workers)
    monkeypatch.setattr("dask_s3vm.engine.cluster.check_versions", lambda *_: None)
    monkeypatch.setattr("dask_s3vm.engine.computing.interrupts.sleep", world.pauses.append)
    monkeypatch.setattr("dask_s3vm.engine.cluster.distributed.get_worker", world.worker)
    monkeypatch.setattr("dask_s3vm.engine.memory.inside_task", lambda: False)

    def make(losses, workers=None):
        world.workers = workers or world.workers
        client = types.SimpleNamespace(cancel=world.cancel, status="running")
        engine = ClusterEngine(client, world, LAYOUT)
        world.losses = list(losses)
        done.clear()
        return engine, world

    return make


def test_a_declaration_is_filled_in_from_the_arguments():
    assert uses_of(raise_sum, (3.0, 1)) == Uses(changes="sum1")
    assert uses_of(raise_sum, (3.0, 1)).needs == ("sum1",)
    assert uses_of(set_sum, (3.0, 0)) == Uses(sets="sum0", reads=("base",))
    assert uses_of(plain, ()) == Uses()


def test_a_round_without_a_loss_is_done_once(engine_with):
    engine, _ = engine_with([])
    assert engine.sum(plain) == (2,)
    assert sorted(done) == [("plain", 0), ("plain", 1)]
    assert (engine.rounds, engine.losses) == (1, 0)


def test_lists_are_joined_in_the_order_of_the_shards(engine_with):
    engine, world = engine_with([])
    assert engine.sum(join) == ([0, 1],)
    world.losses = [True]
    assert engine.sum(join) == ([0, 1],)


def test_after_a_loss_only_the_lost_shards_do_their_part_again(engine_with):
    engine, world = engine_with([True])
    assert engine.sum(plain) == (2,)
    assert done == [("plain", 0), ("plain", 1)]
    assert world.built == [{"a": [0], "b": [1]}, {"b": [1]}]  # what was lost, and no more
    assert (world.groups, engine.losses, engine.rounds) == (2, 1, 1)


def test_shards_of_a_lost_worker_become_part_of_the_groups_that_are_left(engine_with):
    engine, world = engine_with([True])
    del world.workers["b"]
    assert engine.each(plain) == [(1,), (1,)]
    assert world.built[1:] == [{"a": [1]}]
    assert world.asked == ["absorb"]
    assert world.groups == 1
    assert done == [("plain", 0), ("plain", 1)]


def put_sums(engine):
    engine.each(set_base, 10)
    engine.each(set_sum, 1, 0)
    engine.each(set_sum, 2, 1)
    engine.each(raise_sum, 5, 0)


@pytest.mark.parametrize("at", range(5))
def test_row_state_is_made_again_from_its_recipe_at_any_moment(engine_with, at):
    engine, world = engine_with([])
    world.losses = [False] * at + [True]
    put_sums(engine)
    assert engine.sum(read_sum, 0) == (32,)
    assert engine.sum(read_sum, 1) == (24,)
    assert engine.losses == 1


def test_what_a_round_needs_is_made_in_order_and_nothing_else(engine_with):
    engine, world = engine_with([])
    put_sums(engine)
    done.clear()
    world.losses = [True]
    assert engine.sum(read_sum, 0) == (32,)
    lost = ["set_base", "set_sum", "raise_sum", "read_sum"]
    assert done == [("read_sum", 0), *((name, 1) for name in lost)]
    done.clear()
    assert engine.sum(read_sum, 1) == (24,)  # the other one is made when it is read
    assert sorted(done) == [("read_sum", 0), ("read_sum", 1), ("set_sum", 1)]


def test_state_that_is_set_anew_has_a_new_recipe(engine_with):
    engine, world = engine_with([])
    put_sums(engine)
    engine.each(set_sum, 3, 0)
    world.losses = [True]
    assert engine.sum(read_sum, 0) == (26,)


def test_state_can_be_remembered_otherwise(engine_with):
    engine, world = engine_with([])
    put_sums(engine)
    engine.remember("sum0", set_sum, 6, 0)
    done.clear()
    world.losses = [True]
    assert engine.sum(read_sum, 0) == (32,)
    assert ("raise_sum", 1) not in done


@operation(reads=["sum0"])
def take_sum(shard):
    return shard.state["sum0"]


@operation(sets="sum0")
def put_sum(shard, values):
    note("put_sum", shard)
    shard.state["sum0"] = values[shard.number]


def test_a_long_recipe_becomes_a_copy(engine_with, monkeypatch):
    monkeypatch.setattr(operations, "MOST_BYTES", 20)
    monkeypatch.setattr(operations, "_copies", {"sum0": (take_sum, put_sum)})
    engine, world = engine_with([])
    put_sums(engine)
    for _ in range(4):
        engine.each(raise_sum, np.float64(1.0), 0)
    done.clear()
    world.losses = [True]
    assert engine.sum(read_sum, 0) == (40,)
    assert done.count(("put_sum", 1)) == 1
    assert done.count(("raise_sum", 1)) == 1  # since the copy


def test_what_is_forgotten_is_not_made_again(engine_with):
    engine, world = engine_with([])
    put_sums(engine)
    engine.forget()
    done.clear()
    world.losses = [True]
    assert engine.sum(plain) == (2,)
    assert done == [("plain", 0), ("plain", 1)]


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
    assert world.asked == ["shed"]
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


@pytest.mark.parametrize(
    ("op", "args", "read", "wanted"),
    [
        (set_sum, (100, 0), (read_sum, 0), 220),
        (set_sum, (100, 7), (read_sum, 7), 220),
        (raise_sum, (100, 0), (read_sum, 0), 232),
        (switch_base, (), (read_base,), 2020),
        (switch_base, (), (read_sum, 1), 2024),
    ],
    ids=["sets", "sets a new name", "changes", "remembered", "depends on remembered"],
)
def test_a_worker_that_answered_is_lost_later_in_the_same_round(
    engine_with, op, args, read, wanted
):
    engine, world = engine_with([])
    put_sums(engine)
    del world.workers["b"]
    # "b" is lost; "a", which has answered, takes over its shard, and is lost while it runs on it
    world.deadly = [op, op]
    bits = engine.each(op, *args)
    assert engine.losses == 2
    if op is switch_base:
        engine.remember("base", put_bases, bits)
    assert engine.sum(*read) == (wanted,)
