"""One-vs-rest problems that are solved at once: the bits and the history of one after the other."""

import threading

import dask
import distributed
import numpy as np
import pytest

import dask_s3vm as s3
from dask_s3vm.engine import lanes
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.estimators._rows import PlacedRows
from dask_s3vm.methods import run

METHODS = {
    "l2svm": lambda **more: s3.L2SVM(**more),
    "tsvm": lambda **more: s3.TSVM(lam=1e-2, **more),
    "da": lambda **more: s3.DAS3VM(lam=1e-1, **more),
    "qn": lambda **more: s3.QNS3VM(lam=1e-2, **more),
    "qp": lambda **more: s3.QPS3VM(**more),
    "sqp": lambda **more: s3.SubmodularS3VM(**more),
    "s2rlsc": lambda **more: s3.S2RLSC(n_restarts=3, random_state=0, **more),
    "star": lambda **more: s3.STARSVM(kernel="linear", random_state=0, **more),
}


class Stop(KeyboardInterrupt):
    """Someone pressed a key."""


@pytest.fixture(autouse=True)
def shards(tiny_shards):
    """Several shards; no lane may outlive a fit."""
    yield
    assert not [one for one in threading.enumerate() if one.name == "s3vm-lane"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    y = np.arange(240) % 4
    X = rng.normal(size=(240, 6)) + 1.5 * np.eye(6)[y]
    return X, np.where(rng.random(240) < 0.3, y, -1)


def found_by(model):
    """What a fit found: bits, and rows of the history without their times."""
    history = [{k: v for k, v in row.items() if k != "seconds"} for row in model.history_]
    numbers = np.asarray(model.objective_).tobytes(), model.n_iter_, model.termination_
    return model.coef_.tobytes(), model.intercept_.tobytes(), *numbers, history


def alone(name, rows):
    with dask.config.set({"scheduler": "synchronous"}):
        return METHODS[name]().fit(*rows)


@pytest.mark.parametrize("n_threads", [2, 4])
@pytest.mark.parametrize("name", METHODS)
def test_in_threads(name, rows, n_threads, monkeypatch):
    monkeypatch.setattr(lanes, "KERNEL_BYTES", 0)
    whole = alone(name, rows)
    with dask.config.set({"s3vm.threads": n_threads}):
        model = METHODS[name]().fit(*rows)
    assert found_by(model) == found_by(whole)
    if name != "star":  # its states take a round to collect, now and then
        assert model.n_rounds_ == whole.n_rounds_


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def on_cluster(client):
    with dask.config.set({"scheduler": client, "s3vm.local-bytes": 0}):
        yield


@pytest.mark.parametrize("name", METHODS)
def test_on_a_cluster(name, rows, on_cluster):
    whole = alone(name, rows)
    model = METHODS[name]().fit(*rows)
    assert found_by(model) == found_by(whole)
    in_lanes = name not in ("s2rlsc", "star")
    assert (model.n_rounds_ < 0.7 * whole.n_rounds_) == in_lanes


@pytest.mark.parametrize("name", ["tsvm", "da", "qn", "qp"])
def test_with_a_lost_worker(name, rows, losses):
    whole = alone(name, rows)
    cluster = losses(*rows)

    def fitted(at):
        engine = cluster.engine(at)
        placed = PlacedRows(engine, np.arange(4), 6, None, None, (240,), None)
        return METHODS[name]().fit(placed, None), engine.losses

    model, _ = fitted(None)
    assert model.coef_.tobytes() == whole.coef_.tobytes()
    n_calls = cluster.calls
    for at in np.linspace(2, n_calls, 12).astype(int):
        model, n_lost = fitted(int(at))
        assert n_lost == 1
        assert model.coef_.tobytes() == whole.coef_.tobytes(), at
        assert found_by(model)[5] == found_by(whole)[5], at


@pytest.mark.parametrize("name", ["l2svm", "tsvm", "da", "qn", "qp", "sqp"])
def test_a_stopped_fit_goes_on_with_all_classes(name, rows, tmp_path, monkeypatch, on_cluster):
    monkeypatch.setattr(run, "SAVING_SHARE", 1e9)
    whole = alone(name, rows)
    n_rows = len(whole.history_)
    seen = []

    def stop(row):
        seen.append(row)
        if len(seen) in (n_rows // 3, 2 * n_rows // 3):
            raise Stop

    with dask.config.set({"s3vm.checkpoint-interval": "0 s", "s3vm.threads": 2}):
        for _ in range(2):
            with pytest.raises(Stop):
                METHODS[name](checkpoint=tmp_path, callbacks=stop).fit(*rows)
        before = len(seen)
        model = METHODS[name](checkpoint=tmp_path, callbacks=stop).fit(*rows)
    assert found_by(model) == found_by(whole)
    assert len(seen) - before < n_rows
    assert len({row["class"] for row in seen[:before]}) > 1


def test_a_fit_stopped_in_threads_goes_on(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "SAVING_SHARE", 1e9)
    monkeypatch.setattr(lanes, "KERNEL_BYTES", 0)
    whole = alone("tsvm", rows)
    seen = []

    def stop(row):
        seen.append(row)
        if len(seen) == len(whole.history_) // 2:
            raise Stop

    with dask.config.set({"s3vm.checkpoint-interval": "0 s", "s3vm.threads": 2}):
        with pytest.raises(Stop):
            METHODS["tsvm"](checkpoint=tmp_path, callbacks=stop).fit(*rows)
        before = len(seen)
        model = METHODS["tsvm"](checkpoint=tmp_path, callbacks=stop).fit(*rows)
    assert found_by(model) == found_by(whole)
    assert len(seen) - before < len(whole.history_)


@pytest.mark.parametrize("safe", [False, True])
def test_folds_in_threads(make_rows, safe, monkeypatch):
    """Folds of two classes have threads of their own, and the same say."""
    monkeypatch.setattr(lanes, "KERNEL_BYTES", 0)
    in_threads, widths = lanes.run_in_threads, []

    def seen(engine, works, n_threads):
        widths.append(n_threads)
        return in_threads(engine, works, n_threads)

    monkeypatch.setattr(lanes, "run_in_threads", seen)
    X, y = make_rows(600, 8, seed=1)
    y = np.where(np.arange(600) % 3 == 0, -1, y > 0)
    found = []
    for n_threads in (1, 2, 3):
        with dask.config.set({"s3vm.threads": n_threads}):
            model = s3.TSVM(lam=1e-2, safe=safe).fit(X, y)
        found.append((found_by(model), model.decision_reason_, model.candidates_))
    assert found[0] == found[1] == found[2]
    assert len(found[0][2]) == 2
    # of five folds: what is left over has all threads. The guard asks all, a blend ends when clear
    assert widths == ([2, 2, 3] if safe else [2, 3])


def test_an_error_of_one_class_is_the_error_of_the_fit(rows, on_cluster):
    def fail(row):
        if row["class"] == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        s3.TSVM(callbacks=fail).fit(*rows)


def test_few_lanes_if_memory_is_short(rows, on_cluster, monkeypatch):
    whole = alone("tsvm", rows)
    rounds = []
    for n_bytes in (1, 45_000, 1 << 30):
        monkeypatch.setattr(lanes, "LANE_BYTES", n_bytes)
        model = METHODS["tsvm"]().fit(*rows)
        assert found_by(model) == found_by(whole)
        rounds.append(model.n_rounds_)
    assert rounds[0] > rounds[1] > rounds[2]


def test_row_state_of_lanes_counts_as_memory(rows):
    engine = ingest(*rows).place(np.arange(4))
    (shard, *_) = engine.shared_rows().shards
    before = shard.nbytes
    lanes.in_lane(shard, 3, set_numbers)
    assert shard.nbytes == before + 8 * shard.n_rows


def set_numbers(shard):
    shard.state["numbers"] = np.zeros(shard.n_rows)
