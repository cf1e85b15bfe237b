"""Solves that share rounds have the bits that they have alone."""

import threading
from dataclasses import replace
from functools import partial

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_s3vm.engine import lanes, operations
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.lanes import run_together
from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.interrupts import Interrupt, Work
from dask_s3vm.problems.hinge import L2SVMProblem
from dask_s3vm.solvers.newton import finite_newton

pytestmark = pytest.mark.usefixtures("tiny_shards")


@pytest.fixture
def rows(rng):
    y = np.arange(400) % 5
    return rng.normal(size=(400, 6)) + np.eye(6)[y], y


def solve(positive, lam, engine):
    """Weights of an l2-SVM with every ninth row held out."""
    engine.forget()
    engine.each(hold_out, np.arange(positive, 400, 9))
    problem = L2SVMProblem(engine, lam, positive, np.ones(5))
    w = np.zeros(engine.layout.n_features + 1)
    return finite_newton(problem, problem.evaluate(w), 1e-9, 50).point.w.tobytes()


def works_of(solves):
    return [lambda engine, one=one: solve(*one, engine) for one in solves]


SOLVES = [(positive, lam) for positive in range(5) for lam in (1e-1, 1e-4)]


@pytest.fixture
def alone(rows):
    with dask.config.set({"s3vm.threads": 1}):
        engine = ingest(*rows).place(np.arange(5))
        return [work(engine) for work in works_of(SOLVES)]


def lane_threads():
    return [one for one in threading.enumerate() if one.name == "s3vm-lane"]


@pytest.fixture(params=["cluster", "threads"])
def engine_of(request, losses, monkeypatch):
    """Place rows; solves on them share rounds, or have threads of their own."""
    monkeypatch.setattr(lanes, "KERNEL_BYTES", 0)

    def place(rows):
        if request.param == "cluster":
            return losses(*rows).engine()
        with dask.config.set({"s3vm.threads": 3}):
            return ingest(*rows).place(np.arange(5))

    return place


@pytest.mark.parametrize("most", [2, 3, 8])
def test_threads_with_solves_of_their_own_give_the_same_bits(rows, alone, most, monkeypatch):
    monkeypatch.setattr(lanes, "KERNEL_BYTES", 0)
    begun = set()

    def seen(work, engine):
        begun.add(threading.get_ident())
        return work(engine)

    with dask.config.set({"s3vm.threads": most}):
        engine = ingest(*rows).place(np.arange(5))
    before = engine.rounds
    assert run_together(engine, [partial(seen, work) for work in works_of(SOLVES)]) == alone
    assert threading.get_ident() not in begun
    n_rounds = engine.rounds - before
    assert not any(shard.state for shard in engine.shared_rows().shards)
    assert all(shard.weights is None for shard in engine.shared_rows().shards)
    again = ingest(*rows).place(np.arange(5))
    assert run_together(again, works_of(SOLVES)[:1]) == alone[:1]  # nothing to run beside
    for work in works_of(SOLVES)[1:]:
        work(again)
    assert n_rounds == again.rounds
    assert not lane_threads()


@pytest.mark.parametrize(
    "reason", ["small", "no memory", "file", "one thread", "one at once", "threads would be idle"]
)
def test_solves_in_turn(rows, monkeypatch, reason):
    monkeypatch.setattr(lanes, "KERNEL_BYTES", 1 << 20 if reason == "small" else 0)
    if reason == "no memory":
        monkeypatch.setattr(lanes, "LANE_BYTES", 1)
    n_threads = {"one thread": 1, "threads would be idle": 4}.get(reason, 2)
    with dask.config.set({"s3vm.threads": n_threads}):
        engine = ingest(*rows).place(np.arange(5))
    assert engine.layout.n_shards >= 4
    engine.layout = replace(engine.layout, mapped=reason == "file")
    with dask.config.set({"s3vm.solves-at-once": 1 if reason == "one at once" else 32}):
        assert run_together(engine, [lambda one: one] * 3) == [engine] * 3


def test_rows_that_a_solve_alone_held_out_are_back(rows, alone, engine_of):
    engine = engine_of(rows)
    assert run_together(engine, works_of(SOLVES[:1])) == alone[:1]  # leaves them held out
    assert run_together(engine, works_of(SOLVES[1:])) == alone[1:]
    assert run_together(engine, works_of(SOLVES[:1])) == alone[:1]


def test_rows_held_out_of_all_solves_stay_so(rows, engine_of):
    held = np.arange(0, 400, 7)

    def weights(engine):
        engine.each(set_total)
        return [np.flatnonzero(w == 0).tolist() for w in engine.each(weights_of)]

    engine = engine_of(rows)
    engine.each(hold_out, held)
    before = weights(engine)
    assert sum(map(len, before)) == len(held)
    assert run_together(engine, [weights] * 3) == [before] * 3


