"""Restarts on threads, on an in-process client and on worker processes: one winner."""

import gc
import os
import signal

import dask
import numpy as np
import pytest
from clients import two_workers
from distributed import Client, LocalCluster
from waiting import wait_until

from dask_s3vm import S2RLSC, MaxMarginClustering
from dask_s3vm.engine.computing import run_pool
from dask_s3vm.methods.restarts import Race
from dask_s3vm.problems.label_search import Found

PARAMS = {"lam": 0.05, "n_restarts": 24, "random_state": 7, "positive_ratio": 0.4}
KINDS = {
    "population": {},
    "in turn": {"population": (1, 1), "dtype": "float32"},
    "patience": {"patience": 5, "population": (1, 1)},
    "shards": {"sharded": True},
}


@pytest.fixture(scope="module")
def rows():
    """Rows with many local optima: several restarts end in different ones."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 12))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    return X, np.where(np.arange(300) < 12, y, -1)


def result(model):
    values = [(row["restart"], row["objective"], row["flips"]) for row in model.history_]
    labels = np.asarray(model.transduction_).tobytes()
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_, labels, values


@pytest.fixture(scope="module")
def reference(rows):
    alone = {"scheduler": "synchronous", "s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}
    with dask.config.set(alone):
        found = {name: result(S2RLSC(**PARAMS | kind).fit(*rows)) for name, kind in KINDS.items()}
    fitness = [value for _, value, _ in found["in turn"][4]]
    assert len(set(fitness)) > 5, "one optimum only: the winner says nothing"
    assert len(found["patience"][4]) < 24
    return found


WORKERS = ["inproc", pytest.param("processes", marks=pytest.mark.cluster)]


@pytest.fixture(scope="module", params=["threads1", "threads2", *WORKERS])
def place(request):
    """A place for restarts to run; gives the client, if there is one."""
    if request.param.startswith("threads"):
        with dask.config.set({"scheduler": "threads", "s3vm.threads": int(request.param[-1])}):
            yield None
        return
    processes = request.param == "processes"
    with two_workers(processes=processes) as client:
        yield client


@pytest.mark.usefixtures("tiny_shards")
@pytest.mark.parametrize("kind", KINDS)
def test_the_winner_is_the_same_everywhere(place, rows, reference, kind):
    assert result(S2RLSC(**PARAMS | KINDS[kind]).fit(*rows)) == reference[kind]


def held(dask_worker):
    return len(dask_worker.data)


@pytest.mark.parametrize("place", WORKERS, indirect=True)
def test_nothing_is_left_on_the_workers(place, rows):
    S2RLSC(**PARAMS | {"patience": 2}).fit(*rows)
    gc.collect()
    wait_until(
        lambda: not any(place.run(held).values()) and not place.futures,
        lambda: (place.run(held), list(place.futures)),
    )


def fail(shared, number):
    raise ZeroDivisionError(f"piece {number}")


def test_an_error_in_a_piece_is_raised(place):
    with pytest.raises(ZeroDivisionError, match="piece"):
        list(run_pool(fail, None, [(i,) for i in range(4)]))


# the race


def found(fitness):
    return Found(np.zeros(0), np.zeros(0), fitness, 0.0, 0, 0, 0.0)


def test_the_first_of_equals_wins_whatever_the_order_of_arrival():
    values = [3.0, 1.0, 2.0, 1.0, 5.0]
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [3, 0, 4, 2, 1]):
        race = Race(5, None)
        for number in order:
            assert not race.done
            assert not race.has(number)
            race = race.with_result(number, found(values[number]))
            assert race.has(number)
        assert race.done
        assert (race.winner, race.best.fitness) == (1, 1.0)
        assert (race.judged, race.waiting) == (5, {})


def test_patience_waits_for_restarts_before():
    race = Race(10, 2)
    for number, value in ((1, 5.0), (2, 6.0), (3, 1.0)):
        race = race.with_result(number, found(value))
    assert not race.done  # number 0 is not there
    before = race
    race = race.with_result(0, found(4.0))
    assert race.done  # 1 and 2 were no better than 0: 3 does not count
    assert (race.winner, race.judged) == (0, 3)
    assert (before.judged, sorted(before.waiting)) == (0, [1, 2, 3])  # it stays as it was


# loss of a worker


class KillOneWorker:
    """Callback that ends a worker process at some restart."""

    def __init__(self, client, at):
        self.client = client
        self.at = at
        self.heard = 0
        self.killed = None

    def __call__(self, row):
        self.heard += 1
        if self.heard == self.at:
            self.killed = min(self.client.run(os.getpid).values())
            os.kill(self.killed, signal.SIGKILL)


@pytest.fixture
def mortal_client(request):
    """Worker processes of which one is going to be killed."""
    with (
        LocalCluster(
            n_workers=request.param, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(request.param)
        yield client


@pytest.mark.cluster
@pytest.mark.usefixtures("tiny_shards")
@pytest.mark.parametrize("mortal_client", [2], indirect=True)
def test_a_killed_worker_changes_nothing(rows, reference, mortal_client):
    for kind, at in (("population", 3), ("shards", 10)):
        mortal_client.wait_for_workers(2)
        killer = KillOneWorker(mortal_client, at)
        model = S2RLSC(**PARAMS | KINDS[kind] | {"callbacks": killer}).fit(*rows)
        assert killer.killed is not None
        assert result(model) == reference[kind]


@pytest.mark.cluster
@pytest.mark.parametrize("mortal_client", [1], indirect=True)
def test_the_loss_of_all_workers_changes_nothing(rows, reference, mortal_client, caplog):
    # rows small enough to stay with the client: what is lost is the factor
    with dask.config.set({"s3vm.shard-bytes": 4096}):
        killer = KillOneWorker(mortal_client, 2)
        model = S2RLSC(**PARAMS | KINDS["in turn"] | {"callbacks": killer}).fit(*rows)
    assert killer.killed is not None
    assert "sending the shared data again" in caplog.text
    assert result(model) == reference["in turn"]


@pytest.mark.usefixtures("tiny_shards")
def test_clusters_are_the_same_everywhere(place, rows):
    params = {"n_clusters": 3, "n_restarts": 4, "random_state": 1}
    found = MaxMarginClustering(**params).fit(rows[0])
    with dask.config.set(scheduler="synchronous"):
        wanted = MaxMarginClustering(**params).fit(rows[0])
    assert np.array_equal(found.labels_, wanted.labels_)
    assert found.coef_.tobytes() == wanted.coef_.tobytes()
