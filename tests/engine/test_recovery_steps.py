"""Steps as transactions: what is done again after a loss, without a cluster."""

import dask
import pytest

from dask_s3vm.engine.cluster import ClusterEngine
from dask_s3vm.engine.plan import Layout
from dask_s3vm.exceptions import WorkerLostError

LAYOUT = Layout(2, 1, 1, 1, (0, 1, 2), None)


class FakeGroup:
    """A group whose calls fail as often as the list of failures says."""

    def __init__(self, world):
        self.world = world
        world["open"] += 1

    def start(self, method, op, args):
        def wait():
            self.world["calls"].append(op)
            if self.world["losses"] and self.world["losses"].pop(0):
                raise WorkerLostError("gone")
            return (1,) if method == "sum" else [1]

        return wait

    def by_node(self, parts):
        yield (0, 2), parts

    def close(self):
        self.world["open"] -= 1


def engine_with(losses):
    """An engine of one group; `losses` says which of its next calls are lost."""
    world = {"losses": [], "calls": [], "open": 0, "placed": 0}

    def place():
        world["placed"] += 1
        return [FakeGroup(world)]

    engine = ClusterEngine(place, LAYOUT)
    engine.prepare("state", "prepare")
    world["losses"] = list(losses)
    world["calls"].clear()
    return engine, world


def test_a_step_without_a_loss_is_done_once():
    engine, world = engine_with([])
    assert engine.step(lambda: engine.sum("op")) == (1,)
    assert world["calls"] == ["op"]
    assert engine.generation == 0


def test_after_a_loss_rows_are_placed_prepared_and_the_step_done_again():
    engine, world = engine_with([True])
    assert engine.step(lambda: engine.sum("op")) == (1,)
    assert world["calls"] == ["op", "prepare", "op"]
    assert (world["placed"], world["open"], engine.generation) == (2, 1, 1)


def test_a_second_loss_while_recovering_is_survived():
    engine, world = engine_with([True, True])
    assert engine.step(lambda: engine.sum("op")) == (1,)
    assert world["calls"] == ["op", "prepare", "prepare", "op"]
    assert (world["placed"], world["open"]) == (3, 1)


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_the_engine_gives_up_after_the_configured_number_of_attempts(attempts):
    engine, world = engine_with([True, False] * 10)
    with (
        dask.config.set({"s3vm.recovery-attempts": attempts}),
        pytest.raises(WorkerLostError, match="gone"),
    ):
        engine.step(lambda: engine.sum("op"))
    assert world["calls"].count("op") == attempts + 1


def test_other_errors_are_not_tried_again():
    engine, world = engine_with([])

    def advance():
        world["calls"].append("advance")
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        engine.step(advance)
    assert world["calls"] == ["advance"]


def test_a_preparation_of_the_same_name_replaces_the_old_one():
    engine, world = engine_with([])
    engine.prepare("state", "other")
    world["losses"] = [True]
    engine.step(lambda: engine.sum("op"))
    assert world["calls"] == ["other", "op", "other", "op"]


def test_closing_lets_go_of_all_groups():
    engine, world = engine_with([])
    engine.close()
    engine.close()
    assert world["open"] == 0