@pytest.mark.parametrize("most", [2, 3, 32])
def test_lanes_give_the_same_bits_in_fewer_rounds(rows, alone, losses, most):
    cluster = losses(*rows)
    engine = cluster.engine()
    with dask.config.set({"s3vm.solves-at-once": most}):
        assert run_together(engine, works_of(SOLVES)) == alone
    rounds = engine.rounds
    assert not any(shard.state for group in cluster.actors.values() for shard in group.shards)
    again = losses(*rows).engine()
    for work in works_of(SOLVES):
        work(again)
    assert rounds < again.rounds / (0.6 * min(most, len(SOLVES)))
    assert not lane_threads()


def test_rows_lost_at_any_round_are_restored_for_every_lane(rows, alone, losses):
    chosen = SOLVES[:4]
    cluster = losses(*rows)
    cluster.engine()
    engine = cluster.engine()
    assert run_together(engine, works_of(chosen)) == alone[:4]
    n_calls = cluster.calls
    for at in range(1, n_calls + 1):
        engine = cluster.engine(at)
        assert run_together(engine, works_of(chosen)) == alone[:4], at
        assert engine.losses == 1


def weights_of(shard):
    return shard.weights


@operation(sets="total")
def set_total(shard):
    shard.state["total"] = 0.0


@operation(changes="total")
def add_to_total(shard, values):
    shard.state["total"] += values.sum()


@operation(reads=["total"])
def take_total(shard):
    return shard.state["total"]


@operation(sets="total")
def put_total(shard, copies):
    shard.state["total"] = copies[shard.number]


def test_long_recipes_of_lanes_become_copies(rows, losses, monkeypatch):
    """What the client holds for a recovery is bounded, and a recovery from copies is right."""
    monkeypatch.setattr(operations, "MOST_BYTES", 100)
    monkeypatch.setattr(operations, "_copies", {"total": (take_total, put_total)})
    cluster = losses(*rows)

    def work(value, engine):
        engine.each(set_total)
        for _ in range(20):
            engine.each(add_to_total, np.full(5, value))  # 40 bytes
            held = [recipe.nbytes for recipe in engine._engine._recipes._by_name.values()]
            assert max(held) <= 100 + 40
        return engine.each(take_total)

    works = [partial(work, value) for value in (1.0, 2.0, 3.0)]
    cluster.engine()
    wanted = run_together(cluster.engine(), works)
    n_calls = cluster.calls
    assert [set(one) for one in wanted] == [{100.0}, {200.0}, {300.0}]
    for at in range(2, n_calls + 1, 5):
        assert run_together(cluster.engine(at), works) == wanted, at


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_error_of_one_solve_ends_all(rows, engine_of, error):
    closed = []

    def failing(engine):
        solve(0, 1e-1, engine)
        raise error

    def endless(engine):
        try:
            while True:
                engine.sum(count_rows)
        finally:
            closed.append(engine)

    with dask.config.set({"s3vm.threads": 3}):
        engine = engine_of(rows)
        with pytest.raises(type(error)):
            run_together(engine, [endless, failing, endless])
    assert len(closed) == 2
    assert not lane_threads()
    assert engine.sum(count_rows) == (400,)


def test_an_interrupt_ends_all(rows, engine_of):
    begun = threading.Event()

    def endless(engine):
        while True:
            engine.sum(count_rows)
            begun.set()

    with dask.config.set({"s3vm.threads": 3}):
        engine = engine_of(rows)
    interrupt = Interrupt()
    work = Work(lambda: run_together(engine, [endless] * 4), interrupt)
    work.start()
    assert begun.wait(60.0)
    interrupt.ask()
    assert work.ended(60.0)
    with pytest.raises(KeyboardInterrupt):
        work.result()
    assert not lane_threads()


def test_an_error_in_a_shard_ends_all(rows, engine_of):
    with dask.config.set({"s3vm.threads": 2}):
        engine = engine_of(rows)
        with pytest.raises(ZeroDivisionError):
            run_together(engine, [lambda lane, k=k: lane.sum(divide, k) for k in (1, 0, 2)])
    assert not lane_threads()


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=9), most=st.integers(2, 4))
def test_lanes_of_any_lengths_keep_their_own_row_state(lengths, most):
    """Works of different lengths, with sums and lists, in lanes that are used again."""
    rng = np.random.default_rng(0)
    with dask.config.set({"s3vm.threads": 1, "s3vm.shard-bytes": 512}):
        engine = ingest(rng.normal(size=(60, 4)), np.arange(60) % 2).place(np.arange(2))

    def work(number, lane):
        lane.each(set_mark, number)
        found = []
        for step in range(lengths[number]):
            found.append(lane.sum(marked, step) if step % 2 else lane.each(marked, step))
            lane.each(raise_mark, 10)
        return found

    works = [lambda lane, number=number: work(number, lane) for number in range(len(lengths))]
    found = lanes._Lanes(engine, works, min(most, len(works))).run()
    assert found == [one(engine) for one in works]


@operation(sets="mark")
def set_mark(shard, value):
    shard.state["mark"] = value


@operation(changes="mark")
def raise_mark(shard, by):
    shard.state["mark"] += by


@operation(reads=["mark"])
def marked(shard, step):
    return shard.state["mark"] + step, shard.number


def count_rows(shard):
    return (shard.n_rows,)


def divide(shard, by):
    return (shard.n_rows // by,)
