"""Every round takes effect once on every shard, whichever workers are lost; without a cluster."""

import numpy as np
import pytest
from two_workers import (
    done,
    join,
    note,
    plain,
    put_bases,
    put_sums,
    raise_sum,
    read_base,
    read_sum,
    set_sum,
    switch_base,
)

from dask_s3vm.engine import operations
from dask_s3vm.engine.operations import Uses, operation, uses_of


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


def uses_of_both(by):
    parts = (raise_sum, (by, 0)), (switch_base, ())
    return Uses(calls=tuple((op, args, uses_of(op, args)) for op, args in parts))


@operation(uses=uses_of_both)
def raise_and_switch(shard, by):
    """Two operations in one round: the state of one has a copy, that of the other is remembered."""
    raise_sum(shard, by, 0)
    return switch_base(shard)


def test_a_copy_of_row_state_does_not_hide_what_a_lost_worker_missed(engine_with, monkeypatch):
    monkeypatch.setattr(operations, "MOST_BYTES", 0)
    monkeypatch.setattr(operations, "_copies", {"sum0": (take_sum, put_sum)})
    engine, world = engine_with([])
    put_sums(engine)
    del world.workers["b"]
    world.deadly = [raise_and_switch, raise_and_switch]
    bases = engine.each(raise_and_switch, np.float64(100.0))
    assert engine.losses == 2
    engine.remember("base", put_bases, bases)
    assert engine.sum(read_base) == (2020,)
