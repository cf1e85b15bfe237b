"""An interrupt ends long work in order, whenever it comes, and leaves nothing locked."""

import _thread
import contextlib
import gc
import os
import queue
import random
import signal
import threading
import time
import traceback

import dask
import dask.array as da
import numpy as np
import pytest
import sklearn

import dask_s3vm
from dask_s3vm import interrupts
from dask_s3vm.checkpoints import holds_state
from dask_s3vm.engine.computing import run_pool
from dask_s3vm.interrupts import Interrupt, Work, check, interruptible


@pytest.fixture(autouse=True)
def hears_ctrl_c():
    """A process that a script has started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def work_of(function):
    interrupt = Interrupt()
    work = Work(function, interrupt)
    work.start()
    return work, interrupt


def test_work_returns_or_raises_what_it_does():
    work, _ = work_of(lambda: 7)
    assert work.ended(60.0)
    assert work.result() == 7

    def fails():
        raise LookupError("here")

    work, _ = work_of(fails)
    assert work.ended(60.0)
    with pytest.raises(LookupError, match="here") as caught:
        work.result()
    assert "fails" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_work_stops_where_it_looks_and_only_once():
    seen = []

    def loop():
        try:
            while True:
                check()
        finally:
            check()  # what is put in order on the way out may look again
            seen.append("in order")

    work, interrupt = work_of(loop)
    assert not work.ended(0.05)
    interrupt.ask()
    assert work.ended(60.0)
    with pytest.raises(KeyboardInterrupt):
        work.result()
    assert seen == ["in order"]


def test_nobody_else_is_stopped():
    interrupt = Interrupt()
    interrupt.ask()
    check()
    assert interrupts.current() is None


@pytest.mark.parametrize(
    "wait",
    [
        lambda: interrupts.sleep(600.0),
        lambda: interrupts.take(queue.SimpleQueue()),
        lambda: list(run_pool(lambda _, n: time.sleep(n), None, [(0.01,)] * 100_000)),
        lambda: da.zeros(10**5, chunks=10).map_blocks(_slowly, dtype=float).compute(),
    ],
    ids=["sleep", "take", "pool", "dask"],
)
def test_every_wait_ends(wait):
    with dask.config.set({"s3vm.threads": 2}):
        work, interrupt = work_of(wait)
        assert not work.ended(0.3)
        interrupt.ask()
        assert work.ended(60.0)
        with pytest.raises(KeyboardInterrupt):
            work.result()


def _slowly(block):
    time.sleep(0.01)
    return block


def test_take_has_a_limit():
    with pytest.raises(queue.Empty):
        interrupts.take(queue.SimpleQueue(), timeout=0.01)
    box = queue.SimpleQueue()
    box.put("there")
    assert interrupts.take(box, timeout=0.0) == "there"


def test_interruptible_leaves_the_main_thread_and_no_other():
    where = interruptible(threading.current_thread)
    assert where() is not threading.main_thread()
    inside = interruptible(lambda: (threading.current_thread(), where()))
    outer, inner = inside()
    assert outer is inner


def test_interruptible_sees_the_settings_of_its_caller():
    with sklearn.config_context(assume_finite=True), np.errstate(divide="raise"):
        assert interruptible(sklearn.get_config)()["assume_finite"]
        assert interruptible(np.geterr)()["divide"] == "raise"
    assert not interruptible(sklearn.get_config)()["assume_finite"]


def test_work_that_does_not_look_is_left_to_itself(monkeypatch):
    monkeypatch.setattr(interrupts, "PATIENCE", 0.2)
    release, ended = threading.Event(), threading.Event()

    @interruptible
    def deaf():
        release.wait(600.0)
        ended.set()

    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        deaf()
    assert not ended.is_set()
    release.set()
    assert ended.wait(60.0)


def test_a_second_interrupt_does_not_wait(monkeypatch):
    monkeypatch.setattr(interrupts, "PATIENCE", 600.0)
    release = threading.Event()
    timers = [threading.Timer(delay, _thread.interrupt_main) for delay in (0.2, 0.6)]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: release.wait(600.0))()
    release.set()


# ---------------------------------------------------------------------------- fits

CASES = {
    "L2SVM": {},
    "TSVM": {"positive_ratio": 0.5},
    "DAS3VM": {"positive_ratio": 0.5},
    "QNS3VM": {"positive_ratio": 0.5},
    "RLSC": {},
    "S2RLSC": {"positive_ratio": 0.5, "n_restarts": 4, "random_state": 0},
    "QPS3VM": {"positive_ratio": 0.5},
    "SubmodularS3VM": {"positive_ratio": 0.5},
    "STARSVM": {"positive_ratio": 0.5, "sigma": 2.0},
    "MaxMarginClustering": {"n_restarts": 4, "random_state": 0},
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 8)) + np.outer(2 * y - 1, rng.normal(size=8))
    return X, np.where(np.arange(400) < 40, y, -1)


def fit(name, rows, **more):
    X, y = rows
    with dask.config.set({"s3vm.shard-bytes": 4096, "s3vm.threads": 2}):
        return getattr(dask_s3vm, name)(**CASES[name], **more).fit(X, y)


@contextlib.contextmanager
def interrupted_after(seconds):
    """SIGINT for this process, unless what is inside has ended by then."""
    over = threading.Event()

    def send():
        if not over.wait(seconds):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def interrupt_fit(name, rows, seconds):
    """Whether the interrupt came before the end."""
    try:
        with interrupted_after(seconds):
            fit(name, rows)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_after_an_interrupt_at_any_moment_the_next_fit_is_right(name, rows):
    fit(name, rows)  # compile
    began = time.perf_counter()
    model = fit(name, rows)
    took = time.perf_counter() - began
    rng = random.Random(name)
    for _ in range(4):
        interrupt_fit(name, rows, rng.uniform(0.0, took))
    again = fit(name, rows)
    assert np.array_equal(again.coef_, model.coef_)
    assert np.array_equal(again.intercept_, model.intercept_)


def test_an_interrupted_fit_leaves_a_state_and_comes_to_the_same_bits(rows, tmp_path):
    model = fit("DAS3VM", rows)

    seen = []

    def interrupt(row):
        seen.append(row)
        if len(seen) == 4:
            _thread.interrupt_main()
            while not interrupts.current().asked:
                time.sleep(0.001)

    with dask.config.set({"s3vm.checkpoint-interval": 0.0}), pytest.raises(KeyboardInterrupt):
        fit("DAS3VM", rows, checkpoint=str(tmp_path), callbacks=[interrupt])
    assert holds_state(tmp_path)
    again = fit("DAS3VM", rows, checkpoint=str(tmp_path))
    assert np.array_equal(again.coef_, model.coef_)
    assert not holds_state(tmp_path)


def test_a_callback_may_interrupt(rows):
    def stop(row):
        raise KeyboardInterrupt("enough")

    with pytest.raises(KeyboardInterrupt, match="enough"):
        fit("TSVM", rows, callbacks=[stop])
    fit("TSVM", rows)


def test_a_search_is_interrupted_as_a_whole(rows):
    from dask_s3vm.model_selection import S3VMGridSearchCV

    X, y = rows
    grid = {"lam": np.logspace(-6, 0, 50)}
    search = S3VMGridSearchCV(dask_s3vm.TSVM(positive_ratio=0.5), grid)
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.5):
        search.fit(X, y)
    fit("TSVM", rows)


@pytest.mark.cluster
def test_interrupts_on_a_cluster_leave_the_client_working(rows):
    distributed = pytest.importorskip("distributed")
    X, y = rows
    lazy = da.from_array(X, chunks=(100, 8))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        dask.config.set({"s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}),
    ):
        model = dask_s3vm.TSVM(positive_ratio=0.5).fit(lazy, y)
        began = time.perf_counter()
        dask_s3vm.TSVM(positive_ratio=0.5).fit(lazy, y)
        took = time.perf_counter() - began
        rng = random.Random(0)
        for _ in range(6):
            with contextlib.suppress(KeyboardInterrupt), interrupted_after(rng.uniform(0, took)):
                dask_s3vm.TSVM(positive_ratio=0.5).fit(lazy, y)
        again = dask_s3vm.TSVM(positive_ratio=0.5).fit(lazy, y)
    assert np.array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("scheduler", [None, "threads"])
def test_fits_of_dask_arrays_leave_no_threads_to_dask(scheduler):
    X = da.from_array(np.random.default_rng(0).normal(size=(60, 3)), chunks=(20, 3))
    y = da.from_array(np.arange(60) % 3 - 1, chunks=20)
    with dask.config.set(scheduler=scheduler):
        for estimator in (dask_s3vm.L2SVM(), dask_s3vm.S2RLSC(kernel="rbf", n_restarts=2)):
            estimator.fit(X, y)
            before = threads_known_to_anybody()
            estimator.fit(X, y)
            assert threads_known_to_anybody() <= before


def threads_known_to_anybody():
    gc.collect()
    # isinstance would ask weak proxies for the class of what may be gone
    return sum(issubclass(type(one), threading.Thread) for one in gc.get_objects())
