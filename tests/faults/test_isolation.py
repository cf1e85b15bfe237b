"""Fits side by side do not disturb each other, and no fit leaves anything behind."""

import contextlib
import gc
import threading
import time

import dask
import numpy as np
import pytest
from cases import METHODS, fit, found, reference
from clients import two_workers
from processes import Processes, in_process
from waiting import LIMIT, wait_until

from dask_s3vm.engine import cluster, placement
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.exceptions import EngineError

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture(scope="module")
def threads_client():
    """Two workers in threads of this process."""
    with two_workers() as client:
        yield client


def held(dask_worker):
    """Number of results, actors and tasks on a worker."""
    state = dask_worker.state
    return len(dask_worker.data), len(state.actors), len(state.tasks)


def tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def assert_nothing_left(client):
    gc.collect()

    def left():
        return client.run(held), client.run_on_scheduler(tasks), list(client.futures)

    def nothing():
        on_workers, on_scheduler, futures = left()
        return not any(map(any, on_workers.values())) and not on_scheduler and not futures

    wait_until(nothing, left)


@pytest.mark.parametrize("method", ["tsvm", "s2rlsc pool", "qp"])
def test_two_fits_of_one_client_at_once_are_those_alone(threads_client, method):
    others = [method, "l2svm"]
    wanted = {name: reference(name) for name in others}
    got = {}

    def run(number, name):
        got[number, name] = found(fit(name))

    runs = [threading.Thread(target=run, args=case) for case in enumerate([*others, method])]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert len(got) == 3
    assert all(value == wanted[name] for (_, name), value in got.items())
    assert_nothing_left(threads_client)


@pytest.mark.cluster
def test_fits_of_two_processes_at_once_are_those_alone():
    world = Processes(2)
    try:
        with world.connect() as client:
            world.wait(client, 2)
            wanted = reference("tsvm")
            with in_process(world, "tsvm") as (_, other):
                assert found(fit("tsvm")) == wanted
                assert other() == wanted
            assert_nothing_left(client)
    finally:
        world.close()


def fail_in_shard(shard):
    raise ZeroDivisionError("in an operation")


def test_a_failed_operation_leaves_nothing(threads_client):
    rng = np.random.default_rng(0)
    engine = ingest(rng.normal(size=(300, 10)), np.arange(300) % 2).place(np.arange(2))
    try:
        with pytest.raises(ZeroDivisionError, match="in an operation"):
            engine.sum(fail_in_shard)
    finally:
        engine.close()
    assert_nothing_left(threads_client)


@pytest.mark.parametrize(
    ("module", "name", "at"),
    [
        (cluster, "call_all", 5),
        (cluster, "call_all", 30),
        (placement, "gathered", 1),
        (placement, "gathered", 2),
        (placement, "remote_actors", 1),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_fit_leaves_nothing(threads_client, monkeypatch, module, name, at, late):
    original, calls = getattr(module, name), []

    def interrupted(*args, **kwargs):
        calls.append(name)
        if len(calls) != at:
            return original(*args, **kwargs)
        if late:
            original(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit("tsvm")
    assert_nothing_left(threads_client)


def test_a_call_that_is_still_under_way_leaves_nothing(threads_client):
    rng = np.random.default_rng(0)
    engine = ingest(rng.normal(size=(300, 10)), np.arange(300) % 2).place(np.arange(2))

    def call():
        with contextlib.suppress(EngineError):  # the group is closed before it has answered
            engine.each(sleep_in_shard)

    UNDER_WAY.clear()
    caller = threading.Thread(target=call)
    caller.start()
    assert UNDER_WAY.wait(LIMIT)
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < LIMIT / 3, "it waits for no timeout: these are LIMIT here"
    caller.join()
    assert_nothing_left(threads_client)


#: The workers are in this process.
UNDER_WAY = threading.Event()


def sleep_in_shard(shard):
    UNDER_WAY.set()
    time.sleep(0.3)


def test_twenty_fits_in_a_row_leave_nothing(threads_client):
    for number in range(20):
        fit(list(METHODS)[number % len(METHODS)])
    assert_nothing_left(threads_client)


def test_the_scheduler_named_in_the_configuration_is_used(threads_client):
    with dask.config.set(scheduler=threads_client):
        assert found(fit("qp")) == reference("qp")
    assert_nothing_left(threads_client)
