"""Steps as transactions: what is done again after a loss, without a cluster."""

import dask
import pytest

from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.plan import Layout
from dask_s3vm.exceptions import WorkerLostError

LAYOUT = Layout(2, 1, (0, 1, 2), None, False)


class FakeGroup:
    """A group of both shards, and its own actor and future."""

    def __init__(self, world):
        world["open"] += 1
        self.actor = self.future = self

    def by_node(self, parts):
        yield (0, 2), parts


class FakeClient:
    def __init__(self, world):
        self.world = world

    def cancel(self, futures):
        self.world["open"] -= len(futures)


@pytest.fixture
def engine_with(monkeypatch):
    """Make an engine of one group; `losses` says which of its next calls are lost."""
    world = {"losses": [], "calls": [], "open": 0, "placed": 0}

    def call_all(client, actors, method, args):
        if method == "close":
            return []
        world["calls"].append(args[0])
        if world["losses"] and world["losses"].pop(0):
            raise WorkerLostError("gone")
        return [(1,)] if method == "sum" else [[1]]

    def place():
        world["placed"] += 1
        return [FakeGroup(world)]

    def make(losses):
        monkeypatch.setattr("dask_s3vm.engine.cluster.call_all", call_all)
        monkeypatch.setattr("dask_s3vm.engine.cluster.time.sleep", lambda seconds: None)
        engine = ClusterEngine(FakeClient(world), place, LAYOUT)
        engine.prepare("state", "prepare")
        world["losses"] = list(losses)
        world["calls"].clear()
        return engine, world

    return make


def test_a_step_without_a_loss_is_done_once(engine_with):
    engine, world = engine_with([])
    assert engine.step(lambda: engine.sum("op")) == (1,)
    assert world["calls"] == ["op"]
    assert engine.generation == 0


def test_after_a_loss_rows_are_placed_prepared_and_the_step_done_again(engine_with):
    engine, world = engine_with([True])
    assert engine.step(lambda: engine.sum("op")) == (1,)
    assert world["calls"] == ["op", "prepare", "op"]
    assert (world["placed"], world["open"], engine.generation) == (2, 1, 1)


def test_a_second_loss_while_recovering_is_survived(engine_with):
    engine, world = engine_with([True, True])
    assert engine.step(lambda: engine.sum("op")) == (1,)
    assert world["calls"] == ["op", "prepare", "prepare", "op"]
    assert (world["placed"], world["open"]) == (3, 1)


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_the_engine_gives_up_after_the_configured_number_of_attempts(engine_with, attempts):
    engine, world = engine_with([True, False] * 10)
    with (
        dask.config.set({"s3vm.recovery-attempts": attempts}),
        pytest.raises(WorkerLostError, match="gone"),
    ):
        engine.step(lambda: engine.sum("op"))
    assert world["calls"].count("op") == attempts + 1


def test_other_errors_are_not_tried_again(engine_with):
    engine, world = engine_with([])

    def advance():
        world["calls"].append("advance")
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        engine.step(advance)
    assert world["calls"] == ["advance"]


def test_a_preparation_of_the_same_name_replaces_the_old_one(engine_with):
    engine, world = engine_with([])
    engine.prepare("state", "other")
    world["losses"] = [True]
    engine.step(lambda: engine.sum("op"))
    assert world["calls"] == ["other", "op", "other", "op"]


def test_closing_lets_go_of_all_groups(engine_with):
    engine, world = engine_with([])
    engine.close()
    engine.close()
    assert world["open"] == 0


def test_a_step_within_a_step_starts_the_outer_one_again(engine_with):
    engine, world = engine_with([False, True])

    def advance():
        engine.sum("outer")
        return engine.step(lambda: engine.sum("inner"))

    assert engine.step(advance) == (1,)
    assert world["calls"] == ["outer", "inner", "prepare", "outer", "inner"]


def test_state_is_put_back_in_the_order_in_which_names_first_came(engine_with):
    engine, world = engine_with([])
    engine.prepare("labels", "labels")
    engine.remember("state", "later")
    world["calls"].clear()
    world["losses"] = [True]
    engine.step(lambda: engine.sum("op"))
    assert world["calls"] == ["op", "later", "labels", "op"]
