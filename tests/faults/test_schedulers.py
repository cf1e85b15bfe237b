"""What cannot be survived is an error within the stated time; workers that join are used."""

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
from cases import Moments, fit, found, number_and_state, reference, remember, rows
from processes import Processes
from waiting import LIMIT, wait_until

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.exceptions import EngineError, LineageError, SchedulerLostError, WorkerLostError

pytestmark = [pytest.mark.cluster, pytest.mark.faults, pytest.mark.usefixtures("impatient")]

#: s3vm.scheduler-timeout once it is lost, and what a busy machine may add; others are longer.
STATED, MARGIN = 1.0, 150.0


@pytest.fixture
def doomed():
    """A cluster of two workers, for one test."""
    processes = Processes(2)
    yield processes
    processes.close()


def be_impatient(client):
    """Have STATED hold from now on: a busy scheduler is not a lost one before it is struck."""
    dask.config.set({"s3vm.scheduler-timeout": STATED})  # the fixture `impatient` takes it back
    client._timeout = STATED  # how long the client itself tries to connect again


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    ("method", "moment"),
    [("tsvm", ("placement", 1)), ("tsvm", ("training", 20)), ("s2rlsc pool", ("training", 9))],
)
def test_a_lost_scheduler_is_an_error_in_time(doomed, monkeypatch, how, method, moment):
    wanted = reference(method)
    moments = Moments(monkeypatch)
    client = doomed.connect()
    try:
        doomed.wait(client, 2)
        began = []
        # rounds go directly to the workers: nobody needs the scheduler any more, except to ask it
        # about workers that are silent for a while, as they may be on a busy machine
        needless = (how, moment) == (signal.SIGSTOP, ("training", 20))

        def strike():
            began.append(time.monotonic())
            if not needless:
                be_impatient(client)
            os.kill(doomed.scheduler.pid, how)

        moments.reset({moment: strike})
        if needless:
            monkeypatch.setattr("dask_s3vm.engine.watch.TICK", LIMIT)
            assert found(fit(method)) == wanted
        else:
            with pytest.raises(SchedulerLostError, match="scheduler"):
                fit(method)
        assert began
        assert time.monotonic() - began[0] < STATED + MARGIN
    finally:
        doomed.scheduler.kill()
        client.close()


def test_a_new_cluster_goes_on_where_the_old_one_is_lost(doomed, monkeypatch, tmp_path):
    X, y = rows()
    lazy = da.from_array(X, chunks=(75, 15))
    monkeypatch.setattr("dask_s3vm.methods.run.SAVING_SHARE", 1e9)  # every state is saved

    def fit_with_state(callback):
        model = TSVM(
            lam=0.1, positive_ratio=0.45, checkpoint=tmp_path / "state", callbacks=callback
        )
        with dask.config.set({"s3vm.checkpoint-interval": 0}):
            return model.fit(lazy, y)

    steps = []
    with dask.config.set(scheduler="synchronous"):
        wanted = fit_with_state(steps.append)
    client = doomed.connect()
    before = []
    try:
        doomed.wait(client, 2)

        def strike(step):
            before.append(step)
            if len(before) == len(steps) // 2:
                be_impatient(client)
                doomed.scheduler.kill()
                # rounds go directly to the workers: the fit could end before this is noticed
                wait_until(lambda: client.status != "running", lambda: client.status)

        with pytest.raises(EngineError):
            fit_with_state(strike)
    finally:
        doomed.scheduler.kill()
        client.close()
    dask.config.set({"s3vm.scheduler-timeout": LIMIT})
    other = Processes(2)
    after = []
    try:
        with other.connect():
            resumed = fit_with_state(after.append)
    finally:
        other.close()
    assert found(resumed) == found(wanted)
    # at most the turn that was under way, a retraining and a switch, is made again
    assert len(before) + len(after) <= len(steps) + 2, "it began anew"


def test_no_replacement_is_an_error_in_time(doomed, monkeypatch):
    moments = Moments(monkeypatch)
    rng = np.random.default_rng(0)
    with doomed.connect() as client, dask.config.set({"s3vm.replacement-timeout": "1 s"}):
        doomed.wait(client, 2)
        moments.reset({("training", 10): lambda: (doomed.kill(rng), doomed.kill(rng))})
        began = time.monotonic()
        with pytest.raises(EngineError, match=r"has no worker \(waited 1 s\)"):
            fit("tsvm")
        assert time.monotonic() - began < MARGIN


def test_used_up_attempts_name_what_was_lost(doomed, monkeypatch):
    moments = Moments(monkeypatch)
    rng = np.random.default_rng(0)
    with doomed.connect() as client, dask.config.set({"s3vm.recovery-attempts": 0}):
        doomed.wait(client, 2)
        moments.reset({("training", 10): lambda: doomed.kill(rng)})
        with pytest.raises(WorkerLostError, match=r"gave up after 0 .*worker tcp://.* is gone"):
            fit("tsvm")


def test_scattered_blocks_have_no_lineage_and_the_error_says_so(doomed, monkeypatch):
    moments = Moments(monkeypatch)
    rng = np.random.default_rng(0)
    with doomed.connect() as client:
        doomed.wait(client, 2)
        X, y = rng.normal(size=(300, 10)), np.arange(300) % 2
        sent = client.scatter([X[:150], X[150:]])
        chunks = [da.from_delayed(dask.delayed(one), (150, 10), dtype=float) for one in sent]
        moments.reset({("training", 4): lambda: (doomed.kill(), doomed.kill())})
        doomed.start()
        with pytest.raises(LineageError, match=r"cannot be made again.*scattered"):
            L2SVM().fit(da.concatenate(chunks), y)


def test_persisted_rows_are_computed_again(doomed, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 10)), np.arange(300) % 2
    with dask.config.set(scheduler="synchronous"):
        wanted = found(L2SVM().fit(X, y))
    moments = Moments(monkeypatch)
    with doomed.connect() as client:
        doomed.wait(client, 2)
        rows = client.persist(da.from_array(X, chunks=(50, 10)))
        moments.reset({("training", 4): lambda: doomed.kill(rng)})
        assert found(L2SVM().fit(rows, y)) == wanted
        assert moments.done


def test_workers_that_join_get_their_share_at_the_next_round(doomed):
    rng = np.random.default_rng(0)
    X = da.from_array(rng.normal(size=(600, 10)), chunks=(100, 10))
    with doomed.connect() as client:
        doomed.wait(client, 2)
        engine = ingest(X, np.arange(600) % 2).place(np.arange(2))
        try:
            engine.each(remember, 7)
            before = dict(engine._groups)
            doomed.start()
            doomed.start()
            doomed.wait(client, 4)

            def all_have_their_share():
                engine.each(number_and_state)
                return len(engine._groups) == 4

            wait_until(all_have_their_share, lambda: engine)
            got = engine.each(number_and_state)
            assert got == [(number, 7) for number in range(engine.layout.n_shards)]
            assert before.keys() < engine._groups.keys()
            sizes = [len(group.numbers) for group in engine._groups.values()]
            assert max(sizes) - min(sizes) <= 1
            rested = dict(engine._groups)
            for _ in range(10):
                engine.each(number_and_state)
                time.sleep(0.02)
            assert engine._groups == rested
        finally:
            engine.close()
